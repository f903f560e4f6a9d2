"""Events: hooks, permissions, queue, API errors, interrupts, fallbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import ccanalytics as cc
from tests.build import (
    Line,
    assistant,
    attachment,
    chain,
    meta,
    system,
    text,
    tool_result,
    tool_use,
    uid,
    user,
    write_session,
)


def events_of(tmp_path: Path, *lines: Line) -> list[dict[str, Any]]:
    write_session(tmp_path, chain(*lines))
    return cc.load(tmp_path).events.to_dicts()


def test_hook_runs_tell_how_they_ended(tmp_path: Path) -> None:
    def hook(name: str, kind: str, **facts: object) -> Line:
        return attachment(name, kind, {"hookName": "PreToolUse:Bash", "hookEvent": "PreToolUse", **facts})

    rows = events_of(
        tmp_path,
        user("u1"),
        hook("h1", "hook_success", toolUseID="toolu_t1", durationMs=12, exitCode=0),
        hook("h2", "hook_blocking_error", exitCode=2),
        hook("h3", "hook_non_blocking_error", exitCode=1),
        hook("h4", "hook_cancelled"),
    )
    assert [r["outcome"] for r in rows] == ["success", "blocking_error", "non_blocking_error", "cancelled"]
    assert [r["is_blocking"] for r in rows] == [False, True, False, False]
    assert [rows[0][k] for k in ("kind", "name", "event", "tool_use_id", "duration_ms", "exit_code", "turn_no")] == [
        "hook", "PreToolUse:Bash", "PreToolUse", "toolu_t1", 12, 0, 1,
    ]  # fmt: skip


def test_the_summary_of_stop_hooks_is_one_event(tmp_path: Path) -> None:
    infos = [{"command": "a", "durationMs": 5}, {"command": "b", "durationMs": 6}]
    note = system("h1", "stop_hook_summary", hookCount=2, hookInfos=infos, hookErrors=["x"], preventedContinuation=True)
    row = events_of(tmp_path, user("u1"), note)[0]
    assert [row[k] for k in ("event", "outcome", "count", "n_errors", "duration_ms", "is_blocking")] == [
        "Stop", "blocking_error", 2, 1, 11, True,
    ]  # fmt: skip


def test_permission_decisions_of_all_versions(tmp_path: Path) -> None:
    rows = events_of(
        tmp_path,
        user("u1"),
        tool_use("a1", call="t1"),
        tool_result("r1", "t1", permissionDecision={"decision": "accept", "source": "config"}),
        tool_use("a2", call="t2"),
        tool_result("r2", "t2", is_error=True, permissionDecision={"decision": "reject", "source": "user"}),
        tool_use("a3", call="t3"),
        tool_result("r3", "t3", is_error=True, toolUseResult="User rejected tool use"),
        attachment(
            "h1", "hook_permission_decision", {"decision": "allow", "toolUseID": "toolu_t1", "hookEvent": "PreToolUse"}
        ),
    )
    assert [(r["outcome"], r["source"], r["tool_use_id"], r["is_blocking"]) for r in rows] == [
        ("accept", "config", "toolu_t1", False),
        ("reject", "user", "toolu_t2", True),
        ("reject", None, "toolu_t3", True),
        ("allow", "hook", "toolu_t1", False),
    ]


def test_queue_operations_in_order(tmp_path: Path) -> None:
    rows = events_of(
        tmp_path,
        meta("queue-operation", operation="enqueue", content="hello", timestamp="2026-01-02T03:04:05.000Z"),
        meta("queue-operation", operation="dequeue"),
        meta("queue-operation", operation="popAll"),
    )
    assert [(r["kind"], r["outcome"]) for r in rows] == [
        ("queue", "enqueue"),
        ("queue", "dequeue"),
        ("queue", "popAll"),
    ]
    assert rows[0]["timestamp"] is not None


def test_api_errors_with_their_retries_and_the_last_one(tmp_path: Path) -> None:
    def error(name: str, attempt: int) -> Line:
        facts = {"retryAttempt": attempt, "maxRetries": 10, "retryInMs": 512.5, "error": {"status": 529}}
        return system(name, "api_error", **facts)

    last = assistant("a1", "API Error: 529", model="<synthetic>", isApiErrorMessage=True)
    rows = events_of(tmp_path, user("u1"), error("e1", 1), error("e2", 2), last)
    assert [(r["outcome"], r["attempt"], r["http_status"]) for r in rows] == [
        ("retry", 1, 529), ("retry", 2, 529), ("failed", None, None),
    ]  # fmt: skip
    assert rows[0]["wait_ms"] == 512
    assert rows[0]["max_attempts"] == 10


def test_interrupts_and_fallbacks(tmp_path: Path) -> None:
    change = {"type": "fallback", "from": {"model": "claude-opus-5"}, "to": {"model": "claude-sonnet-5"}}
    rows = events_of(
        tmp_path,
        user("u1"),
        assistant("a1", [change, text("ok")]),
        user("i1", [text("[Request interrupted by user]")]),
        system("f1", "model_refusal_fallback"),
    )
    assert [(r["kind"], r["outcome"]) for r in rows] == [
        ("fallback", None),
        ("interrupt", "interrupted"),
        ("fallback", None),
    ]
    assert "claude-sonnet-5" in rows[0]["message"]


def test_what_a_fork_copied_did_not_happen_twice(tmp_path: Path) -> None:
    lines = chain(
        user("u1"), tool_use("a1", call="t1"), tool_result("r1", "t1", permissionDecision={"decision": "accept"})
    )
    lines += chain(assistant("a2"), start=9, parent="r1")
    write_session(tmp_path, lines)
    more = chain(user("u3"), assistant("a3"), session="s2", start=60, parent="a2")
    write_session(tmp_path, [*({**line, "sessionId": uid("s2")} for line in lines), *more], session="s2")
    events = cc.load(tmp_path).events
    assert events.select("session_id", pl.col("kind").cast(pl.String)).rows() == [(uid("s1"), "permission")]
