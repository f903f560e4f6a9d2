"""Display that does not change from run to run or from machine to machine."""

from __future__ import annotations

import re
from types import TracebackType
from typing import overload

import polars as pl

_VOLATILE = re.compile(r"(^|_)(uuid|id|ids|path|cwd|root|slug|session|agent)$")
_NAMES = {"cwd": "folder", "root": "folder", "uuid": "entry"}


@overload
def stable() -> StableDisplay: ...
@overload
def stable(frame: pl.DataFrame) -> pl.DataFrame: ...
def stable(frame: pl.DataFrame | None = None) -> StableDisplay | pl.DataFrame:
    """Stable output: without an argument the display settings, with a frame that frame without volatile ids.

    ``cc.stable()`` fixes how frames are shown (width, rows, columns, lengths of texts, figures of numbers), for the
    rest of the program or within ``with cc.stable():``.

    ``cc.stable(frame)`` returns the frame with every id and path in a text column replaced by a name that only
    depends on the order of appearance (``session 1``, ``agent 2`` …), and its rows in the order given.

    >>> import ccanalytics as cc, polars as pl
    >>> cc.stable(pl.DataFrame({"session_id": ["x9", "x9", "a4"], "calls": [1, 2, 3]}))["session_id"].to_list()
    ['session 1', 'session 1', 'session 2']
    """
    if frame is None:
        return StableDisplay()
    return frame.with_columns(_renamed(frame[c]) for c in frame.columns if _is_volatile(frame[c]))


def _is_volatile(column: pl.Series) -> bool:
    return column.dtype == pl.String and _VOLATILE.search(column.name) is not None


def _renamed(column: pl.Series) -> pl.Series:
    stem = re.sub(r"_(uuid|id|path)$", "", column.name)
    known = column.drop_nulls().unique(maintain_order=True)
    names = [f"{_NAMES.get(stem, stem)} {i}" for i in range(1, len(known) + 1)]
    return column.replace_strict(known, pl.Series(names, dtype=pl.String), default=None, return_dtype=pl.String)


class StableDisplay:
    """Display settings in force; ``with`` puts back what was there before."""

    def __init__(self) -> None:
        self._before = pl.Config.save()
        pl.Config.set_tbl_width_chars(120)
        pl.Config.set_tbl_rows(30)
        pl.Config.set_tbl_cols(12)
        pl.Config.set_fmt_str_lengths(40)
        pl.Config.set_float_precision(4)
        pl.Config.set_thousands_separator(False)
        pl.Config.set_tbl_formatting("UTF8_FULL_CONDENSED")
        pl.Config.set_tbl_cell_numeric_alignment("RIGHT")

    def __enter__(self) -> StableDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pl.Config.load(self._before)

    def __repr__(self) -> str:
        return "stable display"

    def _ipython_display_(self) -> None:
        """Nothing: as the last line of a cell it would only be noise."""
