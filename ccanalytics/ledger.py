"""Why each line that carries usage counts, or does not."""

from __future__ import annotations

import numpy as np
import polars as pl

from .advisors import advisor_iterations
from .policies import price_calls
from .schema.money import LEDGER, TOKENS
from .usage_lines import Usage, read_usage


def build_ledger(entries: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """One row per line that carries usage, with its call, its role and the rule that decided; by entry.

    Summing tokens over all rows is naive counting; the rows that are not kept, by role, are what it counts too much.
    A kept row stands for its call; advisor iterations of a kept line are rows of their own (``iteration_no`` from 1).

    Parameters
    ----------
    entries, files
        The tables of these names; of ``entries`` the usage lines with
        :data:`ccanalytics.usage_lines.CALL_COLUMNS` are enough.

    Returns
    -------
    pl.DataFrame
        The ``ledger`` table. Token counts are the line's own, cache writes by the rules of ``calls``.
    """
    return ledger_of(read_usage(entries, files))


def ledger_of(usage: Usage) -> pl.DataFrame:
    """The ``ledger`` table of grouped usage lines."""
    counted = _judged(usage)
    uncounted = usage.at_home(usage.other).with_columns(
        role=pl.when("is_synthetic").then(pl.lit("synthetic")).otherwise(pl.lit("error")),
        rule=pl.when("is_synthetic").then(pl.lit("synthetic_model")).otherwise(pl.lit("api_error")),
        is_kept=pl.lit(False),
        key=pl.lit(None, dtype=pl.String),
    )
    rows = pl.concat([counted, uncounted], how="diagonal_relaxed").select(
        "entry_id", "file_id", "line_no", "message_id", "request_id", "model", "timestamp", "role", "is_kept", "rule",
        *(c.name for c in TOKENS), "web_search_requests", "iterations", "speed", "service_tier", "inference_geo",
        iteration_no=pl.lit(0), session_id="home_session_id", agent_id="home_agent_id", call_id="key",
    )  # fmt: skip
    rows = pl.concat([rows.drop("iterations"), *_advisor_rows(rows)], how="diagonal_relaxed")
    rows = rows.with_columns(_cost_alone(rows)).drop("speed", "service_tier", "inference_geo")
    return LEDGER.conform(rows).sort("entry_id", "iteration_no")


def _cost_alone(rows: pl.DataFrame) -> pl.Series:
    """What each row would cost as a request of its own; null for lines of no request."""
    columns = {"first_at": pl.col("timestamp"), "source": pl.lit("transcript"), "recorded_cost_usd": pl.lit(None)}
    costs = price_calls(rows.with_columns(**columns), "list")["cost_usd"]
    return costs.set(rows["call_id"].is_null(), None)


def _judged(usage: Usage) -> pl.DataFrame:
    """Lines of answers with ``role``, ``rule`` and ``is_kept``."""
    lines = usage.lines
    if lines.is_empty():
        return usage.at_home(lines).with_columns(role=pl.lit(""), rule=pl.lit(""), is_kept=pl.lit(False))
    best = np.zeros(len(lines), dtype=bool)
    best[usage.best()] = True
    owners = usage.owners
    facts = usage.at_home(lines).with_columns(
        pl.Series("is_kept", best),
        pl.Series("home_file", usage.spread(lines["file_id"].to_numpy()[owners])),
        pl.Series("side_home", usage.spread(lines["is_side"].to_numpy()[owners])),
        pl.Series("most_output", usage.spread(usage.reduce(lines["output_tokens"].to_numpy(), np.maximum))),
    )
    is_compaction = pl.col("home_agent_id").str.starts_with("acompact").fill_null(False)
    unfinished = pl.col("stop_reason").is_null() & (pl.col("output_tokens") < pl.col("most_output"))
    only_placeholder = pl.col("stop_reason").is_null() & (pl.col("output_tokens") <= _PLACEHOLDER_TOKENS)
    cases = [
        (pl.col("is_kept") & pl.col("is_progress"), "progress", "progress_only"),
        (pl.col("is_kept") & only_placeholder, "partial", "only_placeholders"),
        (pl.col("is_kept"), "final", "largest_usage"),
        (pl.col("is_progress"), "progress", "progress_echo"),
        (pl.col("is_side") & is_compaction & (pl.col("file_id") != pl.col("home_file")), "compact_copy",
         "compaction_agent_copy"),
        (pl.col("is_side") & ~pl.col("side_home"), "replay", "side_agent_copy"),
        (pl.col("is_zeroed"), "copy", "zeroed_copy"),
        (pl.col("file_id") != pl.col("home_file"), "copy", "other_file"),
        (pl.col("is_again"), "repeat", "rewritten_line"),
        (unfinished, "partial", "same_message"),
    ]  # fmt: skip
    role, rule = pl.lit("repeat"), pl.lit("same_message")
    for condition, its_role, its_rule in reversed(cases):
        role = pl.when(condition).then(pl.lit(its_role)).otherwise(role)
        rule = pl.when(condition).then(pl.lit(its_rule)).otherwise(rule)
    return facts.with_columns(role=role, rule=rule)


_PLACEHOLDER_TOKENS = 8


def _advisor_rows(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """A row for every advisor iteration of a kept line."""
    has = pl.col("is_kept") & pl.col("iterations").str.contains('"advisor_message"', literal=True).fill_null(False)
    kept = rows.filter(has)
    added, place = [], []
    for at, text in enumerate(kept["iterations"]):
        for n, item in enumerate(advisor_iterations(text)):
            place.append(at)
            added.append({"iteration_no": n + 1, "call_id": f"{kept['call_id'][at]}:advisor:{n}", **item})
    if not added:
        return []
    schema = {"iteration_no": pl.Int32, "call_id": pl.String, "model": pl.String} | {c.name: pl.Int64 for c in TOKENS}
    advisors = pl.DataFrame(added, schema=schema)
    return [
        kept[place].drop("iterations").with_columns(
            *advisors.get_columns(),
            web_search_requests=pl.lit(0, dtype=pl.Int64),
            speed=pl.lit(None, dtype=pl.String),
            role=pl.lit("advisor"),
            rule=pl.lit("advisor_iteration"),
        )
    ]  # fmt: skip
