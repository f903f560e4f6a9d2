"""A reading for usage alone says the same of files and calls as a whole one."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import ccanalytics as cc
from ccanalytics.calls import build_calls
from ccanalytics.errors import UsageError
from ccanalytics.find import find_files
from ccanalytics.parse import Stretch, parse_stretches
from ccanalytics.reading import read_files
from ccanalytics.sample import sample_path
from ccanalytics.usage_lines import CALL_COLUMNS
from ccanalytics.usage_only import load_usage
from tests.cases import case_dir, case_names


@pytest.mark.parametrize("version", sorted({n.split("/")[0] for n in case_names("zoo")}))
def test_calls_files_and_ids_are_those_of_a_whole_load(version: str) -> None:
    for name in (n for n in case_names("zoo") if n.startswith(version + "/")):
        found = find_files(case_dir("zoo", name))
        whole, lean = read_files(found), read_files(found, content="usage")
        assert lean.files.equals(whole.files), name
        assert build_calls(lean.entries, lean.files).equals(build_calls(whole.entries, whole.files)), name
        used = whole.entries.filter("has_usage").select(CALL_COLUMNS)
        assert lean.entries.filter("has_usage").select(CALL_COLUMNS).equals(used), name
        assert lean.entries.schema == whole.entries.schema


def test_the_sample_costs_the_same() -> None:
    found = find_files(sample_path())
    whole, lean = read_files(found), read_files(found, content="usage")
    assert lean.files.equals(whole.files)
    assert lean.problems.equals(whole.problems)
    assert build_calls(lean.entries, lean.files).equals(build_calls(whole.entries, whole.files))


SPELLINGS = [
    b'{"type":"assistant","message":{"id":"m","usage":{"input_tokens":5}}}',
    b'{"type":"assistant","message":{"id":"m","usage" \t: {"input_tokens" : 5}}}',
    b'{ "message" : { "usage" : { "input_tokens" : 5 } , "id" : "m" } }',
    b'{"message":{"usage":null,"id":"m"}}',
    b'{"message":{"content":"of \\"usage\\": 3","id":"m"}}',
    b'{"type":"user","toolUseResult":{"usage":{"input_tokens":5}}}',
    b'{"type":"progress","data":{"type":"agent_progress","message":{"message":{"usage":{"input_tokens":5}}}}}',
]
DAMAGE = [
    b"",
    b"null",
    b"[1]",
    b"\0\0\0",
    b'{"type":"us',
    b'{"type":"user"}{"type":"user","uuid":"x"}',
    b"{\xff}",
    b'{"a":"\xff"}',
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_usage_is_found_however_it_is_spelled(spelling: bytes) -> None:
    plain = b'{"type":"user","message":{"role":"user","content":"hello"},"cwd":"/p","timestamp":"2026-03-01T00:00:00Z"}'
    data = Stretch(b"\n".join([plain, spelling, plain, b""]))
    whole, lean = parse_stretches([data]), parse_stretches([data], content="usage")
    for name in (
        "row",
        "part",
        "has_usage",
        "has_message",
        "input_tokens",
        "byte_offset",
        "cwd",
        "timestamp",
        "timestamp_text",
    ):
        assert lean.entries[name].equals(whole.entries[name]), name
    assert lean.parts == whole.parts


@pytest.mark.parametrize("bad", DAMAGE)
def test_damaged_lines_are_the_same_problems(bad: bytes) -> None:
    data = Stretch(b"\n".join([SPELLINGS[0], bad, b'{"timestamp":"soon","type":"user"}', SPELLINGS[1]]))
    whole, lean = parse_stretches([data]), parse_stretches([data], content="usage")
    assert lean.problems.sort("line_no", "code").equals(whole.problems.sort("line_no", "code"))
    assert lean.entries["is_rescued"].equals(whole.entries["is_rescued"])
    assert lean.parts == whole.parts


def test_a_report_asks_for_no_more_than_it_has(home: Path) -> None:
    folder = home / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    usage = {"input_tokens": 3, "output_tokens": 4}
    entry = {
        "type": "assistant",
        "uuid": "u",
        "message": {"id": "m", "model": "x", "usage": usage, "role": "assistant"},
    }
    (folder / "s.jsonl").write_bytes(orjson.dumps(entry))
    t = load_usage()
    assert t.calls.equals(cc.load().calls)
    assert t.cost_tables("day") == (t.calls, {}) or t.cost_tables("day")[0].equals(t.calls)
    with pytest.raises(UsageError, match="loaded whole"):
        t.cost_tables("turn")
