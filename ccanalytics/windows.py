"""Five-hour windows of use, and where the running one is heading."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from .cost import build_cost
from .cost_keys import BLOCK_MS
from .policies import Policy
from .prices import Overrides, PriceTable

WINDOW = timedelta(milliseconds=BLOCK_MS)


def build_windows(
    calls: pl.DataFrame,
    *,
    tz: str | None = None,
    policy: Policy = "list",
    prices: Overrides | PriceTable | None = None,
    now: datetime | None = None,
) -> pl.DataFrame:
    """One row per five-hour window with calls in it, by its start.

    A window is an estimate: it begins at the full hour (UTC) of the first call after the one before ended. The running
    window's projection goes on at the rate from its first call until now.

    Parameters
    ----------
    calls
        The ``calls`` table.
    tz, policy, prices
        As for :func:`ccanalytics.cost.build_cost`.
    now
        The present; a window that has not ended by then is running.

    Returns
    -------
    ``block`` (start), ``ends_at``, ``first_at``, ``last_at``, the measures of a cost report, ``is_running``,
    ``cost_per_hour_usd``, ``projected_cost_usd`` and ``projected_total_tokens`` (null where not running).
    """
    present = pl.lit(now or datetime.now(UTC), dtype=pl.Datetime("ms", "UTC"))
    timed = calls.filter(pl.col("first_at").is_not_null())
    sums = build_cost(timed, "block", tz=tz, policy=policy, prices=prices, detail="full")
    windows = sums.with_columns(ends_at=pl.col("block") + WINDOW, at=pl.col("block").dt.convert_time_zone("UTC"))
    windows = windows.with_columns(is_running=(pl.col("at") + WINDOW > present) & (pl.col("at") <= present))
    spans = timed.select("first_at", "last_at").sort("first_at").join_asof(
        windows.select("block", "at"), left_on="first_at", right_on="at"
    ).group_by("block").agg(pl.col("first_at").min(), pl.col("last_at").max())  # fmt: skip
    windows = windows.join(spans, on="block", how="left", validate="1:1", maintain_order="left")
    elapsed = (present - pl.col("first_at")).dt.total_milliseconds().clip(lower_bound=60_000)
    left = (pl.col("at") + WINDOW - present).dt.total_milliseconds()
    growth = pl.when("is_running").then(1 + left / elapsed)
    return windows.select(
        "block",
        "ends_at",
        "first_at",
        "last_at",
        *(c for c in sums.columns if c not in ("block", "running_cost_usd", "cost_share")),
        "is_running",
        cost_per_hour_usd=pl.col("cost_usd") / pl.when("is_running").then(elapsed / 3_600_000),
        projected_cost_usd=pl.col("cost_usd") * growth,
        projected_total_tokens=(pl.col("total_tokens") * growth).round().cast(pl.Int64),
    )
