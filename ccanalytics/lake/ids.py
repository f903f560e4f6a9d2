"""Two numberings of the same entries and files: one without gaps, as builders of tables want it, and the lake's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from .layout import entry_id_columns, file_id_columns, in_order

_LINE_KEY = r"^line:(\d+):(.*)$"
_INLINE = r"^inline-(\d+)$"


class Numbering:
    """For each number without gaps the lake's, of entries and of files.

    Both numberings may differ in order: a file that grew has new ids at its end, behind those of all others.
    """

    def __init__(self, entry_ids: npt.NDArray[np.int64], file_ids: npt.NDArray[np.int32]) -> None:
        self.entry_ids, self.file_ids = entry_ids, file_ids
        self.is_same = _is_range(entry_ids) and _is_range(file_ids)

    def to_lake(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """A table with the lake's numbers, in its order."""
        if self.is_same or frame.is_empty():
            return frame
        entries, files = pl.Series(self.entry_ids), pl.Series(self.file_ids)
        frame = frame.with_columns(
            *(entries.gather(frame[c]).alias(c) for c in entry_id_columns(name) if c in frame.columns),
            *(files.gather(frame[c]).alias(c) for c in file_id_columns(name) if c in frame.columns),
        )
        return in_order(name, self._names_to_lake(frame))

    def to_plain(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """A table with the numbers without gaps, in its order."""
        if self.is_same or frame.is_empty():
            return frame
        frame = frame.with_columns(
            *(_places(self.entry_ids, frame[c]) for c in entry_id_columns(name)),
            *(_places(self.file_ids, frame[c]) for c in file_id_columns(name)),
        )
        return in_order(name, frame)

    def plain_entry_ids(self, ids: pl.Series) -> pl.Series:
        """Entry ids without gaps; null for one that is not there."""
        return ids if self.is_same else _places(self.entry_ids, ids)

    def _names_to_lake(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Names made of a number, where a line has no id of its own to be called by."""
        files, entries = pl.Series(self.file_ids), pl.Series(self.entry_ids)
        for column in ("call_id", "advisor_parent"):
            if column in frame.columns:
                frame = frame.with_columns(_renamed(frame[column], _LINE_KEY, "line:{}:{}", files))
        for column in [c for c in frame.columns if c.endswith("agent_id")]:
            frame = frame.with_columns(_renamed(frame[column], _INLINE, "inline-{}", entries))
        return frame


def _renamed(names: pl.Series, pattern: str, shape: str, numbers: pl.Series) -> pl.Series:
    if not names.str.contains(pattern).any():
        return names
    number = names.str.extract(pattern, 1).cast(pl.Int64, strict=False)
    number = number.set(number >= len(numbers), None)
    parts = [numbers.gather(number).cast(pl.String), *([names.str.extract(pattern, 2)] if "{}:{}" in shape else [])]
    made = pl.DataFrame([p.alias(str(i)) for i, p in enumerate(parts)]).select(pl.format(shape, pl.all()))
    return pl.select(pl.coalesce(made.to_series(), names)).to_series().alias(names.name)


def _places(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32], wanted: pl.Series) -> pl.Series:
    order = np.argsort(numbers, kind="stable")
    asked = wanted.fill_null(-1).to_numpy()
    if not len(numbers):
        return pl.Series(wanted.name, [None] * len(wanted), dtype=wanted.dtype)
    at = np.minimum(np.searchsorted(numbers, asked, sorter=order), len(numbers) - 1)
    is_there = numbers[order[at]] == asked
    return pl.Series(wanted.name, order[at]).cast(wanted.dtype).set(pl.Series(~is_there), None)


def _is_range(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> bool:
    return bool((numbers == np.arange(len(numbers))).all())


def numbering_of(files: pl.DataFrame, entries: pl.DataFrame) -> Numbering:
    """The numbering of these files by path, and of entries by file and place in it."""
    by_path = files["file_id"].gather(files["path"].arg_sort())
    rank = pl.DataFrame({"file_id": by_path}).with_row_index("rank")
    placed = entries.select("entry_id", "file_id", "line_no", "byte_offset").join(
        rank, on="file_id", how="left", validate="m:1", maintain_order="left"
    )
    placed = placed.sort("rank", "line_no", "byte_offset", maintain_order=True)
    return Numbering(placed["entry_id"].to_numpy(), by_path.to_numpy())
