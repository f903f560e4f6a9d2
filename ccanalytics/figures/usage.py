"""Usage over time: bars stacked by token kind, model, project, session or agent type."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from ..cost_keys import local
from ..errors import UsageError
from ..policies import price_calls
from .style import (
    KIND_COLORS,
    OTHER_NAME,
    add_legend,
    colors_of,
    days_of,
    finish,
    in_calendar,
    ink,
    new_axes,
    remark,
    say_empty,
    time_axis,
)
from .text import MEASURE_UNITS, number_axis

Measure = Literal["cost", "tokens", "calls"]
By = Literal["none", "kind", "model", "project", "session", "agent_type"]
Every = Literal["auto", "hour", "day", "week", "month"]

MEASURES: tuple[Measure, ...] = ("cost", "tokens", "calls")
BYS: tuple[By, ...] = ("none", "kind", "model", "project", "session", "agent_type")
EVERYS: tuple[Every, ...] = ("auto", "hour", "day", "week", "month")
COLUMNS = {"model": "model_family", "project": "project", "session": "session_id", "agent_type": "agent_type"}
"""Columns of calls that the groups stand for (``agent_type`` and ``title`` are added by :func:`with_names`)."""

STEPS: dict[Every, str] = {"hour": "1h", "day": "1d", "week": "1w", "month": "1mo"}
_DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.4}
MANY_BINS = 300


def with_names(calls: pl.DataFrame, agents: pl.DataFrame | None, sessions: pl.DataFrame | None) -> pl.DataFrame:
    """``calls`` with ``agent_type`` ("main thread" where no agent made the call) and the session's ``title``."""
    out = calls
    if agents is not None:
        types = agents.select("session_id", "agent_id", pl.coalesce("agent_type", "internal_kind").alias("agent_type"))
        types = types.filter(pl.col("agent_id").is_not_null()).unique(["session_id", "agent_id"], keep="first")
        out = out.join(types, on=["session_id", "agent_id"], how="left", validate="m:1", maintain_order="left")
    else:
        out = out.with_columns(pl.lit(None, dtype=pl.String).alias("agent_type"))
    main = pl.when(pl.col("agent_id").is_null()).then(pl.lit("main thread"))
    out = out.with_columns(main.otherwise(pl.col("agent_type").fill_null("unnamed agent")).alias("agent_type"))
    if sessions is None:
        return out.with_columns(pl.lit(None, dtype=pl.String).alias("title"))
    titles = sessions.select("session_id", "title")
    return out.join(titles, on="session_id", how="left", validate="m:1", maintain_order="left")


def bin_of(calls: pl.DataFrame, every: Every, tz: str) -> pl.Expr:
    """When the bin of a call begins, in local time of ``tz`` without a zone; bins follow the local calendar."""
    return local("first_at", tz).dt.truncate(STEPS[chosen_step(calls, every)]).dt.replace_time_zone(None)


def chosen_step(calls: pl.DataFrame, every: Every) -> Every:
    """The step that ``auto`` stands for: some 150 bars at most."""
    if every != "auto":
        return every
    timed = calls.filter(in_calendar("first_at"))
    first, last = timed.select(pl.col("first_at").min(), pl.col("first_at").max().alias("last")).row(0)
    days = (last - first).total_seconds() / 86400 if first is not None else 0
    return "hour" if 0 < days <= 2 else "day" if days <= 120 else "week" if days <= 1000 else "month"


def usage_bins(
    calls: pl.DataFrame,
    *,
    measure: Measure = "cost",
    by: By = "none",
    every: Every = "auto",
    tz: str = "UTC",
    top: int = 6,
) -> pl.DataFrame:
    """One row per bin of time and series: ``bin_start``, ``series``, ``value``, ``calls``; series by size, then time.

    Calls without a time are in no bin, and calls without a price add nothing to a cost. Series beyond ``top`` are
    summed up as "other".
    """
    check(measure, by, every)
    timed = calls.filter(in_calendar("first_at")).with_columns(bin_of(calls, every, tz).alias("bin_start"))
    parts = _by_kind(timed, measure) if by == "kind" else _by_column(timed, measure, by)
    sizes = parts.group_by("series").agg(pl.col("value").sum()).sort("value", "series", descending=[True, False])
    names = sizes["series"].to_list()
    if by != "kind" and len(names) > top + 1:
        kept = names[:top]
        rest = pl.when(pl.col("series").is_in(kept)).then("series").otherwise(pl.lit(OTHER_NAME))
        parts = parts.with_columns(rest.alias("series"))
        names = [*kept, OTHER_NAME]
    order = pl.DataFrame({"series": names, "rank": range(len(names))}, schema={"series": pl.String, "rank": pl.Int32})
    out = parts.group_by("bin_start", "series").agg(pl.col("value").sum(), pl.col("calls").sum())
    out = out.join(order, on="series", how="left", validate="m:1").sort("rank", "bin_start")
    return out.select("bin_start", "series", "value", "calls")


def check(measure: str, by: str, every: str) -> None:
    """Raise ``UsageError`` for a name that stands for nothing."""
    for name, got, allowed in (("measure", measure, MEASURES), ("by", by, BYS), ("every", every, EVERYS)):
        if got not in allowed:
            raise UsageError(f"{name} is {got!r}; allowed are {', '.join(allowed)}", got=got, allowed=allowed)


def value_of(measure: Measure) -> pl.Expr:
    """The measure of one call as a number."""
    if measure == "cost":
        return pl.col("cost_usd").fill_null(0.0)
    return pl.col("total_tokens").cast(pl.Float64).fill_null(0.0) if measure == "tokens" else pl.lit(1.0)


def _by_column(timed: pl.DataFrame, measure: Measure, by: By) -> pl.DataFrame:
    series = pl.lit("all calls") if by == "none" else pl.col(COLUMNS[by]).fill_null("unknown")
    parts = timed.select("bin_start", series.alias("series"), value_of(measure).alias("value"))
    return parts.group_by("bin_start", "series").agg(pl.col("value").sum(), pl.len().cast(pl.Int64).alias("calls"))


def _by_kind(timed: pl.DataFrame, measure: Measure) -> pl.DataFrame:
    if measure == "calls":
        raise UsageError("calls have no kinds; with by='kind' measure is 'tokens' or 'cost'", got=measure)
    values = [pl.col(k).cast(pl.Float64).fill_null(0.0) for k in KIND_COLORS]
    if measure == "cost":
        timed = timed.select("bin_start").hstack(price_calls(timed))
        values = [pl.sum_horizontal(parts).alias(kind) for kind, parts in KIND_COSTS.items()]
    sums = timed.select("bin_start", *values).group_by("bin_start").agg(
        *(pl.col(v.meta.output_name()).sum() for v in values), pl.len().cast(pl.Int64).alias("calls")
    )  # fmt: skip
    names = [n for n in (v.meta.output_name() for v in values) if n in KIND_COLORS or sums[n].sum() != 0]
    return sums.unpivot(names, index=["bin_start", "calls"], variable_name="series", value_name="value")


KIND_COSTS = {
    "cache_read_input_tokens": ["cost_cache_read_usd"],
    "cache_creation_input_tokens": ["cost_cache_write_5m_usd", "cost_cache_write_1h_usd"],
    "input_tokens": ["cost_input_usd"],
    "output_tokens": ["cost_output_usd"],
    "searches and surcharges": ["cost_search_usd", "cost_advisor_usd", "cost_modifiers_usd"],
}
"""The parts of a cost that belong to each kind of token."""


def plot_usage(
    calls: pl.DataFrame,
    *,
    measure: Measure = "cost",
    by: By = "none",
    every: Every = "auto",
    tz: str = "UTC",
    top: int = 6,
    ax: Axes | None = None,
) -> Axes:
    """Bars of usage over time, stacked by a group.

    Parameters
    ----------
    calls
        Table ``calls``; grouping by agent type needs the column that :func:`with_names` adds.
    measure, by, every
        What is added up, what is stacked, how long a bar is ("auto" fits the span).
    tz
        Zone whose calendar the bars follow.
    top
        Groups shown by themselves; the others are summed up as "other".
    """
    bins = usage_bins(calls, measure=measure, by=by, every=every, tz=tz, top=top)
    step = chosen_step(calls, every)
    ax = new_axes(ax)
    title = f"{MEASURE_TITLES[measure]} per {step}" + ("" if by == "none" else f" by {BY_TITLES[by]}")
    if not len(bins):
        say_empty(ax, "no calls with a time")
        return finish(ax, title, grid="none")
    names = bins["series"].unique(maintain_order=True).to_list()
    _stack(ax, bins, colors_of(names), _DAYS[step])
    if by != "none":
        add_legend(ax, _titled(calls, names, by))
    time_axis(ax, tz)
    ax.set_ylim(0, ax.get_ylim()[1] * 1.04)
    ax.set_ylabel(MEASURE_UNITS[measure])
    number_axis(ax.yaxis, measure)
    remark(ax, left_out(calls, measure))
    return finish(ax, title)


MEASURE_TITLES = {"cost": "Cost", "tokens": "Tokens", "calls": "Calls"}
BY_TITLES = {
    "none": "", "kind": "kind", "model": "model", "project": "project", "session": "session", "agent_type": "agent type"
}  # fmt: skip


def left_out(calls: pl.DataFrame, measure: Measure) -> str:
    """A sentence on calls that the picture cannot show; empty when there are none."""
    said = []
    unpriced = int(calls["cost_usd"].null_count()) if measure == "cost" else 0
    if unpriced:
        said.append(f"{unpriced:,} calls of models without a price are not in it")
    untimed = len(calls) - len(calls.filter(in_calendar("first_at")))
    if untimed:
        said.append(f"{untimed:,} calls have no time that could be drawn")
    return "; ".join(said)


def _stack(ax: Axes, bins: pl.DataFrame, colors: dict[str, str], width: float) -> None:
    starts = bins["bin_start"].unique().sort()
    grid = _filled(starts, width) if len(starts) > MANY_BINS else starts
    left = days_of(grid)
    bottom = np.zeros(len(left))
    for name, color in colors.items():
        rows = bins.filter(pl.col("series") == name)
        height = np.zeros(len(left))
        height[grid.search_sorted(rows["bin_start"]).to_numpy()] = rows["value"].to_numpy()
        if len(left) > MANY_BINS:
            # A bar is a patch of its own: thousands of them are slow, one area is not.
            ax.fill_between(left, bottom, bottom + height, step="post", color=color, linewidth=0, label=name)
        else:
            ax.bar(
                left,
                height,
                width * 0.92,
                bottom,
                align="edge",
                color=color,
                edgecolor=ink(),
                linewidth=0.3,
                label=name,
            )
        bottom += height
    if len(left) == 1:
        ax.set_xlim(left[0] - width, left[0] + 2 * width)


def _filled(starts: pl.Series, width: float) -> pl.Series:
    """Every bin from the first to the last, so that an area falls to zero where nothing happened."""
    step = {1 / 24: "1h", 1.0: "1d", 7.0: "1w"}.get(width, "1mo")
    return every_bin(starts, step, most=50_000)


def every_bin(starts: pl.Series, step: str, *, most: int) -> pl.Series:
    """The bins given and all between them, as long as there are not more than ``most``."""
    days = {"1h": 1 / 24, "1d": 1.0, "1w": 7.0, "1mo": 28.0}[step]
    if not len(starts) or (starts[-1] - starts[0]).total_seconds() / 86_400 / days > most:
        return starts
    grid = pl.datetime_range(starts[0], starts[-1], step, time_unit="ms", eager=True).alias(starts.name)
    return pl.concat([grid, starts]).unique().sort()


def _titled(calls: pl.DataFrame, names: list[str], by: By) -> dict[str, str]:
    """Colours by the names readers know: titles of sessions, last parts of paths."""
    colors = colors_of(names)
    if by == "project":
        short = {n: n.rstrip("/").rsplit("/", 1)[-1] or n for n in names}
        return {_unlike(short, n): colors[n] for n in names}
    if by != "session" or "title" not in calls.columns:
        return colors
    titles = dict(calls.select("session_id", "title").unique("session_id").iter_rows())
    short = {n: titles.get(n) or n for n in names}
    return {_unlike(short, n): colors[n] for n in names}


def _unlike(short: dict[str, str], name: str) -> str:
    """The short name, unless another has the same: then with what tells them apart."""
    same = [n for n, s in short.items() if s == short[name]]
    return short[name] if len(same) == 1 else f"{short[name]} ({name[:8] if '/' not in name else name})"
