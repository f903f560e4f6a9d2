"""A process that is killed while it writes loses nothing that was acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import orjson

from ccanalytics.load import load

KILLS = 100
AT_ONCE = 10


def test_kill_at_random_moments_keeps_every_acknowledged_entry(tmp_path: Path) -> None:
    random_source = random.Random(8)
    n_acknowledged = 0
    for round_no in range(KILLS // AT_ONCE):
        homes = [tmp_path / f"{round_no}-{i}" for i in range(AT_ONCE)]
        processes = [_start(home, random_source.choice([0, 1, 3, 10])) for home in homes]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process in processes:
            time.sleep(random_source.uniform(0, 0.02))
            process.kill()
        for home, process in zip(homes, processes, strict=True):
            n_acknowledged += _check(home, process)
        _load(homes)
    assert n_acknowledged > KILLS


def _start(home: Path, window_ms: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.write.writing_process", str(home), str(window_ms)]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root)


def _check(home: Path, process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    *acknowledged, _cut = process.stdout.read().split(b"\n")
    process.stdout.close()
    process.wait()
    written, torn = _read(home)
    assert {a.decode() for a in acknowledged} <= written
    # Only the end of a file can be torn, and only by the batch that was under way.
    assert all(is_last for is_last in torn)
    return len(acknowledged)


def _load(homes: list[Path]) -> None:
    """The files load, and a torn end is waited for, not complained of."""
    t = load([home for home in homes if (home / "projects").exists()], cache=False, workers=1)
    assert t.problems.is_empty()
    assert set(t.entries["uuid"]) == set().union(*(_read(home)[0] for home in homes))


def _read(home: Path) -> tuple[set[str], list[bool]]:
    written, torn = set[str](), list[bool]()
    for path in home.rglob("*.jsonl"):
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines):
            try:
                written.add(orjson.loads(line)["uuid"])
            except orjson.JSONDecodeError:
                torn.append(number == len(lines) - 1)
    return written, torn
