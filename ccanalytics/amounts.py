"""Calls, tokens and cost of groups of API requests, added up so that the parts give the whole.

Money is added in whole pico-dollars: every price is a whole number of them per token, so that a sum does not depend
on the order, and the sums of groups add up to the sum of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from .schema.work import AMOUNT_NAMES, TOKEN_NAMES

PICO = 1_000_000_000_000
_COUNTS = ("calls", *TOKEN_NAMES, "web_search_requests", "unpriced_calls")


def pico_usd(cost: pl.Expr) -> pl.Expr:
    """A cost in dollars as a whole number of pico-dollars."""
    return (cost * PICO).round().cast(pl.Int64)


def call_amounts(calls: pl.DataFrame) -> pl.DataFrame:
    """``calls`` with one row per request and the columns that :func:`sum_amounts` adds, money in pico-dollars."""
    return calls.with_columns(
        pl.lit(1, dtype=pl.Int64).alias("calls"),
        *(pl.col(name).fill_null(0) for name in (*TOKEN_NAMES, "web_search_requests")),
        pl.col("cost_usd").is_null().cast(pl.Int64).alias("unpriced_calls"),
        pico_usd(pl.col("cost_usd")).fill_null(0).alias("pico"),
    )


def sum_amounts(amounts: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """One row per group, with the amounts and ``pico``, not yet in dollars."""
    return amounts.group_by(list(by)).agg(pl.col(*_COUNTS, "pico").sum())


def finish_amounts(frame: pl.DataFrame, prefix: str = "", *, source: str | None = None) -> pl.DataFrame:
    """Fill what no request touched with zero and turn pico-dollars into ``<prefix>cost_usd``.

    The cost is null where there are requests and the price of none is known.
    """
    source = prefix if source is None else source
    count = pl.col(f"{source}calls").fill_null(0)
    unpriced = pl.col(f"{source}unpriced_calls").fill_null(0)
    cost = pl.when((count > 0) & (unpriced == count)).then(None).otherwise(pl.col(f"{source}pico").fill_null(0) / PICO)
    return frame.with_columns(
        *(pl.col(f"{source}{name}").fill_null(0).alias(f"{prefix}{name}") for name in _COUNTS),
        cost.alias(f"{prefix}cost_usd"),
    ).drop(f"{source}pico")


def prefixed(frame: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """``frame`` with the amounts renamed to ``<prefix><name>``."""
    names = [*AMOUNT_NAMES, "pico"]
    return frame.rename({name: f"{prefix}{name}" for name in names if name in frame.columns})
