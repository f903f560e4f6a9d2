"""Cost by time, place, model, agent or tool: the same totals whichever way one slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import Literal

import polars as pl

from .cache_use import CACHE_NAMES, cache_use_of_calls
from .cost_keys import KEYS, key_names, split_by_tool, with_blocks
from .errors import UsageError
from .policies import Policy, price_calls
from .prices import Overrides, PriceTable
from .pricing import PART_NAMES
from .schema.money import COST_MEASURES, TOKENS
from .zones import parse_moment, zone

Detail = Literal["plain", "parts", "full"]
Moment = str | date | datetime

_TOKEN_NAMES = tuple(c.name for c in TOKENS)
_COUNTS = (*_TOKEN_NAMES, "web_search_requests")
_MEASURES = tuple(c.name for c in COST_MEASURES)


def build_cost(
    calls: pl.DataFrame,
    by: str | Sequence[str] | None = None,
    *,
    tz: str | None = None,
    policy: Policy = "list",
    prices: Overrides | PriceTable | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    detail: Detail = "plain",
    agents: pl.DataFrame | None = None,
    tools: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Tokens, calls and cost, one row per combination of the keys that occurs, sorted by the keys.

    Parameters
    ----------
    calls
        The ``calls`` table (with ``turn_no`` for the key ``turn``).
    by
        Keys, as a list or comma-separated: hour, day, week (its Monday), month (its first day), block (five-hour
        window, an estimate), session, project, worktree, branch, model, model_family, requested_model, agent,
        agent_type, tool, turn, entrypoint, version, cwd, speed, service_tier, source. None: one row with the totals.
    tz
        Zone of hours, days, weeks and months, by name; default the machine's own. A call counts when it began.
    policy
        ``list``, ``claude-code`` or ``ccusage``; see :mod:`ccanalytics.policies`.
    prices
        The user's price cards.
    since, until
        Only calls from this moment on and before that one; a date as ``until`` is included whole.
    detail
        ``plain``; ``parts`` adds the cost in parts; ``full`` also what the cache saved and lost, shares and running
        totals.
    agents, tools
        The tables of these names, for the keys ``agent_type`` and ``tool``.

    Returns
    -------
    pl.DataFrame
        The keys, then the columns of :data:`ccanalytics.schema.money.COST_MEASURES`. ``cost_usd`` is the exact sum of
        the priced calls, rounded once; null when none of the calls has a price. With the key ``tool`` a call's tokens
        and cost are shared out over the tool calls it asked for.
    """
    names = key_names(by)
    if detail not in ("plain", "parts", "full"):
        raise UsageError(f"detail is {detail!r}; allowed: plain, parts, full", detail=detail)
    zone(tz)
    rows = _in_span(calls, since, until, tz)
    extra = (*(() if detail == "plain" else PART_NAMES), *(CACHE_NAMES if detail == "full" else ()))
    rows = _measured(rows, policy, prices, extra)
    rows = _with_keys(rows, names, agents, tools, tz)
    sums = _sum_up(rows, names, extra)
    return _with_shares(sums) if detail == "full" else sums


def _in_span(calls: pl.DataFrame, since: Moment | None, until: Moment | None, tz: str | None) -> pl.DataFrame:
    if since is not None:
        calls = calls.filter(pl.col("first_at") >= parse_moment(since, tz=tz))
    if until is not None:
        calls = calls.filter(pl.col("first_at") < parse_moment(until, tz=tz, is_end=True))
    return calls


def _measured(
    calls: pl.DataFrame, policy: Policy, prices: Overrides | PriceTable | None, extra: Sequence[str]
) -> pl.DataFrame:
    """Calls with every measure as a column of its own, to be summed."""
    costs = price_calls(calls, policy, prices=prices)
    columns = [costs["cost_usd"], *(costs[c] for c in extra if c in PART_NAMES)]
    if any(c in CACHE_NAMES for c in extra):
        columns += cache_use_of_calls(calls, prices=prices).get_columns()
    return calls.with_columns(*columns, pl.col(_COUNTS).fill_null(0)).with_columns(
        calls=pl.lit(1, dtype=pl.Int64),
        partial_calls=pl.col("is_partial").fill_null(False).cast(pl.Int64),
        unpriced_calls=pl.col("cost_usd").is_null().cast(pl.Int64),
    )


def _with_keys(
    rows: pl.DataFrame, names: Sequence[str], agents: pl.DataFrame | None, tools: pl.DataFrame | None, tz: str | None
) -> pl.DataFrame:
    if "block" in names:
        rows = with_blocks(rows)
    if "turn" in names and "turn_no" not in rows.columns:
        raise UsageError("cost by turn needs calls with turn_no; use t.cost(by='turn')", by="turn")
    if "agent_type" in names:
        rows = _with_agent_types(rows, agents)
    if "tool" in names:
        if tools is None:
            raise UsageError("cost by tool needs the tools table; use t.cost(by='tool')", by="tool")
        rows = split_by_tool(rows, tools, _COUNTS)
    # Keys and measures share names (a session has calls), so keys are kept under names of their own until the end.
    return rows.with_columns(KEYS[n](tz).alias(f"key:{n}") for n in names)


def _with_agent_types(rows: pl.DataFrame, agents: pl.DataFrame | None) -> pl.DataFrame:
    if agents is None:
        raise UsageError("cost by agent_type needs the agents table; use t.cost(by='agent_type')", by="agent_type")
    types = agents.filter(pl.col("agent_id").is_not_null()).select("session_id", "agent_id", "agent_type")
    types = types.unique(["session_id", "agent_id"], keep="first", maintain_order=True)
    rows = rows.join(types, on=["session_id", "agent_id"], how="left", validate="m:1", maintain_order="left")
    is_main = pl.col("agent_id").is_null() & ~pl.col("is_sidechain").fill_null(False)
    return rows.with_columns(
        pl.when(is_main)
        .then(pl.lit("main"))
        .otherwise(pl.coalesce("agent_type", pl.lit("unknown")))
        .alias("agent_type")
    )


def _sum_up(rows: pl.DataFrame, names: Sequence[str], extra: Sequence[str]) -> pl.DataFrame:
    """Group sums; whole numbers by polars, money exactly (each sum rounded once, whatever the order of its terms)."""
    keys = [f"key:{n}" for n in names]
    whole = [pl.col(c).sum() for c in (*_COUNTS, "calls", "partial_calls", "unpriced_calls")]
    money = ["cost_usd", *extra]
    if not names:
        sums = rows.select(*whole, *(pl.col(c).implode() for c in money))
    else:
        sums = rows.group_by(keys, maintain_order=True).agg(*whole, pl.col(money)).sort(keys, nulls_last=True)
    sums = sums.with_columns(pl.Series(c, _exact_sums(sums[c]), dtype=pl.Float64) for c in money)
    return sums.select(*(pl.col(k).alias(n) for k, n in zip(keys, names, strict=True)), *_MEASURES, *extra)


def _exact_sums(lists: pl.Series) -> list[float | None]:
    """Exact sum of each list of numbers, rounded once; None where there are numbers missing and no others."""
    return [_exact_sum(values) for values in lists.to_list()]


def _exact_sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return math.fsum(known) if known or not values else None


def _with_shares(sums: pl.DataFrame) -> pl.DataFrame:
    """What is derived from the sums: shares of the whole, running totals, how much of the input came from the cache."""
    total = _exact_sum(sums["cost_usd"].to_list())
    context = pl.sum_horizontal("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sums.with_columns(
        total_tokens=context + pl.col("output_tokens"),
        cache_read_share=pl.when(context > 0).then(pl.col("cache_read_input_tokens") / context),
        cost_share=pl.col("cost_usd") / total if total else pl.lit(None, dtype=pl.Float64),
        running_cost_usd=pl.col("cost_usd").fill_null(0.0).cum_sum(),
    )


def unpriced_models(calls: pl.DataFrame, costs: pl.Series) -> list[str]:
    """Models, as written, that have tokens and no price, in alphabetical order."""
    return sorted(calls["model"].filter(costs.is_null()).fill_null("(no model)").unique().to_list())


def cost_report(
    calls: pl.DataFrame,
    by: str | Sequence[str] | None = "day",
    *,
    tz: str | None = None,
    policy: Policy = "list",
    prices: Overrides | PriceTable | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    agents: pl.DataFrame | None = None,
    tools: pl.DataFrame | None = None,
) -> dict[str, object]:
    """Rows, totals and unpriced models of a cost report, ready for JSON; parameters as for :func:`build_cost`."""
    rows = build_cost(
        calls, by, tz=tz, policy=policy, prices=prices, since=since, until=until, agents=agents, tools=tools
    )
    totals = build_cost(calls, tz=tz, policy=policy, prices=prices, since=since, until=until)
    counted = _in_span(calls, since, until, tz)
    return {
        "rows": plain_rows(rows),
        "totals": totals.to_dicts()[0],
        "unpriced_models": unpriced_models(counted, price_calls(counted, policy, prices=prices)["cost_usd"]),
    }


def plain_rows(rows: pl.DataFrame) -> list[dict[str, object]]:
    """Rows with times as text: days and weeks ``2026-03-01``, months ``2026-03``, hours and blocks with offset."""
    texts = [
        pl.col(name).dt.to_string("%Y-%m" if name == "month" else "%Y-%m-%d")
        if dtype == pl.Date
        else pl.col(name).dt.to_string("%Y-%m-%dT%H:%M:%S%:z")
        for name, dtype in rows.schema.items()
        if dtype.is_temporal()
    ]
    return rows.with_columns(texts).to_dicts()
