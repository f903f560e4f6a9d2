"""Lines with few fields, as relays, exporters and people write them: nothing depends on fields that may be left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.__main__ import main
from tests.build import uid

Line = dict[str, Any]


def _user(name: str, parent: str | None = None, **fields: object) -> Line:
    return {"type": "user", "uuid": name, "parentUuid": parent, "message": {"content": "hello"}, **fields}


def _answer(name: str, parent: str | None = None, **fields: object) -> Line:
    message = {
        "id": f"m-{name}",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "ok"}],
        "usage": {"input_tokens": 1, "output_tokens": 10},
    }
    return {"type": "assistant", "uuid": name, "parentUuid": parent, "message": message, **fields}


def _load(folder: Path, **sessions: list[Line]) -> cc.Transcripts:
    for name, lines in sessions.items():
        path = folder / "projects" / "-w" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps({"sessionId": name, **line}) + "\n" for line in lines))
    return cc.load(folder)


@pytest.mark.parametrize("name", ["s1", uid("s1")])
def test_a_session_with_a_sidechain_inside_is_a_session_without_is_sidechain_on_its_own_lines(
    tmp_path: Path, name: str
) -> None:
    lines = [_user("u1"), _answer("a1", "u1"), _user("x1", isSidechain=True), _answer("x2", "x1", isSidechain=True)]
    t = _load(tmp_path, **{name: lines})
    assert t.files["kind"].to_list() == ["session"]
    assert t.resume(name)["uuid"].to_list() == ["u1", "a1"]
    assert t.agents.select("depth", "own_calls").rows() == [(0, 1), (1, 1)]


@pytest.mark.parametrize("name", ["x9", uid("x9")])
def test_ag08_an_agents_file_of_any_name_is_known_by_the_agent_id_on_its_lines(tmp_path: Path, name: str) -> None:
    lines = [{"type": "mode", "mode": "normal"}, _user("u1", agentId="a9"), _answer("a1", "u1", agentId="a9")]
    t = _load(tmp_path, **{name: lines})
    assert t.files.select("kind", "agent_id").rows() == [("agent", "a9")]
    assert t.calls["agent_id"].to_list() == ["a9"]


def test_de07_a_resumed_files_own_lines_name_its_session_not_the_lines_it_copied(tmp_path: Path) -> None:
    first = [_answer(f"a{i}", timestamp=f"2026-01-02T10:0{i}:00Z", sessionId="f1") for i in range(3)]
    own = [_answer("b1", "a2", timestamp="2026-01-02T12:00:00Z", sessionId="f2")]
    t = _load(tmp_path, f1=first, f2=first + own)
    assert t.files["session_id"].to_list() == ["f1", "f2"]
    assert t.sessions.select("session_id", "calls", "forked_from").rows() == [("f1", 3, None), ("f2", 1, "f1")]
    assert t.sessions["started_at"].dt.hour().to_list() == [10, 12]


def test_a_file_that_was_renamed_is_the_session_its_lines_name(tmp_path: Path) -> None:
    t = _load(tmp_path, backup=[_answer("a1", sessionId="s7")])
    assert t.sessions["session_id"].to_list() == ["s7"]


def test_pa19_the_gap_before_a_missing_parent_is_told_past_lines_without_a_time(tmp_path: Path) -> None:
    thinking = _answer("a1", timestamp="2026-01-02T10:00:00Z")
    snapshot = {"type": "file-history-snapshot", "messageId": "q", "snapshot": {}}
    t = _load(tmp_path, s1=[thinking, snapshot, _user("u2", "ghost", timestamp="2026-01-02T10:05:00Z")])
    missing = t.problems.filter(pl.col("code") == "missing_parent")
    assert missing.select("uuid", "other_uuid", "line_no", "gap_ms").rows() == [("u2", "ghost", 3, 300_000)]


def test_pt03_folders_without_a_directory_on_their_lines_stay_apart_in_a_cost_report(tmp_path: Path) -> None:
    for n, folder in enumerate(["-home-ana-one", "-home-ana-two"]):
        path = tmp_path / "projects" / folder / f"s{n}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(_answer(f"a{n}", sessionId=f"s{n}")) + "\n")
    t = cc.load(tmp_path)
    assert t.sessions["project"].to_list() == [None, None]
    assert t.cost(by="project").select("project", "calls").rows() == [("-home-ana-one", 1), ("-home-ana-two", 1)]


@pytest.mark.parametrize("empty", ["-a", "-z"])
def test_pt08_a_session_in_two_folders_resumes_from_the_one_with_the_conversation(tmp_path: Path, empty: str) -> None:
    files = {empty: [{"type": "mode", "mode": "normal"}], "-m": [_user("u1", cwd="/elsewhere"), _answer("a1", "u1")]}
    for folder, lines in files.items():
        path = tmp_path / "projects" / folder / "s9.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps({"sessionId": "s9", **line}) + "\n" for line in lines))
    t = cc.load(tmp_path)
    assert t.sessions.select("n_files", "n_entries", "project").rows() == [(2, 3, "/elsewhere")]
    assert t.resume("s9")["uuid"].to_list() == ["u1", "a1"]


def test_ux05_a_report_without_a_row_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _load(tmp_path, s1=[_answer("a1", timestamp="2026-01-02T10:00:00Z")])
    assert main(["report", "--config-dir", str(tmp_path), "--since", "2027-01-01", "--no-cache"]) == 0
    shown = capsys.readouterr().out
    assert "no request falls between 2027-01-01 and now; those read are from 2026-01-02 to 2026-01-02" in " ".join(
        shown.split()
    )


def test_ch22_a_copied_line_that_kept_its_sessions_id_is_not_foreign(tmp_path: Path) -> None:
    first = [_user("u1", sessionId="s1"), _answer("a1", "u1", sessionId="s1")]
    stray = [_user("b1", sessionId="s1")]
    t = _load(tmp_path, s1=first, s2=[*first, _user("u2", "a1", sessionId="s2"), *stray])
    foreign = t.problems.filter(pl.col("code") == "foreign_session")
    assert foreign["uuid"].to_list() == ["b1"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x1c"])
def test_se06_a_record_with_a_line_separator_in_its_text_is_masked_like_any_other(
    tmp_path: Path, separator: str
) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    lines = [_user("u1"), {**_user("u2", "u1"), "message": {"content": f"before{separator}{key}{separator}after"}}]
    _load(tmp_path / "in", s1=lines)
    path = tmp_path / "in" / "projects" / "-w" / "s1.jsonl"
    path.write_text("".join(json.dumps({**x, "sessionId": "s1"}, ensure_ascii=False) + "\n" for x in lines))
    cc.redact(tmp_path / "in", tmp_path / "out", keep_text=True)
    written = b"".join(p.read_bytes() for p in (tmp_path / "out").rglob("*.jsonl"))
    assert key.encode() not in written
    assert written.count(b"\n") == 2
    assert cc.load(tmp_path / "out").entries.height == 2
