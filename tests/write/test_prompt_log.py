"""history.jsonl is appended to under Claude Code's lock."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from ccanalytics.errors import WriteError
from ccanalytics.write import prompt_log
from ccanalytics.write.prompt_log import append_history


def test_a_prompt_is_a_line_as_claude_code_writes_it(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    append_history("hello", project="/home/dev/app", session_id="s1", config_dir=tmp_path, at=moment)
    assert (tmp_path / "history.jsonl").read_bytes() == (
        b'{"display":"hello","pastedContents":{},"timestamp":1767323045678,"project":"/home/dev/app","sessionId":"s1"}\n'
    )
    assert not (tmp_path / "history.jsonl.lock").exists()


def test_a_paste_up_to_1024_characters_stands_in_the_line_and_a_longer_one_in_the_store(tmp_path: Path) -> None:
    short, long = "é" * 1024, "é" * 1025
    entry = append_history("x", project="/p", pasted={1: short, 2: long}, config_dir=tmp_path)
    name = hashlib.sha256(long.encode()).hexdigest()[:16]
    assert entry["pastedContents"] == {
        "1": {"id": 1, "type": "text", "content": short},
        "2": {"id": 2, "type": "text", "contentHash": name},
    }
    stored = tmp_path / "paste-cache" / f"{name}.txt"
    assert stored.read_text(encoding="utf-8") == long
    if os.name == "posix":
        assert stored.stat().st_mode & 0o777 == 0o600


def test_a_held_lock_is_tried_four_times_and_then_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    (tmp_path / "history.jsonl.lock").mkdir()
    with pytest.raises(WriteError, match="locked"):
        append_history("x", project="/p", config_dir=tmp_path)
    assert waits == [0.05, 0.1, 0.2]
    assert not (tmp_path / "history.jsonl").exists()
    assert (tmp_path / "history.jsonl.lock").exists()


def test_a_lock_older_than_ten_seconds_is_taken_over(tmp_path: Path) -> None:
    lock = tmp_path / "history.jsonl.lock"
    lock.mkdir()
    os.utime(lock, (time.time() - 11,) * 2)
    append_history("x", project="/p", config_dir=tmp_path)
    assert not lock.exists()


def test_a_lock_that_was_taken_over_by_another_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with prompt_log.locked(path):
        lock = tmp_path / "history.jsonl.lock"
        lock.rmdir()
        lock.mkdir()
        os.utime(lock, (1, 1))
    assert lock.exists()


def test_many_writers_lose_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_log, "RETRIES", 30)
    monkeypatch.setattr(prompt_log, "FIRST_WAIT_SECONDS", 0.001)

    def write(n: int) -> None:
        for i in range(5):
            append_history(f"{n}-{i}", project="/p", config_dir=tmp_path)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [orjson.loads(x)["display"] for x in (tmp_path / "history.jsonl").read_bytes().splitlines()]
    assert sorted(lines) == sorted(f"{n}-{i}" for n in range(4) for i in range(5))
