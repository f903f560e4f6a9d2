"""Tool calls and the results that answer them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import ccanalytics as cc
from tests.build import (
    assistant,
    attachment,
    boundary,
    chain,
    compact_summary,
    meta,
    text,
    tool_result,
    tool_result_block,
    tool_use,
    tool_use_block,
    uid,
    user,
    write_session,
)


def load_lines(tmp_path: Path, *lines: dict[str, object], **more: object) -> cc.Transcripts:
    write_session(tmp_path, chain(*lines, **more))  # type: ignore[arg-type]
    return cc.load(tmp_path)


def test_ch15_an_answer_that_is_missing_is_not_invented(tmp_path: Path) -> None:
    calls = [tool_use_block(n) for n in ("t1", "t2", "t3")]
    tools = load_lines(
        tmp_path,
        user("u1"),
        assistant("a1", calls, stop_reason="tool_use"),
        tool_result("r1", "t1"),
        tool_result("r3", "t3"),
    ).tools
    assert tools["tool_use_id"].to_list() == ["toolu_t1", "toolu_t2", "toolu_t3"]
    assert tools["outcome"].to_list() == ["ok", "unanswered", "ok"]
    assert tools["duration_ms"].to_list() == [1000, None, 2000]
    assert tools["ended_at"][1] is None


def test_ch16_a_result_whose_call_is_gone_is_a_problem_and_no_call(tmp_path: Path) -> None:
    t = load_lines(tmp_path, boundary("b1"), compact_summary("s1"), tool_result("r9", "t9"), assistant("a1"))
    assert t.tools.is_empty()
    lost = t.problems.filter(pl.col("code") == "result_without_call")
    assert lost["line_no"].to_list() == [3]
    assert lost["uuid"].to_list() == [uid("r9")]


def test_ch17_two_results_for_one_call_are_one_call_and_the_last_counts(tmp_path: Path) -> None:
    tools = load_lines(
        tmp_path,
        user("u1"),
        tool_use("a1", call="t1"),
        tool_result("r1", "t1", "part"),
        tool_result("r2", "t1", "whole thing"),
    ).tools
    assert tools.height == 1
    row = tools.row(0, named=True)
    assert (row["n_results"], row["result_chars"], row["duration_ms"]) == (2, len("whole thing"), 2000)


def test_ch17_a_result_line_written_twice_is_one_result(tmp_path: Path) -> None:
    lines = chain(user("u1"), tool_use("a1", call="t1"), tool_result("r1", "t1"))
    write_session(tmp_path, [*lines, lines[-1]])
    assert cc.load(tmp_path).tools["n_results"].to_list() == [1]


def test_ch18_restarted_call_ids_are_paired_turn_by_turn(tmp_path: Path) -> None:
    lines = []
    for turn in range(3):
        result = tool_result(f"r{turn}", "call_0", "x" * (turn + 1))
        lines += [user(f"u{turn}"), tool_use(f"a{turn}", call="call_0"), result]
    tools = load_lines(tmp_path, *lines).tools
    assert tools["duration_ms"].to_list() == [1000, 1000, 1000]
    assert tools["result_chars"].to_list() == [1, 2, 3]
    assert tools["n_results"].to_list() == [1, 1, 1]
    assert tools["turn_no"].to_list() == [1, 2, 3]


def test_ch18_an_unanswered_call_does_not_take_the_answer_of_the_next_turn(tmp_path: Path) -> None:
    tools = load_lines(
        tmp_path,
        user("u0"),
        tool_use("a0", call="call_0"),
        user("u1"),
        tool_use("a1", call="call_0"),
        tool_result("r1", "call_0"),
    ).tools
    assert tools["outcome"].to_list() == ["unanswered", "ok"]


def test_ch18_a_relay_that_answers_every_request_under_one_id(tmp_path: Path) -> None:
    lines = []
    for turn in range(3):
        call = tool_use(f"a{turn}", call="call_0", message_id="msg_relay", requestId=f"req_{turn}")
        lines += [user(f"u{turn}"), call, tool_result(f"r{turn}", "call_0")]
    tools = load_lines(tmp_path, *lines).tools
    assert tools["duration_ms"].to_list() == [1000, 1000, 1000]
    assert tools["call_id"].n_unique() == 3


def test_lines_of_two_sessions_with_the_same_ids_are_no_copies(tmp_path: Path) -> None:
    for number, session in enumerate(("s1", "s2")):
        lines = user("u1"), tool_use("a1", call="t1", message_id=f"msg_{session}"), tool_result("r1", "t1")
        write_session(tmp_path, chain(*lines, session=session, start=100 * number), session=session)
    t = cc.load(tmp_path)
    assert (t.tools.height, t.turns.height) == (2, 2)
    assert t.sessions["n_inherited_entries"].to_list() == [0, 0]


def test_a_result_that_names_its_line_belongs_to_that_line(tmp_path: Path) -> None:
    tools = load_lines(
        tmp_path,
        user("u0"),
        tool_use("a0", call="call_0"),
        tool_use("a1", call="call_0"),
        tool_result("r0", "call_0", "xx", sourceToolAssistantUUID=uid("a0")),
        tool_result("r1", "call_0", "x", sourceToolAssistantUUID=uid("a1")),
    ).tools
    assert tools["result_chars"].to_list() == [2, 1]


def test_ch19_a_snapshot_that_names_the_next_line_is_no_line_of_the_conversation(tmp_path: Path) -> None:
    snapshot = meta("file-history-snapshot", messageId=uid("m7"), snapshot={"messageId": uid("m7")})
    t = load_lines(tmp_path, snapshot, user("m7"), assistant("a1"))
    assert t.entries.filter(pl.col("uuid") == uid("m7")).height == 1
    assert t.turns.height == 1
    assert t.problems.is_empty()


def test_ti09_a_clock_that_steps_back_gives_no_negative_duration(tmp_path: Path) -> None:
    tools = load_lines(
        tmp_path, user("u1", seconds=10), tool_use("a1", call="t1", seconds=10), tool_result("r1", "t1", seconds=9.4)
    ).tools
    assert tools["duration_ms"].to_list() == [None]
    assert tools["outcome"].to_list() == ["ok"]


def test_sc06_a_persisted_result_shows_its_size_and_path_and_is_not_read(tmp_path: Path) -> None:
    head = "<persisted-output>\nOutput too large (5MB). Full output saved to: /tmp/tool-results/t.txt\n"
    inline = head + "</persisted-output>" + "y" * 100_000
    preview = head + "\nPreview</persisted-output>"
    moved = {"persistedOutputPath": "/tmp/tool-results/t2.txt", "persistedOutputSize": 7}
    tools = load_lines(
        tmp_path,
        user("u1"),
        tool_use("a1", call="t1"),
        tool_result("r1", "t1", inline),
        tool_use("a2", call="t2"),
        tool_result("r2", "t2", preview, toolUseResult=moved),
        tool_use("a3", call="t3"),
        tool_result("r3", "t3", "small"),
    ).tools
    assert tools["is_persisted"].to_list() == [True, True, False]
    assert tools["result_chars"].to_list() == [len(inline), len(preview), 5]
    assert [bool(p) for p in tools["persisted_path"]] == [True, True, False]
    assert tools["persisted_bytes"].to_list() == [None, 7, None]


def test_a_copy_in_a_fork_is_counted_once_and_named(tmp_path: Path) -> None:
    lines = chain(user("u1"), tool_use("a1", call="t1"), tool_result("r1", "t1"), assistant("a2"))
    write_session(tmp_path, lines)
    copied = [{**line, "sessionId": uid("s2")} for line in lines]
    write_session(
        tmp_path, [*copied, *chain(user("u3"), assistant("a3"), session="s2", start=60, parent="a2")], session="s2"
    )
    t = cc.load(tmp_path)
    assert t.tools.select("session_id", "n_copies", "copied_to").rows() == [(uid("s1"), 1, uid("s2"))]
    counted = ("n_tools", "n_inherited_tools", "n_turns", "n_inherited_turns", "forked_from")
    assert sorted(t.sessions.select("session_id", *counted).rows()) == sorted(
        [(uid("s1"), 1, 0, 1, 0, None), (uid("s2"), 0, 1, 1, 1, uid("s1"))]
    )


def test_a_fork_cut_off_before_the_result_does_not_lose_it(tmp_path: Path) -> None:
    lines = chain(user("u1"), tool_use("a1", call="t1"), tool_result("r1", "t1"), assistant("a2"))
    write_session(tmp_path, lines)
    write_session(tmp_path, [{**line, "sessionId": uid("s0")} for line in lines[:2]], session="s0")
    tools = cc.load(tmp_path).tools
    assert tools.select("outcome", "n_copies").rows() == [("ok", 1)]
    assert cc.load(tmp_path).problems.is_empty()


def test_facts_of_a_result_speak_of_a_call_only_when_the_line_answers_no_other(tmp_path: Path) -> None:
    facts = {"durationMs": 77, "filePath": "/a.py"}
    both = user("r1", [tool_result_block("t1"), tool_result_block("t2")], toolUseResult=facts)
    calls = assistant("a1", [tool_use_block("t1"), tool_use_block("t2")], stop_reason="tool_use")
    tools = load_lines(
        tmp_path,
        user("u1"),
        calls,
        both,
        tool_use("a3", "Glob", call="t3"),
        tool_result("r3", "t3", toolUseResult=facts),
    ).tools
    assert tools["reported_duration_ms"].to_list() == [None, None, 77]
    assert tools["file_path"].to_list() == [None, None, "/a.py"]


def test_outcomes_tell_errors_refusals_and_interrupts_apart(tmp_path: Path) -> None:
    tools = load_lines(
        tmp_path,
        user("u1"),
        tool_use("a1", call="t1"),
        tool_result("r1", "t1", "boom", is_error=True, toolUseResult="Error: boom"),
        tool_use("a2", call="t2"),
        tool_result("r2", "t2", "no", is_error=True, toolUseResult="User rejected tool use"),
        tool_use("a3", call="t3"),
        tool_result("r3", "t3", "cut", toolUseResult={"interrupted": True, "stdout": ""}),
        tool_use("a4", call="t4"),
        tool_result("r4", "t4", "fine", toolUseResult={"interrupted": False, "stdout": ""}),
        tool_use("a5", call="t5"),
        tool_result("r5", "t5", "stop", is_error=True),
        user("i5", [text("[Request interrupted by user for tool use]")]),
    ).tools
    assert tools["outcome"].to_list() == ["error", "denied", "interrupted", "ok", "interrupted"]


def test_names_of_mcp_tools_are_split_and_paths_and_lines_are_kept(tmp_path: Path) -> None:
    patch = [{"lines": ["-a", "+b", "+c", " d"]}]
    tools = load_lines(
        tmp_path,
        user("u1"),
        tool_use("a1", "mcp__my_db__run__query", {"q": 1}, call="t1"),
        tool_result("r1", "t1"),
        tool_use("a2", "Edit", {"file_path": "/x.py"}, call="t2"),
        tool_result("r2", "t2", toolUseResult={"filePath": "/x.py", "structuredPatch": patch}),
        tool_use("a3", "Bash", {"command": "git  status -s"}, call="t3"),
        tool_result("r3", "t3"),
        tool_use("a4", "WebFetch", {"url": "https://me@example.org/x?y"}, call="t4"),
        tool_result("r4", "t4"),
        tool_use("a5", "WebSearch", {"query": "q"}, call="t5"),
        tool_result("r5", "t5", toolUseResult={"searchCount": 2, "durationSeconds": 1.5}),
    ).tools
    rows = tools.to_dicts()
    assert (rows[0]["mcp_server"], rows[0]["mcp_tool"]) == ("my_db", "run__query")
    assert [r["mcp_server"] for r in rows[1:]] == [None] * 4
    assert (rows[1]["file_path"], rows[1]["lines_added"], rows[1]["lines_removed"]) == ("/x.py", 2, 1)
    assert [r["command_head"] for r in rows] == [None] * 5
    assert cc.load(tmp_path, content="preview").tools["command_head"][2] == "git"
    assert rows[3]["url_host"] == "example.org"
    assert (rows[4]["search_count"], rows[4]["reported_duration_ms"]) == (2, 1500)


def test_recorded_api_requests_hold_blocks_that_are_no_calls(tmp_path: Path) -> None:
    blob = meta("api-request-blob", message={"role": "assistant", "content": [tool_use_block("t1")]})
    t = load_lines(
        tmp_path, user("u1"), tool_use("a1", call="t1"), tool_result("r1", "t1"), blob, attachment("x1", "date")
    )
    assert t.tools.height == 1


def test_no_transcripts_give_tables_with_their_schema(tmp_path: Path) -> None:
    t = cc.load(tmp_path)
    for name in ("tools", "agents", "turns", "compactions", "sessions", "events", "parallelism"):
        frame: pl.DataFrame = getattr(t, name)
        assert frame.is_empty()
        assert frame.schema == cc.schema.tables()[name].polars()


steps = st.lists(st.tuples(st.booleans(), st.sampled_from(["c0", "c1"])), min_size=1, max_size=10)


@given(steps)
def test_pairing_agrees_with_a_plain_walk_over_the_lines(given_steps: list[tuple[bool, str]]) -> None:
    lines = [
        tool_use(f"a{n}", call=call) if is_call else tool_result(f"r{n}", call)
        for n, (is_call, call) in enumerate(given_steps)
    ]
    with TemporaryDirectory() as folder:
        write_session(Path(folder), chain(*lines))
        t = cc.load(folder)
    found = dict(t.tools.select("entry_id", "n_results").iter_rows())
    ids = {name: n for n, name in enumerate(t.entries["uuid"])}
    assert {ids[uid(f"a{n}")]: count for n, count in plain_pairs(given_steps).items()} == found


def plain_pairs(given_steps: list[tuple[bool, str]]) -> dict[int, int]:
    """Results per call: a result answers the last call of its id before it, else the first behind it."""
    calls = {n: 0 for n, (is_call, _) in enumerate(given_steps) if is_call}
    for n, (is_call, call) in enumerate(given_steps):
        if is_call:
            continue
        same = [k for k in calls if given_steps[k][1] == call]
        before, after = [k for k in same if k < n], [k for k in same if k > n]
        if before or after:
            calls[before[-1] if before else after[0]] += 1
    return calls
