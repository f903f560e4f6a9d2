"""A calendar of usage: weeks from left to right, days of the week from top to bottom."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from .style import SEQUENCE, faint, finish, new_axes, remark, say_empty
from .text import MEASURE_UNITS, number_axis
from .usage import MEASURE_TITLES, Measure, left_out, usage_bins

MAX_WEEKS = 106


def plot_calendar(calls: pl.DataFrame, *, measure: Measure = "cost", tz: str = "UTC", ax: Axes | None = None) -> Axes:
    """A heat map of days, the darker the more; the last two years at most. Days without calls are outlined only."""
    days = usage_bins(calls, measure=measure, every="day", tz=tz).sort("bin_start")
    title = f"{MEASURE_TITLES[measure]} per day ({tz})"
    if not len(days):
        return _nothing(new_axes(ax), title)
    last = days["bin_start"][-1].date()
    monday = _monday(last) - timedelta(weeks=MAX_WEEKS - 1)
    first = max(_monday(days["bin_start"][0].date()), monday)
    shown = days.filter(pl.col("bin_start").dt.date() >= first)
    weeks = (_monday(last) - first).days // 7 + 1
    ax = new_axes(ax, width=min(14.0, max(4.0, 2.4 + 0.17 * weeks)), height=2.3)
    top = float(shown["value"].max() or 0) or 1.0  # type: ignore[arg-type]
    _cells(ax, first, weeks, shown, top)
    _labels(ax, first, weeks)
    bar = ax.figure.colorbar(ScalarMappable(Normalize(0, top), SEQUENCE), ax=ax, fraction=0.05, aspect=12, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label(MEASURE_UNITS[measure])
    number_axis(bar.ax.yaxis, measure)
    hidden = len(days) - len(shown)
    remark(
        ax, "; ".join(filter(None, [left_out(calls, measure), f"{hidden} earlier days not shown" if hidden else ""]))
    )
    finish(ax, title, grid="none")
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _cells(ax: Axes, first: date, weeks: int, days: pl.DataFrame, top: float) -> None:
    values = np.full((7, weeks), np.nan)
    since = days.select((pl.col("bin_start").dt.date() - pl.lit(first)).dt.total_days()).to_series().to_numpy()
    values[since % 7, since // 7] = days["value"].to_numpy()
    edges = np.arange(weeks + 1) - 0.5
    rows = np.arange(8) - 0.5
    ax.pcolormesh(edges, rows, values, cmap=SEQUENCE, vmin=0, vmax=top, edgecolors=faint(), linewidth=0.7)
    ax.set_aspect("equal")
    ax.invert_yaxis()


def _labels(ax: Axes, first: date, weeks: int) -> None:
    ax.set_yticks(range(7), ["Mon", "", "Wed", "", "Fri", "", "Sun"], fontsize=8)
    mondays = [first + timedelta(weeks=w) for w in range(weeks)]
    starts = [w for w, day in enumerate(mondays) if w == 0 or day.month != mondays[w - 1].month]
    # A month that begins one or two weeks after the first column would write over its neighbour.
    starts = [w for i, w in enumerate(starts) if i + 1 == len(starts) or starts[i + 1] - w > 2 or i > 0]
    years = {w for i, w in enumerate(starts) if i == 0 or mondays[w].year != mondays[starts[i - 1]].year}
    texts = [f"{mondays[w]:%b}\n{mondays[w]:%Y}" if w in years else f"{mondays[w]:%b}" for w in starts]
    ax.set_xticks(starts, texts, fontsize=8)
    ax.tick_params(length=0)


def _nothing(ax: Axes, title: str) -> Axes:
    say_empty(ax, "no calls with a time")
    return finish(ax, title, grid="none")
