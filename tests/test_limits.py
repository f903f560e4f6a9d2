"""Time, memory and open files stay bounded, for large transcripts and for hostile ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ccanalytics as cc
from tests.build import DROP, assistant, chain, dump, progress, tool_result, tool_use, uid, usage, user, write_session

ROOT = Path(__file__).resolve().parent.parent
posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and memory figures are POSIX")


def peak_mb(code: str, *args: str) -> tuple[float, str]:
    """Peak memory of a fresh process that runs ``code``, its workers included, and what it prints."""
    after = (
        "\nimport resource\n"
        "print(max(resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024)"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT), "CCANALYTICS_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code + after, *args], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    *said, peak = done.stdout.strip().split("\n")
    return float(peak), "\n".join(said)


LOAD = "import sys, ccanalytics as cc\nt = cc.load(sys.argv[1], workers=1)\nprint(t.calls['output_tokens'].sum())"


def snapshot_row(n_bytes: int) -> bytes:
    body = {"trackedFileBackups": {f"f{i}.py": {"backup": "x" * 4000} for i in range(n_bytes // 4000)}}
    return dump({"type": "file-history-snapshot", "messageId": "m", "snapshot": body, "isSnapshotUpdate": False})


@posix_only
def test_sc02_a_file_of_snapshots_is_not_held_in_memory(tmp_path: Path) -> None:
    small = chain(user("u1"), assistant("a1", usage=usage(output=7)))
    write_session(tmp_path / "small", small)
    write_session(tmp_path / "large", small)
    row = snapshot_row(2_000_000)
    with (tmp_path / "large" / "projects" / "-home-dev-app" / f"{uid('s2')}.jsonl").open("wb") as f:
        for _ in range(80):
            f.write(row + b"\n")
    before, tokens = peak_mb(LOAD, str(tmp_path / "small"))
    after, tokens_too = peak_mb(LOAD, str(tmp_path / "large"))
    assert tokens == tokens_too == "7"
    assert after - before < 300


def test_sc03_a_large_session_has_the_totals_of_the_same_rows_in_ten_files(tmp_path: Path) -> None:
    lines = [dump(line) for line in chain(*long_chain(4000, text="x" * 9000))]
    write_session(tmp_path / "one", lines)
    for i in range(10):
        write_session(tmp_path / "ten", lines[i::10], session=f"s{i}")
    one, ten = cc.load(tmp_path / "one"), cc.load(tmp_path / "ten")
    assert one.files["size_bytes"].sum() > 32 << 20
    for column in ("input_tokens", "output_tokens", "cost_usd"):
        assert one.calls[column].sum() == pytest.approx(ten.calls[column].sum(), rel=1e-12)
    assert sorted(one.calls["call_id"]) == sorted(ten.calls["call_id"])


def long_chain(n: int, *, text: str = "x") -> Iterator[dict[str, Any]]:
    for i in range(n // 2):
        yield user(f"u{i}", text)
        yield assistant(f"a{i}", text, usage=usage(output=i))


def with_progress(n: int) -> list[dict[str, Any]]:
    """Nine in ten rows report on a running call, as old versions wrote them into the chain."""
    lines = []
    for i in range(n // 10):
        lines += [tool_use(f"a{i}", "Bash", {"command": "x"}, call=f"c{i}")]
        lines += [progress(f"p{i}-{k}", "bash_progress", {"output": "x"}, call=f"c{i}") for k in range(8)]
        lines += [tool_result(f"r{i}", f"c{i}")]
    return chain(user("u"), *lines)


def everything(config: Path) -> None:
    t = cc.load(config)
    assert all(len(f.columns) for f in (t.problems, t.sessions, t.turns, t.compactions, t.ledger))
    t.cost(by="day")
    t.resume(uid("s1"))
    t.resume(uid("s1"), rules="2.1.88")


def spent(work: Callable[[], object]) -> float:
    """Processor time of the quicker of two runs."""
    times = []
    for _ in range(2):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def test_sc04_twice_the_progress_rows_take_twice_the_time(tmp_path: Path) -> None:
    for n in (5_000, 10_000):
        write_session(tmp_path / str(n), with_progress(n))
    everything(tmp_path / "5000")
    assert spent(lambda: everything(tmp_path / "10000")) < 2.6 * spent(lambda: everything(tmp_path / "5000")) + 0.2


ROW = (
    '{"parentUuid":%s,"isSidechain":false,"type":"%s","message":{"role":"%s","content":[{"type":"text","text":"x"}]},"uuid":"%s",'
    '"timestamp":"2026-01-02T03:04:05.000Z","sessionId":"'
    + uid("s1")
    + '","version":"2.1.332","cwd":"/home/dev/app"}\n'
)


def write_rows(config: Path, n: int, *, is_broken: bool) -> Path:
    """``n`` rows in one chain, or each with a parent that is nowhere."""
    path = config / "projects" / "-home-dev-app" / f"{uid('s1')}.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="ascii") as f:
        for i in range(n):
            name, last = f"{i:08d}-0000-4000-8000-000000000000", f"{i - 1:08d}-0000-4000-8000-000000000000"
            parent = f'"gone-{i}"' if is_broken else f'"{last}"' if i else "null"
            kind = "assistant" if i % 2 else "user"
            f.write(ROW % (parent, kind, kind, name))
    return config


@pytest.mark.parametrize("is_broken", [False, True], ids=["one chain", "segments of one row"])
def test_sc05_long_chains_and_many_segments_need_no_recursion(is_broken: bool, tmp_path: Path) -> None:
    n = 200_000
    t = cc.load(write_rows(tmp_path, n, is_broken=is_broken))
    started = time.process_time()
    assert len(t.chains) == n
    for rules in ("2.1.332", "2.1.88"):
        assert 0 < len(t.resume(uid("s1"), rules=rules)) <= n + 2
    t.history(uid("s1"))
    assert time.process_time() - started < 60


# Hostile folders


def test_five_thousand_files_of_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p"
    folder.mkdir(parents=True)
    for i in range(5000):
        (folder / f"s{i}.jsonl").write_bytes(b'{"type":"user","uuid":"u%d","sessionId":"s%d"}\n' % (i, i))
    started = time.process_time()
    t = cc.load(tmp_path)
    assert (len(t.files), len(t.entries)) == (5000, 5000)
    assert time.process_time() - started < 20


@posix_only
def test_files_are_open_one_at_a_time(tmp_path: Path) -> None:
    import resource

    folder = tmp_path / "projects" / "-p"
    folder.mkdir(parents=True)
    for i in range(400):
        (folder / f"s{i}.jsonl").write_bytes(b'{"type":"user"}\n')
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 40, hard))  # noqa: PTH208
    try:
        assert len(cc.load(tmp_path).entries) == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_deep_tree_of_folders_is_left_at_a_bound(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p"
    for _ in range(200):
        folder = folder / "d"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_bytes(b'{"type":"user"}\n')
    (tmp_path / "projects" / "-p" / "s.jsonl").write_bytes(b'{"type":"user"}\n')
    assert len(cc.load(tmp_path).entries) == 1


@posix_only
def test_links_in_a_circle_end(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_bytes(b'{"type":"user"}\n')
    (folder / "up").symlink_to(tmp_path / "projects")
    (folder / "self").symlink_to(folder / "self")
    (folder / "self.jsonl").symlink_to(folder / "self.jsonl")
    (folder / "gone.jsonl").symlink_to(folder / "nothing.jsonl")
    (tmp_path / "projects" / "again").symlink_to(folder)
    assert len(cc.load(tmp_path).entries) == 1


@posix_only
@pytest.mark.parametrize("kind", ["fifo", "folder", "no access"])
def test_what_is_no_readable_file_does_not_stop_the_rest(kind: str, tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1")))
    odd = tmp_path / "projects" / "-home-dev-app" / "odd.jsonl"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    else:
        odd.write_bytes(b'{"type":"user"}\n')
        odd.chmod(0)
    t = cc.load(tmp_path)
    assert uid("u1") in t.entries["uuid"].to_list()


@pytest.mark.parametrize("packed", [b"", b"\x1f\x8b", b"\x1f\x8b\x08\x00" + b"\0" * 30, b"no archive"])
def test_damaged_archives_are_named(packed: bytes, tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1")))
    (tmp_path / "projects" / "-home-dev-app" / "x.jsonl.gz").write_bytes(packed)
    t = cc.load(tmp_path)
    assert uid("u1") in t.entries["uuid"].to_list()
    assert set(t.problems["code"]) <= {"unreadable_file"}


@posix_only
def test_an_archive_that_unpacks_beyond_measure_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    import gzip

    from ccanalytics import jobs

    monkeypatch.setattr(jobs, "MAX_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "projects" / "-p" / "s.jsonl.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b" " * (3 << 20)))
    assert cc.load(tmp_path).problems["code"].to_list() == ["unreadable_file"]


def test_one_very_long_line_is_read(tmp_path: Path) -> None:
    long = dump(chain(user("u1", "x" * (40 << 20)))[0])
    write_session(tmp_path, [long, *map(dump, chain(user("u2"), parent="u1"))])
    t = cc.load(tmp_path)
    assert t.entries["n_chars"].to_list() == [40 << 20, 5]


# Ctrl-C


@posix_only
def test_ux05_interrupt_stops_workers_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    lines = [dump(line) for line in chain(*long_chain(200, text="x" * 20_000))]
    for i in range(40):
        write_session(tmp_path / "config", lines, session=f"s{i}")
    env = os.environ | {
        "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp"), "CCANALYTICS_CACHE_DIR": str(tmp_path / "cache"),
        "CCANALYTICS_CACHE": "1",
    }  # fmt: skip
    (tmp_path / "tmp").mkdir()
    code = (
        "import sys, ccanalytics as cc\n"
        "def tell(done, total): print(done, flush=True)\n"
        "cc.load(sys.argv[1], workers=3, progress=tell)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "config")],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    children = children_of(process.pid)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 20
    assert process.returncode in (0, -signal.SIGINT, 130) or b"KeyboardInterrupt" in err
    for _ in range(100):
        if not any(Path(f"/proc/{child}").exists() for child in children):
            break
        time.sleep(0.1)
    else:
        pytest.fail("a worker lives on")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not list((tmp_path / "cache").rglob("tmp-*"))


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat") if Path("/proc").exists() else ():
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


# UX05: an error is seen, an empty result says why


def test_ux05_one_unreadable_file_is_shown_beside_the_others(tmp_path: Path, capfd: Any) -> None:
    from ccanalytics.__main__ import main

    write_session(tmp_path, chain(user("u1"), assistant("a1", usage=usage(output=7))))
    (tmp_path / "projects" / "-home-dev-app" / "x.jsonl.gz").write_bytes(b"no archive")
    assert main(["report", "--format", "json", "--config-dir", str(tmp_path)]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["totals"]["output_tokens"] == 7
    assert report["problems"] == {"unreadable_file": 1}
    main(["report", "--config-dir", str(tmp_path)])
    assert "could not be read" in capfd.readouterr().out


def test_ux05_nothing_to_show_says_why(tmp_path: Path, capfd: Any) -> None:
    from ccanalytics.__main__ import main

    assert main(["report", "--format", "json", "--config-dir", str(tmp_path)]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["rows"] == []
    assert "no transcripts were found" in err
    write_session(tmp_path, chain(user("u1", timestamp=DROP)))
    assert main(["table", "calls", "--config-dir", str(tmp_path), "--project", "/no/such/place"]) == 0
    assert "no calls to show" in capfd.readouterr().err
