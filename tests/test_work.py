"""The tables of work against recordings, and against one another: the parts give the whole."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.schema.work import AMOUNT_NAMES
from tests.build import assistant, chain, tool_result, tool_use, usage, user, write_agent, write_session
from tests.cases import case_dir, case_names, expectation
from tests.random_sessions import random_session

PICO = 1_000_000_000_000


def whole(frame: pl.DataFrame, prefix: str = "") -> dict[str, int]:
    """The sums of the amounts; money in pico-dollars, where it is exact."""
    sums = {n: int(frame[prefix + n].sum()) for n in AMOUNT_NAMES if n != "cost_usd"}
    return sums | {"cost": sum(round(c * PICO) for c in frame[prefix + "cost_usd"].drop_nulls())}


def check_sums(t: cc.Transcripts) -> None:
    """Calls = agents = turns = sessions, and within a session main thread and agents make the session."""
    calls = t.calls.with_columns(calls=pl.lit(1), unpriced_calls=pl.col("cost_usd").is_null().cast(pl.Int64))
    told = whole(calls)
    assert whole(t.agents, "own_") == told
    tops = t.agents.filter(
        (pl.col("depth") == 0) | ((pl.col("depth") == 1) & (pl.col("depth").min() > 0).over("session_id"))
    )
    assert whole(tops, "incl_") == told
    assert whole(t.turns) == told
    assert whole(t.sessions) == told
    parts = {p: whole(t.sessions, p) for p in ("main_", "agents_")}
    assert {n: parts["main_"][n] + parts["agents_"][n] for n in told} == told
    by_session = {k: math.fsum(c["cost_usd"].drop_nulls()) for (k,), c in t.calls.group_by("session_id")}
    shown = t.sessions.filter(pl.col("cost_usd").is_not_null())
    assert all(by_session.get(s, 0.0) == cost for s, cost in shown.select("session_id", "cost_usd").iter_rows())


def check_shape(t: cc.Transcripts) -> None:
    """Keys are unique, every table is sorted by its order, times go forward."""
    for name in ("tools", "agents", "turns", "compactions", "sessions", "events", "parallelism"):
        table, frame = cc.schema.tables()[name], getattr(t, name)
        assert frame.schema == table.polars()
        keys = frame.select(table.key)
        assert keys.is_duplicated().sum() == 0, name
        assert frame.equals(frame.sort(table.order, maintain_order=True)), name
    for name, column in (("tools", "duration_ms"), ("turns", "duration_ms"), ("agents", "duration_ms")):
        assert (getattr(t, name)[column].drop_nulls() >= 0).all()
    assert (t.parallelism["time_ms"] >= 0).all()
    sessions = t.sessions.filter(pl.col("serial_ms").is_not_null())
    assert (sessions["critical_path_ms"] <= sessions["serial_ms"]).all()
    assert (sessions["wall_busy_ms"] <= sessions["serial_ms"]).all()


@cache
def zoo(version: str) -> tuple[cc.Transcripts, dict[str, list[str]]]:
    """All recordings of a version as one load, and the session ids of each."""
    names = [n for n in case_names("zoo") if n.startswith(version + "/")]
    t = cc.load([case_dir("zoo", n) / "config" for n in names])
    homes = {str((case_dir("zoo", n) / "config").resolve()): n for n in names}
    owned: dict[str, list[str]] = {n: [] for n in names}
    for session_id, root in t.files.select("session_id", "root").unique(maintain_order=True).iter_rows():
        owned[homes[root]].append(session_id)
    return t, owned


VERSIONS = sorted({n.partition("/")[0] for n in case_names("zoo")})


@pytest.mark.parametrize("name", case_names("zoo"))
def test_zoo_tools_agents_and_compactions_are_those_of_the_recording(name: str) -> None:
    told = expectation("zoo", name)
    t, owned = zoo(name.partition("/")[0])
    mine = pl.col("session_id").is_in(owned[name])
    tools, runs, turns = t.tools.filter(mine), t.agents.filter(mine & (pl.col("kind") != "main")), t.turns.filter(mine)
    assert tools.height == told["tool_use_ids"]
    assert tools.filter(pl.col("n_results") > 0).height == told["tool_result_ids"]
    assert runs.filter(pl.col("layout") != "inline").height == told["agent_ids"]
    launched = tools.filter(pl.col("name").is_in(["Task", "Agent"]))
    assert set(launched["spawned_agent_id"]) == set(runs.filter(pl.col("kind") == "agent")["agent_id"])
    assert not (runs["link_rule"] == "unlinked").any()
    assert runs["status"].unique().to_list() in ([], ["completed"])
    # The compaction agents of 2.1.88 hold the boundary before their own once more.
    compact = t.compactions.filter(mine & (pl.col("kind") == "compact"))
    assert compact.height + compact["n_copies"].sum() == told["compact_boundaries"]
    assert compact["summary_entry_id"].null_count() == 0
    assert turns["output_tokens"].sum() == told["tokens_max_per_id"]["output_tokens"]


@pytest.mark.parametrize("name", [n for n in case_names("zoo") if not n.endswith("tui-write")])
def test_zoo_turns_are_the_prompts_that_were_given(name: str) -> None:
    t, owned = zoo(name.partition("/")[0])
    # A run that found nothing to resume ended at once and wrote nothing.
    failed = "fork" in name
    steps = [s["prompt"] for s in expectation("zoo", name)["steps"] if not (failed and s["rc"])]
    prompts = [p for p in steps if not p.startswith("/")]
    turns = t.turns.filter(pl.col("session_id").is_in(owned[name]) & ~pl.col("is_inherited"))
    assert turns["prompt_chars"].drop_nulls().sort().to_list() == sorted(len(p) for p in prompts)


@pytest.mark.parametrize("version", VERSIONS)
def test_sums_agree_on_every_recording(version: str) -> None:
    t, _ = zoo(version)
    check_sums(t)
    check_shape(t)


def test_sums_agree_on_every_cost_case() -> None:
    t = cc.load([case_dir("cost", name) / "config" for name in case_names("cost")])
    check_sums(t)
    check_shape(t)


@pytest.mark.parametrize("name", case_names("money"))
def test_sums_agree_on_every_money_case(name: str) -> None:
    t = cc.load(case_dir("money", name) / "config")
    check_sums(t)
    check_shape(t)


@pytest.mark.parametrize("seed", [1, 2])
def test_sums_agree_on_a_generated_corpus(tmp_path: Path, seed: int) -> None:
    for session, lines in _made(seed):
        write_session(tmp_path, lines, session=session)
    for session in ("s1", "s3"):
        asked, answer = user(f"{session}-x0"), assistant(f"{session}-x1", usage=usage(output=9))
        agent = "a" + session
        write_agent(tmp_path, agent, chain(asked, answer, session=session, agent=agent), session=session)
    t = cc.load(tmp_path)
    check_sums(t)
    check_shape(t)
    assert t.sessions.height == 5


def _made(seed: int) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Sessions with prompts, tools, lines of one answer, and forks that copy a beginning."""
    last: list[dict[str, object]] = []
    for number in range(5):
        session = f"s{number}"
        lines = []
        for turn in range(1 + (number * seed) % 4):
            name = f"{session}-{turn}"
            tokens = usage(output=7 * turn + seed, input=number, read=1000 * turn, write_1h=turn)
            lines += [
                user(f"{name}-u"),
                assistant(f"{name}-a", message_id=f"msg_{name}", usage=usage(output=1), stop_reason=None),
                tool_use(f"{name}-t", call=f"{name}-t", message_id=f"msg_{name}", usage=tokens),
                tool_result(f"{name}-r", f"{name}-t"),
                assistant(f"{name}-b", usage=tokens, model="claude-nobody-9" if turn == 2 else "claude-opus-5-5"),
            ]
        own = chain(*lines, session=session, start=1000 * number)
        copied = [{**line, "sessionId": own[0]["sessionId"]} for line in last[: 3 + seed]] if number % 2 else []
        last = own
        yield session, copied + own


def test_a_larger_corpus_is_counted_as_it_was_made(tmp_path: Path) -> None:
    # Every session has as many turns as its number says; no table may multiply or lose rows in its joins.
    for number in range(1, 8):
        lines = [x for k in range(number) for x in (user(f"{number}-{k}"), assistant(f"{number}-{k}-a"))]
        write_session(tmp_path, chain(*lines, session=f"s{number}", start=number * 500), session=f"s{number}")
    t = cc.load(tmp_path)
    assert sorted(t.sessions["n_turns"]) == list(range(1, 8))
    assert t.turns.height == sum(range(1, 8))
    starts = t.turns.group_by("session_id", maintain_order=True).agg("started_at")["started_at"]
    assert all(a < b for times in starts for a, b in pairwise(times))
    assert json.loads(t.turns.select("turn_no").write_json())[0] == {"turn_no": 1}


def test_sums_agree_on_random_damage(tmp_path: Path) -> None:
    for seed in range(120):
        write_session(tmp_path, random_session(seed), session=f"s{seed}")
    t = cc.load(tmp_path)
    check_sums(t)
    check_shape(t)
    calls = t.blocks.filter(pl.col("type") == "tool_use").join(t.entries.select("entry_id", "type"), on="entry_id")
    assert t.tools.height <= calls.height
    answered = t.tools["n_results"].sum()
    assert answered <= t.blocks.filter(pl.col("type") == "tool_result").height
