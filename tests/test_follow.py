"""Refreshing and following: what is appended is read, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import orjson
import pytest

import ccanalytics as cc
from ccanalytics import jobs
from ccanalytics.errors import UsageError


def line(n: int) -> bytes:
    usage = {"input_tokens": 100, "output_tokens": n}
    message = {"id": f"msg_{n}", "role": "assistant", "model": "claude-opus-4-8", "usage": usage, "content": []}
    entry = {"type": "assistant", "uuid": f"u{n}", "message": message, "cwd": "/p", "sessionId": "s"}
    return orjson.dumps(entry | {"timestamp": f"2026-03-01T10:00:{n:02}.000Z"}) + b"\n"


@pytest.fixture
def session(home: Path) -> Path:
    path = home / ".claude" / "projects" / "-p" / "5bc8fbbc-bde5-4099-8164-d8399f767c45.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(map(line, range(10))))
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as f:
        f.write(data)


def test_refresh_reads_what_was_appended(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = cc.load()
    assert t.calls.height == 10
    before, size = t.entries, session.stat().st_size
    pieces: list[jobs.Piece] = []
    original = jobs.read_piece
    monkeypatch.setattr(jobs, "read_piece", lambda piece: (pieces.append(piece), original(piece))[1])
    append(session, line(10))
    assert t.refresh() is t
    assert [(p.path, p.offset) for p in pieces] == [(str(session), size)]
    assert t.calls.height == 11
    assert before.height == 10
    assert t.entries.equals(cc.load().entries)


def test_refresh_keeps_to_what_was_asked_for(session: Path) -> None:
    t = cc.load(projects="/p", content="preview")
    other = session.parent.parent / "-q"
    other.mkdir()
    (other / session.name.replace("45.", "46.")).write_bytes(line(30).replace(b'"/p"', b'"/q"'))
    append(session, line(11))
    t.refresh()
    assert t.entries["uuid"].to_list()[-1] == "u11"
    assert t.files.height == 1
    assert t.entries.equals(cc.load(projects="/p", content="preview").entries)


def test_refresh_sees_new_and_removed_files_and_changed_metas(session: Path) -> None:
    t = cc.load()
    agents = session.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    agent = agents / "agent-a1.jsonl"
    agent.write_bytes(line(20))
    t.refresh()
    assert t.files["kind"].to_list() == ["session", "agent"] or t.files["kind"].to_list() == ["agent", "session"]
    meta = agent.with_suffix(".meta.json")
    for text in ('{"agentType":"a"}', '{"agentType":"b"}'):
        meta.write_text(text)
        t.refresh()
        assert t.files["meta"].drop_nulls().to_list() == [text]
    agent.unlink()
    t.refresh()
    assert t.files.height == 1


def test_transcripts_that_were_not_loaded_cannot_be_refreshed(session: Path) -> None:
    t = cc.load()
    made = cc.Transcripts(t.files, t.entries, t.blocks, t.read_problems)
    with pytest.raises(UsageError, match="load"):
        made.refresh()


def test_follow_yields_when_something_was_written(session: Path) -> None:
    following = cc.follow(interval=0.01)
    assert next(following).entries.height == 10
    timer = threading.Timer(0.1, append, (session, line(10)))
    timer.start()
    try:
        assert next(following).entries.height == 11
    finally:
        timer.join()
        following.close()


@pytest.mark.skipif(os.name != "posix", reason="stopped by a signal")
def test_report_live_shows_what_is_written_and_stops_when_told(session: Path) -> None:
    command = [sys.executable, "-m", "ccanalytics", "report", "--live", "--by", "model", "--format", "csv"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ))
    try:
        assert process.stdout is not None
        first = [process.stdout.readline(), process.stdout.readline()]
        append(session, line(10))
        second = [process.stdout.readline(), process.stdout.readline()]
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert b"claude-opus-4-8" in second[1]
