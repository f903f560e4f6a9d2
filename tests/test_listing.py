"""The list of sessions, as Claude Code shows it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ccanalytics.listing
from ccanalytics.errors import NotFoundError, UsageError
from ccanalytics.listing import END_BYTES, Listing, list_sessions, read_listing
from ccanalytics.schema.listing import SESSION_LIST
from tests.build import (
    DROP,
    Line,
    assistant,
    chain,
    compact_summary,
    dump,
    meta,
    text,
    tool_result,
    uid,
    user,
    write_lines,
    write_session,
)
from tests.cases import case_dir, case_names, expectation

FILLER = chain(*(assistant(f"f{n}", "x" * 2000) for n in range(60)))


@pytest.mark.parametrize("name", case_names("listing"))
def test_the_recorded_lists_come_out_the_same(name: str) -> None:
    listed = list_sessions(case_dir("listing", name) / "config")
    expected = expectation("listing", name)["sessions"]
    seen = listed.with_columns(pl.col("created_at").dt.epoch("ms")).to_dicts()
    assert [{k: row[k] for k in e} for row, e in zip(seen, expected, strict=True)] == expected


def _listed(tmp_path: Path, *lines: Line | str | bytes) -> Listing | None:
    return read_listing(str(write_lines(tmp_path / "x.jsonl", lines)))


def _shown(tmp_path: Path, *lines: Line | str | bytes) -> Listing:
    shown = _listed(tmp_path, *lines)
    assert shown is not None
    return shown


# Titles


@pytest.mark.parametrize(
    ("lines", "title", "summary"),
    [
        ([meta("ai-title", aiTitle="AI"), meta("custom-title", customTitle="")], "AI", "AI"),
        ([meta("custom-title", customTitle="Mine"), meta("ai-title", aiTitle="AI")], "Mine", "Mine"),
        ([meta("last-prompt", lastPrompt="last"), meta("summary", summary="sum")], None, "last"),
        ([meta("last-prompt", lastPrompt=""), meta("summary", summary="sum")], None, "sum"),
        ([meta("custom-title", customTitle='a "b" \\ \n \u00e9 \N{GRINNING FACE}')], 'a "b" \\ \n é 😀', None),
        (['{"type":"custom-title","customTitle": "blank"}', meta("custom-title", customTitle="x")], "blank", None),
        (['{"customTitle":"\\ud83d half"}'], "\ufffd half", None),
        (['{"customTitle":"tab\t and \\n"}'], "tab\t and \\n", None),
        ([b'{"customTitle":"caf\xe9"}'], "caf\ufffd", None),
        ([meta("custom-title", customTitle="done"), '{"customTitle":"torn'], "done", None),
        ([meta("custom-title", customTitle=7), meta("custom-title", customTitle=None)], None, "hello"),
    ],
)
def test_titles_are_found_as_text(
    tmp_path: Path, lines: Sequence[Line | str | bytes], title: str | None, summary: str | None
) -> None:
    shown = _shown(tmp_path, *chain(user("u1")), *lines)
    assert (shown.custom_title, shown.summary) == (title, summary or title)


def test_a_title_counts_at_the_end_then_at_the_beginning_and_not_in_between(tmp_path: Path) -> None:
    title = [meta("custom-title", customTitle=f"T{n}") for n in range(3)]
    first = chain(user("u1"))
    assert _shown(tmp_path, *first, title[0], *FILLER, title[1], *FILLER, title[2]).summary == "T2"
    assert _shown(tmp_path, *first, title[0], *FILLER, title[1], *FILLER).summary == "T0"
    assert _shown(tmp_path, *first, *FILLER, title[1], *FILLER).summary == "hello"


def test_a_model_title_at_the_end_goes_behind_a_users_at_the_beginning(tmp_path: Path) -> None:
    lines = [*chain(user("u1")), meta("custom-title", customTitle="Mine"), *FILLER, meta("ai-title", aiTitle="AI")]
    assert _shown(tmp_path, *lines).custom_title == "Mine"


def test_last_prompt_and_summary_count_at_the_end_alone(tmp_path: Path) -> None:
    lines = [*chain(user("u1")), meta("last-prompt", lastPrompt="p"), meta("summary", summary="s"), *FILLER]
    assert _shown(tmp_path, *lines).summary == "hello"


@pytest.mark.parametrize("cut", range(0, 40, 3))
def test_a_line_cut_by_the_window_does_no_harm(tmp_path: Path, cut: int) -> None:
    title = dump(meta("custom-title", customTitle="é" * 8))
    tail = END_BYTES - len(title) - 1 + cut
    data = dump(chain(user("u1"))[0]) + b"\n" + b" " * END_BYTES + b"\n" + title + b"\n" + b" " * (tail - 1) + b"\n"
    (tmp_path / "x.jsonl").write_bytes(data)
    shown = read_listing(str(tmp_path / "x.jsonl"))
    whole_value_seen = data[-END_BYTES:].find(b'"customTitle":"') >= 0
    assert shown is not None
    assert shown.custom_title == ("é" * 8 if whole_value_seen else None)


def test_a_title_in_the_middle_stands_in_a_column_of_its_own(tmp_path: Path) -> None:
    middle = meta("custom-title", customTitle="Middle")
    write_session(tmp_path, [*chain(user("u1")), *FILLER, middle, *FILLER], session="s1")
    write_session(tmp_path, [*chain(user("u1")), *FILLER, *FILLER, middle], session="s2")
    write_session(tmp_path, [*chain(user("u1")), middle], session="s3")
    ends, whole = list_sessions(tmp_path), list_sessions(tmp_path, scan="whole")
    assert ends["middle_title"].to_list() == [None, None, None]
    assert ends.drop("middle_title").equals(whole.drop("middle_title"))
    assert dict(whole.select("session_id", "middle_title").drop_nulls().iter_rows()) == {uid("s1"): "Middle"}
    with pytest.raises(UsageError, match="'ends' or 'whole'"):
        list_sessions(tmp_path, scan="all")  # type: ignore[arg-type]


# First prompt


@pytest.mark.parametrize(
    ("lines", "prompt"),
    [
        ([user("a", "  one\ntwo\r\nthree ")], "one two\r three"),
        ([user("a", "x" * 200)], "x" * 200),
        ([user("a", "x" * 199 + " y")], "x" * 199 + "…"),
        ([user("a", [text(" "), text("\n"), text("words")])], "words"),
        ([user("a", "<ide_opened_file>a\nb</ide_opened_file>"), user("b", "go")], "go"),
        ([user("a", "<ide_opened_file>a</ide_opened_file> look")], "<ide_opened_file>a</ide_opened_file> look"),
        ([user("a", [text("<ide_selection>a</ide_selection>"), text("explain")])], "explain"),
        ([user("a", "[Request interrupted by user for tool use]"), user("b", "go")], "go"),
        ([user("a", "<tick>1"), user("b", "<goal>2"), user("c", "<session-start-hook>"), user("d", "go")], "go"),
        ([user("a", "<command-name>/clear</command-name>"), user("b", "<command-name>/x</command-name>")], "/clear"),
        ([user("a", "caveat", isMeta=True), compact_summary("b"), tool_result("c", "t"), user("d", "go")], "go"),
        ([user("a", [{"type": "image", "source": {}}]), user("b", "go")], "go"),
        ([user("a", [7, {"type": "text", "text": 7}, {"type": "text"}]), user("b", "go")], "go"),  # type: ignore[list-item]
        ([user("a", message=DROP), user("b", message="x"), user("c", "go")], "go"),
        (['{"type":"user","message":{"content":"torn', user("a", "go")], "go"),
        (['{"type": "user", "isMeta": true, "message": {"content": "no"}}', user("a", "go")], "go"),
        (["[" * 5000 + '"type":"user"', user("a", "go")], "go"),
        ([b'{"type":"user","message":{"content":"caf\xe9"}}\r'], "caf\ufffd"),
        (['{"type":"user","message":{"content":"\\ud83d!"}}'], "\ufffd!"),
    ],
)
def test_the_first_prompt_is_what_somebody_typed(
    tmp_path: Path, lines: Sequence[Line | str | bytes], prompt: str
) -> None:
    filled = [chain(x)[0] if isinstance(x, dict) else x for x in lines]
    assert _shown(tmp_path, *filled).first_prompt == prompt


def test_ux02_a_local_command_is_not_the_first_prompt(tmp_path: Path) -> None:
    caveat = user("a", "Caveat: the messages below …", isMeta=True)
    clear = user("b", "<command-name>/clear</command-name>\n<command-message>clear</command-message>")
    output = user("c", "<local-command-stdout></local-command-stdout>")
    assert _shown(tmp_path, *chain(caveat, clear, output, user("d", "fix the parser"))).first_prompt == "fix the parser"
    assert _shown(tmp_path, *chain(caveat, clear, output)).first_prompt == "/clear"


def test_a_prompt_beyond_the_window_is_not_seen(tmp_path: Path) -> None:
    assert _listed(tmp_path, *FILLER, *chain(user("u1", "late")), *FILLER) is None


# The other columns


def test_branch_directory_and_time_come_from_their_ends(tmp_path: Path) -> None:
    first = chain(user("u1", cwd="/a", gitBranch="old"), user("u2", cwd="/b", gitBranch="mid"))
    last = chain(user("u3", cwd="/c", gitBranch="new"), start=99)
    shown = _shown(tmp_path, *first, *FILLER, *last)
    assert (shown.git_branch, shown.cwd, shown.created_ms) == ("new", "/a", 1_767_323_045_000)
    bare = [{k: v for k, v in line.items() if k != "gitBranch"} for line in FILLER]
    assert _shown(tmp_path, *first, *bare).git_branch == "old"


@pytest.mark.parametrize(
    ("stamp", "created"),
    [
        ("2026-01-02T03:04:05.678Z", 1_767_323_045_678),
        ("2026-01-02T03:04:05.6789Z", 1_767_323_045_678),
        ("2026-01-02T03:04:05+01:00", 1_767_319_445_000),
        ("2026-01-02T03:04:05", 1_767_323_045_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("yesterday", None),
        ("", None),
    ],
)
def test_created_at_is_the_first_timestamp_in_milliseconds(tmp_path: Path, stamp: str, created: int | None) -> None:
    assert _shown(tmp_path, *chain(user("u1", timestamp=stamp))).created_ms == created


@pytest.mark.parametrize(
    ("lines", "tag"),
    [
        (['{"type":"tag","tag":"a"}', '{"type":"tag","tag":"b"}'], "b"),
        (['{"type":"tag","tag":"a"}', '{"type":"tag","tag":""}'], None),
        (['{"type":"tag","tag":"a"}', '{"tag":"b","type":"tag"}', ' {"type":"tag","tag":"c"}'], "a"),
        (['{"type":"tag","tag":"a"}', '{"type": "tag","tag":"b"}', '{"type":"tags","tag":"c"}'], "a"),
        (['{"type":"tool","input":{"tag":"v1"}}'], None),
    ],
)
def test_a_tag_counts_only_on_a_line_that_begins_as_a_tag_line(
    tmp_path: Path, lines: list[str], tag: str | None
) -> None:
    assert _shown(tmp_path, *chain(user("u1")), *lines).tag == tag
    assert _shown(tmp_path, *lines, *chain(user("u1"))).tag == tag


# Which files


def test_only_session_files_directly_in_a_project_folder_are_listed(tmp_path: Path) -> None:
    good = write_session(tmp_path, chain(user("u1")))
    for name in ("notes.jsonl", "agent-a1.jsonl", f"{uid('s2')}.json", f"{uid('s3')}/{uid('s4')}.jsonl"):
        write_lines(good.parent / name, chain(user("u1")))
    write_session(tmp_path, chain(user("u1", isSidechain=True)), session="s5")
    write_session(tmp_path, ['{"type":"user","isSidechain": true,"message":{"content":"x"}}'], session="s6")
    write_session(tmp_path, [], session="s7")
    write_session(tmp_path, chain(assistant("a1")), session="s8")
    assert list_sessions(tmp_path)["session_id"].to_list() == [uid("s1")]


def test_ag09_a_file_that_turns_out_to_be_an_agents_is_marked(tmp_path: Path) -> None:
    mode = meta("mode", mode="normal")
    write_session(tmp_path, [mode, *chain(user("u1"), agent="a5")], session="s1")
    write_session(tmp_path, [mode, *chain(user("u1", teamName="red"), session="s2")], session="s2")
    write_session(tmp_path, chain(user("u1"), session="s3"), session="s3")
    marked = list_sessions(tmp_path, agents=True).select("session_id", "is_agent")
    assert dict(marked.iter_rows()) == {uid("s1"): True, uid("s2"): True, uid("s3"): False}
    assert list_sessions(tmp_path)["session_id"].to_list() == [uid("s3")]


def test_the_newest_file_comes_first_and_counts_for_its_session(tmp_path: Path) -> None:
    for n, (session, project) in enumerate([("s1", "-a"), ("s2", "-a"), ("s3", "-b"), ("s1", "-b")]):
        file = write_session(tmp_path, chain(user("u1", f"n{n}")), session=session, project=project)
        os.utime(file, (0, 1000 + n // 3))
    listed = list_sessions(tmp_path)
    rest = sorted([(uid("s2"), "n1"), (uid("s3"), "n2")])
    assert listed.select("session_id", "summary").rows() == [(uid("s1"), "n3"), *rest]
    assert list_sessions(tmp_path, projects="-a")["summary"].to_list() == ["n0", "n1"] or uid("s2") < uid("s1")


def test_nothing_to_list_is_an_empty_frame_of_the_same_schema(home: Path, tmp_path: Path) -> None:
    for frame in (list_sessions(), list_sessions(tmp_path)):
        assert frame.schema == SESSION_LIST.polars()
        assert frame.is_empty()
    with pytest.raises(NotFoundError):
        list_sessions(tmp_path / "gone")


def test_projects_are_named_by_directory_and_worktree(tmp_path: Path) -> None:
    write_session(
        tmp_path, chain(user("u1"), cwd="/r/app/.claude/worktrees/fix"), project="-r-app--claude-worktrees-fix"
    )
    [row] = list_sessions(tmp_path, projects="/r/app").to_dicts()
    assert (row["project"], row["worktree"], row["project_dir"]) == ("/r/app", "fix", "-r-app--claude-worktrees-fix")


def test_no_more_than_both_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_session(tmp_path, [*chain(user("u1")), *FILLER, *FILLER])
    reads: list[int] = []
    real = open

    class Watched:
        def __init__(self, *args: object, **kw: object) -> None:
            self.file = real(*args, **kw)  # type: ignore[call-overload]

        def __enter__(self) -> Watched:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def read(self, n: int) -> bytes:
            reads.append(n)
            return bytes(self.file.read(n))

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    monkeypatch.setattr(ccanalytics.listing, "open", Watched, raising=False)
    assert read_listing(str(file)) is not None
    assert reads == [END_BYTES, END_BYTES]


# A slow plain version beside the fast one: every occurrence in turn, then the last that is whole.

_PIECES = st.sampled_from(
    ['"tag":"', '"tag": "', '"tag":', '"', "\\", '\\"', "\\\\", "x", "\\n", "é", " ", "\n", '"other":"', "}", ",{"]
)


def _plain_last(words: str, key: str) -> str | None:
    found = None
    for pattern in (f'"{key}":"', f'"{key}": "'):
        at = words.find(pattern)
        while at >= 0:
            start = end = at + len(pattern)
            while end < len(words) and words[end] != '"':
                end += 2 if words[end] == "\\" else 1
            if end < len(words):
                raw = words[start:end]
                try:
                    found = json.loads(f'"{raw}"') if "\\" in raw else raw
                except ValueError:
                    found = raw
            at = words.find(pattern, at + 1)
    return found


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_the_last_value_of_a_key_is_the_plain_readers(words: str) -> None:
    assert ccanalytics.listing._last(words.encode(), b"tag") == _plain_last(words, "tag")
