"""Worker processes: the same frames however many there are, and whatever becomes of them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import orjson
import pytest

import ccanalytics as cc
from ccanalytics import _pool, jobs, reading


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some files, cut into many jobs."""
    monkeypatch.setattr(reading, "JOB_BYTES", 20_000)
    monkeypatch.setattr(reading, "SPLIT_BYTES", 30_000)
    folder = tmp_path / "projects" / "-p"
    folder.mkdir(parents=True)
    for n in range(6):
        lines = [
            {"type": "user", "uuid": f"{n}-{i}", "message": {"role": "user", "content": "x" * 80}, "cwd": f"/p{i % 3}"}
            for i in range(400)
        ]
        (folder / f"s{n}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n{torn\n")
    return tmp_path


def assert_as_alone(corpus: Path, workers: int = 3) -> None:
    alone, together = cc.load(corpus, workers=1), cc.load(corpus, workers=workers)
    for name in ("files", "entries", "blocks", "read_problems"):
        assert getattr(together, name).equals(getattr(alone, name))
        assert getattr(together, name).schema == getattr(alone, name).schema


def slow_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process waits a little with each job, so that the others get some."""

    def run_slowly(job: jobs.Job) -> jobs.JobResult:
        time.sleep(0.15)
        return jobs.run_job(job)

    monkeypatch.setattr(_pool, "run_job", run_slowly)


def test_the_number_of_processes_changes_nothing(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down(monkeypatch)
    for workers in (2, 4):
        assert_as_alone(corpus, workers)


def test_a_worker_that_is_killed_gives_its_job_back(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down(monkeypatch)
    started: list[subprocess.Popen[bytes]] = []
    original = _pool._start

    def start() -> subprocess.Popen[bytes]:
        process = original()
        started.append(process)
        threading.Timer(0.4 + 0.3 * len(started), process.kill).start()
        return process

    monkeypatch.setattr(_pool, "_start", start)
    assert_as_alone(corpus)
    assert started
    time.sleep(1.2)


def test_where_no_process_can_be_started_this_one_works_alone(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert_as_alone(corpus)


def test_nothing_is_left_running(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    original = _pool._start

    def start() -> subprocess.Popen[bytes]:
        started.append(original())
        return started[-1]

    monkeypatch.setattr(_pool, "_start", start)
    cc.load(corpus, workers=3)
    assert len(started) == 2
    assert all(p.poll() is not None for p in started)
