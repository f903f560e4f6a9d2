"""API requests, each once, however many lines in however many files tell of it."""

from __future__ import annotations

import numpy as np
import orjson
import polars as pl

from .advisors import advisor_calls
from .claude_code_cost import version_key
from .models import canonical_model
from .policies import price_calls
from .prices import Overrides, PriceTable
from .pricing import coded
from .schema.money import CALLS
from .usage_lines import COUNTS, Bools, Ints, Usage, read_usage

_OWNER = (
    "file_id", "entry_id", "version", "cwd", "git_branch", "entrypoint", "project", "worktree", "is_side",
)  # fmt: skip
_OWNER_LINE = (
    "key", "message_id", "request_id", "session_id", "agent_id", "file_id", "entry_id", "version", "cwd", "git_branch",
    "entrypoint", "is_side", "is_progress", "recorded_cost_usd",
)  # fmt: skip
_BEST = ("model", "requested_model", "speed", "service_tier", "inference_geo", "stop_reason")
_BEST_LINE = (*_BEST, "request_id", "recorded_cost_usd")
_PLACEHOLDER_TOKENS = 8
_NULL_STOP_MEANS_PARTIAL = (2, 1, 20)


def build_calls(
    entries: pl.DataFrame, files: pl.DataFrame, *, prices: Overrides | PriceTable | None = None
) -> pl.DataFrame:
    """One row per API request over all files, sorted by first time and call id.

    Lines are grouped by message id (else request id, else uuid); each count is the largest any line shows; the owner
    is the main thread's original, else the earliest file; the time is that of the first line. Synthetic and error
    lines are no calls. An advisor iteration is a call of its own.

    Parameters
    ----------
    entries
        The ``entries`` table, or its usage lines with :data:`ccanalytics.usage_lines.CALL_COLUMNS`.
    files
        The ``files`` table.
    prices
        The user's price cards for ``cost_usd``.

    Returns
    -------
    pl.DataFrame
        The ``calls`` table.
    """
    return name_progress_agents(calls_of(read_usage(entries, files), prices=prices), entries)


def name_progress_agents(calls: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    """``calls`` with the agent of those that only a progress line tells of: it stands in the line's data."""
    told = calls.filter(pl.col("source") == "progress")
    if told.is_empty() or "detail" not in entries.columns:
        return calls
    lines = entries.filter(pl.col("entry_id").is_in(told["entry_id"].implode())).select(
        "entry_id", told_agent=pl.col("detail").str.extract(r'"agentId":"([^"\\]+)"', 1)
    )
    is_told = pl.col("told_agent").is_not_null() & (pl.col("source") == "progress")
    return (
        calls.join(lines, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .with_columns(
            agent_id=pl.when(is_told).then(pl.coalesce("agent_id", "told_agent")).otherwise("agent_id"),
            is_sidechain=pl.col("is_sidechain") | is_told,
        )
        .drop("told_agent")
    )


def calls_of(usage: Usage, *, prices: Overrides | PriceTable | None = None) -> pl.DataFrame:
    """The ``calls`` table of grouped usage lines."""
    if not len(usage.starts):
        return CALLS.empty()
    best = usage.best()
    calls = _gathered(usage, best)
    calls = pl.concat([calls, *advisor_calls(calls, usage.lines["iterations"][best])], how="diagonal")
    calls = calls.with_columns(
        context_tokens=pl.sum_horizontal("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        model_family=pl.col("model").replace_strict(_families(calls["model"]), default=None, return_dtype=pl.String),
    ).with_columns(total_tokens=pl.col("context_tokens") + pl.col("output_tokens"))
    calls = calls.sort("first_at", "call_id", nulls_last=True)
    calls = calls.with_columns(price_calls(calls, prices=prices)["cost_usd"])
    return CALLS.conform(calls)


def _families(models: pl.Series) -> dict[str, str]:
    return {m: canonical_model(m) or m for m in models.drop_nulls().unique()}


def _gathered(usage: Usage, best: Ints) -> pl.DataFrame:
    """Every answer with its counts, its owner's place and the wording of its best line."""
    lines, owners = usage.lines, usage.owners
    owner = usage.at_home(lines.select(_OWNER_LINE)[owners])
    final = lines.select(_BEST_LINE)[best]
    counts = {c: usage.reduce(lines[c].to_numpy(), np.maximum) for c in COUNTS}
    written, hour = counts["cache_creation_input_tokens"], counts["ephemeral_1h_input_tokens"]
    return (
        owner.select(_OWNER)
        .with_columns(
            owner["key"].alias("call_id"),
            owner["message_id"],
            pl.coalesce(owner["request_id"], final["request_id"]).alias("request_id"),
            owner["home_session_id"].alias("session_id"),
            owner["home_agent_id"].alias("agent_id"),
            *(final[c] for c in _BEST),
            *(pl.Series(c, v) for c, v in counts.items()),
            pl.Series("ephemeral_5m_input_tokens", written - hour),
            *_times(usage),
            pl.Series("n_lines", usage.sizes),
            pl.Series("n_files", _count_files(usage)),
            pl.Series("is_partial", _is_partial(usage, best)),
            pl.Series("is_superseded", _is_superseded(usage)),
            pl.col("is_side").alias("is_sidechain"),
            pl.when(owner["is_progress"]).then(pl.lit("progress")).otherwise(pl.lit("transcript")).alias("source"),
            pl.coalesce(final["recorded_cost_usd"], owner["recorded_cost_usd"]).alias("recorded_cost_usd"),
        )
        .drop("is_side")
    )


def _times(usage: Usage) -> tuple[pl.Series, pl.Series]:
    """First time on any line, last time on a line of the owning file."""
    lines = usage.lines
    files = lines["file_id"].to_numpy()
    home = files == usage.spread(files[usage.owners])
    at = lines["timestamp"].dt.epoch("ms")
    late, early = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    first = usage.reduce(at.fill_null(late).to_numpy(), np.minimum)
    last = usage.reduce(np.where(home, at.fill_null(early).to_numpy(), early), np.maximum)
    return _moments("first_at", first, late), _moments("last_at", last, early)


def _moments(name: str, milliseconds: Ints, missing: int) -> pl.Series:
    values = pl.Series(name, milliseconds)
    times = values.set(values == missing, None).cast(pl.Datetime("ms"))
    return times.dt.replace_time_zone("UTC")


def _count_files(usage: Usage) -> Ints:
    """Files that the lines of each answer are in."""
    files = usage.lines["file_id"].to_numpy().astype(np.int64)
    several = usage.reduce(files, np.minimum) < usage.reduce(files, np.maximum)
    answer = np.repeat(np.flatnonzero(several), usage.sizes[several])
    pairs = np.unique(np.stack([answer, files[usage.order[np.repeat(several, usage.sizes)]]]), axis=1)
    counts: Ints = np.bincount(pairs[0], minlength=len(several))
    return np.maximum(counts, 1)


def _is_partial(usage: Usage, best: Ints) -> Bools:
    """Answers that have only the placeholder their stream began with.

    From 2.1.20 on a line without a stop reason was written before the end; earlier versions leave it out on final
    lines too, and there a few tokens for more words than they can hold give it away.
    """
    lines = usage.lines
    codes, names = coded(lines["version"])
    is_new = np.asarray([*(version_key(n) >= _NULL_STOP_MEANS_PARTIAL for n in names), True])[codes][best]
    output = lines["output_tokens"].to_numpy()[best]
    stopped = usage.reduce(lines["stop_reason"].is_not_null().to_numpy(), np.logical_or)
    chars = usage.reduce(lines["n_chars"].fill_null(0).to_numpy(), np.maximum)
    calls_tool = usage.reduce(lines["n_tool_uses"].fill_null(0).to_numpy() > 0, np.logical_or)
    says_more = calls_tool | (chars > _PLACEHOLDER_TOKENS * output)
    unfinished = ~stopped & (output <= _PLACEHOLDER_TOKENS) & (is_new | says_more)
    return unfinished | usage.reduce(_is_cut(usage), np.logical_or)


def _is_cut(usage: Usage) -> Bools:
    """Lines right before one that says the stream was cut: such an answer can have a stop reason of its own making."""
    said = pl.col("detail").str.contains('"streamCutCause"', literal=True).fill_null(False)
    cuts = usage.other.filter(said).select("file_id", "entry_id").sort("entry_id")
    if cuts.is_empty():
        return np.zeros(len(usage.lines), dtype=bool)
    lines = usage.lines.select("file_id", "entry_id", "key").sort("entry_id")
    last = cuts.join_asof(lines.with_columns(cut="entry_id"), on="entry_id", by="file_id", check_sortedness=False)
    is_cut: Bools = usage.lines["entry_id"].is_in(last["cut"].drop_nulls().to_list()).to_numpy()
    return is_cut


def _is_superseded(usage: Usage) -> Bools:
    """Answers that a line of another answer says it supersedes (after a refusal or a fallback)."""
    lines = usage.lines
    named: set[str] = set()
    for text in lines["detail"].filter(lines["detail"].str.contains('"supersedes"', literal=True).fill_null(False)):
        value = orjson.loads(text).get("supersedes")
        named |= {v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)}
    if not named:
        return np.zeros(len(usage.starts), dtype=bool)
    hit = lines.select(
        pl.any_horizontal(pl.col("uuid", "message_id", "request_id").is_in(list(named))).fill_null(False)
    )
    return usage.reduce(hit.to_series().to_numpy(), np.logical_or)
