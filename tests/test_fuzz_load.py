"""Damaged transcripts: every good line is read, every bad one is named, nothing raises."""

from __future__ import annotations

import random
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ccanalytics as cc
from ccanalytics.parse import Content, Stretch, parse_bytes, parse_stretches
from ccanalytics.rescue import rescue_line
from tests.build import assistant, chain, dump, uid, usage, user
from tests.exercise import check_lines, check_tables, check_views, rows_by_uuid
from tests.reference_load import TOKENS
from tests.strategies import (
    FAULTS,
    GARBAGE,
    SHAPES,
    Folder,
    byte_fault,
    damage,
    encode,
    folders,
    make_folder,
    make_valid,
    valid_folders,
)

CONTENTS: tuple[Content, ...] = ("none", "preview", "full")


def load_of(folder: Folder, content: Content = "none") -> Any:
    """The folder written, loaded and everything asked of it while its files are there."""
    with tempfile.TemporaryDirectory() as place:
        folder.write(Path(place))
        t = cc.load(place, content=content, cache=False)
        check_lines(t)
        check_tables(t)
        check_views(t)
        return t


@given(folders(), st.sampled_from(CONTENTS))
@settings(max_examples=20)
def test_no_line_is_lost_and_nothing_raises(folder: Folder, content: Content) -> None:
    load_of(folder, content)


@pytest.mark.parametrize("seed", range(20))
def test_folders_with_many_faults_are_read(seed: int) -> None:
    load_of(make_folder(random.Random(seed), most=20), CONTENTS[seed % 3])


@given(valid_folders())
@settings(max_examples=10)
def test_a_folder_without_faults_has_no_problems_of_reading(folder: Folder) -> None:
    assert load_of(folder).read_problems.is_empty()


@pytest.mark.parametrize("fault", sorted({f.__name__ for f in FAULTS}))
def test_every_kind_of_fault_is_survived(fault: str) -> None:
    rng = random.Random(fault)
    for _ in range(3):
        folder = make_valid(rng, sessions=1, steps=6)
        for _ in range(6):
            next(f for f in FAULTS if f.__name__ == fault)(rng, folder)
        load_of(folder)


@pytest.mark.parametrize("seed", range(8))
def test_lines_that_nobody_touched_say_the_same_beside_damaged_ones(seed: int) -> None:
    rng = random.Random(seed)
    folder = make_valid(rng, steps=10)
    before = rows_by_uuid(load_of(folder))
    touched: set[bytes] = set()
    for name, lines in folder.files.items():
        for at in rng.sample(range(len(lines)), len(lines) // 3):
            touched.add(lines[at])
            one = Folder({name: [lines[at]]})
            damage(rng, one, 0)
            byte_fault(rng, one)
            lines[at] = one.files[name][0]
        for _ in range(4):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(GARBAGE))
    after = rows_by_uuid(load_of(folder))
    kept = [u for u in before if not any(u.encode() in line for line in touched)]
    assert kept
    for uuid in kept:
        assert after[uuid] == before[uuid]


@pytest.mark.parametrize("seed", range(4))
def test_totals_do_not_move_when_rubbish_comes_between_the_lines(seed: int) -> None:
    rng = random.Random(seed)
    folder = make_valid(rng, steps=12)
    clean = load_of(folder)
    for lines in folder.files.values():
        for _ in range(6):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice([g for g in GARBAGE if b"usage" not in g]))
    dirty = load_of(folder)
    for column in (*TOKENS, "cost_usd"):
        assert dirty.calls[column].sum() == clean.calls[column].sum(), column
    assert dirty.calls["call_id"].to_list() == clean.calls["call_id"].to_list()


@given(st.binary(max_size=400))
def test_any_bytes_can_be_parsed(data: bytes) -> None:
    found = parse_bytes(data)
    assert found.parts[0].n_bytes == len(data)
    rescue_line(data.replace(b"\n", b""))


@given(folders(), st.lists(st.integers(0, 10_000), max_size=4))
@settings(max_examples=15)
def test_pieces_cut_at_line_ends_give_what_the_whole_gives(folder: Folder, places: list[int]) -> None:
    data = b"".join(line + b"\n" for lines in folder.files.values() for line in lines)
    ends = [i + 1 for i, c in enumerate(data) if c == 10]
    cuts = sorted({0, len(data), *(ends[p % len(ends)] for p in places)}) if ends else [0, len(data)]
    stretches = [Stretch(data[a:b], data.count(b"\n", 0, a) + 1, a, b == len(data)) for a, b in pairwise(cuts)]
    whole, cut = parse_bytes(data), parse_stretches(stretches or [Stretch(data)])
    assert cut.entries.drop("part").equals(whole.entries.drop("part"))
    assert cut.blocks.equals(whole.blocks)
    assert cut.problems.drop("part").equals(whole.problems.drop("part"))


KEYS = ("message", "timestamp", "uuid", "type", "parentUuid", "toolUseResult", "usage", "content")


@pytest.mark.parametrize("key", KEYS)
def test_every_type_in_every_field_leaves_the_line_an_entry(key: str) -> None:
    rng = random.Random(key)
    for value in (*SHAPES, 10**400, -1, 1.5, "x" * 70_000, "\ud800"):
        line = chain(assistant("a1", usage=usage()))[0]
        holder = line if key in line else line["message"]
        holder[key] = value
        found = parse_bytes(encode(line, rng) + b"\n" + dump(chain(user("u2"))[0]))
        assert found.entries.height == 2, (key, value)


@pytest.mark.parametrize("tokens", [-1, 1.5, "7", True, None, [], 2**60, 10**400, 1e308, {"a": 1}])
def test_tokens_that_are_no_count_are_null_and_named(tokens: Any) -> None:
    line = chain(assistant("a1", usage=usage() | {"output_tokens": tokens}))[0]
    found = parse_bytes(dump(line) + b"\n")
    assert found.entries["output_tokens"].to_list() == [None]
    assert found.entries["input_tokens"].to_list() == [3]
    assert found.problems["code"].to_list() == ([] if tokens is None else ["odd_field"])


@pytest.mark.parametrize("seed", range(6))
def test_a_record_behind_a_torn_one_is_found_wherever_it_was_torn(seed: int) -> None:
    rng = random.Random(seed)
    lines = next(iter(make_valid(rng, sessions=1, steps=20).files.values()))
    record = dump(chain(user("whole", 'a {"type": 1} b'))[0])
    for torn in rng.sample(lines, 4):
        for cut in range(1, len(torn), 7):
            found = rescue_line(torn[:cut] + record)
            assert [p.value["uuid"] for p in found.pieces][-1:] == [uid("whole")], torn[:cut]


def test_a_record_behind_a_torn_one_with_thousands_of_objects_is_found() -> None:
    inner = [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}] * 3000
    torn, record = dump(chain(user("u1", inner))[0])[:-400], dump(chain(user("u2"))[0])
    assert [p.value["uuid"] for p in rescue_line(torn + record).pieces] == [uid("u2")]


def test_thousands_of_records_without_newlines_are_all_read() -> None:
    records = [dump(line) for line in chain(*(user(f"u{i}") for i in range(2000)))]
    found = parse_bytes(b"".join(records) + b"\n")
    assert found.entries["uuid"].to_list() == [uid(f"u{i}") for i in range(2000)]
    assert found.problems["code"].to_list() == ["glued_records"]


def test_ten_thousand_blocks_in_a_message() -> None:
    line = chain(assistant("a1", [{"type": "text", "text": "x"}] * 10_000))[0]
    assert parse_bytes(dump(line)).entries["n_blocks"].to_list() == [10_000]


OPENINGS = (b"[", b'{"a":[1,', b'{"a":', b'{"type":"user","message":{"content":[', b'{"', b'"', b"\\", b"{{")


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_work_on_a_hostile_line_grows_with_its_length(opening: bytes) -> None:
    def spent(n: int) -> float:
        line = opening * (n // len(opening))
        started = time.perf_counter()
        parse_bytes(line + b"\n")
        return time.perf_counter() - started

    spent(1000)
    # Sixteen times the bytes: 16 when linear, 256 when quadratic; the floor keeps clock noise out.
    assert spent(1_600_000) < 60 * max(spent(100_000), 0.01)


@pytest.mark.parametrize("depth", [200, 254, 260, 500, *range(940, 1030, 9), 5000, 100_000])
def test_nesting_of_any_depth_beside_an_odd_field(depth: int) -> None:
    deep = b"[" * depth + b"1" + b"]" * depth
    for line in (
        b'{"type":"assistant","uuid":7,"message":{"content":[{"type":"tool_use","id":"x","input":%s}]}}',
        b'{"type":"assistant","uuid":7,"message":{"usage":{"iterations":[%s]}}}',
        b'{"type":"user","uuid":7,"toolUseResult":{"content":%s}}',
        b'{"type":"system","uuid":7,"compactMetadata":%s}',
        b'{"type":"user","uuid":"\\ud800","x":%s}',
    ):
        found = parse_bytes(line % deep + b"\n" + dump(chain(user("u2"))[0]) + b"\n")
        assert found.entries["uuid"].to_list()[-1] == uid("u2")
        assert found.entries.height == 2 or found.problems.height


def test_an_object_nested_too_deep_is_not_searched_again_and_again() -> None:
    started = time.process_time()
    parse_bytes(b'{"a":' * 1200 + b"1" + b"}" * 1200 + b"\n")
    assert time.process_time() - started < 0.5
