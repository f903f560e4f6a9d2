"""How full the context was at each call of a conversation, with compactions, cache misses and the model's window."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from .style import COLORS, KIND_COLORS, finish, ink, new_axes, remark, say_empty
from .text import count, number_axis

MAX_POINTS = 2000
MISS_BELOW = 0.5
"""A call whose cache reads are below this part of the prompt before it has missed the cache."""
MANY_MISSES = 60
MISS_FROM_TOKENS = 4096
"""Smaller prompts are too short to be cached by every model."""


def context_series(calls: pl.DataFrame, compactions: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per call of one conversation, in order of time.

    ``call_no`` (from 1), ``entry_id``, ``first_at``, ``context_tokens``, ``cache_read_input_tokens``, ``is_miss`` (the
    cache held less than half of the prompt before it, and no compaction explains that), ``boundary_id`` (entry of the
    compaction between the call before and this one, if any).
    """
    out = calls.filter(pl.col("advisor_parent").is_null()).sort("first_at", "entry_id", nulls_last=True)
    out = out.select("entry_id", "first_at", "context_tokens", "cache_read_input_tokens", "cost_usd")
    out = out.with_row_index("call_no", 1).with_columns(pl.col("call_no").cast(pl.Int64))
    out = _place_boundaries(out, compactions)
    before = pl.col("context_tokens").shift(1)
    missed = (pl.col("cache_read_input_tokens") < before * MISS_BELOW) & (before >= MISS_FROM_TOKENS)
    return out.with_columns((missed & pl.col("boundary_id").is_null()).fill_null(False).alias("is_miss"))


def _place_boundaries(series: pl.DataFrame, compactions: pl.DataFrame | None) -> pl.DataFrame:
    if compactions is None or not len(compactions) or not len(series):
        return series.with_columns(pl.lit(None, dtype=pl.Int64).alias("boundary_id"))
    marks = compactions.filter(pl.col("kind").cast(pl.String) == "compact", pl.col("timestamp").is_not_null())
    marks = marks.select(pl.col("entry_id").alias("boundary_id"), pl.col("timestamp").alias("first_at"))
    timed = series.filter(pl.col("first_at").is_not_null()).select("call_no", "first_at").sort("first_at")
    after = marks.sort("first_at").join_asof(timed, on="first_at", strategy="forward", check_sortedness=False)
    first = (
        after.drop_nulls("call_no").sort("call_no", "boundary_id").unique("call_no", keep="last", maintain_order=True)
    )
    return series.join(
        first.select("call_no", "boundary_id"), on="call_no", how="left", validate="1:1", maintain_order="left"
    )


def thinned(series: pl.DataFrame, points: int = MAX_POINTS) -> pl.DataFrame:
    """The same course in at most ``points`` rows: of each run of calls the largest prompt; marks are all kept."""
    if len(series) <= points:
        return series
    each = -(-len(series) // points)
    marked = pl.col("is_miss") | pl.col("boundary_id").is_not_null()
    tagged = series.with_columns(((pl.col("call_no") - 1) // each).alias("run"), marked.alias("is_marked"))
    largest = tagged.filter(~pl.col("is_marked")).sort(
        "run", "context_tokens", descending=[False, True], nulls_last=True
    )
    kept = pl.concat(
        [largest.unique("run", keep="first", maintain_order=True), _few(tagged.filter("is_marked"), points)]
    )
    return kept.drop("run", "is_marked").sort("call_no")


def _few(marked: pl.DataFrame, points: int) -> pl.DataFrame:
    return marked if len(marked) <= points else marked.gather_every(-(-len(marked) // points))


def plot_context(
    calls: pl.DataFrame,
    compactions: pl.DataFrame | None = None,
    *,
    window: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Size of the prompt at each call of one conversation.

    Parameters
    ----------
    calls, compactions
        Rows of one conversation: one session's main thread, or one agent.
    window
        Size of the model's context window in tokens, drawn as a line.
    """
    whole = context_series(calls, compactions)
    series = thinned(whole.filter(pl.col("context_tokens").is_not_null()))
    ax = new_axes(ax)
    if not len(series):
        say_empty(ax, "no calls")
        return finish(ax, "Context per call", grid="none")
    x, y, read = (series[c].to_numpy() for c in ("call_no", "context_tokens", "cache_read_input_tokens"))
    _areas(ax, x, y, np.minimum(np.nan_to_num(read.astype(float)), y))
    marks = _marks(ax, series, float(y.max()))
    if window:
        ax.axhline(window, color=ink(), linestyle=(0, (6, 3)), linewidth=1)
        ax.annotate(f"window {count(window)}", (1, window), (-2, 3), xycoords=("axes fraction", "data"),
                    textcoords="offset points", ha="right", fontsize=8.5)  # fmt: skip
    ax.set_ylim(0, (max(float(y.max()), window or 0) or 1) * 1.12)
    ax.set_xlabel("call of the conversation")
    ax.set_ylabel("prompt (tokens)")
    number_axis(ax.yaxis, "tokens")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, fontsize=9)
    remark(ax, marks)
    return finish(ax, "Context per call")


def _areas(ax: Axes, x: np.ndarray, y: np.ndarray, read: np.ndarray) -> None:
    if len(x) == 1:
        ax.set_xticks([int(x[0])])
        ax.set_xlim(x[0] - 1, x[0] + 1)
        ax.bar(x, read, 0.5, color=KIND_COLORS["cache_read_input_tokens"], label="read from the cache")
        ax.bar(x, y - read, 0.5, read, color=COLORS[0], label="new or written again")
        return
    # Linear between calls would draw prompts that never were: each call is a step.
    ax.fill_between(x, 0, read, step="mid", color=KIND_COLORS["cache_read_input_tokens"], linewidth=0,
                    label="read from the cache")  # fmt: skip
    ax.fill_between(x, read, y, step="mid", color=COLORS[0], linewidth=0, label="new or written again")
    if len(x) <= 400:
        ax.step(x, y, where="mid", color=ink(), linewidth=0.8)
    ax.margins(x=0.01)


def _marks(ax: Axes, series: pl.DataFrame, top: float) -> str:
    misses = series.filter("is_miss")
    bounds = series.filter(pl.col("boundary_id").is_not_null())
    if len(misses) > MANY_MISSES:
        ax.plot(misses["call_no"], np.zeros(len(misses)), "|", color=COLORS[4], markersize=16, label="cache missed")
    elif len(misses):
        ax.plot(misses["call_no"], misses["context_tokens"], "x", color=COLORS[4], markersize=7, markeredgewidth=2,
                label="cache missed")  # fmt: skip
    if len(bounds):
        at = bounds["call_no"].to_numpy() - 0.5
        ax.vlines(at, 0, top * 1.06, color=ink(), linewidth=1, linestyle=(0, (2, 2)))
        ax.plot(at, np.full(len(at), top * 1.06), "v", color=ink(), markersize=7, label="compaction", clip_on=False)
    if len(series) < int(series["call_no"].max() or 0):  # type: ignore[arg-type]
        return "of neighbouring calls the largest is shown"
    return ""
