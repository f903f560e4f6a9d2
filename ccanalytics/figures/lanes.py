"""Agent runs as lanes over time, in the order of their tree, each with its own and its inclusive cost."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from ..cost_keys import local
from .style import (
    add_legend,
    colors_of,
    days_of,
    finish,
    in_calendar,
    ink,
    new_axes,
    remark,
    say_empty,
    side_columns,
    time_axis,
)
from .text import label, usd, width_of

MAX_LANES = 40
MAX_DEPTH = 100


def tree_order(agents: pl.DataFrame, *, sort: str = "started_at", descending: bool = False) -> pl.DataFrame:
    """``agents`` in the order of their trees, a parent before what it started; siblings by ``sort``.

    Adds ``path`` (ranks from the root, as text that sorts) and ``parent_key``, ``key`` (session and agent as one text).
    A run whose parent is not in the frame stands at the top.
    """
    keyed = agents.with_columns(
        pl.concat_str("session_id", pl.col("agent_id").fill_null(""), separator="\n", ignore_nulls=True).alias("key"),
        _parent_key().alias("parent_key"),
    )
    ranked = keyed.sort(sort, "key", descending=[descending, False], nulls_last=True).with_row_index("rank")
    step = pl.col("rank").cast(pl.String).str.zfill(7)
    known = pl.col("parent_key").is_in(ranked["key"].implode()) & (pl.col("parent_key") != pl.col("key"))
    ranked = ranked.with_columns(pl.when(known).then("parent_key").alias("parent_key"))
    done = ranked.filter(pl.col("parent_key").is_null()).with_columns(step.alias("path"))
    level, rest = done, ranked.filter(pl.col("parent_key").is_not_null())
    rounds = [done]
    for _ in range(MAX_DEPTH):
        above = level.select(pl.col("key").alias("parent_key"), pl.col("path").alias("above"))
        level = rest.join(above, on="parent_key", how="inner", validate="m:m")
        if not len(level):
            break
        level = level.with_columns((pl.col("above") + "/" + step).alias("path")).drop("above")
        rest = rest.join(level.select("key"), on="key", how="anti")
        rounds.append(level)
    # Runs that start one another in a circle hang on no root; they stand at the end rather than nowhere.
    rounds.append(rest.with_columns(("~" + step).alias("path")))
    return pl.concat(rounds, how="diagonal").sort("path").drop("rank")


def _parent_key() -> pl.Expr:
    has_parent = pl.col("agent_id").is_not_null() & (pl.col("depth") > 0).fill_null(True)
    session = pl.coalesce("parent_session_id", "session_id")
    return pl.when(has_parent).then(
        pl.concat_str(session, pl.col("parent_agent_id").fill_null(""), separator="\n", ignore_nulls=True)
    )


def name_of_run() -> pl.Expr:
    """What a run is called: its name or description, else its type, else its id."""
    named = pl.coalesce("name", "description", "agent_type", "internal_kind", "agent_id")
    return pl.when(pl.col("agent_id").is_null()).then(pl.lit("main thread")).otherwise(named)


def type_of_run() -> pl.Expr:
    """What sort of run it is, for colours."""
    kind = pl.coalesce("agent_type", "internal_kind", pl.col("kind").cast(pl.String))
    return pl.when(pl.col("agent_id").is_null()).then(pl.lit("main thread")).otherwise(kind)


def plot_agents(agents: pl.DataFrame, *, top: int = MAX_LANES, tz: str = "UTC", ax: Axes | None = None) -> Axes:
    """Lanes over time of the agent runs given, a parent above what it started.

    Parameters
    ----------
    agents
        Rows of table ``agents``, of one session as a rule.
    top
        Lanes at most; the runs with the largest inclusive cost stay.
    """
    ordered = tree_order(agents.filter(in_calendar("started_at"), in_calendar("ended_at").fill_null(True)))
    shown = _largest(ordered, top)
    ax = new_axes(ax, width=10.5, height=max(1.8, 1.0 + 0.27 * len(shown)))
    title = "Agent runs: own and inclusive cost"
    if not len(shown):
        say_empty(ax, "no agent runs with a time")
        return finish(ax, title, grid="none")
    _bars(ax, shown, tz)
    places = np.arange(len(shown))
    names = _names(shown)
    ax.set_yticks(places, names, fontsize=9)
    for text in ax.get_yticklabels():
        text.set_horizontalalignment("left")
    ax.tick_params(axis="y", length=0, pad=max(width_of(n) for n in names) + 4)
    ax.set_ylim(len(shown) - 0.4, -1.0)
    costs = shown.select("own_cost_usd", "incl_cost_usd").rows()
    side_columns(ax, ("own", "incl."), [(usd(own), usd(inclusive)) for own, inclusive in costs])
    hidden = len(ordered) - len(shown)
    untimed = len(agents) - len(ordered)
    said = [f"{hidden} smaller runs not shown" if hidden else "", f"{untimed} runs have no time" if untimed else ""]
    remark(ax, "; ".join(filter(None, said)))
    return finish(ax, title, grid="x")


def _largest(ordered: pl.DataFrame, top: int) -> pl.DataFrame:
    if len(ordered) <= top:
        return ordered
    rank = pl.col("incl_cost_usd").rank("ordinal", descending=True).fill_null(len(ordered))
    return ordered.filter((rank <= top) | pl.col("agent_id").is_null())[:top]


def _bars(ax: Axes, shown: pl.DataFrame, tz: str) -> None:
    times = shown.select(local(c, tz).dt.replace_time_zone(None) for c in ("started_at", "ended_at"))
    start = days_of(times["started_at"])
    end = days_of(times["ended_at"].fill_null(times["started_at"]))
    whole = max(end.max() - start.min(), 1 / 86400)
    types = shown.select(type_of_run().fill_null("unknown").alias("type"))["type"]
    colors = colors_of(types.unique(maintain_order=True).to_list())
    lengths = np.maximum(end - start, whole * 0.003)
    bars = ax.barh(np.arange(len(shown)), lengths, 0.62, start, edgecolor=ink(), linewidth=0.3)
    for bar, kind in zip(bars, types, strict=True):
        bar.set_facecolor(colors[kind])
    ax.set_xlim(start.min() - whole * 0.01, start.min() + whole * 1.01)
    time_axis(ax, tz, most=6)
    if len(colors) > 1:
        add_legend(ax, dict(reversed(colors.items())), points_aside=104)


def _names(shown: pl.DataFrame) -> list[str]:
    rows = shown.select(pl.col("path").str.count_matches("/").alias("level"), name_of_run().alias("name")).iter_rows()
    return ["   " * min(level, 6) + label(name or "unknown", 34) for level, name in rows]
