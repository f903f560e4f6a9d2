"""Jobs over worker processes: this process works too, workers join as soon as they have started.

Workers are fresh interpreters, not forks: polars and a notebook's kernel have threads, which a fork would not survive.
A worker that dies gives its job back.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import polars as pl

from ._worker import decode_reply, read_message, write_message
from .jobs import Job, JobResult, run_job

Progress = Callable[[int, int], None]
_BOOT = "import sys; sys.path[:0] = [{root!r}]; from ccanalytics._worker import main; main()"


def run_jobs(jobs: Sequence[Job], *, workers: int, progress: Progress | None = None) -> list[JobResult]:
    """The result of every job, in their order.

    Parameters
    ----------
    jobs
        What is to be parsed.
    workers : int
        Processes at work, this one included; 1 starts none.
    progress
        Called with how many jobs are done and how many there are.
    """
    results: list[JobResult | None] = [None] * len(jobs)
    queue = deque(range(len(jobs)))
    helpers = [_Helper(jobs, results, queue) for _ in range(min(workers, len(jobs)) - 1)]
    try:
        while True:
            try:
                i = queue.popleft()
            except IndexError:
                # A helper that has only just started holds no job, and is not waited for.
                if queue or any(h.is_busy for h in helpers):
                    time.sleep(0.002)
                    continue
                break
            results[i] = run_job(jobs[i])
            if progress is not None:
                progress(sum(r is not None for r in results), len(jobs))
    finally:
        for h in helpers:
            h.stop()
    return [r if r is not None else run_job(jobs[i]) for i, r in enumerate(results)]


class _Helper:
    """One worker process and the thread that feeds it."""

    def __init__(self, jobs: Sequence[Job], results: list[JobResult | None], queue: deque[int]) -> None:
        self.is_busy = False
        self._jobs, self._results, self._queue = jobs, results, queue
        self._thread = threading.Thread(target=self._serve, daemon=True, name="ccanalytics-worker")
        self._process: subprocess.Popen[bytes] | None = None
        # Where no process can be started this one does all the work.
        with suppress(OSError):
            self._process = _start()
            self._thread.start()

    def _serve(self) -> None:
        at: int | None = None
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # The first message says that it has started; a job given out before would lie there unread.
            is_up = read_message(process.stdout) is not None  # type: ignore[arg-type]
            while is_up and self._queue:
                self.is_busy = True
                at = self._queue.popleft()
                write_message(process.stdin, msgspec.msgpack.encode(self._jobs[at]))  # type: ignore[arg-type]
                process.stdin.flush()
                reply = read_message(process.stdout)  # type: ignore[arg-type]
                if reply is None:
                    break
                self._results[at] = decode_reply(reply)
                at = None
        except (OSError, ValueError, IndexError, msgspec.MsgspecError, pl.exceptions.PolarsError):
            # The process went away, or there is nothing left to do; its job goes back and this process does the rest.
            pass
        finally:
            if at is not None:
                self._queue.appendleft(at)
            self.is_busy = False

    def stop(self) -> None:
        """End the process at once; it holds nothing that needs to be saved."""
        process = self._process
        if process is not None:
            process.kill()
            self._thread.join(5)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None and not pipe.closed:
                    _close(pipe)


def _close(pipe: object) -> None:
    try:
        pipe.close()  # type: ignore[attr-defined]
    except OSError:
        return


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parent.parent)
    # One core each: polars would otherwise start as many threads as there are cores in every worker.
    env = os.environ | {"POLARS_MAX_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT.format(root=root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        start_new_session=os.name == "posix",
    )
