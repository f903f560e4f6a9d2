"""Table chains and t.history: where every entry stands, and why a resume does not show it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.errors import NotFoundError
from tests.build import (
    Line,
    assistant,
    attachment,
    boundary,
    chain,
    compact_summary,
    meta,
    segment,
    system,
    thinking,
    tool_result,
    tool_use,
    uid,
    user,
    write_agent,
    write_session,
)

S1 = uid("s1")


def _load(tmp_path: Path, *lines: Line, step: float = 1) -> cc.Transcripts:
    write_session(tmp_path, chain(*lines, step=step))
    return cc.load(tmp_path)


def _reasons(t: cc.Transcripts) -> dict[str, str | None]:
    names = dict(t.entries.select("entry_id", "uuid").iter_rows())
    return {names[e]: r for e, r in t.chains.select("entry_id", "off_reason").iter_rows()}


def _told(t: cc.Transcripts, *names: str) -> list[str]:
    known = {uid(n): n for n in names}
    return [known[u] for u in t.history(S1)["uuid"]]


def test_every_reason_has_its_case(tmp_path: Path) -> None:
    t = _load(
        tmp_path,
        user("u1"), assistant("a1"),
        boundary("b", logical="a1"), compact_summary("s"),
        user("left"), assistant("left2"),
        user("u2", parent="s"), attachment("beside", "date_change"), system("beside2", "informational"),
        tool_use("open", call="9", parent="u2"),
        user("u3"), assistant("think", [thinking("m")]), assistant("blank", " "),
        user("side", isSidechain=True),
        assistant("end", parent="blank"),
    )  # fmt: skip
    assert _reasons(t) == {
        uid("u1"): "before_boundary", uid("a1"): "before_boundary", uid("b"): None, uid("s"): None,
        uid("left"): "abandoned", uid("left2"): "abandoned", uid("u2"): None, uid("beside"): "beside",
        uid("beside2"): "beside", uid("open"): "unanswered", uid("u3"): None, uid("think"): "empty",
        uid("blank"): "empty", uid("side"): "sidechain", uid("end"): None,
    }  # fmt: skip


def test_lines_replaced_snipped_and_refused(tmp_path: Path) -> None:
    lines = chain(user("u"), assistant("a"))
    write_session(tmp_path / "one", [lines[0], *lines])
    assert cc.load(tmp_path / "one").chains["off_reason"].to_list() == ["replaced", None, None]
    side = [*lines, *chain(user("s", isSidechain=True)), meta("last-prompt", leafUuid=uid("s"))]
    write_session(tmp_path / "two", side)
    assert cc.load(tmp_path / "two").chains["off_reason"].to_list() == ["refused"] * 3


def test_agents_are_told_apart_from_the_main_thread(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u"), tool_use("a", "Task", {"prompt": "go"}, call="t"), assistant("b")))
    agent = chain(
        user("x", "go"), assistant("y"), user("left", parent="x"), assistant("z", parent="y"), agent="abc1234"
    )
    write_agent(tmp_path, "abc1234", agent, meta={"toolUseId": "toolu_t"})
    t = cc.load(tmp_path)
    lines = t.chains.join(t.entries.select("entry_id", "agent_id"), on="entry_id", validate="1:1")
    assert lines.filter(pl.col("agent_id").is_not_null())["off_reason"].to_list() == ["agent"] * 4
    assert lines.filter(pl.col("agent_id").is_not_null())["branch_no"].to_list() == [0, 0, 1, 0]
    assert _told(t, "u", "a", "x", "left", "y", "z", "b") == ["u", "a", "x", "left", "y", "z", "b"]
    assert t.history(S1)["part"].to_list() == ["main", "main", *["agent"] * 4, "main"]


def test_branches_are_numbered_from_the_newest(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u"), assistant("a"), user("x1"), assistant("x2"), user("y1", parent="a"), assistant("y2"),
        user("z1", parent="x1"), user("n1", parent="a"), assistant("n2"),
    )  # fmt: skip
    assert t.chains["branch_no"].to_list() == [0, 0, 1, 3, 2, 2, 1, 0, 0]
    assert t.chains["dropped_id"].to_list() == [None, None, 2, 2, 4, 4, 2, None, None]
    assert t.chains["depth"].to_list() == [0, 1, 2, 3, 2, 3, 3, 2, 3]
    assert t.chains["is_leaf"].to_list() == [False, False, False, True, False, True, True, False, True]


def test_the_story_tells_dropped_branches_where_they_left(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u"), assistant("a"), user("x1"), assistant("x2"), user("n1", parent="a"), assistant("n2"),
    )  # fmt: skip
    assert _told(t, "u", "a", "x1", "x2", "n1", "n2") == ["u", "a", "x1", "x2", "n1", "n2"]
    assert t.history(S1)["part"].to_list() == ["main", "main", "branch", "branch", "main", "main"]


def test_the_story_goes_through_compactions_and_tells_kept_messages_once(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u1"), assistant("a1"), user("u2"), assistant("a2"),
        boundary("b", logical="a2", preservedSegment=segment("u2", "s", "a2")), compact_summary("s", parent="b"),
        user("u3", parent="s"), assistant("a3"), boundary("c", logical="a3"), compact_summary("s2"), user("u4"),
    )  # fmt: skip
    names = ("u1", "a1", "u2", "a2", "b", "s", "u3", "a3", "c", "s2", "u4")
    assert _told(t, *names) == list(names)
    assert t.history(S1)["segment"].to_list() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert t.history(S1)["part"].unique().to_list() == ["main"]


def test_the_story_keeps_parallel_rounds_of_old_times_on_the_main_part(tmp_path: Path) -> None:
    calls = [tool_use(f"c{i}", call=str(i), message_id="m") for i in (1, 2, 3)]
    t = _load(
        tmp_path, user("u"), *calls, tool_result("r1", call="1", parent="c1"), tool_result("r2", call="2", parent="c2"),
        tool_result("r3", call="3", parent="c3"), assistant("a"), boundary("b", logical="a"), user("v"),
    )  # fmt: skip
    story = t.history(S1)
    assert story["part"].unique().to_list() == ["main"]
    assert story.height == 10
    assert t.chains["branch_no"].unique().to_list() == [0]


def test_a_fork_says_what_it_copied_and_from_where(tmp_path: Path) -> None:
    lines = [user("u"), assistant("a")]
    write_session(tmp_path, chain(*lines, user("one"), session="one"), session="one")
    write_session(tmp_path, chain(*lines, user("two"), assistant("three"), session="two"), session="two")
    t = cc.load(tmp_path)
    story = t.history(uid("two"))
    assert story.height == 4
    source = story.join(t.entries.select(copy_of="entry_id", of="session_id"), on="copy_of", how="left")
    assert source["of"].to_list() == [uid("one"), uid("one"), None, None]


def test_a_line_written_twice_is_told_once(tmp_path: Path) -> None:
    lines = chain(user("u"), assistant("a"), user("v"))
    write_session(tmp_path, [*lines, *lines])
    t = cc.load(tmp_path)
    assert t.history(S1)["entry_id"].to_list() == [3, 4, 5]


def test_a_session_without_file_has_no_story(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        _load(tmp_path, user("u")).history(uid("nobody"))


def test_a_long_session_is_ordinary(tmp_path: Path) -> None:
    lines = chain(*(user(f"u{i}") if i % 2 else assistant(f"a{i}") for i in range(3000)))
    write_session(tmp_path, lines)
    t = cc.load(tmp_path)
    assert t.chains["depth"].to_list() == list(range(3000))
    assert t.history(S1)["uuid"].to_list() == [line["uuid"] for line in lines]
