"""Appends wait in a queue per file and go to disk in batches, as Claude Code writes its own transcripts."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeAlias

from .files import Sync, append_bytes

WINDOW_MS = 100
MAX_BATCH_BYTES = 100 * 1024 * 1024


class Receipt:
    """What an append returns: done when its lines are on disk.

    Wait for it (``receipt.wait()``) or await it (``await receipt``); both return the receipt, or raise
    ``WriteError`` when the lines could not be written.
    """

    __slots__ = ("_future", "path", "uuids")

    def __init__(self, path: Path, uuids: tuple[str, ...]) -> None:
        self.path = path
        self.uuids = uuids
        self._future: Future[Receipt] = Future()

    @property
    def uuid(self) -> str:
        """The uuid of the last line written; empty for a metadata line, which has none."""
        return self.uuids[-1] if self.uuids else ""

    def done(self) -> bool:
        """True when the lines are on disk, or have failed."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> Receipt:
        """Block until the lines are on disk; ``TimeoutError`` after ``timeout`` seconds."""
        return self._future.result(timeout)

    result = wait

    def __await__(self) -> Generator[object, None, Receipt]:
        import asyncio

        return asyncio.wrap_future(self._future).__await__()


Item: TypeAlias = tuple[bytes, Receipt]


class AppendQueue:
    """Queues of lines by file, drained together ``window_ms`` after the first of them was put.

    One append per batch; a batch ends at ``max_batch_bytes``. The draining thread lives only while something
    is queued, and a queue that is forgotten is still drained; what is queued at exit is written at exit.
    """

    def __init__(
        self, *, window_ms: float = WINDOW_MS, max_batch_bytes: int = MAX_BATCH_BYTES, sync: Sync = "disk"
    ) -> None:
        self._window = window_ms / 1000
        self._max_batch_bytes = max_batch_bytes
        self._sync: Sync = sync
        self._reset()
        _QUEUES.add(self)

    def _reset(self) -> None:
        self._pending: dict[Path, list[Item]] = {}
        self._guard = threading.Lock()
        self._writing = threading.RLock()
        self._is_draining = False

    def put(self, path: Path, lines: bytes, uuids: tuple[str, ...] = ()) -> Receipt:
        """Queue whole lines for a file."""
        receipt = Receipt(path, uuids)
        with self._guard:
            self._pending.setdefault(path, []).append((lines, receipt))
            must_start, self._is_draining = not self._is_draining, True
        if must_start:
            self._start()
        return receipt

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name="ccanalytics-append", daemon=True).start()
        except RuntimeError:
            # The interpreter is shutting down; the flush at exit writes what is queued.
            self._is_draining = False

    def _run(self) -> None:
        while True:
            time.sleep(self._window)
            self.flush()
            with self._guard:
                if not self._pending:
                    self._is_draining = False
                    return

    def flush(self) -> None:
        """Write everything that is queued; returns when it is on disk. Failures are in the receipts."""
        with self._writing:
            with self._guard:
                pending, self._pending = self._pending, {}
            for path, items in pending.items():
                for batch in self._batches(items):
                    self._write(path, batch)

    def _batches(self, items: list[Item]) -> Iterator[list[Item]]:
        batch: list[Item] = []
        size = 0
        for item in items:
            if batch and size + len(item[0]) > self._max_batch_bytes:
                yield batch
                batch, size = [], 0
            batch.append(item)
            size += len(item[0])
        yield batch

    def _write(self, path: Path, batch: list[Item]) -> None:
        try:
            append_bytes(path, b"".join(lines for lines, _ in batch), sync=self._sync)
        except OSError as error:
            for _, receipt in batch:
                receipt._future.set_exception(error)
        else:
            for _, receipt in batch:
                receipt._future.set_result(receipt)


_QUEUES: weakref.WeakSet[AppendQueue] = weakref.WeakSet()


@atexit.register
def _flush_at_exit() -> None:
    for queue in list(_QUEUES):
        queue.flush()


def _forget_in_child() -> None:
    # The parent writes what it had queued; a forked child must not write it a second time.
    for queue in list(_QUEUES):
        queue._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
