"""Agents side by side: how many at work when, the longest chain, the time one after another."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import ccanalytics as cc
from ccanalytics.parallelism import build_parallelism
from tests.build import Line, assistant, chain, tool_result, tool_use, uid, user, write_agent, write_session


def levels(t: cc.Transcripts) -> dict[int, float]:
    return {n: ms / 1000 for n, ms in t.parallelism.select("n_at_work", "time_ms").iter_rows()}


def launch(line: str, call: str, second: float, *, background: bool = False) -> Line:
    facts = {"prompt": call, "run_in_background": background}
    return tool_use(line, "Agent", facts, call=call, message_id=f"msg_{second:g}", seconds=second)


def agent(tmp_path: Path, name: str, call: str, begin: float, end: float) -> None:
    lines = user(f"{name}1", seconds=begin), assistant(f"{name}2", seconds=end)
    write_agent(tmp_path, name, chain(*lines, agent=name), meta={"toolUseId": f"toolu_{call}"})


def figures(t: cc.Transcripts) -> list[float]:
    row = t.sessions.row(0, named=True)
    return [row[k] / 1000 for k in ("wall_busy_ms", "serial_ms", "critical_path_ms")] + [row["max_agents_at_work"]]


def test_a_conversation_without_agents_is_work_and_waiting_for_a_person(tmp_path: Path) -> None:
    lines = user("u1", seconds=0), assistant("a1", seconds=10), user("u2", seconds=70), assistant("a2", seconds=75)
    write_session(tmp_path, chain(*lines))
    t = cc.load(tmp_path)
    assert levels(t) == {0: 60, 1: 15}
    assert figures(t) == [15, 15, 15, 1]
    assert t.parallelism["share"].sum() == 1


def test_a_parent_that_waits_for_its_agents_is_not_at_work(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        chain(
            user("u1", seconds=0),
            launch("l1", "t1", 10),
            launch("l2", "t2", 10),
            tool_result("r1", "t1", seconds=40),
            tool_result("r2", "t2", seconds=60),
            assistant("a1", seconds=65),
        ),
    )
    agent(tmp_path, "x", "t1", 10, 40)
    agent(tmp_path, "y", "t2", 10, 60)
    t = cc.load(tmp_path)
    assert levels(t) == {0: 0, 1: 15 + 20, 2: 30}
    # Main 10 and 5, the agents 30 and 50: one after another 95, side by side no less than 65.
    assert figures(t) == [65, 95, 65, 2]


def test_agents_one_after_another_add_up_on_the_longest_chain(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        chain(
            user("u1", seconds=0),
            launch("l1", "t1", 1),
            tool_result("r1", "t1", seconds=11),
            launch("l2", "t2", 12),
            tool_result("r2", "t2", seconds=32),
            assistant("a1", seconds=33),
        ),
    )
    agent(tmp_path, "x", "t1", 1, 11)
    agent(tmp_path, "y", "t2", 12, 32)
    assert figures(cc.load(tmp_path)) == [33, 33, 33, 1]


def test_a_background_agent_runs_beside_its_parent(tmp_path: Path) -> None:
    launched = {"isAsync": True, "status": "async_launched", "agentId": "x"}
    write_session(
        tmp_path,
        chain(
            user("u1", seconds=0),
            launch("l1", "t1", 10, background=True),
            tool_result("r1", "t1", seconds=11, toolUseResult=launched),
            assistant("a1", seconds=20),
            user("n1", "<task-notification><task-id>x</task-id></task-notification>", seconds=50),
            assistant("a2", seconds=55),
        ),
    )
    agent(tmp_path, "x", "t1", 11, 50)
    t = cc.load(tmp_path)
    assert levels(t) == {0: 0, 1: 11 + 30 + 5, 2: 9}
    # 10 until the call, the agent's 39, and 5 for what its notice set going.
    assert figures(t) == [55, 20 + 39 + 5, 54, 2]


def test_nothing_is_at_work_after_the_last_answer(tmp_path: Path) -> None:
    lines = user("u1", seconds=0), assistant("a1", seconds=10), tool_use("a2", call="t1", seconds=3600)
    write_session(tmp_path, chain(*lines))
    assert levels(cc.load(tmp_path)) == {0: 3590, 1: 10}


intervals = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(1, 10)), max_size=12)


@given(intervals)
def test_the_sweep_agrees_with_counting_every_moment(stretches: list[tuple[str, int, int]]) -> None:
    frame = pl.DataFrame(
        [(uid(s), None, b, b + n) for s, b, n in stretches],
        schema={"session_id": pl.String, "agent_id": pl.String, "begin": pl.Int64, "end": pl.Int64},
        orient="row",
    )
    spans = pl.DataFrame({"session_id": [uid("a"), uid("b")], "span_ms": [60, 60]})
    found = build_parallelism(frame, spans)
    for session in ("a", "b"):
        plain: dict[int, int] = {}
        for moment in range(60):
            n = sum(1 for s, b, length in stretches if s == session and b <= moment < b + length)
            plain[n] = plain.get(n, 0) + 1
        mine = found.filter(pl.col("session_id") == uid(session))
        assert {n: ms for n, ms in mine.select("n_at_work", "time_ms").iter_rows() if ms} == plain
