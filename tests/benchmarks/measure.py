"""Run a command and say what it took: wall time, CPU of the whole process tree, peak memory."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Run:
    """What one run took, and what it wrote to standard output."""

    wall: float
    cpu: float
    peak_mb: float
    output: str


class RunError(Exception):
    """A command ended with an error; the message is its last line."""


def run(command: Sequence[str], env: Mapping[str, str], *, memory: bool = False) -> Run:
    """Run ``command``; with ``memory`` also sample the memory of its process tree, which costs time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        sampler = Sampler(process.pid) if memory else None
        code = process.wait()
        wall = time.perf_counter() - begun
        peak = sampler.stop() if sampler else 0.0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        err.seek(0)
        out.seek(0)
        if code:
            raise RunError((err.read().decode(errors="replace").strip().splitlines() or [f"exit code {code}"])[-1])
        text = out.read().decode(errors="replace")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Run(wall, cpu, peak, text)


class Sampler(threading.Thread):
    """Memory of a process and all its descendants, shared pages counted once, sampled until stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.done = pid, 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.done.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, sum(proportional_mb(pid) for pid in family(self.pid)))

    def stop(self) -> float:
        """The highest sum seen, in megabytes."""
        self.done.set()
        self.join()
        return self.peak


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for parent in found:
        children = Path(f"/proc/{parent}/task/{parent}/children")
        try:
            found += map(int, children.read_text().split())
        except OSError:
            continue
    return found


def proportional_mb(pid: int) -> float:
    """The proportional set size of a process; 0 once it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:")), 0.0)
