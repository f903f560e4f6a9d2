"""Five-hour blocks: the windows in which usage limits count."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from ..cost_keys import BLOCK_MS, local, with_blocks
from .style import COLORS, add_legend, days_of, finish, in_calendar, ink, new_axes, remark, say_empty, time_axis
from .text import MEASURE_UNITS, number_axis
from .usage import MEASURE_TITLES, Measure, left_out, value_of


def five_hour_blocks(calls: pl.DataFrame) -> pl.DataFrame:
    """One row per block in order of time: ``block_start``, ``block_end``, ``last_at`` (UTC), ``calls``, ``cost``,
    ``tokens``.

    Blocks are those of ``t.cost(by="block")``: from the full hour of a first call, five hours long.
    """
    first = pl.col("block_start").first()
    return (
        with_blocks(calls)
        .filter(in_calendar("first_at"))
        .group_by(pl.col("block_start").alias("block"))
        .agg(
            first.alias("block_start"),
            (first + pl.duration(milliseconds=BLOCK_MS)).alias("block_end"),
            pl.col("first_at").max().alias("last_at"),
            pl.len().cast(pl.Int64).alias("calls"),
            value_of("cost").sum().alias("cost"),
            value_of("tokens").sum().alias("tokens"),
        )
        .drop("block")
        .sort("block_start")
    )


def plot_blocks(
    calls: pl.DataFrame, *, measure: Measure = "cost", tz: str = "UTC", last: int = 120, ax: Axes | None = None
) -> Axes:
    """Bars as wide as the blocks last; the pale part of a block comes after its last call.

    Parameters
    ----------
    calls
        Table ``calls``.
    last
        Blocks at most, the latest.
    """
    whole = five_hour_blocks(calls)
    blocks = whole.tail(last)
    ax = new_axes(ax)
    title = f"{MEASURE_TITLES[measure]} per five-hour block"
    if not len(blocks):
        say_empty(ax, "no calls with a time")
        return finish(ax, title, grid="none")
    times = blocks.select(local(c, tz).dt.replace_time_zone(None) for c in ("block_start", "block_end", "last_at"))
    left, right, end = (days_of(times[c]) for c in ("block_start", "block_end", "last_at"))
    height = blocks[measure].to_numpy()
    colors = {"rest of the block": COLORS[3], "until the last call": COLORS[0]}
    ax.bar(left, height, right - left, align="edge", color=COLORS[3], edgecolor=ink(), linewidth=0.3)
    ax.bar(left, height, np.maximum(end - left, 0.004), align="edge", color=COLORS[0], linewidth=0)
    add_legend(ax, colors)
    time_axis(ax, tz)
    ax.set_ylabel(MEASURE_UNITS[measure])
    ax.set_ylim(0, ax.get_ylim()[1] * 1.04)
    number_axis(ax.yaxis, measure)
    hidden = f"{len(whole) - len(blocks)} earlier blocks not shown" if len(whole) > len(blocks) else ""
    remark(ax, "; ".join(filter(None, [left_out(calls, measure), hidden])))
    return finish(ax, title)
