"""Transcripts written, rotated and removed while they are read: every read is a consistent prefix, nothing raises."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ccanalytics as cc
from tests.build import assistant, chain, dump, uid, usage, user, write_session
from tests.reference_load import good_lines

ROOT = Path(__file__).resolve().parent.parent

WRITER = r"""
import json, os, random, sys, time
folder, kind, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
rng = random.Random(1)
end = time.monotonic() + seconds
n = 0
def line(n, session):
    message = {"id": f"msg_{session}_{n}", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
               "content": [{"type": "text", "text": "x" * rng.choice((10, 900, 70000))}],
               "usage": {"input_tokens": 1, "output_tokens": 2}}
    return json.dumps({"type": "assistant", "uuid": f"{session}-{n}", "sessionId": session, "message": message,
                       "parentUuid": f"{session}-{n-1}" if n else None,
                       "timestamp": "2026-01-02T03:04:05.000Z"}).encode() + b"\n"
while time.monotonic() < end:
    session = f"s{rng.randrange(4)}"
    path = f"{folder}/{session}.jsonl"
    action = rng.random()
    if kind == "mixed" and action < 0.04:
        os.replace(path, path + ".old") if os.path.exists(path) else None
    elif kind == "mixed" and action < 0.08:
        os.remove(path) if os.path.exists(path) else None
    elif kind == "mixed" and action < 0.1 and os.path.exists(path):
        os.truncate(path, rng.randrange(os.path.getsize(path) + 1))
    else:
        with open(path, "ab") as f:
            data = line(n, session)
            cut = rng.randrange(len(data))
            f.write(data[:cut]); f.flush()
            time.sleep(rng.choice((0, 0, 0.001)))
            f.write(data[cut:]); f.flush()
        n += 1
"""


@contextmanager
def writer(folder: Path, kind: str, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """A process that appends in two halves (and rotates, removes, truncates when ``kind`` is mixed)."""
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), kind, str(seconds)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def reads(config: Path, process: subprocess.Popen[bytes], **options: Any) -> Iterator[Any]:
    while process.poll() is None:
        yield cc.load(config, **options)


@pytest.mark.parametrize("cache", [False, True])
def test_each_read_of_growing_files_is_a_prefix(tmp_path: Path, cache: bool, monkeypatch: Any) -> None:
    monkeypatch.setenv("CCANALYTICS_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "config" / "projects" / "-p"
    before: dict[str, list[str]] = {}
    n = 0
    with writer(folder, "append", 3) as process:
        for t in reads(tmp_path / "config", process, cache=cache):
            n += 1
            assert t.read_problems.is_empty()
            now = {
                Path(path).stem: t.entries.filter(t.entries["file_id"] == file_id)["uuid"].to_list()
                for file_id, path in t.files.select("file_id", "path").iter_rows()
            }
            for session, uuids in before.items():
                assert now[session][: len(uuids)] == uuids
            before = now
            assert t.calls["call_id"].is_unique().all()
            assert t.calls["output_tokens"].sum() == 2 * len(t.entries)
    assert n
    last = cc.load(tmp_path / "config", cache=cache)
    for path in last.files["path"]:
        here = last.entries.filter(
            last.entries["file_id"] == last.files.filter(last.files["path"] == path)["file_id"][0]
        )
        assert here["uuid"].to_list() == [line.value["uuid"] for line in good_lines(Path(path).read_bytes())]


@pytest.mark.parametrize("cache", [False, True])
def test_files_rotated_truncated_and_removed_while_read(tmp_path: Path, cache: bool, monkeypatch: Any) -> None:
    monkeypatch.setenv("CCANALYTICS_CACHE_DIR", str(tmp_path / "cache"))
    n = 0
    with writer(tmp_path / "config" / "projects" / "-p", "mixed", 4) as process:
        for t in reads(tmp_path / "config", process, cache=cache):
            n += 1
            assert t.calls["call_id"].is_unique().all()
            t.sessions, t.problems, t.cost(by="session")
            assert set(t.read_problems["code"]) <= {"torn_line", "unreadable_file", "glued_records", "bad_json",
                                                    "record_behind_damage"}  # fmt: skip
    assert n
    fresh = cc.load(tmp_path / "config", cache=False)
    again = cc.load(tmp_path / "config", cache=cache)
    assert again.entries.equals(fresh.entries)


def test_a_file_that_goes_between_finding_and_reading_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    from ccanalytics import load as module

    for name in ("s1", "s2"):
        write_session(tmp_path, chain(user(f"u-{name}")), session=name)
    found = module.__globals__["find_files"]

    def find_and_remove(*args: Any, **options: Any) -> Any:
        files = found(*args, **options)
        Path(files[0].path).unlink()
        return files

    monkeypatch.setitem(module.__globals__, "find_files", find_and_remove)
    t = cc.load(tmp_path)
    assert t.problems["code"].to_list() == ["unreadable_file"]
    assert len(t.entries) == 1


def test_refresh_while_a_writer_appends_counts_nothing_twice(tmp_path: Path) -> None:
    with writer(tmp_path / "projects" / "-p", "append", 3) as process:
        t = cc.load(tmp_path)
        n = 0
        while process.poll() is None:
            t = t.refresh() or t
            n += 1
            assert t.calls["output_tokens"].sum() == 2 * len(t.entries)
            assert t.calls["call_id"].is_unique().all()
    assert n
    t = t.refresh() or t
    assert t.entries.equals(cc.load(tmp_path, cache=False).entries)


LOADER = r"""
import sys, hashlib
import ccanalytics as cc
for _ in range(4):
    t = cc.load(sys.argv[1], cache=True)
    print(len(t.entries), t.calls["output_tokens"].sum())
"""


def test_several_processes_on_one_cache_agree(tmp_path: Path) -> None:
    for i in range(30):
        lines = chain(user(f"u{i}"), *(assistant(f"a{i}-{k}", usage=usage(output=k)) for k in range(20)))
        write_session(tmp_path / "config", lines, session=f"s{i}")
    env = os.environ | {"CCANALYTICS_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOADER, str(tmp_path / "config")]
    running = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
        assert out.decode().split() == ["630", str(30 * 190)] * 4
    assert not list((tmp_path / "cache").rglob("tmp-*"))


def test_a_cache_that_was_tampered_with_is_not_believed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("CCANALYTICS_CACHE_DIR", str(tmp_path / "cache"))
    write_session(tmp_path / "config", chain(user("u1"), assistant("a1", usage=usage(output=7))))
    path = next((tmp_path / "config").rglob("*.jsonl"))
    os.utime(path, (time.time() - 100, time.time() - 100))
    right = cc.load(tmp_path / "config", cache=False).entries
    for damage in (b"", b"\0" * 64, None):
        cc.load(tmp_path / "config", cache=True)
        for file in [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]:
            data = file.read_bytes()
            file.write_bytes(damage if damage is not None else data[: len(data) // 2])
        assert cc.load(tmp_path / "config", cache=True).entries.equals(right)


def test_a_line_that_is_finished_later_is_read_once(tmp_path: Path) -> None:
    first, second = (dump(line) for line in chain(user("u1"), user("u2")))
    path = write_session(tmp_path, [first])
    with path.open("ab") as f:
        f.write(second[:50])
    t = cc.load(tmp_path)
    assert t.entries["uuid"].to_list() == [uid("u1")]
    assert t.files["n_pending_bytes"].to_list() == [50]
    assert t.problems.is_empty()
    with path.open("ab") as f:
        f.write(second[50:] + b"\n")
    t = t.refresh() or t
    assert t.entries["uuid"].to_list() == [uid("u1"), uid("u2")]
