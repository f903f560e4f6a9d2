"""Tools: how long they take, and how often they fail."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from .style import COLORS, finish, new_axes, remark, say_empty, side_columns
from .text import label, span

FAILED = ("error", "denied", "interrupted")


def tool_stats(tools: pl.DataFrame) -> pl.DataFrame:
    """One row per tool, most calls first: ``name``, ``n``, ``n_failed``, ``failed_share``, ``p10_ms`` … ``p90_ms``.

    Durations are those of answered calls; null where no call of a tool has one.
    """
    failed = pl.col("outcome").cast(pl.String).is_in(FAILED)
    duration = pl.col("duration_ms").cast(pl.Float64)
    return (
        tools.group_by(pl.col("name").fill_null("unnamed"))
        .agg(
            pl.len().cast(pl.Int64).alias("n"),
            failed.sum().cast(pl.Int64).alias("n_failed"),
            failed.mean().alias("failed_share"),
            *(duration.quantile(q, "nearest").alias(f"p{round(q * 100)}_ms") for q in (0.1, 0.5, 0.9)),
        )
        .sort("n", "name", descending=[True, False])
    )


def plot_tools(tools: pl.DataFrame, *, top: int = 18, ax: Axes | None = None) -> Axes:
    """A line per tool from the 10th to the 90th percentile of its durations, a dot at the median, failures beside.

    Parameters
    ----------
    tools
        Table ``tools``.
    top
        Tools at most, those called most.
    """
    stats = tool_stats(tools)
    shown = stats[:top]
    ax = new_axes(ax, height=max(1.8, 1.1 + 0.27 * len(shown)))
    if not len(shown):
        say_empty(ax, "no tool calls")
        return finish(ax, "Tools: duration and failures", grid="none")
    _durations(ax, shown)
    rates = shown.select("n", "n_failed", "failed_share").iter_rows()
    side_columns(ax, ("calls", "failed", "rate"), [(f"{n:,}", f"{bad:,}", f"{share:.1%}") for n, bad, share in rates])
    ax.set_yticks(range(len(shown)), [label(n, 36) for n in shown["name"]], fontsize=9)
    ax.set_ylim(len(shown) - 0.4, -1.0)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("duration (10th, 50th, 90th percentile)")
    remark(ax, f"{len(stats) - len(shown)} tools with fewer calls not shown" if len(stats) > len(shown) else "")
    return finish(ax, "Tools: duration and failures", grid="x")


def _durations(ax: Axes, shown: pl.DataFrame) -> None:
    low, mid, high = (np.maximum(shown[c].to_numpy().astype(float), 1.0) for c in ("p10_ms", "p50_ms", "p90_ms"))
    places = np.arange(len(shown))
    ax.hlines(places, low, high, color=COLORS[3], linewidth=7)
    ax.plot(mid, places, "o", color=COLORS[2], markersize=7, markeredgecolor=ax.get_facecolor())
    ax.set_xscale("log")
    known = np.concatenate([low, high])
    known = known[~np.isnan(known)]
    first, last = (known.min(), known.max()) if len(known) else (1.0, 1000.0)
    ax.set_xlim(10 ** np.floor(np.log10(first * 0.8)), 10 ** np.ceil(np.log10(last * 1.2)))
    ax.xaxis.set_major_locator(LogLocator(numticks=7))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: span(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())
