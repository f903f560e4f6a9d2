"""Recorded and computed cost side by side: records of every kind, and how a gap is shared out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ccanalytics as cc
from ccanalytics.schema.money import CAUSES
from tests.build import (
    Line,
    assistant,
    boundary,
    chain,
    compact_summary,
    meta,
    tool_use,
    uid,
    usage,
    user,
    write_session,
)

SONNET = "claude-sonnet-4-5-20250929"


def state(total: float, *, start: int = 0, session: str = "s1", models: Any = None, **more: object) -> Line:
    return meta(
        "cost-state", sessionId=uid(session), totalCostUSD=total, startTime=start, modelUsage=models or {}, **more
    )


def reconciled(config: Path, session: str = "s1") -> dict[str, Any]:
    frame = cc.load(config, cache=False, workers=1).reconcile()
    [row] = frame.filter(frame["session_id"] == uid(session)).to_dicts()
    return row


def causes(row: dict[str, Any]) -> dict[str, float]:
    return {c: row[f"{c}_usd"] for c in CAUSES if row[f"{c}_usd"]}


def answer(name: str, output: int = 1000, **fields: Any) -> Line:
    return assistant(name, usage=usage(input=0, output=output), **fields)


def test_without_a_record_there_is_no_gap_and_only_bounds(tmp_path: Path) -> None:
    lines = chain(user("u1"), answer("a1"), boundary("b1", pre_tokens=100_000), compact_summary("s", "x" * 400))
    write_session(tmp_path, lines)
    row = reconciled(tmp_path)
    assert (row["recorded_cost_usd"], row["gap_usd"], row["hidden_cost_usd"]) == (None, None, None)
    assert row["hidden_lower_usd"] == pytest.approx(100_000 * 0.3e-6)
    assert row["hidden_upper_usd"] == pytest.approx(100_000 * 6e-6 + 200 * 15e-6)
    assert row["best_estimate_usd"] == row["transcript_cost_usd"] == pytest.approx(0.015)


def test_the_last_record_of_a_session_counts(tmp_path: Path) -> None:
    write_session(tmp_path, chain(state(0.01), answer("a1"), state(0.015)))
    row = reconciled(tmp_path)
    assert (row["recorded_in"], row["recorded_cost_usd"], causes(row)) == ("cost-state", 0.015, {})


def test_dot_claude_json_serves_versions_without_a_record_of_their_own(tmp_path: Path) -> None:
    write_session(tmp_path, chain(answer("a1"), version="2.1.200"))
    project = {"lastCost": 0.02, "lastSessionId": uid("s1"), "lastModelUsage": {}}
    (tmp_path / ".claude.json").write_text(json.dumps({"projects": {"/home/dev/app": project, "/x": 3}}))
    row = reconciled(tmp_path)
    assert (row["recorded_in"], row["recorded_cost_usd"]) == (".claude.json", 0.02)
    assert row["gap_usd"] == pytest.approx(0.005)
    assert causes(row) == {"unexplained": pytest.approx(0.005)}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"projects": 7}', '{"projects": {"/p": {"lastCost": "x"}}}'])
def test_a_broken_dot_claude_json_is_no_record(tmp_path: Path, text: str) -> None:
    write_session(tmp_path, chain(answer("a1")))
    (tmp_path / ".claude.json").write_text(text)
    assert reconciled(tmp_path)["recorded_cost_usd"] is None


@pytest.mark.parametrize("detail", [{"totalCostUSD": "x"}, {"totalCostUSD": None}, {"modelUsage": [1]}])
def test_a_broken_cost_state_is_no_record(tmp_path: Path, detail: Line) -> None:
    write_session(tmp_path, chain(answer("a1"), meta("cost-state", **detail)))
    assert reconciled(tmp_path)["recorded_cost_usd"] is None


def test_several_hidden_causes_share_a_gap_by_their_size(tmp_path: Path) -> None:
    lines = chain(
        user("u1"),
        tool_use("a1", "WebSearch", {"query": "q"}, usage=usage(input=0, output=1000)),
        boundary("b1", pre_tokens=100_000),
        state(1.015),
    )
    write_session(tmp_path, lines)
    row = reconciled(tmp_path)
    parts = causes(row)
    assert set(parts) == {"compaction_calls", "web_search_side_calls"}
    assert sum(parts.values()) == pytest.approx(row["gap_usd"]) == pytest.approx(1.0)
    assert row["is_shared_out"]
    assert row["hidden_cost_usd"] == pytest.approx(1.0)


def test_output_that_lines_do_not_show_is_the_gap_where_the_input_agrees(tmp_path: Path) -> None:
    partial = assistant("a1", "x" * 400, stop_reason=None, usage=usage(input=10, output=1))
    used = {SONNET: {"inputTokens": 10, "outputTokens": 101, "costUSD": 10 * 3e-6 + 101 * 15e-6}}
    write_session(tmp_path, chain(partial, state(10 * 3e-6 + 101 * 15e-6, models=used)))
    row = reconciled(tmp_path)
    assert causes(row) == {"partial_lines": pytest.approx(100 * 15e-6)}
    assert row["hidden_lower_usd"] == 0
    assert row["hidden_upper_usd"] == pytest.approx(200 * 15e-6)


def test_requests_after_the_last_record_are_not_in_it(tmp_path: Path) -> None:
    write_session(tmp_path, chain(answer("a1"), state(0.015), answer("a2")))
    row = reconciled(tmp_path)
    assert causes(row) == {"unrecorded_runs": pytest.approx(-0.015)}
    assert row["best_estimate_usd"] == pytest.approx(0.03)


def test_a_fork_of_a_fork_carries_over_what_its_own_parent_had_spent(tmp_path: Path) -> None:
    first = answer("a1")
    second = answer("b1", seconds=20)
    write_session(tmp_path, chain(first, state(0.015, start=7), answer("a2", seconds=90), state(0.030, start=7)))
    fork = chain(user("fu", seconds=19), first, second, session="f1")
    write_session(tmp_path, [*fork, state(0.030, start=7, session="f1")], session="f1")
    again = chain(user("gu", seconds=39), first, second, answer("c1", seconds=40), session="f2")
    write_session(tmp_path, [*again, state(0.045, start=7, session="f2")], session="f2")
    assert causes(reconciled(tmp_path)) == {}
    assert causes(reconciled(tmp_path, "f1")) == {"fork_trunks": 0.015}
    assert causes(reconciled(tmp_path, "f2")) == {"fork_trunks": 0.030}


def test_costs_written_on_the_lines_are_shown_beside_ours(tmp_path: Path) -> None:
    write_session(tmp_path, chain(answer("a1", costUSD=0.5), answer("a2", costUSD=0.0), version="1.0.5"))
    row = reconciled(tmp_path)
    assert row["line_recorded_cost_usd"] == 0.5
    assert row["transcript_cost_usd"] == pytest.approx(0.03)


def test_sessions_without_calls_and_an_empty_load(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1")))
    row = reconciled(tmp_path)
    assert (row["calls"], row["transcript_cost_usd"], row["list_cost_usd"]) == (0, 0.0, 0.0)
    (tmp_path / "none" / "projects").mkdir(parents=True)
    assert cc.load(tmp_path / "none", cache=False).reconcile().is_empty()
