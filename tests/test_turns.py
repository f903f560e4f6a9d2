"""Turns: what counts as a human prompt, what it caused, how long it took."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import ccanalytics as cc
from tests.build import (
    Line,
    assistant,
    attachment,
    boundary,
    chain,
    compact_summary,
    meta,
    system,
    text,
    tool_result,
    tool_use,
    uid,
    usage,
    user,
    write_agent,
    write_session,
)

NOTICE = "<task-notification>\n<task-id>x</task-id>\n<status>completed</status>\n</task-notification>"


def turns_of(tmp_path: Path, *lines: Line) -> pl.DataFrame:
    write_session(tmp_path, chain(*lines))
    return cc.load(tmp_path).turns


def test_ch20_a_prompt_typed_while_a_turn_runs_is_one_prompt_at_its_attachment(tmp_path: Path) -> None:
    turns = turns_of(
        tmp_path,
        user("u1", "do this"),
        tool_use("a1", call="t1"),
        meta("queue-operation", operation="enqueue", content="also do X"),
        tool_result("r1", "t1"),
        meta("queue-operation", operation="remove"),
        attachment("q1", "queued_command", {"prompt": "also do X", "commandMode": "prompt"}),
        assistant("a2"),
    )
    assert turns.select("turn_no", pl.col("kind").cast(pl.String), "uuid", "calls").rows() == [
        (1, "typed", uid("u1"), 1),
        (2, "queued", uid("q1"), 1),
    ]


def test_ch20_a_queued_prompt_that_was_also_written_as_a_line_is_one(tmp_path: Path) -> None:
    turns = turns_of(
        tmp_path,
        user("u1", "do this"),
        assistant("a1"),
        meta("queue-operation", operation="enqueue", content="and that"),
        meta("queue-operation", operation="dequeue"),
        attachment("q1", "queued_command", {"prompt": "and that", "source_uuid": uid("u2")}),
        user("u2", "and that"),
        assistant("a2"),
    )
    assert turns.height == 2


@pytest.mark.parametrize("prompt", [NOTICE, "plain"])
def test_a_queued_notice_is_no_prompt(tmp_path: Path, prompt: str) -> None:
    queued = attachment("q1", "queued_command", {"prompt": prompt, "commandMode": "task-notification"})
    assert turns_of(tmp_path, user("u1"), assistant("a1"), queued, assistant("a2")).height == 1


def test_a_queued_message_of_a_channel_is_no_prompt(tmp_path: Path) -> None:
    def queued(name: str, sender: str) -> Line:
        return attachment(name, "queued_command", {"prompt": "hi", "origin": {"kind": sender, "text": "x"}})

    t = turns_of(tmp_path, user("u1"), assistant("a1"), queued("q1", "channel"), queued("q2", "human"), assistant("a2"))
    assert t["uuid"].to_list() == [uid("u1"), uid("q2")]


def test_ux03_lines_the_program_wrote_are_no_prompts(tmp_path: Path) -> None:
    turns = turns_of(
        tmp_path,
        user("u1", "first"),
        tool_use("a1", call="t1"),
        tool_result("r1", "t1"),
        user("m1", "the body of a skill", isMeta=True),
        tool_use("a2", call="t2"),
        tool_result("r2", "t2"),
        user("n1", NOTICE),
        compact_summary("c1"),
        user("u2", "second"),
        assistant("a3"),
    )
    assert turns["uuid"].to_list() == [uid("u1"), uid("u2")]
    assert turns["calls"].to_list() == [2, 1]


def test_ux03_a_prompt_the_program_made_is_none(tmp_path: Path) -> None:
    made = user("m1", "time to look again", promptSource="system", turnOrigin="scheduled_task")
    turns = turns_of(tmp_path, user("u1", promptSource="typed"), assistant("a1"), made, assistant("a2"))
    assert turns.select("uuid", "calls").rows() == [(uid("u1"), 2)]


def test_ux02_command_echoes_are_no_prompts(tmp_path: Path) -> None:
    turns = turns_of(
        tmp_path,
        user("c1", "<local-command-caveat>Caveat: …</local-command-caveat>", isMeta=True),
        user("c2", "<command-name>/clear</command-name>\n<command-message>clear</command-message>"),
        user("c3", "<local-command-stdout></local-command-stdout>"),
        user("u1", "fix the parser"),
        assistant("a1"),
    )
    assert turns["prompt_chars"].to_list() == [len("fix the parser")]


def test_co08_a_compact_summary_is_no_prompt(tmp_path: Path) -> None:
    turns = turns_of(tmp_path, boundary("b1"), compact_summary("s1"), user("u1", "real"), assistant("a1"))
    assert turns["uuid"].to_list() == [uid("u1")]


def test_ti11_the_interval_of_a_turn_begins_with_the_prompt(tmp_path: Path) -> None:
    turn = turns_of(tmp_path, user("u1", seconds=0), assistant("a1", seconds=40)).row(0, named=True)
    assert (turn["ended_at"] - turn["started_at"]).total_seconds() == 40
    assert (turn["time_to_reply_ms"], turn["duration_ms"]) == (40_000, 40_000)


def test_ti09_many_lines_of_one_moment_and_a_step_back_keep_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [user("u1"), assistant("a1"), user("u2"), assistant("a2"), user("u3")]
    lines = [{**line, "timestamp": "2026-01-02T03:04:05.600Z"} for line in lines]
    last = assistant("a3", timestamp="2026-01-02T03:04:05.000Z")
    turns = turns_of(tmp_path, *lines, last)
    assert turns["uuid"].to_list() == [uid("u1"), uid("u2"), uid("u3")]
    assert turns["calls"].to_list() == [1, 1, 1]
    assert turns["duration_ms"].to_list() == [0, 0, 0]
    assert turns["time_to_reply_ms"].to_list() == [0, 0, None]


def test_active_time_counts_a_long_gap_only_up_to_five_minutes(tmp_path: Path) -> None:
    turn = turns_of(tmp_path, user("u1", seconds=0), assistant("a1", seconds=60), assistant("a2", seconds=3660)).row(
        0, named=True
    )
    assert (turn["duration_ms"], turn["active_ms"]) == (3_660_000, 360_000)


def test_a_turn_ends_with_its_work_and_not_with_what_is_noted_days_later(tmp_path: Path) -> None:
    late = 90_000
    turns = turns_of(
        tmp_path,
        user("u1", seconds=0),
        assistant("a1", seconds=40),
        user("c1", "<command-name>/cost</command-name>", seconds=late),
        user("c2", "<local-command-stdout>…</local-command-stdout>", seconds=late + 1),
        attachment("x1", "date", seconds=late + 2),
        assistant("n1", "No response requested.", model="<synthetic>", seconds=late + 3),
        user("u2", seconds=late + 4),
        assistant("a2", seconds=late + 5),
    )
    assert turns.select("duration_ms", "active_ms", "n_entries").rows() == [(40_000, 40_000, 6), (1000, 1000, 2)]


def test_requests_before_any_prompt_are_turn_zero(tmp_path: Path) -> None:
    turns = turns_of(tmp_path, assistant("a0"), user("u1"), assistant("a1"))
    assert turns.select("turn_no", pl.col("kind").cast(pl.String), "calls").rows() == [
        (0, "unattributed", 1),
        (1, "typed", 1),
    ]


def test_an_interrupted_turn_is_marked(tmp_path: Path) -> None:
    stop = user("i1", [text("[Request interrupted by user]")])
    turns = turns_of(tmp_path, user("u1"), assistant("a1"), stop, user("u2"), assistant("a2"))
    assert turns["is_interrupted"].to_list() == [True, False]


def test_work_of_agents_counts_in_the_turn_that_started_them(tmp_path: Path) -> None:
    call = tool_use("l1", "Agent", {"prompt": "x", "run_in_background": True}, call="t1")
    write_session(tmp_path, chain(user("u1"), call, user("u2"), assistant("a2"), step=10))
    late = user("x1"), tool_use("x2", call="t2", usage=usage(output=50)), tool_result("x3", "t2")
    write_agent(tmp_path, "a1", chain(*late, agent="a1", start=100), meta={"toolUseId": "toolu_t1"})
    turns = cc.load(tmp_path).turns
    assert turns.select("output_tokens", "n_tools", "n_agents").rows() == [(55, 2, 1), (5, 0, 0)]


def test_an_agent_without_a_link_counts_in_the_turn_of_its_prompt_id_or_its_time(tmp_path: Path) -> None:
    first, second = user("u1", promptId="p1"), user("u2", promptId="p2", seconds=50)
    write_session(tmp_path, chain(first, assistant("m1"), second, assistant("m2", seconds=51)))
    named = chain(user("x1", promptId="p1", seconds=60), assistant("x2", seconds=61), agent="a1")
    timed = chain(user("y1", seconds=70), assistant("y2", seconds=71), agent="a2")
    write_agent(tmp_path, "a1", named)
    write_agent(tmp_path, "a2", timed)
    assert cc.load(tmp_path).turns["calls"].to_list() == [2, 2]


def test_the_duration_the_program_wrote_down_is_kept(tmp_path: Path) -> None:
    note = system("d1", "turn_duration", durationMs=1234)
    turns = turns_of(tmp_path, user("u1"), assistant("a1"), note, user("u2"), assistant("a2"))
    assert turns["reported_duration_ms"].to_list() == [1234, None]


def test_a_prompt_written_twice_is_one(tmp_path: Path) -> None:
    lines = chain(user("u1"), assistant("a1"))
    write_session(tmp_path, [lines[0], *lines])
    assert cc.load(tmp_path).turns.height == 1


def test_prompts_copied_by_a_fork_keep_their_numbers_and_are_not_counted_again(tmp_path: Path) -> None:
    lines = chain(user("u1"), assistant("a1"), user("u2"), assistant("a2"))
    write_session(tmp_path, lines)
    more = chain(user("u3"), assistant("a3"), session="s2", start=100, parent="a2")
    write_session(tmp_path, [*({**line, "sessionId": uid("s2")} for line in lines), *more], session="s2")
    turns = cc.load(tmp_path).turns
    assert sorted(turns.select("session_id", "turn_no", "is_inherited").rows()) == sorted(
        [(uid("s1"), 1, False), (uid("s1"), 2, False), (uid("s2"), 3, False)]
    )


def test_an_answer_added_to_a_copied_prompt_has_a_row_of_its_own(tmp_path: Path) -> None:
    lines = chain(user("u1"), assistant("a1"))
    write_session(tmp_path, lines)
    more = chain(assistant("a3"), session="s2", start=100, parent="a1")
    write_session(tmp_path, [*({**line, "sessionId": uid("s2")} for line in lines), *more], session="s2")
    turns = cc.load(tmp_path).turns.filter(pl.col("session_id") == uid("s2"))
    assert turns.select("turn_no", "is_inherited", "calls").rows() == [(1, True, 1)]


def test_lines_copied_by_an_old_resume_with_new_ids_are_told_by_their_answers(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), tool_use("a1", call="t1"), tool_result("r1", "t1"), assistant("a2")))
    again = (
        user("v1"),
        tool_use("b1", call="t1", message_id="msg_a1"),
        tool_result("s1", "t1"),
        assistant("b2", message_id="msg_a2"),
    )
    write_session(tmp_path, chain(*again, user("v2"), assistant("b3"), session="s2", start=500), session="s2")
    t = cc.load(tmp_path)
    assert t.turns.select("session_id", "turn_no").sort("turn_no").rows() == [(uid("s1"), 1), (uid("s2"), 2)]
    assert t.tools.height == 1
    assert t.problems.is_empty()
    lineage = dict(t.sessions.select("session_id", "continued_in").iter_rows())
    assert lineage == {uid("s1"): uid("s2"), uid("s2"): None}
