"""The fast resume against the plain one, on sessions with every kind of damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ccanalytics as cc
from ccanalytics.errors import NothingToResumeError
from tests import reference_reduce, reference_resume
from tests.build import Line, assistant, chain, dump, tool_result, tool_use, user, write_lines
from tests.random_sessions import random_session
from tests.shown import shown

Rules = Literal["2.1.332", "2.1.88"]
Made = tuple[str, str | None]
SEEDS = st.integers(0, 2**31 - 40)


def _name(seed: int) -> str:
    return f"{seed:08x}-0000-4000-8000-000000000000"


def _write(folder: Path, seeds: range) -> dict[int, bytes]:
    data: dict[int, bytes] = {}
    for seed in seeds:
        lines = random_session(seed)
        data[seed] = b"".join(dump(line) + b"\n" for line in lines)
        write_lines(folder / "projects" / "-p" / f"{_name(seed)}.jsonl", lines)
    return data


def _plain(data: bytes, rules: Rules) -> list[reference_resume.Entry] | None:
    try:
        return reference_resume.chain(reference_resume.read(data, rules), rules)
    except reference_resume.RefusedError:
        return None


def _plain_chain(found: list[reference_resume.Entry], rules: Rules) -> list[str | Made]:
    """As a fork would write it: 2.1.88 writes no attachments."""
    shown = [e for e in found if rules == "2.1.332" or e.type != "attachment"]
    return [(e.made, e.answers) if e.made else str(e.uuid) for e in shown]


def _fast_chain(frame: pl.DataFrame) -> list[str | Made]:
    rows = frame.select("uuid", "synthetic", "tool_use_id").iter_rows()
    return [uuid if uuid is not None else (made, call) for uuid, made, call in rows]


@pytest.mark.parametrize("rules", ["2.1.332", "2.1.88"])
@settings(max_examples=8)
@given(seed=SEEDS)
def test_all_sessions_at_once_equal_the_plain_walk(
    seed: int, rules: Rules, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("random")
    data = _write(folder, range(seed, seed + 30))
    t = cc.load(folder, workers=1)
    together = t.resume(rules=rules)
    for number, written in data.items():
        expected = _plain(written, rules)
        mine = together.filter(session_id=_name(number))
        if expected is None:
            assert not mine.height, number
            with pytest.raises(NothingToResumeError):
                t.resume(_name(number), rules=rules)
            continue
        assert _fast_chain(mine) == _plain_chain(expected, rules), number
        real = mine["entry_id"].drop_nulls()
        assert real.n_unique() == len(real), number


@pytest.mark.parametrize("rules", ["2.1.332", "2.1.88"])
@settings(max_examples=5)
@given(seed=SEEDS)
def test_messages_and_single_sessions_equal_the_plain_ones(
    seed: int, rules: Rules, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("random")
    data = _write(folder, range(seed, seed + 8))
    t = cc.load(folder, workers=1)
    for number, written in data.items():
        expected = _plain(written, rules)
        if expected is None:
            continue
        alone = t.resume(_name(number), rules=rules)
        assert _fast_chain(alone) == _plain_chain(expected, rules), number
        messages = t.resume(_name(number), rules=rules, view="api")
        assert shown(messages) == shown(reference_reduce.messages(expected, rules)), number
    together = t.resume(rules=rules)
    for number in data:
        if together.filter(session_id=_name(number)).height:
            assert together.filter(session_id=_name(number)).equals(t.resume(_name(number), rules=rules))


@settings(max_examples=6)
@given(seed=SEEDS)
def test_every_entry_is_in_one_branch_and_repairs_make_no_circle(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("random")
    _write(folder, range(seed, seed + 30))
    t = cc.load(folder, workers=1)
    nodes = t.entries.filter(
        pl.col("type").is_in(["user", "assistant", "system", "attachment", "progress"]) & pl.col("uuid").is_not_null()
    )
    chains = t.chains
    assert chains["entry_id"].to_list() == nodes["entry_id"].to_list()
    assert chains["branch_no"].null_count() == 0
    assert (chains["on_resume"] == chains["off_reason"].is_null()).all()
    resumed = t.resume()["entry_id"].drop_nulls().sort().to_list()
    assert chains.filter(pl.col("on_resume"))["entry_id"].to_list() == resumed
    up = dict(chains.select("entry_id", "parent_id").iter_rows())
    for entry, root, depth in chains.select("entry_id", "root_id", "depth").iter_rows():
        at, n = entry, 0
        while up[at] is not None:
            at, n = up[at], n + 1
            assert n <= len(up)
        assert (at, n) == (root, depth)
    recovered = t.edges.filter(kind="recovered")["child_id"]
    assert recovered.n_unique() == len(recovered)
    for session in t.files["session_id"]:
        story = t.history(session)
        assert story["entry_id"].n_unique() == story.height


def _straight(rng: random.Random) -> list[Line]:
    """Turns with single rounds, each line a second after the one before."""
    lines: list[Line] = []
    for turn in range(rng.randint(1, 5)):
        lines.append(user(f"u{turn}"))
        if rng.random() < 0.6:
            lines += [tool_use(f"c{turn}"), tool_result(f"r{turn}", call=f"c{turn}")]
        lines.append(assistant(f"a{turn}"))
    return chain(*lines)


@settings(max_examples=15)
@given(seed=SEEDS)
def test_shuffling_lines_changes_nothing_but_where_the_last_line_counts(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(seed)
    lines = _straight(rng)
    *first, last = lines
    rng.shuffle(first)
    folder = tmp_path_factory.mktemp("shuffled")
    write_lines(folder / "projects" / "-p" / f"{_name(1)}.jsonl", lines)
    write_lines(folder / "projects" / "-p" / f"{_name(2)}.jsonl", [*first, last])
    rng.shuffle(lines)
    write_lines(folder / "projects" / "-p" / f"{_name(3)}.jsonl", lines)
    t = cc.load(folder, workers=1)
    same: dict[Rules, tuple[int, ...]] = {"2.1.332": (2,), "2.1.88": (2, 3)}
    for rules, names in same.items():
        expected = t.resume(_name(1), rules=rules)["uuid"].to_list()
        for number in names:
            assert t.resume(_name(number), rules=rules)["uuid"].to_list() == expected
