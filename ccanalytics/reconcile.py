"""Our cost beside the cost Claude Code itself recorded, and what the difference is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from .hidden import HIDDEN_CAUSES, bounds, build_evidence, cut_characters
from .models import canonical_model, named_model
from .policies import price_calls
from .prices import Overrides, PriceTable, load_prices
from .records import TOKEN_FIELDS, Record, cost_states, last_costs
from .schema.money import CAUSES, REPORTS

RECONCILIATION = REPORTS["reconciliation"]
_PLACEHOLDER_TOKENS = 8
_ROUNDING = 1e-9


def build_reconciliation(
    calls: pl.DataFrame,
    entries: pl.DataFrame,
    blocks: pl.DataFrame,
    files: pl.DataFrame,
    *,
    records: Sequence[Record] | None = None,
    prices: Overrides | PriceTable | None = None,
) -> pl.DataFrame:
    """One row per session: recorded cost, the transcript's, and the gap split into causes; by session id.

    The gap is the recorded total less the calls the session owns, priced as Claude Code does. First comes off it what
    is known exactly: what a fork carried over, runs that left no total, models without a card. The rest goes to the
    causes the transcript shows signs of; where there are several, by their estimated size. Without a record the gap is
    null and only the bounds of hidden spend are given.

    Parameters
    ----------
    calls, entries, blocks, files
        The tables of these names.
    records
        What Claude Code recorded; default: the cost-state lines, and ``.claude.json`` of the files' roots.
    prices
        The user's price cards, for the bounds and ``list_cost_usd``.
    """
    prices = load_prices(prices)
    if records is None:
        # A session's last word counts; its own lines come before the project's last-session note.
        records = [*last_costs(files["root"].drop_nulls().unique(maintain_order=True)), *cost_states(entries, files)]
    latest = {r.session_id: r for r in records}
    costed = calls.with_columns(
        price_calls(calls, "claude-code")["cost_usd"].alias("charged_usd"),
        price_calls(calls, prices=prices)["cost_usd"],
    )
    carried = _carried(costed, entries, files, records)
    sessions = _sessions(costed, build_evidence(entries, blocks, files), latest)
    chars = _partial_chars(costed, entries, blocks)
    own = dict(iter(costed.partition_by("session_id", as_dict=True).items()))
    rows = []
    for facts in sessions.iter_rows(named=True):
        mine = own.get((facts["session_id"],), costed.clear())
        rows.append(_reconciled(facts, mine, latest.get(facts["session_id"]), carried, chars, prices))
    return (
        RECONCILIATION.conform(pl.DataFrame(rows, infer_schema_length=None)).sort("session_id")
        if rows
        else (RECONCILIATION.empty())
    )


def _sessions(calls: pl.DataFrame, evidence: pl.DataFrame, latest: dict[str, Record]) -> pl.DataFrame:
    """Every session that has calls, a record or signs of hidden spend."""
    named = pl.concat(
        [
            calls.select("session_id"),
            evidence.select("session_id"),
            pl.DataFrame({"session_id": list(latest)}, schema={"session_id": pl.String}),
        ]
    )
    names = named.drop_nulls().unique().sort("session_id")
    joined = names.join(evidence, on="session_id", how="left", validate="1:1", maintain_order="left")
    return joined.with_columns(pl.exclude("session_id").fill_null(0))


def _partial_chars(calls: pl.DataFrame, entries: pl.DataFrame, blocks: pl.DataFrame) -> dict[str, int]:
    partial = calls.filter("is_partial")
    if partial.is_empty():
        return {}
    return dict(cut_characters(partial, entries, blocks).iter_rows())


def _reconciled(
    facts: dict[str, object],
    calls: pl.DataFrame,
    record: Record | None,
    carried: dict[str, float],
    chars: dict[str, int],
    prices: PriceTable,
) -> dict[str, object]:
    """The row of one session."""
    session = str(facts["session_id"])
    evidence = {k: int(v) for k, v in facts.items() if isinstance(v, int)}
    partial = calls.filter("is_partial")
    version = _last_text(calls["version"])
    limits = bounds(
        evidence,
        model=_main_model(calls),
        version=version,
        partial_chars=sum(chars.get(c, 0) for c in partial["call_id"]),
        prices=prices,
    )
    shown = math.fsum(calls["charged_usd"].drop_nulls())
    row: dict[str, object] = {
        "session_id": session,
        "project": _last_text(calls["project"]),
        "version": version,
        "calls": len(calls),
        "partial_calls": len(partial),
        "transcript_cost_usd": shown,
        "list_cost_usd": _sum_or_none(calls["cost_usd"]),
        "line_recorded_cost_usd": _sum_or_none(calls["recorded_cost_usd"]) if len(calls) else None,
        "hidden_lower_usd": math.fsum(low for low, _ in limits.values()),
        "hidden_upper_usd": math.fsum(high for _, high in limits.values()),
        "best_estimate_usd": shown,
    }
    if record is None:
        return row
    base = carried.get(session, 0.0)
    parts, is_shared = _split(record, calls, base, evidence, limits)
    return row | {
        "recorded_in": record.found_in,
        "recorded_cost_usd": record.total_usd,
        "gap_usd": record.total_usd - shown,
        **{f"{cause}_usd": parts.get(cause, 0.0) for cause in CAUSES},
        "is_shared_out": is_shared,
        "hidden_cost_usd": math.fsum(max(parts.get(c, 0.0), 0.0) for c in HIDDEN_CAUSES),
        "best_estimate_usd": max(record.total_usd - base, shown),
    }


def _sum_or_none(column: pl.Series) -> float | None:
    known = column.drop_nulls()
    return math.fsum(known) if len(known) or not len(column) else None


def _main_model(calls: pl.DataFrame) -> str | None:
    """The model of most requests on the main thread, the latest of equals."""
    main = calls.filter(~pl.col("is_sidechain").fill_null(False))
    counts = (
        (main if len(main) else calls).group_by("model", maintain_order=True).len().sort("len", maintain_order=True)
    )
    return _last_text(counts["model"])


def _last_text(column: pl.Series) -> str | None:
    known = column.drop_nulls()
    return str(known[-1]) if len(known) else None


def _split(
    record: Record,
    calls: pl.DataFrame,
    base: float,
    evidence: dict[str, int],
    limits: dict[str, tuple[float, float]],
) -> tuple[dict[str, float], bool]:
    """Amounts by cause, which sum to the gap, and whether several hidden causes had to share one amount."""
    parts: dict[str, float] = {}
    if base:
        parts["fork_trunks"] = base
    counted = calls
    if record.start_ms is not None:
        before = pl.col("last_at").dt.epoch("ms") < record.start_ms
        killed = calls.filter(before.fill_null(False)) if not base else calls.clear()
        if len(killed):
            parts["killed_runs"] = -math.fsum(killed["charged_usd"].drop_nulls())
            counted = calls.filter(~before.fill_null(False))
    hidden = _hidden_tokens(record, counted) if record.models and not base else {}
    if record.has_unknown_model or any(canonical_model(m) is None for m in record.models):
        amount = _unknown_amount(record, counted, hidden)
        if amount:
            parts["unknown_models"] = amount
    shown = math.fsum(calls["charged_usd"].drop_nulls())
    rest = record.total_usd - shown - math.fsum(parts.values())
    causes = _causes_of(rest, record, calls, evidence, limits, hidden)
    weights = math.fsum(causes.values())
    for cause, weight in causes.items():
        parts[cause] = parts.get(cause, 0.0) + rest * weight / weights
    return parts, len(causes) > 1


def _hidden_tokens(record: Record, calls: pl.DataFrame) -> dict[str, dict[str, float]]:
    """By model: tokens recorded less tokens shown."""
    charged = pl.coalesce("requested_model", "model")
    shown = calls.with_columns(charged=charged).group_by("charged").agg(pl.col(*TOKEN_FIELDS).sum())
    sums: dict[str, dict[str, float]] = {m: {k: row[k] for k in TOKEN_FIELDS} for m, row in record.models.items()}
    for row in shown.iter_rows(named=True):
        name = named_model(row["charged"] or "") or row["charged"]
        if name in sums:
            for kind in TOKEN_FIELDS:
                sums[name][kind] -= row[kind]
    return sums


def _unknown_amount(record: Record, calls: pl.DataFrame, hidden: dict[str, dict[str, float]]) -> float:
    """What models without a card cost more than the usual card says, where the transcript shows all their tokens."""
    total = 0.0
    for name, usage in record.models.items():
        if canonical_model(name) is None and not any(hidden.get(name, {}).values()):
            asked = calls.filter(pl.coalesce("requested_model", "model") == name)
            total += usage["cost_usd"] - math.fsum(asked["charged_usd"].drop_nulls())
    return total


def _causes_of(
    rest: float,
    record: Record,
    calls: pl.DataFrame,
    evidence: dict[str, int],
    limits: dict[str, tuple[float, float]],
    hidden: dict[str, dict[str, float]],
) -> dict[str, float]:
    """The causes the rest of the gap goes to, with their weights."""
    if abs(rest) <= _ROUNDING * max(abs(record.total_usd), 1e-6):
        return {"rounding": 1.0} if rest else {}
    has_partial = bool(calls["is_partial"].any())
    cut = "cut_streams" if evidence["n_cuts"] or rest < 0 else "partial_lines"
    more = {k: math.fsum(h[k] for h in hidden.values()) for k in TOKEN_FIELDS}
    input_agrees = bool(hidden) and not any(more[k] for k in TOKEN_FIELDS if k != "output_tokens")
    if has_partial and (rest < 0 or input_agrees):
        return {cut: 1.0}
    if rest < 0:
        return {"unrecorded_runs": 1.0} if calls["last_at"].null_count() < len(calls) else {"unexplained": 1.0}
    # An attempt that was cut off counts with the input it began with and next to no output, and leaves no line.
    if (hidden and 0 < more["output_tokens"] <= _PLACEHOLDER_TOKENS) or (evidence["n_retries"] and not limits):
        return {"cut_streams": 1.0}
    return {c: (low + high) / 2 for c, (low, high) in limits.items() if low + high > 0} or {"unexplained": 1.0}


def _carried(
    calls: pl.DataFrame, entries: pl.DataFrame, files: pl.DataFrame, records: Sequence[Record]
) -> dict[str, float]:
    """By forked session: the total it started from, the last one its parent had written by then.

    A fork keeps the start time of the family and copies the parent's messages; the parent is who owns the last copy.
    """
    by_start: dict[int, set[str]] = {}
    for r in records:
        if r.start_ms is not None and r.entry_id is not None:
            by_start.setdefault(r.start_ms, set()).add(r.session_id)
    forks = {s for family in by_start.values() if len(family) > 1 for s in family}
    if not forks:
        return {}
    parents = _parents(calls, entries, files, forks)
    written = _written_at(entries, records)
    carried = {}
    for fork, (parent, began) in parents.items():
        totals = [(at, r.total_usd) for at, r in written if r.session_id == parent and at <= began]
        if totals:
            carried[fork] = totals[-1][1]
    return carried


def _parents(
    calls: pl.DataFrame, entries: pl.DataFrame, files: pl.DataFrame, forks: set[str]
) -> dict[str, tuple[str, int]]:
    """By fork: the session that owns the last message copied into it, and when the fork's own lines began."""
    homes = files.filter(pl.col("kind") == "session").select("file_id", fork="session_id")
    lines = entries.select("entry_id", "file_id", "message_id", "timestamp", "uuid").join(
        homes.filter(pl.col("fork").is_in(list(forks))), on="file_id", how="inner", validate="m:1"
    )
    owned = calls.filter(pl.col("source") == "transcript").select("message_id", "session_id", "first_at").unique(
        "message_id", keep="first", maintain_order=True
    )  # fmt: skip
    copies = lines.join(owned, on="message_id", how="inner", validate="m:1").filter(
        pl.col("session_id") != pl.col("fork")
    )
    last = copies.sort("first_at", "entry_id").group_by("fork").agg(pl.col("session_id").last())
    shared = lines.filter(pl.col("uuid").is_not_null() & pl.col("uuid").is_duplicated())["uuid"].unique()
    began = lines.filter(~pl.col("uuid").is_in(shared.to_list()).fill_null(False)).group_by("fork").agg(
        pl.col("timestamp").min().dt.epoch("ms").alias("began")
    )  # fmt: skip
    rows = last.join(began, on="fork", how="inner", validate="1:1").drop_nulls()
    return {fork: (parent, began) for fork, parent, began in rows.iter_rows()}


def _written_at(entries: pl.DataFrame, records: Sequence[Record]) -> list[tuple[int, Record]]:
    """Cost-state records with the time they were written at the earliest: that of the last dated line before."""
    dated = entries.select("entry_id", at=pl.col("timestamp").dt.epoch("ms").forward_fill().over("file_id"))
    lines = [r for r in records if r.entry_id is not None]
    wanted = pl.DataFrame({"entry_id": [r.entry_id for r in lines]}, schema={"entry_id": pl.Int64})
    times = wanted.join(dated, on="entry_id", how="left", validate="m:1", maintain_order="left")["at"].fill_null(0)
    return sorted(zip(times.to_list(), lines, strict=True), key=lambda pair: pair[0])
