"""Time spent: spans, and active time in which every gap counts only up to a cap."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

FIVE_MINUTES_MS = 5 * 60_000
THIRTY_MINUTES_MS = 30 * 60_000


def active_ms(
    lines: pl.DataFrame, *, by: Sequence[str], cap_ms: int = FIVE_MINUTES_MS, name: str = "active_ms"
) -> pl.DataFrame:
    """One row per group: the gaps between its lines added up, each counted up to ``cap_ms``; in milliseconds.

    Lines are put in order of their time, so that a clock that steps back adds nothing.
    """
    timed = lines.filter(pl.col("timestamp").is_not_null()).select(*by, "timestamp").sort("timestamp")
    gap = pl.col("timestamp").diff().over(list(by)).dt.total_milliseconds()
    return (
        timed.with_columns(gap_ms=gap.clip(0, cap_ms))
        .group_by(list(by))
        .agg(pl.col("gap_ms").sum().cast(pl.Int64).alias(name))
    )


def longest_gap_ms(lines: pl.DataFrame, *, by: Sequence[str], name: str) -> pl.DataFrame:
    """One row per group: the longest gap between two of its lines, in milliseconds; null for a single line."""
    timed = lines.filter(pl.col("timestamp").is_not_null()).select(*by, "timestamp").sort("timestamp")
    gap = pl.col("timestamp").diff().over(list(by)).dt.total_milliseconds()
    return timed.with_columns(gap_ms=gap).group_by(list(by)).agg(pl.col("gap_ms").max().alias(name))
