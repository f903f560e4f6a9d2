"""Sorted bars: what each session, project, model … cost."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from ..errors import UsageError
from .style import COLORS, finish, ink, new_axes, remark, say_empty
from .text import MEASURE_UNITS, amount, label, number_axis
from .usage import BY_TITLES, COLUMNS, MEASURE_TITLES, By, Measure, left_out, value_of


def ranked(calls: pl.DataFrame, *, by: By = "session", measure: Measure = "cost") -> pl.DataFrame:
    """One row per group, largest first: ``key``, ``value``, ``calls``."""
    if by not in COLUMNS:
        raise UsageError(f"by is {by!r}; allowed are {', '.join(COLUMNS)}", got=by, allowed=tuple(COLUMNS))
    sums = calls.group_by(pl.col(COLUMNS[by]).fill_null("unknown").alias("key")).agg(
        value_of(measure).sum().alias("value"), pl.len().cast(pl.Int64).alias("calls")
    )
    return sums.sort("value", "key", descending=[True, False])


def plot_ranking(
    calls: pl.DataFrame, *, by: By = "session", measure: Measure = "cost", top: int = 15, ax: Axes | None = None
) -> Axes:
    """Bars of a measure by session, project, model or agent type, largest at the top, each with its figure."""
    whole = ranked(calls, by=by, measure=measure)
    rows, rest = whole[:top], whole[top:]
    hidden = f"{len(rest):,} more: {amount(float(rest['value'].sum()), measure)}" if len(rest) else ""
    title = f"{MEASURE_TITLES[measure]} by {BY_TITLES[by]}"
    ax = new_axes(ax, height=max(1.6, 0.9 + 0.27 * len(rows)))
    if not len(rows):
        say_empty(ax, "no calls")
        return finish(ax, title, grid="none")
    names = _names(calls, rows["key"].to_list(), by)
    values = rows["value"].to_numpy()
    places = np.arange(len(rows))
    ax.barh(places, values, height=0.72, color=COLORS[0], edgecolor=ink(), linewidth=0.3)
    largest = float(values.max()) or 1.0
    for place, value in zip(places, values, strict=True):
        text = amount(float(value), measure).replace("$", r"\$")
        ax.text(value + largest * 0.008, float(place), text, va="center", fontsize=8.5)
    ax.set_xlim(0, largest * 1.12)
    ax.set_yticks(places, names, fontsize=9)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(MEASURE_UNITS[measure])
    number_axis(ax.xaxis, measure)
    ax.tick_params(axis="y", length=0)
    remark(ax, "; ".join(filter(None, [hidden, left_out(calls, measure)])))
    return finish(ax, title, grid="x")


def _names(calls: pl.DataFrame, keys: list[str], by: By) -> list[str]:
    """Labels of the groups: sessions by their title, with the beginning of the id."""
    if by != "session" or "title" not in calls.columns:
        return [label(k, 44) for k in keys]
    titles = dict(calls.select("session_id", "title").unique("session_id").iter_rows())
    return [label(f"{label_title(titles[k])} · {k[:8]}" if titles.get(k) else k, 52) for k in keys]


def label_title(title: str) -> str:
    """A title cut so that something may follow it."""
    return title if len(title) <= 40 else title[:39].rstrip() + "…"
