"""Bug reports of this field about conversations, each as a small case; the codes are those of the reports."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import ccanalytics as cc
from tests.build import (
    Line,
    assistant,
    attachment,
    boundary,
    chain,
    compact_summary,
    meta,
    progress,
    segment,
    tool_result,
    tool_use,
    uid,
    user,
    write_session,
)

S1 = uid("s1")


def _load(tmp_path: Path, *lines: Line, step: float = 1) -> cc.Transcripts:
    write_session(tmp_path, chain(*lines, step=step))
    return cc.load(tmp_path)


def _names(frame: pl.DataFrame, *names: str) -> list[str]:
    """The short names behind the uuids of a frame."""
    known = {uid(n): n for n in names}
    return [known[u] for u in frame["uuid"].drop_nulls()]


def _problems(t: cc.Transcripts, code: str) -> pl.DataFrame:
    return t.problems.filter(pl.col("code") == code)


def _round(times: tuple[float, float, float], *, after: str) -> list[Line]:
    return [
        user("u1"),
        *(tool_use(f"a{i}", call=f"t{i}", message_id="msg_1") for i in (1, 2, 3)),
        *(
            tool_result(f"r{i}", call=f"t{i}", parent=f"a{i}", seconds=seconds)
            for i, seconds in zip((1, 2, 3), times, strict=True)
        ),
        assistant("b1", parent=after, seconds=20),
    ]


def test_ch01_parallel_results_beside_the_chain_come_back(tmp_path: Path) -> None:
    t = _load(tmp_path, *_round((5, 6, 7), after="r1"))
    names = ("u1", "a1", "a2", "a3", "r1", "r2", "r3", "b1")
    assert _names(t.resume(S1), *names) == list(names)
    assert t.chains["on_resume"].all()
    assert set(t.edges.filter(kind="recovered")["rule"]) == {"same_message", "result_of_message"}


def test_ch02_results_come_back_once_whatever_their_clock_says(tmp_path: Path) -> None:
    t = _load(tmp_path, *_round((5, 4, 3), after="r3"))
    names = ("u1", "a1", "a2", "a3", "r1", "r2", "r3", "b1")
    # 2.1.332 goes by the line; the clock decided in the generation the report is about.
    assert _names(t.resume(S1), *names) == list(names)
    older = t.resume(S1, rules="2.1.88")
    assert _names(older, *names) == ["u1", "a1", "a2", "a3", "r2", "r1", "r3", "b1"]


def test_ch04_loops_end_and_are_named(tmp_path: Path) -> None:
    t = _load(tmp_path, user("A", parent="B"), assistant("B", parent="A"), user("C", parent="C", seconds=60))
    found = _problems(t, "cycle")
    assert found["uuid"].to_list() == [uid("A"), uid("C")]
    assert found["other_uuid"].to_list() == [uid("B"), uid("C")]
    assert found["line_no"].to_list() == [1, 3]
    for rules in ("2.1.332", "2.1.88"):
        shown = t.resume(S1, rules=rules)["uuid"].drop_nulls()
        assert shown.n_unique() == len(shown) > 0


def test_ch04_a_long_loop_is_one_problem(tmp_path: Path) -> None:
    lines = [user(f"x{i}", parent=f"x{(i + 1) % 7}") for i in range(7)]
    found = _problems(_load(tmp_path, *lines), "cycle")
    assert found["detail"].str.contains("7 entries").to_list() == [True]


def test_ch05_broken_links_are_listed_and_nothing_is_lost(tmp_path: Path) -> None:
    t = _load(
        tmp_path,
        user("u1"), assistant("a1"),
        user("u2", parent="ghost-1"), assistant("a2"),
        user("u3", parent="ghost-2"), assistant("a3"),
        step=10,
    )  # fmt: skip
    assert _names(t.resume(S1), "u3", "a3") == ["u3", "a3"]
    broken = _problems(t, "missing_parent")
    assert broken["uuid"].to_list() == [uid("u2"), uid("u3")]
    assert broken["other_uuid"].to_list() == [uid("ghost-1"), uid("ghost-2")]
    assert broken["line_no"].to_list() == [3, 5]
    assert broken["gap_ms"].to_list() == [10_000, 10_000]
    assert t.chains["root_id"].value_counts(sort=True)["count"].to_list() == [2, 2, 2]
    assert t.chains["off_reason"].to_list() == ["orphan"] * 4 + [None] * 2
    assert t.entries.height == 6


def test_ch05_a_gap_of_seconds_is_bridged_by_time_and_says_so(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u1"), assistant("a1"), user("u2", parent="ghost-1"), assistant("a2"), step=1)
    assert _names(t.resume(S1), "u1", "a1", "u2", "a2") == ["u1", "a1", "u2", "a2"]
    assert t.resume(S1)["step"].to_list() == ["walk", "spliced", "walk", "walk"]
    spliced = t.edges.filter(kind="spliced")
    assert spliced.select("child_uuid", "parent_uuid", "gap_ms").rows() == [(uid("u2"), uid("a1"), 1000)]
    assert _problems(t, "missing_parent").height == 1
    assert _names(t.resume(S1, rules="2.1.88"), "u2", "a2") == ["u2", "a2"]


def test_ch06_progress_lines_never_end_a_conversation(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u1"), tool_use("a1", call="t1"), tool_result("r1", call="t1"), assistant("a2"),
        progress("p1", "hook_progress", parent="a1"), progress("p2", "hook_progress"),
    )  # fmt: skip
    for rules in ("2.1.332", "2.1.88"):
        assert _names(t.resume(S1, rules=rules), "u1", "a1", "r1", "a2") == ["u1", "a1", "r1", "a2"]
    assert t.chains.filter(pl.col("off_reason") == "progress").height == 2
    assert t.chains["branch_no"].unique().to_list() == [0]


def test_ch07_a_chain_through_progress_lines_is_unbroken(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u1"), tool_use("a1", call="t1"), progress("p1", "hook_progress"), tool_result("r1", call="t1"),
        assistant("a2"),
    )  # fmt: skip
    for rules in ("2.1.332", "2.1.88"):
        assert _names(t.resume(S1, rules=rules), "u1", "a1", "r1", "a2") == ["u1", "a1", "r1", "a2"]
    assert t.resume(S1)["step"].to_list() == ["walk", "bridged", "walk", "walk"]
    bridged = t.edges.filter(kind="bridged")
    assert bridged.select("child_uuid", "parent_uuid", "rule").rows() == [(uid("r1"), uid("a1"), "progress")]
    written = t.edges.filter(pl.col("kind") == "parent", pl.col("child_uuid") == uid("r1"))
    assert written["parent_uuid"].to_list() == [uid("p1")]


def test_ch09_the_last_line_ends_the_chain_and_not_the_newest_clock(tmp_path: Path) -> None:
    day = 86_400
    t = _load(
        tmp_path, user("u1"), assistant("a1"),
        user("old", parent="a1", seconds=day), assistant("oldA", seconds=day + 1),
        user("new", parent="a1", seconds=day / 2), assistant("newA", seconds=day / 2 + 1),
    )  # fmt: skip
    assert _names(t.resume(S1), "u1", "a1", "new", "newA") == ["u1", "a1", "new", "newA"]
    assert _names(t.resume(S1, rules="2.1.88"), "u1", "a1", "old", "oldA") == ["u1", "a1", "old", "oldA"]


def test_ch10_a_sidechain_is_no_end_and_no_bridge(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u1"), assistant("a1"),
        user("s1x", parent="u1", isSidechain=True), assistant("s2x", isSidechain=True),
    )  # fmt: skip
    for rules in ("2.1.332", "2.1.88"):
        assert _names(t.resume(S1, rules=rules), "u1", "a1") == ["u1", "a1"]
    assert t.chains["off_reason"].to_list() == [None, None, "sidechain", "sidechain"]


def test_ch11_what_a_rewind_left_behind_is_one_branch_that_can_be_summed(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("1"), assistant("2"), user("3"), assistant("4"), user("5"),
        assistant("4'", parent="3"), user("4''"), assistant("6"),
    )  # fmt: skip
    assert _names(t.resume(S1), "1", "2", "3", "4'", "4''", "6") == ["1", "2", "3", "4'", "4''", "6"]
    dropped = t.chains.filter(pl.col("off_reason") == "abandoned")
    assert dropped.group_by("dropped_id").len().rows() == [(3, 2)]
    assert dropped["branch_no"].to_list() == [1, 1]
    tokens = t.entries.join(dropped.select("entry_id"), on="entry_id", how="semi")["output_tokens"].sum()
    assert tokens == 5
    assert t.calls["output_tokens"].sum() == 20


def test_ch12_a_rewind_with_nothing_typed_afterwards_is_not_guessed(tmp_path: Path) -> None:
    lines = chain(user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("6"))
    snapshot = meta("file-history-snapshot", messageId=uid("3"), isSnapshotUpdate=False, snapshot={})
    write_session(tmp_path, [*lines, snapshot])
    t = cc.load(tmp_path)
    assert _names(t.resume(S1), *"123456") == list("123456")
    assert t.chains["on_resume"].all()


def test_ch13_the_reply_that_lost_is_a_dropped_branch_and_not_lost(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u1"), assistant("a1", parent="u1"), assistant("a2", parent="u1"), user("u2"))
    assert _names(t.resume(S1), "u1", "a2", "u2") == ["u1", "a2", "u2"]
    dropped = t.chains.filter(pl.col("off_reason") == "abandoned")
    assert dropped.select("entry_id", "dropped_id").rows() == [(1, 1)]


def test_ch14_a_late_result_is_placed_with_its_call_once(tmp_path: Path) -> None:
    two = [tool_use("a1", call="t1", message_id="m"), tool_use("a1b", call="t2", message_id="m")]
    t = _load(
        tmp_path, user("u1"), *two, tool_result("r2", call="t2"), user("u2"), assistant("a2"),
        tool_result("r1", call="t1", parent="u2"), assistant("a3", parent="a2"),
    )  # fmt: skip
    shown = _names(t.resume(S1), "u1", "a1", "a1b", "r1", "r2", "u2", "a2", "a3")
    assert sorted(shown) == sorted({"u1", "a1", "a1b", "r1", "r2", "u2", "a2", "a3"})
    assert shown.index("a1b") < shown.index("r1") < shown.index("u2")
    assert t.edges.filter(kind="recovered").select("child_uuid", "rule").rows() == [(uid("r1"), "result_by_call")]
    results = [b["tool_use_id"] for m in t.resume(S1, view="api") for b in m["blocks"] if b["type"] == "tool_result"]
    assert sorted(results) == ["toolu_t1", "toolu_t2"]


def test_ch15_an_invented_answer_is_marked_and_only_in_the_resume(tmp_path: Path) -> None:
    calls = [tool_use(f"a{i}", call=f"t{i}", message_id="m") for i in (1, 2, 3)]
    t = _load(tmp_path, user("u1"), *calls, tool_result("r1", call="t1"), tool_result("r3", call="t3"))
    made = t.resume(S1).filter(pl.col("synthetic") == "user")
    assert made.select("uuid", "entry_id", "step", "tool_use_id").rows() == [(None, None, "interrupted", "toolu_t2")]
    assert set(t.edges.filter(kind="answer")["tool_use_id"]) == {"toolu_t1", "toolu_t3"}


def test_ch16_an_orphan_result_is_paired_with_nothing(tmp_path: Path) -> None:
    t = _load(tmp_path, boundary("b"), compact_summary("s"), tool_result("r9", call="t9"), assistant("a"))
    assert t.edges.filter(kind="answer").is_empty()
    assert all(b["type"] != "tool_result" for m in t.resume(S1, view="api") for b in m["blocks"])


def test_ch17_two_results_of_one_call_are_two_answers_and_one_is_sent(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u"), tool_use("a", call="t1"), tool_result("r", call="t1", content="partial"),
        tool_result("s", call="t1", content="full"), assistant("b"),
    )  # fmt: skip
    assert t.edges.filter(kind="answer").height == 2
    sent = [b for m in t.resume(S1, view="api") for b in m["blocks"] if b["type"] == "tool_result"]
    assert [b["content"] for b in sent] == ["partial"]


def test_ch18_restarted_call_ids_are_answered_turn_by_turn(tmp_path: Path) -> None:
    turns = [
        [user(f"u{i}"), tool_use(f"a{i}", call="0"), tool_result(f"r{i}", call="0"), assistant(f"b{i}")]
        for i in range(3)
    ]
    t = _load(tmp_path, *(line for turn in turns for line in turn))
    pairs = t.edges.filter(kind="answer").select("child_uuid", "parent_uuid").rows()
    assert pairs == [(uid(f"r{i}"), uid(f"a{i}")) for i in range(3)]


def test_ch19_a_snapshot_is_no_node(tmp_path: Path) -> None:
    lines = chain(user("m-7"), assistant("a"))
    write_session(tmp_path, [meta("file-history-snapshot", messageId=uid("m-7"), snapshot={}), *lines])
    t = cc.load(tmp_path)
    assert t.chains.height == 2
    assert t.problems.is_empty()


def test_ch20_a_prompt_typed_mid_turn_is_in_the_chain_at_its_attachment(tmp_path: Path) -> None:
    lines = chain(
        user("u"), tool_use("a", call="t1"), tool_result("r", call="t1"),
        attachment("q", "queued_command", {"prompt": "also do X", "commandMode": "prompt"}), assistant("b"),
    )  # fmt: skip
    queue = [meta("queue-operation", operation=op, content="also do X") for op in ("enqueue", "remove")]
    write_session(tmp_path, [*lines[:2], *queue, *lines[2:]])
    t = cc.load(tmp_path)
    assert _names(t.resume(S1), "u", "a", "r", "q", "b") == ["u", "a", "r", "q", "b"]
    assert t.history(S1)["entry_id"].n_unique() == 5


def test_ch21_chain_order_follows_links_and_time_is_a_view_apart(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("P1", seconds=0), assistant("R1", seconds=30), user("P2", parent="R1", seconds=10),
        assistant("R2", seconds=40), user("P3", seconds=50), assistant("R3", seconds=60),
    )  # fmt: skip
    names = ("P1", "R1", "P2", "R2", "P3", "R3")
    assert _names(t.resume(S1), *names) == list(names)
    assert _names(t.history(S1), *names) == list(names)
    assert _names(t.history(S1).sort("timestamp"), *names) == ["P1", "P2", "R1", "R2", "P3", "R3"]


def test_ch22_rows_of_another_session_are_flagged_and_the_chain_crosses_the_files(tmp_path: Path) -> None:
    a = chain(*(user(f"a{i}") for i in range(10)), session="A")
    b = chain(*(user(f"b{i}") for i in range(10)), session="B")
    write_session(tmp_path, [*a[:5], *b[:4], *a[5:]], session="A")
    write_session(tmp_path, b[4:], session="B")
    t = cc.load(tmp_path)
    by_session = t.entries.group_by("session_id").len()
    assert sorted(by_session["len"].to_list()) == [10, 10]
    foreign = _problems(t, "foreign_session")
    assert foreign["uuid"].to_list() == [uid(f"b{i}") for i in range(4)]
    assert foreign["detail"].str.contains(uid("A")).all()
    assert t.resume(uid("B"))["entry_id"].drop_nulls().len() == 6
    crossing = _problems(t, "parent_in_other_file")
    assert crossing.select("uuid", "other_uuid").rows() == [(uid("b4"), uid("b3"))]
    assert crossing["detail"].to_list() == [f"the parent is in another file: {uid('A')}.jsonl"]
    link = t.edges.filter(rule="other_file")
    assert link.select("child_uuid", "parent_uuid").rows() == [(uid("b4"), uid("b3"))]
    parents = set(t.edges.filter(kind="parent")["child_uuid"])
    assert parents >= {uid(f"b{i}") for i in range(1, 10)}


def test_co03_a_line_that_hangs_before_the_compactions_is_followed_and_the_gap_named(tmp_path: Path) -> None:
    t = _load(
        tmp_path, *(user(str(i)) if i % 2 else assistant(str(i)) for i in range(1, 7)),
        boundary("b1", logical="6"), compact_summary("s1x"), user("7"), assistant("8"), user("9"),
        boundary("b2", logical="9"), compact_summary("s2x"), user("n", parent="5"),
    )  # fmt: skip
    assert _names(t.resume(S1), "1", "2", "3", "4", "5", "n") == ["1", "2", "3", "4", "5", "n"]
    (gap,) = _problems(t, "skips_compaction").iter_rows(named=True)
    assert (gap["uuid"], gap["other_uuid"], gap["line_no"]) == (uid("n"), uid("5"), 14)
    assert gap["detail"].startswith("8 entries")
    assert all(uid(n) in gap["detail"] for n in ("6", "b1", "s1x", "7", "8", "9", "b2", "s2x"))
    assert t.chains.filter(~pl.col("on_resume")).height == 8
    assert t.entries.height == 14


def test_co04_the_logical_parent_is_for_the_history_and_never_for_a_resume(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u1"), assistant("a1"), boundary("b", logical="a1"), compact_summary("s"), assistant("a2"))
    names = ("u1", "a1", "b", "s", "a2")
    for rules in ("2.1.332", "2.1.88"):
        assert _names(t.resume(S1, rules=rules), *names) == ["b", "s", "a2"]
    assert [m["role"] for m in t.resume(S1, view="api")] == ["user", "assistant"]
    assert _names(t.history(S1), *names) == list(names)
    assert t.edges.filter(kind="logical").select("child_uuid", "parent_uuid").rows() == [(uid("b"), uid("a1"))]
    assert t.chains["off_reason"].to_list() == ["before_boundary"] * 2 + [None] * 3


def test_co05_kept_messages_that_are_not_there_are_named_and_the_boundary_holds(tmp_path: Path) -> None:
    t = _load(
        tmp_path, user("u1"), assistant("a1"),
        boundary("b", logical="a1", preservedSegment=segment("u1", "s", "t-1")), compact_summary("s", parent="b"),
        user("u2"), assistant("a2"),
    )  # fmt: skip
    for rules in ("2.1.332", "2.1.88"):
        assert _names(t.resume(S1, rules=rules), "b", "s", "u2", "a2") == ["b", "s", "u2", "a2"]
    (missing,) = _problems(t, "kept_messages_missing").iter_rows(named=True)
    assert (missing["uuid"], missing["other_uuid"], missing["line_no"]) == (uid("b"), uid("t-1"), 3)


def test_co06_a_boundary_without_command_lines_cuts_like_any_other(tmp_path: Path) -> None:
    t = _load(tmp_path, user("u1"), assistant("a1"), boundary("b1", trigger="auto"), user("u2"), assistant("a2"))
    assert _names(t.resume(S1), "b1", "u2", "a2") == ["b1", "u2", "a2"]
    assert t.chains["segment"].to_list() == [0, 0, 1, 1, 1]


def test_co07_a_boundary_copied_into_a_fork_is_a_copy(tmp_path: Path) -> None:
    lines = [user("u1"), assistant("a1"), boundary("b-1", logical="a1"), compact_summary("s"), user("u2")]
    write_session(tmp_path, chain(*lines, session="one"), session="one")
    write_session(tmp_path, chain(*lines, assistant("x"), session="two"), session="two")
    t = cc.load(tmp_path)
    copies = t.edges.filter(kind="copy")
    assert copies.height == 5
    assert copies["child_uuid"].to_list() == copies["parent_uuid"].to_list()
    sessions = t.entries.select("entry_id", "file_id")
    pairs = copies.join(sessions, left_on="parent_id", right_on="entry_id", suffix="_of")
    assert (pairs["file_id"] != pairs["file_id_of"]).all()


def test_co08_a_compact_summary_stands_in_the_chain_as_what_it_is(tmp_path: Path) -> None:
    t = _load(tmp_path, boundary("b"), compact_summary("s"), user("u"), assistant("a"))
    shown = t.resume(S1).join(t.entries.select("entry_id", "prompt_kind"), on="entry_id", maintain_order="left")
    assert shown["prompt_kind"].to_list() == [None, "compact_summary", "typed", None]
