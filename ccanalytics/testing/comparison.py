"""Two corpora, or two sets of runs, side by side: what differs, and which model, agent or tool it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ..cost import build_cost
from ..schema import Column, Table
from ..tables_of import eager

TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
AMOUNTS = ("calls", *TOKENS, "web_search_requests", "cost_usd")

COMPARISON = Table(
    "comparison",
    "measure of a group in two corpora",
    ("by", "key", "measure"),
    (
        Column("by", "str", "what the group is", values=("total", "model", "agent_type", "tool")),
        Column("key", "str", "model, agent type or tool; null for the totals"),
        Column("measure", "str", "what is counted"),
        Column("a", "f64", "in the first; null where it cannot be known (a model without a price)"),
        Column("b", "f64", "in the second"),
        Column("difference", "f64", "second less first"),
        Column("change", "f64", "difference as a part of the first; null where the first is 0"),
    ),
)

Side = Any
"""A loaded object, a folder to load, or ``(object, session ids)`` for some of its sessions."""


def compare(a: Side, b: Side, *, policy: Any = "list") -> pl.DataFrame:
    """Tokens, cost, calls, tools, turns and errors of ``a`` and ``b`` side by side, whole and by cause.

    Parameters
    ----------
    a, b
        A loaded object, a path to load, or a pair of a loaded object and ids of the sessions that count.
    policy
        Prices, as for ``t.cost``.

    Returns
    -------
    pl.DataFrame
        Table ``comparison``: ``by, key, measure, a, b, difference, change``. The totals come first; then models, agent
        types and tools, within each those first that explain most of the difference in cost.

    Examples
    --------
    >>> import ccanalytics as cc
    >>> t = cc.load_sample()
    >>> cc.compare(t, t).filter(by="total", measure="cost_usd")["difference"].to_list()
    [0.0]
    """
    left, right = (_measures(_side(side), policy) for side in (a, b))
    keys = ["by", "key", "measure"]
    marked = (
        f.rename({"value": name}).with_columns(pl.lit(True).alias(f"in_{name}"))
        for f, name in ((left, "a"), (right, "b"))
    )
    both = next(marked).join(next(marked), on=keys, how="full", coalesce=True, nulls_equal=True, validate="1:1")
    # A group that only one side has counts as nothing on the other; a cost that is unknown stays unknown.
    both = both.with_columns(pl.when(pl.col(f"in_{s}").is_null()).then(0.0).otherwise(s).alias(s) for s in ("a", "b"))
    both = both.with_columns(difference=pl.col("b") - pl.col("a"))
    both = both.with_columns(change=pl.when(pl.col("a") != 0).then(pl.col("difference") / pl.col("a")))
    return COMPARISON.conform(_ordered(both).select(COMPARISON.names))


def _side(side: Side) -> dict[str, pl.DataFrame]:
    """The tables that count."""
    if isinstance(side, str | Path):
        from ..load import load

        side = load(side)
    t, sessions = side if isinstance(side, tuple) else (side, None)
    names = ("calls", "tools", "turns", "agents", "compactions", "sessions")
    tables = {name: eager(getattr(t, name)) for name in names}
    return tables if sessions is None else _only(tables, list(sessions))


def _only(tables: dict[str, pl.DataFrame], sessions: Sequence[str]) -> dict[str, pl.DataFrame]:
    return {name: frame.filter(pl.col("session_id").is_in(sessions)) for name, frame in tables.items()}


def _measures(tables: dict[str, pl.DataFrame], policy: Any) -> pl.DataFrame:
    """``by, key, measure, value`` of one side."""
    calls, tools = tables["calls"], tables["tools"]
    parts = [_totals(tables, policy)]
    for by in ("model", "agent_type", "tool"):
        rows = build_cost(calls, by, policy=policy, agents=tables["agents"], tools=tools)
        parts.append(_long(rows.rename({by: "key"}), by, AMOUNTS))
    uses = tools.group_by(key="name").agg(
        pl.len().cast(pl.Float64).alias("tools"),
        (pl.col("outcome").cast(pl.String) == "error").sum().cast(pl.Float64).alias("tool_errors"),
    )
    parts.append(_long(uses, "tool", ("tools", "tool_errors")))
    return pl.concat(parts)


def _totals(tables: dict[str, pl.DataFrame], policy: Any) -> pl.DataFrame:
    tools, agents = tables["tools"], tables["agents"]
    counts = {
        "sessions": len(tables["sessions"]),
        "turns": len(tables["turns"].filter(pl.col("turn_no") > 0)),
        "tools": len(tools),
        "tool_errors": len(tools.filter(pl.col("outcome").cast(pl.String) == "error")),
        "agents": len(agents.filter(pl.col("agent_id").is_not_null())),
        "compactions": len(tables["compactions"]),
    }
    whole = build_cost(tables["calls"], None, policy=policy).with_columns(
        pl.lit(None, dtype=pl.String).alias("key"), *(pl.lit(float(v)).alias(k) for k, v in counts.items())
    )
    return _long(whole, "total", (*AMOUNTS, *counts))


def _long(rows: pl.DataFrame, by: str, measures: Sequence[str]) -> pl.DataFrame:
    wide = rows.select(pl.col("key").cast(pl.String), *(pl.col(m).cast(pl.Float64) for m in measures))
    long = wide.unpivot(list(measures), index="key", variable_name="measure", value_name="value")
    return long.select(pl.lit(by).alias("by"), "key", "measure", "value")


def _ordered(both: pl.DataFrame) -> pl.DataFrame:
    """Totals, then causes by the size of their difference in cost."""
    cost = both.filter(pl.col("measure") == "cost_usd").select("by", "key", pl.col("difference").abs().alias("weight"))
    both = both.join(cost, on=["by", "key"], how="left", nulls_equal=True, validate="m:1")
    order = ("cost_usd", *AMOUNTS[:-1], "sessions", "turns", "tools", "tool_errors", "agents", "compactions")
    groups = {"total": 0, "model": 1, "agent_type": 2, "tool": 3}
    return both.with_columns(
        pl.col("by").replace_strict(groups, return_dtype=pl.Int32).alias("group"),
        pl.col("measure").replace_strict({m: i for i, m in enumerate(order)}, return_dtype=pl.Int32).alias("place"),
    ).sort("group", "weight", "key", "place", descending=[False, True, False, False], nulls_last=True)
