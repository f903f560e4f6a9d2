"""Compactions: counted once, with what they put away and what they cost."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import ccanalytics as cc
from tests.build import (
    Line,
    assistant,
    boundary,
    chain,
    compact_summary,
    meta,
    segment,
    system,
    uid,
    usage,
    user,
    write_agent,
    write_session,
)
from tests.cases import case_dir


def compactions_of(tmp_path: Path, *lines: Line) -> list[dict[str, object]]:
    write_session(tmp_path, chain(*lines))
    return cc.load(tmp_path).compactions.to_dicts()


def test_co06_each_boundary_is_one_compaction_with_the_trigger_it_names(tmp_path: Path) -> None:
    command = user("c1", "<command-name>/compact</command-name>")
    rows = compactions_of(
        tmp_path,
        user("u1"),
        assistant("a1"),
        system("b1", "compact_boundary", compactMetadata={"trigger": "auto"}),
        user("u2"),
        assistant("a2"),
        command,
        boundary("b2", trigger="manual", pre_tokens=99),
        compact_summary("s2"),
    )
    assert [(r["trigger"], r["pre_tokens"]) for r in rows] == [("auto", None), ("manual", 99)]
    assert [r["summary_entry_id"] is None for r in rows] == [True, False]


def test_co06_a_boundary_without_facts_has_none(tmp_path: Path) -> None:
    row = compactions_of(tmp_path, user("u1"), system("b1", "compact_boundary", compactMetadata="odd"))[0]
    assert [row[k] for k in ("trigger", "pre_tokens", "post_tokens", "duration_ms", "messages_kept")] == [None] * 4 + [
        0
    ]


def test_co07_a_boundary_copied_by_a_fork_is_one_and_the_fork_shows_it_as_inherited(tmp_path: Path) -> None:
    lines = chain(user("u1"), assistant("a1"), boundary("b1", logical="a1"), compact_summary("c1"), assistant("a2"))
    write_session(tmp_path, lines)
    more = chain(user("u3"), assistant("a3"), session="s2", start=60, parent="a2")
    write_session(tmp_path, [*({**line, "sessionId": uid("s2")} for line in lines), *more], session="s2")
    t = cc.load(tmp_path)
    assert t.compactions.select("session_id", "uuid", "n_copies", "copied_to").rows() == [
        (uid("s1"), uid("b1"), 1, uid("s2"))
    ]
    counts = t.sessions.select("session_id", "n_compactions", "n_inherited_compactions").rows()
    assert sorted(counts) == sorted([(uid("s1"), 1, 0), (uid("s2"), 0, 1)])


def test_a_failed_compaction_without_a_boundary_is_none(tmp_path: Path) -> None:
    assert compactions_of(tmp_path, user("u1"), *(user(f"e{n}", "") for n in range(5)), compact_summary("s1")) == []


def test_messages_before_kept_and_dropped(tmp_path: Path) -> None:
    kept: Line = {"preservedSegment": segment("a2", "c1", "a3"), "postTokens": 40, "durationMs": 7}
    rows = compactions_of(
        tmp_path,
        *(x for n in (1, 2, 3) for x in (user(f"u{n}"), assistant(f"a{n}"))),
        boundary("b1", pre_tokens=100, **kept),
        compact_summary("c1", "sum"),
        user("u4"),
        boundary("b2"),
    )
    first, second = rows
    assert [first[f"messages_{k}"] for k in ("before", "kept", "dropped")] == [6, 3, 3]
    assert [first[k] for k in ("segment", "tokens_saved", "duration_ms", "summary_chars")] == ["found", 60, 7, 3]
    assert [second[f"messages_{k}"] for k in ("before", "kept", "dropped")] == [2, 0, 2]
    assert second["segment"] == "none"


@pytest.mark.parametrize(
    ("metadata", "state", "kept"),
    [
        ({"preservedMessages": {"uuids": [uid("a1")], "allUuids": [uid("u1"), uid("a1")]}}, "found", 1),
        ({"preservedMessages": {"allUuids": [uid("u1"), uid("a1")]}}, "found", 2),
        ({"preservedMessages": {"uuids": [uid("a1"), uid("gone")]}}, "dangling", 1),
        ({"preservedMessages": {"uuids": []}}, "empty", 0),
        ({"preservedSegment": segment("u1", "c1", "gone")}, "dangling", 0),
        ({"preservedSegment": segment("a1", "c1", "u1")}, "dangling", 0),
        ({}, "none", 0),
    ],
)
def test_the_kept_segment_is_found_or_not(tmp_path: Path, metadata: Line, state: str, kept: int) -> None:
    row = compactions_of(tmp_path, user("u1"), assistant("a1"), boundary("b1", **metadata), compact_summary("c1"))[0]
    assert (row["segment"], row["messages_kept"]) == (state, kept)


def test_context_sizes_on_both_sides(tmp_path: Path) -> None:
    row = compactions_of(
        tmp_path,
        user("u1"),
        assistant("a1", usage=usage(input=10, read=900)),
        boundary("b1"),
        compact_summary("c1"),
        user("u2"),
        assistant("a2", usage=usage(input=10, write_5m=90)),
    )[0]
    assert (row["context_before_tokens"], row["context_after_tokens"], row["turn_no"]) == (910, 100, 1)


def test_microcompactions_stand_beside_compactions(tmp_path: Path) -> None:
    facts = {"trigger": "auto", "preTokens": 500, "tokensSaved": 200, "compactedToolIds": ["a", "b"]}
    small = system("b1", "microcompact_boundary", microcompactMetadata=facts)
    write_session(tmp_path, chain(user("u1"), assistant("a1"), small, boundary("b2")))
    t = cc.load(tmp_path)
    row = t.compactions.row(0, named=True)
    assert [row[k] for k in ("kind", "trigger", "pre_tokens", "tokens_saved", "n_compacted_tools")] == [
        "microcompact", "auto", 500, 200, 2,
    ]  # fmt: skip
    assert (row["summary_cost_rule"], t.compactions["kind"].to_list()) == (None, ["microcompact", "compact"])
    assert t.sessions["n_compactions"].to_list() == [1]


def test_the_recorded_total_gives_the_cost_of_the_summary() -> None:
    row = cc.load(case_dir("cost", "compact-once") / "config").compactions.row(0, named=True)
    assert row["summary_cost_rule"] == "recorded_total"
    assert row["summary_cost_usd"] == pytest.approx(0.00236925)


def test_a_compaction_agent_gives_the_cost_of_the_summary() -> None:
    rows = cc.load(case_dir("zoo", "2.1.88/compact-auto") / "config").compactions
    assert set(rows["summary_cost_rule"]) == {"compaction_agent"}
    assert rows["summary_cost_usd"].null_count() == 0


def test_a_total_that_covers_more_than_the_compaction_gives_no_cost(tmp_path: Path) -> None:
    rows = compactions_of(
        tmp_path,
        user("u1"),
        assistant("a1"),
        meta("cost-state", totalCostUSD=1.0),
        boundary("b1"),
        compact_summary("c1"),
        user("u2"),
        assistant("a2"),
        meta("cost-state", totalCostUSD=2.0),
    )
    assert (rows[0]["summary_cost_rule"], rows[0]["summary_cost_usd"]) == ("unknown", None)


def test_a_compaction_of_an_agent_belongs_to_it(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("m1")))
    write_agent(tmp_path, "a1", chain(user("x1"), assistant("x2"), boundary("b1"), compact_summary("c1"), agent="a1"))
    row = cc.load(tmp_path).compactions.row(0, named=True)
    assert (row["agent_id"], row["messages_before"]) == ("a1", 2)


def test_columns_are_those_declared(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), boundary("b1")))
    assert cc.load(tmp_path).compactions.schema == cc.schema.tables()["compactions"].polars()
    assert pl.Series(compactions_of(tmp_path, user("u1"))).is_empty()
