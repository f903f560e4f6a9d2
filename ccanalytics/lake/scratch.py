"""Frames put aside while an export runs: on disk when there are too many for memory."""

from __future__ import annotations

from pathlib import Path

import polars as pl


class Scratch:
    """Frames by number; ``folder`` is made when the first one goes to disk."""

    def __init__(self, folder: Path, *, on_disk: bool) -> None:
        self._folder, self._on_disk = folder, on_disk
        self._held: dict[int, pl.DataFrame] = {}
        self._next = 0

    def put(self, frame: pl.DataFrame) -> int:
        """Put a frame aside; its number."""
        number, self._next = self._next, self._next + 1
        if self._on_disk:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            frame.write_ipc_stream(self._folder / f"{number}.arrow")
        else:
            self._held[number] = frame
        return number

    def get(self, number: int) -> pl.DataFrame:
        """The frame of that number."""
        if number in self._held:
            return self._held[number]
        return pl.read_ipc_stream(self._folder / f"{number}.arrow")

    def drop(self, number: int) -> None:
        """Forget a frame."""
        if self._held.pop(number, None) is None:
            (self._folder / f"{number}.arrow").unlink(missing_ok=True)
