"""Spend that no assistant line shows: what a transcript tells of it, and between which bounds it lies.

Each kind is estimated by a stated rule from what is on disk, at the list prices of the session's main model:

==================== ====================================== =====================================================
kind                 at the least                           at the most
==================== ====================================== =====================================================
compaction call      its prompt read from the cache         its prompt written for an hour, summary at 2 chars/token
WebSearch side call  one search                             one search, 20 000 tokens in, 4 000 out
prompt hook          nothing (it may be a command)          10 000 tokens in, 500 out per hook run
title                nothing                                4 000 tokens in, 100 out
small-model call     nothing                                before 2.1.88: 2 000 in, 200 out per prompt and command
cut or partial line  nothing                                its visible characters at 2 per token
==================== ====================================== =====================================================
"""

from __future__ import annotations

import polars as pl

from .claude_code_cost import version_key
from .prices import PriceTable

EVIDENCE = (
    "n_compactions", "compacted_tokens", "summary_chars", "n_searches", "n_hooks", "n_titles", "n_prompts", "n_shells",
    "n_cuts", "n_retries",
)  # fmt: skip
_SMALL_MODEL_UNTIL = (2, 1, 88)
HIDDEN_CAUSES = (
    "compaction_calls", "web_search_side_calls", "prompt_hooks", "title_calls", "small_model_calls", "cut_streams",
    "partial_lines",
)  # fmt: skip


def build_evidence(entries: pl.DataFrame, blocks: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """One row per session: counts of what points to spend without a line, each event once over all copies."""
    homes = files.select("file_id", "first_at", "kind", home="session_id", file_agent="agent_id")
    lines = entries.join(homes, on="file_id", how="left", validate="m:1", maintain_order="left")
    lines = lines.with_columns(pl.coalesce("home", "session_id").alias("home"))
    # A copy has the uuid of its original; lines without one are never copied.
    once = lines.sort("first_at", "entry_id", nulls_last=True).filter(
        pl.col("uuid").is_null() | pl.col("uuid").is_first_distinct()
    )
    has_compaction_file = once.filter(pl.col("file_agent").str.starts_with("acompact").fill_null(False))[
        "home"
    ].unique()
    is_boundary = (pl.col("subtype") == "compact_boundary") & ~pl.col("home").is_in(has_compaction_file.to_list())
    is_summary = pl.col("is_compact_summary").fill_null(False)
    is_hook = (pl.col("type") == "attachment") & pl.col("subtype").str.starts_with("hook_")
    is_cut = pl.col("detail").str.contains('"streamCutCause"', literal=True) | (pl.col("prompt_kind") == "interrupt")
    counts = once.group_by(session_id="home").agg(
        n_compactions=is_boundary.sum(),
        compacted_tokens=pl.when(is_boundary).then(_pre_tokens()).sum(),
        summary_chars=pl.when(is_summary).then("n_chars").sum(),
        n_hooks=is_hook.sum(),
        n_titles=(pl.col("type") == "ai-title").any().cast(pl.Int64),
        n_prompts=(pl.col("prompt_kind") == "typed").sum(),
        n_cuts=is_cut.sum(),
        n_retries=(pl.col("subtype") == "api_error").sum(),
    )
    tools = _tool_counts(once, blocks)
    joined = counts.join(tools, on="session_id", how="left", validate="1:1", maintain_order="left")
    return joined.filter(pl.col("session_id").is_not_null()).select(
        "session_id", *(pl.col(c).fill_null(0).cast(pl.Int64) for c in EVIDENCE)
    )


def _pre_tokens() -> pl.Expr:
    return pl.col("detail").str.extract(r'"preTokens":(\d{1,12})').cast(pl.Int64)


def _tool_counts(lines: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    calls = blocks.filter((pl.col("type") == "tool_use") & pl.col("tool_name").is_in(["WebSearch", "Bash"]))
    homes = lines.select("entry_id", session_id="home")
    placed = calls.join(homes, on="entry_id", how="inner", validate="m:1", maintain_order="left")
    placed = placed.unique(["session_id", "tool_use_id"], keep="first", maintain_order=True)
    return placed.group_by("session_id").agg(
        n_searches=(pl.col("tool_name") == "WebSearch").sum(), n_shells=(pl.col("tool_name") == "Bash").sum()
    )


def cut_characters(partial: pl.DataFrame, entries: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """``call_id, chars``: text, tool names and tool inputs that partial calls show, in their owning file."""
    lines = entries.filter(pl.col("message_id").is_in(partial["message_id"].drop_nulls().to_list())).select(
        "entry_id", "message_id", "file_id"
    )
    owned = partial.select("call_id", "message_id", "file_id")
    placed = blocks.join(lines, on="entry_id", how="inner", validate="m:1").join(
        owned, on=["message_id", "file_id"], how="inner", validate="m:m"
    )
    size = (
        pl.col("n_chars").fill_null(0)
        + pl.col("n_bytes").fill_null(0)
        + pl.col("tool_name").str.len_chars().fill_null(0)
    )
    return placed.group_by("call_id").agg(chars=size.filter(pl.col("type").is_in(["text", "tool_use"])).sum())


def bounds(
    evidence: dict[str, int],
    *,
    model: str | None,
    version: str | None,
    partial_chars: int,
    prices: PriceTable,
) -> dict[str, tuple[float, float]]:
    """Lower and upper estimate in USD of each kind of hidden spend a session has signs of; see the module."""
    cards = prices.find(model or "")
    if not cards:
        return {}
    card = cards[0]
    given, output, _, write_1h, read = (r / 1e6 if r == r else 0.0 for r in card.rates)
    old = evidence["n_prompts"] + evidence["n_shells"] if version_key(version) < _SMALL_MODEL_UNTIL else 0
    tokens = evidence["compacted_tokens"]
    each = {
        "compaction_calls": (
            evidence["n_compactions"],
            tokens * read,
            tokens * write_1h + evidence["summary_chars"] / 2 * output,
        ),
        "web_search_side_calls": (
            evidence["n_searches"],
            evidence["n_searches"] * card.web_search,
            evidence["n_searches"] * (card.web_search + 20_000 * given + 4_000 * output),
        ),
        "prompt_hooks": (evidence["n_hooks"], 0.0, evidence["n_hooks"] * (10_000 * given + 500 * output)),
        "title_calls": (evidence["n_titles"], 0.0, evidence["n_titles"] * (4_000 * given + 100 * output)),
        "small_model_calls": (old, 0.0, old * (2_000 * 1e-6 + 200 * 5e-6)),
        "cut_streams" if evidence["n_cuts"] else "partial_lines": (partial_chars, 0.0, partial_chars / 2 * output),
    }
    return {cause: (low, high) for cause, (n, low, high) in each.items() if n}
