"""Frames as the page shows them: a few columns, each cell a short text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from ..figures.text import count, shorten, span, usd
from ..markup import plain

ROWS_SHOWN = 100


def table_view(frame: pl.DataFrame, columns: Sequence[str], *, rows: int = ROWS_SHOWN) -> dict[str, Any]:
    """The first rows of some columns as texts, and how many rows there are."""
    have = [c for c in columns if c in frame.columns]
    cells = [
        [cell_text(v, name) for v, name in zip(row, have, strict=True)]
        for row in frame.select(have).head(rows).iter_rows()
    ]
    return {"columns": have, "cells": cells, "total": len(frame)}


def cell_text(value: object, column: str, width: int = 60) -> str:
    """A cell as text: money, numbers and times in their short forms, anything else on one line."""
    if value is None:
        return ""
    if column.endswith("_usd") and isinstance(value, float):
        return usd(value)
    if column.endswith("_ms") and isinstance(value, int):
        return span(value)
    if column.endswith("_tokens") and isinstance(value, int):
        return count(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return shorten(plain(value), width)


def session_choices(sessions: pl.DataFrame, first: Sequence[str] = (), *, most: int = 500) -> list[list[str]]:
    """Ids and labels of sessions to choose from: those in ``first``, then the newest."""
    order = pl.col("session_id").replace_strict(
        {s: i for i, s in enumerate(first)}, default=len(first), return_dtype=pl.Int64
    )
    rows = sessions.with_columns(order.alias("rank")).sort(
        "rank", "started_at", "session_id", descending=[False, True, False], nulls_last=True
    )
    shown = rows.head(most).select("session_id", "title", "started_at")
    return [
        [s, f"{at:%Y-%m-%d} · {shorten(plain(title or s), 70)}" if at else shorten(plain(title or s), 80)]
        for s, title, at in shown.iter_rows()
    ]
