"""Calls, tokens and cost of groups of API requests, added up so that the parts give the whole.

Money is added without rounding: a cost is split into whole numbers of three sizes that add up exactly in any order
and any grouping. Only the sum is rounded, once, so that it is the same to the last bit as ``math.fsum`` over the
requests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from .schema.work import AMOUNT_NAMES, TOKEN_NAMES

COUNTS = ("calls", *TOKEN_NAMES, "web_search_requests", "unpriced_calls")
_UNITS = {"cost_whole": 2.0**-24, "cost_fine": 2.0**-52, "cost_finest": 2.0**-80}
"""Sizes of the parts of a cost, in dollars: enough for every cost above 4 nano-dollars, less than one token."""
_SUMMED = (*COUNTS, *_UNITS)


def call_amounts(calls: pl.DataFrame) -> pl.DataFrame:
    """``calls`` with one row per request and the columns that :func:`sum_amounts` adds."""
    frame = calls.with_columns(
        pl.lit(1, dtype=pl.Int64).alias("calls"),
        *(pl.col(name).fill_null(0) for name in (*TOKEN_NAMES, "web_search_requests")),
        pl.col("cost_usd").is_null().cast(pl.Int64).alias("unpriced_calls"),
        pl.col("cost_usd").fill_null(0.0).alias("rest"),
    )
    for name, unit in _UNITS.items():
        frame = frame.with_columns((pl.col("rest") / unit).round().cast(pl.Int64).alias(name))
        frame = frame.with_columns(rest=pl.col("rest") - pl.col(name) * unit)
    return frame.drop("rest")


def sum_amounts(amounts: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """One row per group, with the amounts and the parts of the cost, not yet put together."""
    return amounts.group_by(list(by)).agg(pl.col(*_SUMMED).sum())


def finish_amounts(frame: pl.DataFrame, prefix: str = "") -> pl.DataFrame:
    """Fill what no request touched with zero and put the cost together as ``<prefix>cost_usd``.

    The cost is null where there are requests and the price of none is known.
    """
    frame = frame.with_columns(pl.col(f"{prefix}{name}").fill_null(0) for name in _SUMMED)
    parts = (frame[f"{prefix}{name}"].to_list() for name in _UNITS)
    sums = [math.fsum(n * u for n, u in zip(row, _UNITS.values(), strict=True)) for row in zip(*parts, strict=True)]
    count, unpriced = pl.col(f"{prefix}calls"), pl.col(f"{prefix}unpriced_calls")
    cost = pl.when((count == 0) | (unpriced < count)).then(pl.Series(sums, dtype=pl.Float64))
    return frame.with_columns(cost.alias(f"{prefix}cost_usd")).drop(f"{prefix}{name}" for name in _UNITS)


def prefixed(frame: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """``frame`` with the amounts renamed to ``<prefix><name>``."""
    names = (*AMOUNT_NAMES, *_UNITS)
    return frame.rename({name: f"{prefix}{name}" for name in names if name in frame.columns})
