"""API requests, each once: which lines tell of the same one, who owns it, and what the ledger says of the others."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given, settings

import ccanalytics as cc
from ccanalytics.calls import build_calls
from ccanalytics.cost import build_cost
from ccanalytics.ledger import build_ledger
from ccanalytics.schema.base import ENTRIES, FILES
from ccanalytics.schema.money import CALLS, LEDGER
from ccanalytics.transcripts import Transcripts
from ccanalytics.usage_lines import CALL_COLUMNS, FILE_COLUMNS
from tests.build import (
    DROP,
    Line,
    assistant,
    chain,
    meta,
    progress,
    text,
    thinking,
    tool_use_block,
    uid,
    usage,
    user,
    write_agent,
    write_session,
)


def loaded(config: Path) -> Transcripts:
    return cc.load(config, cache=False, workers=1)


def of(config: Path, *lines: Line) -> Transcripts:
    write_session(config, chain(user("u1"), *lines))
    return loaded(config)


def answer(name: str, id: str = "m1", output: int = 10, **fields: Any) -> Line:
    counts = {k: fields.pop(k) for k in ("input", "read", "write_5m", "write_1h") if k in fields}
    return assistant(name, message_id=id, usage=usage(output=output, **counts), **fields)


def roles(t: Transcripts) -> list[str]:
    return t.ledger["role"].to_list()


def test_de01_blocks_of_one_response_are_one_call(tmp_path: Path) -> None:
    counts = {"input": 5, "write_1h": 2000, "read": 30_000}
    t = of(
        tmp_path,
        assistant("a1", [thinking("hm")], message_id="m1", stop_reason=None, usage=usage(output=1, **counts)),
        assistant("a2", [text("Well")], message_id="m1", stop_reason=None, usage=usage(output=1, **counts)),
        assistant("a3", [tool_use_block("t1")], message_id="m1", usage=usage(output=412, **counts)),
    )
    [call] = t.calls.to_dicts()
    assert (call["input_tokens"], call["output_tokens"], call["n_lines"]) == (5, 412, 3)
    assert call["cost_usd"] == pytest.approx(0.027195)
    assert not call["is_partial"]
    assert roles(t) == ["partial", "partial", "final"]
    assert len(t.tools) == 1


@pytest.mark.parametrize("outputs", [(1, 1, 412), (412, 1, 1), (1, 412, 1)])
def test_de02_the_largest_line_counts_wherever_it_stands(tmp_path: Path, outputs: tuple[int, ...]) -> None:
    t = of(tmp_path, *(answer(f"a{n}", output=o) for n, o in enumerate(outputs)))
    assert t.calls["output_tokens"].to_list() == [412]


@pytest.mark.parametrize("request_id", ["", DROP, None])
def test_de05_a_missing_request_id_does_not_stop_deduplication(tmp_path: Path, request_id: object) -> None:
    t = of(tmp_path, *(answer(f"a{n}", requestId=request_id) for n in range(3)))
    [call] = t.calls.to_dicts()
    assert (call["output_tokens"], call["n_lines"], call["request_id"]) == (10, 3, None)


def fork(config: Path, *, original_session: bool, forked_from: bool, swap: bool) -> Transcripts:
    """A session of 12 responses and a fork of it with three of its own; ``swap`` changes the order of the files."""
    first, second = ("f", "a") if swap else ("a", "f")
    trunk = chain(*(answer(f"x{n}", f"m{n}", output=n + 1) for n in range(12)), session=first)
    copies = [
        {
            **line,
            "sessionId": line["sessionId"] if original_session else uid(second),
            **({"forkedFrom": {"sessionId": uid(first), "messageUuid": line["uuid"]}} if forked_from else {}),
        }
        for line in trunk
    ]
    own = chain(*(answer(f"y{n}", f"n{n}") for n in range(3)), session=second, start=100)
    write_session(config, trunk, session=first)
    write_session(config, [*copies, *own], session=second)
    return loaded(config)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("original_session", "forked_from"), [(True, False), (False, True), (False, False)])
def test_de07_copied_history_belongs_to_where_it_happened(
    tmp_path: Path, original_session: bool, forked_from: bool, swap: bool
) -> None:
    t = fork(tmp_path, original_session=original_session, forked_from=forked_from, swap=swap)
    owners = dict(t.calls.group_by("session_id").len().iter_rows())
    first, second = ("f", "a") if swap else ("a", "f")
    assert owners == {uid(first): 12, uid(second): 3}
    own = t.calls.filter(pl.col("session_id") == uid(second))
    assert own["first_at"].min() == t.calls.filter(pl.col("message_id") == "n0")["first_at"][0]
    assert sorted(set(roles(t))) == ["copy", "final"]


def test_de08_every_way_to_the_total_goes_through_the_same_calls(tmp_path: Path) -> None:
    t = fork(tmp_path, original_session=False, forked_from=False, swap=False)
    total = t.cost()["output_tokens"][0]
    for by in ("session", "day", "model", "turn", "agent_type", "tool"):
        assert t.cost(by)["output_tokens"].sum() == total
    one = t.calls.filter(pl.col("session_id") == uid("f"))
    row = t.cost("session").filter(pl.col("session") == uid("f"))
    assert row.drop("session").equals(build_cost(one))


def test_de09_a_conversation_written_again_is_flagged_and_counts_once(tmp_path: Path) -> None:
    lines = chain(user("u1"), answer("a1", "m1"), user("u2"), answer("a2", "m2"))
    write_session(tmp_path, [*lines, *lines[:2]])
    t = loaded(tmp_path)
    assert t.calls["message_id"].to_list() == ["m1", "m2"]
    assert t.ledger["rule"].to_list() == ["largest_usage", "largest_usage", "rewritten_line"]


def test_de10_files_that_continue_one_conversation_share_their_calls(tmp_path: Path) -> None:
    parent = chain(*(answer(f"x{n}", f"m{n}") for n in range(6)), session="p")
    for child, shared in (("c1", 4), ("c2", 6)):
        copies = [{**line, "sessionId": uid(child)} for line in parent[:shared]]
        own = chain(answer(f"{child}-own", f"own-{child}"), session=child, start=100)
        write_session(tmp_path, [*copies, *own], session=child)
    write_session(tmp_path, [*parent, meta("continued-in", sessionId=uid("p"), childSessionId=uid("c1"))], session="p")
    t = loaded(tmp_path)
    assert dict(t.calls.group_by("session_id").len().iter_rows()) == {uid("p"): 6, uid("c1"): 1, uid("c2"): 1}
    assert t.calls.filter(pl.col("message_id") == "m0")["n_files"].to_list() == [3]


def test_de11_lines_without_any_id_are_calls_of_their_own_unless_the_uuid_repeats(tmp_path: Path) -> None:
    nameless = [answer(f"a{n}", requestId=DROP) for n in range(4)]
    for line in nameless:
        del line["message"]["id"]
    t = of(tmp_path, *nameless, nameless[0])
    assert t.calls["output_tokens"].sum() == 40
    assert t.calls["call_id"].to_list() == [uid(f"a{n}") for n in range(4)]


def test_de12_the_order_of_reading_changes_nothing(tmp_path: Path) -> None:
    t = fork(tmp_path, original_session=False, forked_from=False, swap=False)
    for seed in range(3):
        entries, files = t.entries.sample(fraction=1, shuffle=True, seed=seed), t.files.sample(fraction=1, shuffle=True)
        assert build_calls(entries, files).equals(t.calls)
        assert build_ledger(entries, files).equals(t.ledger)


def test_calls_and_ledger_have_their_declared_columns_and_order(tmp_path: Path) -> None:
    t = fork(tmp_path, original_session=False, forked_from=False, swap=False)
    assert t.calls.schema == CALLS.polars()
    assert t.ledger.schema == LEDGER.polars()
    assert t.calls.equals(t.calls.sort("first_at", "call_id"))
    assert t.calls["call_id"].is_unique().all()
    assert t.ledger.select("entry_id", "iteration_no").is_unique().all()


def test_calls_need_only_the_usage_lines_and_their_columns(tmp_path: Path) -> None:
    t = fork(tmp_path, original_session=False, forked_from=False, swap=False)
    narrow = t.entries.filter("has_usage").select(CALL_COLUMNS)
    assert build_calls(narrow, t.files.select(FILE_COLUMNS)).equals(t.calls)


def test_nothing_comes_of_nothing() -> None:
    assert build_calls(ENTRIES.empty(), FILES.empty()).equals(CALLS.empty())
    assert build_ledger(ENTRIES.empty(), FILES.empty()).equals(LEDGER.empty())


def test_the_ledger_says_what_naive_counting_would_charge(tmp_path: Path) -> None:
    t = of(tmp_path, *(assistant(f"a{n}", message_id="m1", usage=usage(output=1000)) for n in range(3)))
    assert t.ledger["cost_usd"].sum() == pytest.approx(3 * t.calls["cost_usd"].sum())
    assert t.ledger.filter("is_kept")["cost_usd"].sum() == t.calls["cost_usd"].sum()


def test_each_count_is_the_largest_any_line_shows(tmp_path: Path) -> None:
    t = of(tmp_path, answer("a1", input=7, read=0, output=3), answer("a2", input=0, read=900, output=50))
    [call] = t.calls.to_dicts()
    assert (call["input_tokens"], call["cache_read_input_tokens"], call["output_tokens"]) == (7, 900, 50)
    assert (call["context_tokens"], call["total_tokens"]) == (907, 957)


def test_a_zeroed_copy_costs_nothing_whatever_its_split_says(tmp_path: Path) -> None:
    write_session(tmp_path, chain(answer("a1", write_5m=100, write_1h=50)))
    zero = usage(input=0, output=0, write_5m=100, write_1h=50, cache_creation_input_tokens=0)
    write_session(tmp_path, chain(assistant("a1", message_id="m1", usage=zero), session="s2"), session="s2")
    write_session(tmp_path, chain(assistant("b1", message_id="m2", usage=zero), session="s3"), session="s3")
    t = loaded(tmp_path)
    kept, alone = t.calls.sort("call_id").to_dicts()
    assert (kept["session_id"], kept["ephemeral_5m_input_tokens"], kept["ephemeral_1h_input_tokens"]) == (
        uid("s1"),
        100,
        50,
    )
    assert (alone["total_tokens"], alone["cost_usd"]) == (0, 0.0)
    assert "zeroed_copy" in t.ledger["rule"].to_list()


@pytest.mark.parametrize(
    ("total", "five", "hour", "expected"),
    [
        (1000, None, None, (1000, 0)),
        (1000, 200, 300, (700, 300)),
        (1000, 2000, 500, (500, 500)),
        (100, 0, 1000, (0, 100)),
        (0, 20, 30, (20, 30)),
        (None, 0, 1000, (0, 1000)),
    ],
)
def test_pr02_the_split_of_cache_writes_never_exceeds_the_total(
    tmp_path: Path, total: int | None, five: int | None, hour: int | None, expected: tuple[int, int]
) -> None:
    counts = usage(input=1)
    counts["cache_creation_input_tokens"] = total
    counts["cache_creation"] = {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour}
    if five is None:
        del counts["cache_creation"]
    [call] = of(tmp_path, assistant("a1", usage=counts)).calls.to_dicts()
    assert (call["ephemeral_5m_input_tokens"], call["ephemeral_1h_input_tokens"]) == expected
    assert call["cache_creation_input_tokens"] == sum(expected)


def test_pr17_synthetic_and_error_lines_are_no_calls(tmp_path: Path) -> None:
    t = of(
        tmp_path,
        answer("a1", "m1"),
        answer("a2", "m2"),
        assistant("a3", message_id="x", model="<synthetic>", usage=usage(input=0, output=0), isApiErrorMessage=True),
        assistant("a4", message_id="y", usage=usage(output=9), isApiErrorMessage=True),
    )
    assert len(t.calls) == 2
    assert roles(t) == ["final", "final", "synthetic", "error"]
    assert t.ledger["call_id"].to_list() == ["m1", "m2", None, None]
    assert t.cost("model")["model"].to_list() == ["claude-sonnet-4-5-20250929"]


@pytest.mark.parametrize(
    ("version", "output", "stop", "words", "partial"),
    [
        ("2.1.20", 2, None, "x" * 800, True),
        ("2.1.332", 8, None, "x", True),
        ("2.1.332", 2, "end_turn", "x" * 800, False),
        ("2.1.332", 400, None, "x" * 800, False),
        ("1.0.60", 2, None, "x" * 800, True),
        ("1.0.60", 4, None, "OK", False),
        ("1.0.60", 300, None, "x" * 800, False),
    ],
)
def test_pr20_an_answer_with_only_a_placeholder_is_kept_and_flagged(
    tmp_path: Path, version: str, output: int, stop: str | None, words: str, partial: bool
) -> None:
    line = assistant("a1", words, message_id="m1", stop_reason=stop, usage=usage(output=output))
    write_session(tmp_path, chain(line, version=version))
    t = loaded(tmp_path)
    assert t.calls.select("output_tokens", "is_partial").row(0) == (output, partial)
    assert t.cost()["partial_calls"][0] == int(partial)


def test_an_answer_whose_stream_was_cut_is_partial_whatever_its_stop_reason(tmp_path: Path) -> None:
    cut = assistant("e1", model="<synthetic>", isApiErrorMessage=True, streamCutCause="stream_truncated")
    t = of(tmp_path, answer("a0", "m0"), answer("a1", "m1", output=1, stop_reason="tool_use"), cut, answer("a2", "m2"))
    assert t.calls["is_partial"].to_list() == [False, True, False]


def test_a_side_question_repeats_its_parents_message_under_another_request(tmp_path: Path) -> None:
    write_session(tmp_path, chain(answer("a1", "m1", read=500)))
    replay = [answer("b1", "m1", read=500, requestId="req_other"), answer("b2", "m2", read=600)]
    write_agent(tmp_path, "aside_question-1", chain(*replay, agent="aside_question-1"))
    t = loaded(tmp_path)
    assert t.calls.select("call_id", "agent_id").rows() == [("m1", None), ("m2", "aside_question-1")]
    assert roles(t) == ["final", "replay", "final"]


def test_a_compaction_agents_history_is_a_copy_and_its_own_call_is_not(tmp_path: Path) -> None:
    history = [answer(f"a{n}", f"m{n}") for n in range(3)]
    write_session(tmp_path, chain(*history))
    write_agent(tmp_path, "acompact-1", chain(*history, answer("c1", "mc"), agent="acompact-1"))
    t = loaded(tmp_path)
    assert t.calls["agent_id"].to_list() == [None, None, None, "acompact-1"]
    assert roles(t).count("compact_copy") == 3


def test_progress_echoes_count_only_when_nothing_else_tells_of_the_call(tmp_path: Path) -> None:
    def echo(name: str, id: str) -> Line:
        message = {"type": "assistant", "requestId": f"req_{id}", "message": answer("x", id)["message"]}
        return progress(name, "agent_progress", {"agentId": "ag1", "message": message})

    write_session(tmp_path, chain(user("u1"), echo("p1", "m1"), echo("p2", "m2")))
    write_agent(tmp_path, "ag1", chain(answer("a1", "m1"), agent="ag1"))
    t = loaded(tmp_path)
    told = t.calls.sort("call_id").select("call_id", "source", "agent_id", "is_sidechain").rows()
    assert told == [("m1", "transcript", "ag1", True), ("m2", "progress", "ag1", True)]
    assert t.ledger.sort("message_id", "role")["rule"].to_list() == ["largest_usage", "progress_echo", "progress_only"]


def test_a_relay_that_answers_everything_under_one_id_has_many_calls(tmp_path: Path) -> None:
    relay = [answer(f"a{n}", "relay", input=100 + n, output=50 + n, requestId=DROP) for n in range(4)]
    write_session(tmp_path, chain(user("u1"), *relay, relay[0]))
    write_session(tmp_path, chain(answer("b1", "relay", input=700, requestId=DROP), session="s2"), session="s2")
    t = loaded(tmp_path)
    assert sorted(t.calls["input_tokens"]) == [100, 101, 102, 103, 700]
    assert t.calls["call_id"].is_unique().all()
    assert set(t.calls["message_id"]) == {"relay"}


@pytest.mark.parametrize(
    ("id", "second", "calls"),
    [
        ("ocgo", {"session": "s2", "start": 500}, 2),
        ("ocgo", {"session": "s2", "start": 0}, 1),
        ("msg_bdrk_1", {"session": "s2", "start": 500}, 1),
    ],
)
def test_equal_answers_of_a_relay_are_two_unless_something_shows_a_copy(
    tmp_path: Path, id: str, second: dict[str, Any], calls: int
) -> None:
    write_session(tmp_path, chain(answer("a1", id, requestId=DROP), answer("a2", id, requestId=DROP)))
    again = chain(answer("b1", id, requestId=DROP), answer("b2", id, requestId=DROP, seconds=900), **second)
    write_session(tmp_path, again, session="s2")
    assert len(loaded(tmp_path).calls) == calls


def test_one_message_id_under_two_requests_is_two_calls(tmp_path: Path) -> None:
    t = of(tmp_path, answer("a1", "m1", requestId="q1"), answer("a2", "m1", requestId="q2"))
    assert t.calls["output_tokens"].to_list() == [10, 10]
    assert t.calls["call_id"].to_list() == ["m1:q1", "m1:q2"]


def test_an_old_resume_drops_the_request_id_and_stamps_anew(tmp_path: Path) -> None:
    write_session(tmp_path, chain(answer("a1", "m1", output=1, stop_reason=None), answer("a2", "m1", output=80)))
    again = [
        answer("b1", "m1", output=1, stop_reason=None, requestId=DROP),
        answer("b2", "m1", output=80, requestId=DROP),
    ]
    write_session(tmp_path, chain(*again, session="a", start=90), session="a")
    [call] = loaded(tmp_path).calls.to_dicts()
    assert (call["session_id"], call["output_tokens"], call["request_id"], call["n_files"]) == (
        uid("s1"),
        80,
        "req_m1",
        2,
    )


def advised(**more: object) -> Line:
    advice = {
        "type": "advisor_message",
        "model": "claude-opus-4-6",
        "input_tokens": 1000,
        "output_tokens": 1000,
        **more,
    }
    return usage(input=1000, output=1000, iterations=[{"type": "message", "input_tokens": 1000}, advice, advice])


def test_advisor_iterations_are_calls_of_their_own(tmp_path: Path) -> None:
    lines = [assistant(f"a{n}", message_id="m1", model="claude-sonnet-4-6", usage=advised()) for n in range(2)]
    t = of(tmp_path, *lines)
    assert t.calls.select("call_id", "source", "advisor_parent", "model").rows() == [
        ("m1", "transcript", None, "claude-sonnet-4-6"),
        ("m1:advisor:0", "advisor", "m1", "claude-opus-4-6"),
        ("m1:advisor:1", "advisor", "m1", "claude-opus-4-6"),
    ]
    assert t.calls["cost_usd"].sum() == pytest.approx(0.018 + 2 * 0.03)
    assert sorted(roles(t)) == ["advisor", "advisor", "final", "repeat"]
    assert t.cost(detail="parts")["cost_advisor_usd"][0] == pytest.approx(0.06)


@pytest.mark.parametrize("more", [{"model": 7}, {"input_tokens": "x"}, {"output_tokens": -5}, {"input_tokens": 1e300}])
def test_a_malformed_advisor_iteration_breaks_nothing(tmp_path: Path, more: dict[str, object]) -> None:
    t = of(tmp_path, assistant("a1", message_id="m1", usage=advised(**more)))
    assert len(t.calls) == 3
    assert t.calls["total_tokens"].min() >= 0  # type: ignore[operator]


@pytest.mark.parametrize("odd", [-5, 1.5, "12", None, True, [], 10**30, 2**62])
def test_a_count_that_makes_no_sense_breaks_nothing(tmp_path: Path, odd: object) -> None:
    t = of(tmp_path, assistant("a1", message_id="m1", usage=usage(output=odd, input=100)))  # type: ignore[arg-type]
    [call] = t.calls.to_dicts()
    assert call["input_tokens"] == 100
    assert call["output_tokens"] >= 0
    assert call["total_tokens"] == call["context_tokens"] + call["output_tokens"]


def test_a_superseded_answer_is_charged_and_marked(tmp_path: Path) -> None:
    t = of(tmp_path, answer("a1", "m1"), answer("a2", "m2", supersedes=uid("a1")))
    assert t.calls["is_superseded"].to_list() == [True, False]
    assert t.cost()["calls"][0] == 2


def test_the_first_time_counts_and_the_owners_place(tmp_path: Path) -> None:
    lines = chain(answer("a1", seconds=50), answer("a2", seconds=40, gitBranch="feature"), answer("a3", seconds=60))
    write_session(tmp_path, lines)
    [call] = loaded(tmp_path).calls.to_dicts()
    assert call["last_at"] - call["first_at"] == timedelta(seconds=20)
    assert call["git_branch"] == "feature"


LINES = st.lists(
    st.tuples(
        st.sampled_from(["msg_1", "msg_2", "msg_3", None]),
        st.sampled_from(["q1", None]),
        st.integers(0, 3),
        st.integers(0, 30),
        st.sampled_from(["s1", "s2"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


def frames_of(lines: list[tuple[str | None, str | None, int, int, str, bool]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    files = ["s1", "s2"]
    rows = [
        {
            "entry_id": n, "file_id": files.index(s), "line_no": n + 1, "type": "assistant", "uuid": f"u{n}",
            "session_id": s, "request_id": q, "message_id": m, "model": "claude-opus-5", "has_usage": True,
            "input_tokens": 10 * (int(m[-1]) if m else 9), "output_tokens": o + w,
            "stop_reason": "end_turn" if last else None,
        }
        for n, (m, q, o, w, s, last) in enumerate(lines)
    ]  # fmt: skip
    homes = [{"file_id": n, "kind": "session", "session_id": s} for n, s in enumerate(files)]
    return ENTRIES.conform(pl.DataFrame(rows, infer_schema_length=None)), FILES.conform(pl.DataFrame(homes))


@settings(max_examples=50)
@given(LINES)
def test_calls_agree_with_a_plain_dictionary(lines: list[tuple[str | None, str | None, int, int, str, bool]]) -> None:
    entries, files = frames_of(lines)
    expected: dict[str, int] = {}
    for row in entries.iter_rows(named=True):
        key = row["message_id"] or row["request_id"] or row["uuid"]
        expected[key] = max(expected.get(key, 0), row["output_tokens"])
    calls = build_calls(entries, files)
    assert dict(calls.select("call_id", "output_tokens").iter_rows()) == expected
    ledger = build_ledger(entries, files)
    assert len(ledger) == len(lines)
    kept = ledger.filter("is_kept")
    assert kept["output_tokens"].sum() == calls["output_tokens"].sum()
    assert kept["call_id"].sort().equals(calls["call_id"].sort())
    assert calls["n_lines"].sum() == len(lines)


def test_a_case_folder_moved_elsewhere_has_the_same_calls(tmp_path: Path) -> None:
    t = fork(tmp_path / "one", original_session=False, forked_from=False, swap=False)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert loaded(tmp_path / "two").calls.equals(t.calls)
