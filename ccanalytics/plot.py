"""Pictures of loaded transcripts: ``cc.plot.usage(t)`` and so on, each returning matplotlib Axes.

These functions pick the tables and hand them to :mod:`ccanalytics.figures`; all take ``ax=`` to draw into.

>>> import ccanalytics as cc
>>> t = cc.load_sample()
>>> cc.plot.usage(t, by="model").get_ylabel()
'USD'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from .errors import MissingExtraError

try:
    from . import figures
except ModuleNotFoundError as e:
    if (e.name or "").split(".")[0] != "matplotlib":
        raise
    raise MissingExtraError("pictures need matplotlib: pip install 'ccanalytics[notebook]'", extra="notebook") from e

from .figures.style import theme
from .figures.usage import By, Every, Measure, with_names
from .tables_of import eager, of_session

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "agents", "blocks", "branches", "calendar", "context", "cost", "icicle", "theme", "tools", "usage",
]  # fmt: skip


def usage(
    t: Any,
    *,
    measure: Measure = "cost",
    by: By = "none",
    every: Every = "auto",
    tz: str = "UTC",
    top: int = 6,
    ax: Axes | None = None,
) -> Axes:
    """Bars of cost, tokens or calls over time, stacked by token kind, model, project, session or agent type."""
    return figures.plot_usage(named_calls(t), measure=measure, by=by, every=every, tz=tz, top=top, ax=ax)


def calendar(t: Any, *, measure: Measure = "cost", tz: str = "UTC", ax: Axes | None = None) -> Axes:
    """A heat map of days over the weeks."""
    return figures.plot_calendar(eager(t.calls), measure=measure, tz=tz, ax=ax)


def cost(t: Any, *, by: By = "session", measure: Measure = "cost", top: int = 15, ax: Axes | None = None) -> Axes:
    """Sorted bars by session, project, model or agent type."""
    return figures.plot_ranking(named_calls(t), by=by, measure=measure, top=top, ax=ax)


def context(t: Any, session: str | None = None, *, agent: str | None = None, ax: Axes | None = None) -> Axes:
    """Size of the prompt at each call of a session's main thread, or of one of its agents.

    Compactions, cache misses and the model's window are marked. Without ``session``: the one with most compactions.
    """
    calls, marks = eager(t.calls), eager(t.compactions)
    session = session or session_to_show(calls, marks)
    own = of_session(calls, session).filter(pl.col("agent_id").eq_missing(pl.lit(agent, dtype=pl.String)))
    bounds = of_session(marks, session).filter(pl.col("agent_id").eq_missing(pl.lit(agent, dtype=pl.String)))
    return figures.plot_context(own, bounds, window=window_of(own), ax=ax)


def agents(t: Any, session: str | None = None, *, top: int = 40, tz: str = "UTC", ax: Axes | None = None) -> Axes:
    """Agent runs as lanes over time with own and inclusive cost. Without ``session``: the one with most runs."""
    runs = eager(t.agents)
    if session is None:
        counts = runs.group_by("session_id").len().sort("len", "session_id", descending=[True, False])
        session = counts["session_id"][0] if len(counts) else None
    return figures.plot_agents(of_session(runs, session), top=top, tz=tz, ax=ax)


def icicle(t: Any, *, ax: Axes | None = None) -> Axes:
    """Cost by project, session, agent type and tool, each row dividing the one above."""
    return figures.plot_icicle(named_calls(t), eager(t.tools), ax=ax)


def tools(t: Any, *, top: int = 18, ax: Axes | None = None) -> Axes:
    """Durations and error rates of the tools."""
    return figures.plot_tools(eager(t.tools), top=top, ax=ax)


def branches(t: Any, session: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Branches of a session's file: rewinds, forks, compactions, mended links. Without ``session``: most branches."""
    chains = eager(t.chains)
    if session is None:
        counts = chains.group_by("session_id").agg(pl.col("branch_no").n_unique().alias("n"), pl.len().alias("len"))
        counts = counts.sort("n", "len", "session_id", descending=[True, True, False])
        session = counts["session_id"][0] if len(counts) else None
    own = main_file(of_session(chains, session), eager(t.files))
    return figures.plot_branches(own, eager(t.compactions), eager(t.edges), ax=ax)


def blocks(t: Any, *, measure: Measure = "cost", tz: str = "UTC", last: int = 120, ax: Axes | None = None) -> Axes:
    """Cost or tokens per five-hour block."""
    return figures.plot_blocks(eager(t.calls), measure=measure, tz=tz, last=last, ax=ax)


def named_calls(t: Any) -> pl.DataFrame:
    """Calls with the type of the agent that made them and the title of their session."""
    return with_names(eager(t.calls), eager(t.agents), eager(t.sessions))


def session_to_show(calls: pl.DataFrame, compactions: pl.DataFrame) -> str | None:
    """The session with most compactions, among equals the one with most calls of the main thread."""
    counts = calls.filter(pl.col("agent_id").is_null()).group_by("session_id").agg(pl.len().alias("calls"))
    bounds = compactions.filter(pl.col("agent_id").is_null()).group_by("session_id").agg(pl.len().alias("n"))
    both = counts.join(bounds, on="session_id", how="left", validate="1:1").with_columns(pl.col("n").fill_null(0))
    both = both.sort("n", "calls", "session_id", descending=[True, True, False])
    return both["session_id"][0] if len(both) else None


CLI_WINDOW = 200_000
"""Claude Code lets models of a larger window use it only when their name ends in ``[1m]`` (seen in 2.1)."""


def window_of(calls: pl.DataFrame) -> int | None:
    """The context window that the calls had: the usual one, the model's larger one where a prompt needed it."""
    from .prices import load_prices

    models = calls["model_family"].drop_nulls().mode().sort()
    if not len(models):
        return None
    cards = load_prices().frame().filter(pl.col("model") == models[0]).drop_nulls("context_window")
    if not len(cards):
        return None
    window = int(cards["context_window"].cast(pl.Int64).to_list()[-1])
    is_long = calls["requested_model"].str.contains("[1m]", literal=True).any()
    fits = calls["context_tokens"].fill_null(0).le(CLI_WINDOW).all()
    return min(window, CLI_WINDOW) if fits and not is_long else window


def main_file(chains: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """The rows in the session's own transcript; of several files, the one with most entries."""
    own = files.filter(pl.col("agent_id").is_null())["file_id"]
    rows = chains.filter(pl.col("file_id").is_in(own.implode()))
    rows = rows if len(rows) else chains
    if not len(rows):
        return rows
    largest = rows.group_by("file_id").len().sort("len", "file_id", descending=[True, False])["file_id"][0]
    return rows.filter(pl.col("file_id") == largest)
