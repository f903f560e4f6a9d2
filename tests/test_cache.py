"""The cache: never another answer than a cold read, whatever becomes of the files or of the cache."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ccanalytics as cc
from ccanalytics import jobs
from ccanalytics.cache import cache_dir
from ccanalytics.parse import Content

SESSION = "5bc8fbbc-bde5-4099-8164-d8399f767c4"


def line(n: int, *, tokens: int = 7, pad: str = "") -> bytes:
    usage = {"input_tokens": tokens, "output_tokens": n, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {"id": f"msg_{n}", "role": "assistant", "model": "claude-opus-4-8", "usage": usage}
    message["content"] = [{"type": "text", "text": pad or "words"}]
    entry = {
        "type": "assistant",
        "uuid": f"u{n}",
        "parentUuid": None,
        "message": message,
        "cwd": "/p",
        "sessionId": "s",
    }
    return orjson.dumps(entry | {"timestamp": f"2026-03-01T10:{n % 60:02}:00.000Z"}) + b"\n"


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CCANALYTICS_CACHE", "1")
    project = home / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    return project


def session(folder: Path, n: int) -> Path:
    return folder / f"{SESSION}{n}.jsonl"


def make_old(path: Path, seconds: float = 100) -> None:
    """Times long past, so that the clock is no reason to doubt them."""
    at = time.time() - seconds
    os.utime(path, (at, at))


def assert_same(a: cc.Transcripts, b: cc.Transcripts) -> None:
    for name in ("files", "entries", "blocks", "read_problems"):
        left, right = getattr(a, name), getattr(b, name)
        assert left.schema == right.schema
        assert left.equals(right), name


def assert_as_cold() -> cc.Transcripts:
    warm = cc.load()
    assert_same(warm, cc.load(cache=False))
    return warm


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the files had been written long ago."""
    monkeypatch.setattr("ccanalytics.shelf.RACY_NS", -(10**15))


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[jobs.Piece]:
    read: list[jobs.Piece] = []
    original = jobs.read_piece

    def counting(piece: jobs.Piece) -> bytes:
        read.append(piece)
        return original(piece)

    monkeypatch.setattr(jobs, "read_piece", counting)
    return read


def test_unchanged_files_are_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    for n in range(3):
        session(folder, n).write_bytes(line(n) + b"not json\n" + line(n + 10))
    first = cc.load()
    read = count_reads(monkeypatch)
    second = cc.load()
    assert not read
    assert_same(first, second)
    assert second.raw(1)[0]["uuid"] == "u10"


def test_a_grown_file_is_read_from_where_it_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    path = session(folder, 0)
    path.write_bytes(b"".join(map(line, range(20))) + line(20)[:30])
    cc.load()
    ended = path.read_bytes().rindex(b"\n") + 1
    with path.open("ab") as f:
        f.write(line(20)[30:] + line(21))
    read = count_reads(monkeypatch)
    t = cc.load()
    assert [p.offset for p in read] == [ended]
    assert t.entries["uuid"].to_list() == [f"u{n}" for n in range(22)]
    assert_as_cold()


def test_pa14_a_torn_last_line_counts_once_it_is_whole(folder: Path) -> None:
    path = session(folder, 0)
    path.write_bytes(line(1, tokens=900) + line(2, tokens=4100)[:60])
    t = assert_as_cold()
    assert t.calls["input_tokens"].sum() == 900
    assert t.files["n_pending_bytes"].to_list() == [60]
    path.write_bytes(line(1, tokens=900) + line(2, tokens=4100))
    assert assert_as_cold().calls["input_tokens"].sum() == 5000


def test_pa15_a_rewrite_of_equal_size_and_time_is_noticed(folder: Path) -> None:
    path = session(folder, 0)
    path.write_bytes(line(1, tokens=111))
    make_old(path)
    before = path.stat()
    assert assert_as_cold().calls["input_tokens"].sum() == 111
    path.write_bytes(line(1, tokens=222))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert assert_as_cold().calls["input_tokens"].sum() == 222


def test_pa15_a_larger_session_in_the_same_place_is_noticed(folder: Path) -> None:
    path = session(folder, 0)
    path.write_bytes(line(1, tokens=111) + line(2))
    assert_as_cold()
    path.write_bytes(line(3, tokens=5) + line(4) + line(5) + line(6))
    assert assert_as_cold().entries["uuid"].to_list() == ["u3", "u4", "u5", "u6"]


def test_a_replaced_and_a_removed_file_are_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    for n in range(3):
        session(folder, n).write_bytes(line(n))
    assert_as_cold()
    other = folder / "other"
    other.write_bytes(line(9))
    other.replace(session(folder, 1))
    session(folder, 0).unlink()
    assert assert_as_cold().entries["uuid"].to_list() == ["u9", "u2"]


@pytest.mark.parametrize("content", ["none", "preview", "full"])
def test_every_kind_of_content_is_kept_apart(folder: Path, monkeypatch: pytest.MonkeyPatch, content: Content) -> None:
    settle(monkeypatch)
    session(folder, 0).write_bytes(line(1, pad="é" * 300))
    cc.load()
    for _ in range(2):
        assert_same(cc.load(content=content), cc.load(content=content, cache=False))


def test_the_switch_is_off_when_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(folder, 0).write_bytes(line(1))
    cc.load(cache=False)
    monkeypatch.setenv("CCANALYTICS_CACHE", "0")
    cc.load()
    assert not cache_dir().exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_only_the_owner_may_look(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    session(folder, 0).write_bytes(line(1))
    cc.load(content="full")
    made = [cache_dir(), *cache_dir().rglob("*")]
    assert len(made) > 5
    assert not [p for p in made if p.stat().st_mode & 0o077]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "garbage", "gone"])
def test_a_damaged_cache_is_never_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    settle(monkeypatch)
    for n in range(4):
        session(folder, n).write_bytes(line(n) + line(n + 10))
    cc.load()
    rng = random.Random(damage)
    for name in ("entries.arrow", "blocks.arrow", "problems.arrow", "index", "shelves", "lock"):
        path = next(cache_dir().rglob(name))
        whole = path.read_bytes()
        at = rng.randrange(max(1, len(whole)))
        bad = {
            "flip": whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] if whole else b"",
            "cut": whole[:at],
            "empty": b"",
            "garbage": rng.randbytes(len(whole)),
        }
        path.unlink()
        if damage != "gone":
            path.write_bytes(bad[damage])
        assert_as_cold()
    assert_as_cold()


def test_the_cache_stays_within_its_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    monkeypatch.setenv("CCANALYTICS_CACHE_MB", "0.1")
    for n in range(6):
        place = folder.parent / f"-q{n}"
        place.mkdir()
        session(place, n).write_bytes(b"".join(map(line, range(100))))
        cc.load(session(place, n))
    assert sum(p.stat().st_size for p in cache_dir().rglob("*")) < 300_000


def test_shelves_are_put_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    for n in range(9):
        session(folder, n).write_bytes(line(n) * 3)
    for n in range(9):
        with session(folder, n).open("ab") as f:
            f.write(line(n + 20))
        assert_as_cold()
    assert len(list(cache_dir().rglob("shelf-*"))) <= 9


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "tear", "cut", "rewrite", "replace", "touch", "remove", "back"]),
        st.integers(0, 2),
        st.integers(0, 400),
    ),
    max_size=6,
)


@given(EDITS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_growth_cuts_and_rewrites_read_as_cold(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, int, int]]
) -> None:
    for old in folder.iterdir():
        old.unlink()
    for n in range(3):
        session(folder, n).write_bytes(line(n) + line(n + 10, pad="x" * 50))
    live = cc.load()
    for kind, n, k in edits:
        edit(session(folder, n), kind, k)
        assert_same(assert_as_cold(), live.refresh())


def edit(path: Path, kind: str, k: int) -> None:
    data = path.read_bytes() if path.exists() else b""
    stat = path.stat() if path.exists() else None
    if kind == "append":
        with path.open("ab") as f:
            f.write(line(k) + (line(k + 1) if k % 2 else b"null\n"))
    elif kind == "tear":
        path.write_bytes(data + line(k)[: k % 90])
    elif kind == "cut":
        path.write_bytes(data[: k % (len(data) + 1)])
    elif kind == "rewrite":
        at = k % (len(data) + 1)
        path.write_bytes(data[:at] + b"7" + data[at + 1 :])
        if stat is not None:
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    elif kind == "replace":
        other = path.with_name("other")
        other.write_bytes(line(k) + line(k + 1) + line(k + 2))
        other.replace(path)
    elif kind == "touch" and stat is not None:
        os.utime(path, (k, k))
    elif kind == "remove":
        path.unlink(missing_ok=True)
    elif kind == "back":
        path.write_bytes(data + line(k))
        path.write_bytes(data)


LOADS = """
import ccanalytics as cc, shutil
from ccanalytics import shelf
from ccanalytics.cache import cache_dir
shelf.RACY_NS = -10**15
print("ready", flush=True)
while True:
    shutil.rmtree(cache_dir(), ignore_errors=True)
    t = cc.load(cache=True)
    assert t.entries.height == 400, t.entries.height
"""


def test_killed_in_the_middle_of_writing_and_two_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    for n in range(8):
        session(folder, n).write_bytes(b"".join(map(line, range(50))))
    rng = random.Random(7)
    for _ in range(3):
        both = [subprocess.Popen([sys.executable, "-c", LOADS], stdout=subprocess.PIPE) for _ in range(2)]
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process in both:
            time.sleep(rng.uniform(0.01, 0.2))
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        assert_as_cold()
