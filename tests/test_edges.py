"""Table edges: every kind of link with its rule, and the links that are problems."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import ccanalytics as cc
from ccanalytics.schema.graph import EDGES
from tests.build import (
    DROP,
    Line,
    assistant,
    boundary,
    chain,
    compact_summary,
    segment,
    tool_result,
    tool_use,
    uid,
    user,
    write_agent,
    write_session,
)

S1 = uid("s1")


def _load(tmp_path: Path, *lines: Line) -> cc.Transcripts:
    write_session(tmp_path, chain(*lines))
    return cc.load(tmp_path)


def _pairs(t: cc.Transcripts, kind: str) -> list[tuple[str, str, str]]:
    """(child, parent, rule) of one kind, uuids as written."""
    return t.edges.filter(kind=kind).select("child_uuid", "parent_uuid", pl.col("rule").cast(pl.String)).rows()


def test_edges_are_sorted_typed_and_unique(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u"), tool_use("a", call="1"), tool_result("r", call="1"), assistant("b"))
    assert t.edges.schema == EDGES.polars()
    assert t.edges.equals(t.edges.sort(EDGES.order))
    assert t.edges.unique(EDGES.key).height == t.edges.height
    assert t.edges.filter(kind="parent")["gap_ms"].to_list() == [1000] * 3
    assert set(t.edges["session_id"]) == {S1}


def test_nothing_has_no_edges(tmp_path: Path) -> None:
    (tmp_path / "projects").mkdir()
    t = cc.load(tmp_path)
    assert (t.edges.height, t.chains.height, t.resume().height, t.problems.height) == (0, 0, 0, 0)


def test_a_kept_segment_relinks_head_and_what_hung_on_the_anchor(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u1"), assistant("a1"), user("u2"), assistant("a2"),
        boundary("b", logical="a2", preservedSegment=segment("u2", "s", "a2")), compact_summary("s", parent="b"),
        user("u3", parent="s"), assistant("a3"),
    )  # fmt: skip
    assert _pairs(t, "relinked") == [
        (uid("u2"), uid("s"), "preserved_segment"),
        (uid("a2"), uid("u2"), "preserved_segment"),
        (uid("u3"), uid("a2"), "preserved_segment"),
    ]
    assert t.resume(S1)["uuid"].to_list() == [uid(n) for n in ("b", "s", "u2", "a2", "u3", "a3")]
    assert t.resume(S1)["step"].to_list() == ["walk", "walk", "relinked", "relinked", "walk", "walk"]


def test_a_kept_list_wins_over_the_segment(tmp_path: Path) -> None:
    kept = {"anchorUuid": uid("s"), "uuids": [uid("a2")]}
    t = _load(
        tmp_path, user("u1"), assistant("a1"), user("u2"), assistant("a2"),
        boundary("b", preservedSegment=segment("u2", "s", "a2"), preservedMessages=kept),
        compact_summary("s", parent="b"), user("u3", parent="s"),
    )  # fmt: skip
    assert _pairs(t, "relinked") == [
        (uid("a2"), uid("s"), "preserved_messages"),
        (uid("u3"), uid("a2"), "preserved_messages"),
    ]


def test_an_agents_first_line_hangs_on_the_call_that_started_it(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u"), tool_use("a", "Task", {"prompt": "go"}, call="t"), assistant("b")))
    agent = chain(user("x", "go"), assistant("y"), agent="abc1234", start=1)
    write_agent(tmp_path, "abc1234", agent, meta={"agentType": "Explore", "toolUseId": "toolu_t"})
    t = cc.load(tmp_path)
    assert _pairs(t, "spawn") == [(uid("x"), uid("a"), "agent_meta")]
    assert t.edges.filter(kind="spawn")["tool_use_id"].to_list() == ["toolu_t"]


def test_copies_name_the_line_they_repeat(tmp_path: Path) -> None:
    first = chain(user("u"), assistant("a", message_id="msg_1"), session="one")
    write_session(tmp_path, first, session="one")
    new_names = [
        line | {"uuid": uid("new" + line["uuid"]), "forkedFrom": {"sessionId": uid("one"), "messageUuid": line["uuid"]}}
        for line in first[:1]
    ]
    unmarked = [first[1] | {"uuid": uid("a-copy")}]
    more = chain(user("v"), session="two", start=60)
    write_session(tmp_path, [*new_names, *unmarked, *more], session="two")
    write_session(tmp_path, [*first, *chain(user("w"), session="three", start=90)], session="three")
    rules = {(child, parent): rule for child, parent, rule in _pairs(cc.load(tmp_path), "copy")}
    assert rules == {
        (uid("new" + uid("u")), uid("u")): "forked_from",
        (uid("a-copy"), uid("a")): "message_id",
        (uid("u"), uid("u")): "same_uuid",
        (uid("a"), uid("a")): "same_uuid",
    }


def test_a_repeated_uuid_is_a_problem_that_names_both_lines(tmp_path: Path) -> None:
    lines = chain(user("u"), assistant("a"), user("v"))
    write_session(tmp_path, [*lines, lines[0]])
    (found,) = cc.load(tmp_path).problems.filter(code="duplicate_uuid").iter_rows(named=True)
    assert (found["line_no"], found["uuid"], found["other_uuid"]) == (4, uid("u"), uid("u"))
    assert found["detail"].endswith("line 1")
    assert found["gap_ms"] == 0


def test_a_missing_parent_gives_the_time_since_the_line_before(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u", seconds=5), assistant("a", parent="ghost", seconds=65))
    (found,) = t.problems.filter(code="missing_parent").iter_rows(named=True)
    assert (found["line_no"], found["uuid"], found["other_uuid"]) == (2, uid("a"), uid("ghost"))
    assert found["gap_ms"] == 60_000


def test_lines_without_uuid_or_time_make_no_edge_and_no_error(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u", uuid=DROP), assistant("a", timestamp="soon"), user("v", timestamp=DROP, parent="a"))
    assert _pairs(t, "parent") == [(uid("v"), uid("a"), "parent_uuid")]
    assert t.edges["gap_ms"].to_list() == [None]


def test_results_in_a_line_before_their_call_are_answers(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u"), tool_result("r", call="1", parent="a"), tool_use("a", call="1", parent="u"))
    assert _pairs(t, "answer") == [(uid("r"), uid("a"), "tool_use_id")]
