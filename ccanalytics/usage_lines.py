"""Lines that carry usage, put in order and grouped into API answers, over all files at once.

One answer is written as several lines, again by forks, resumes, compaction agents and side questions, and echoed by
progress lines. The lines of one answer share a message id; which of them owns it, and which one has the final counts,
is decided here once for both the ledger and the calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from .reused_ids import split_reused

CALL_COLUMNS = (
    "entry_id", "file_id", "line_no", "type", "uuid", "session_id", "agent_id", "timestamp", "is_sidechain", "cwd",
    "git_branch", "version", "entrypoint", "is_api_error_message", "request_id", "message_id", "model",
    "requested_model", "stop_reason", "n_tool_uses", "n_chars", "has_usage", "input_tokens", "output_tokens",
    "cache_creation_input_tokens", "cache_read_input_tokens", "ephemeral_5m_input_tokens",
    "ephemeral_1h_input_tokens", "thinking_tokens", "web_search_requests", "web_fetch_requests", "service_tier",
    "speed", "inference_geo", "iterations", "recorded_cost_usd", "forked_from_uuid", "detail",
)  # fmt: skip
"""Columns of ``entries`` that calls and ledger are made of; a frame of usage lines alone is enough."""

FILE_COLUMNS = ("file_id", "kind", "session_id", "agent_id", "first_at", "last_at", "project", "worktree")

COUNTS = (
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
    "ephemeral_1h_input_tokens", "thinking_tokens", "web_search_requests", "web_fetch_requests",
)  # fmt: skip
"""Counts of which an answer has the largest its lines show (5-minute writes follow from the others)."""

_SANE = 10**15
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True)
class Usage:
    """Lines of answers in order of ownership, and the answer each belongs to.

    ``lines`` are sorted: main thread before agents, originals before marked copies, by time, then by file. ``order``
    sorts them by answer, keeping that order; ``starts`` are the beginnings of the answers in ``order``.
    """

    lines: pl.DataFrame
    order: Ints
    starts: Ints
    other: pl.DataFrame
    """Synthetic and error lines, which belong to no answer."""

    @property
    def owners(self) -> Ints:
        """Row of the owning line of each answer."""
        return self.order[self.starts]

    def spread(self, values: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
        """One value per answer → one per line, in the order of ``lines``."""
        sizes = np.diff(np.append(self.starts, len(self.order)))
        out = np.empty(len(self.order), dtype=values.dtype)
        out[self.order] = np.repeat(values, sizes)
        return out

    def reduce(self, values: npt.NDArray[_Kind], how: np.ufunc) -> npt.NDArray[_Kind]:
        """One value per line → one per answer."""
        if not len(self.starts):
            return values[:0]
        reduced: npt.NDArray[_Kind] = how.reduceat(values[self.order], self.starts)
        return reduced

    def best(self) -> Ints:
        """Row of the line of each answer whose counts are final.

        That with most output, then with a stop reason, then in the owner's file, then written for the first time; of
        equals the last.
        """
        rows = np.arange(len(self.lines))
        output = self.lines["output_tokens"].to_numpy()
        stopped = self.lines["stop_reason"].is_not_null().to_numpy()
        home = self.lines["file_id"].to_numpy() == self.spread(self.lines["file_id"].to_numpy()[self.owners])
        score = output * 8 + stopped * 4 + home * 2 + ~self.lines["is_again"].to_numpy()
        is_best = score == self.spread(self.reduce(score, np.maximum))
        best: Ints = self.reduce(np.where(is_best, rows, -1), np.maximum).astype(np.int64)
        return best


def read_usage(entries: pl.DataFrame, files: pl.DataFrame) -> Usage:
    """Usage lines of ``entries``, cleaned, ordered and grouped.

    Parameters
    ----------
    entries
        The ``entries`` table, or usage lines of it with at least :data:`CALL_COLUMNS`.
    files
        The ``files`` table, at least :data:`FILE_COLUMNS`.
    """
    lines = entries.filter(pl.col("has_usage").fill_null(False)).select(CALL_COLUMNS)
    lines = _clean(lines.sort("entry_id"))
    lines = _with_files(lines, files)
    is_answer = ~(pl.col("is_synthetic") | pl.col("is_error"))
    answers = lines.filter(is_answer).sort("claim", "timestamp", "file_rank", "entry_id", nulls_last=True)
    codes = _codes(answers)
    order, starts = _grouped(codes)
    keys = split_reused(answers, order, starts)
    if keys is not None:
        answers = answers.with_columns(keys)
        order, starts = _grouped(_codes(answers))
    return Usage(answers, order, starts, lines.filter(~is_answer))


def _clean(lines: pl.DataFrame) -> pl.DataFrame:
    """Ids without empty texts, counts without nonsense, and what the cache writes come to."""
    ids = [
        pl.when(pl.col(c).str.len_bytes() > 0).then(pl.col(c)).alias(c) for c in ("message_id", "request_id", "uuid")
    ]
    written = pl.col("cache_creation_input_tokens")
    counts = [pl.col(c).fill_null(0).clip(0, _SANE) for c in (*COUNTS, "ephemeral_5m_input_tokens")]
    # Forking a compacted session zeroes the four counts of the kept message and leaves the split in place;
    # an absent total is another matter.
    lines = lines.with_columns(
        *ids,
        pl.all_horizontal(
            pl.col("input_tokens", "output_tokens", "cache_read_input_tokens").fill_null(0) <= 0, written == 0
        ).fill_null(False).alias("is_zeroed"),
        (pl.col("model") == "<synthetic>").fill_null(False).alias("is_synthetic"),
        pl.col("is_api_error_message").fill_null(False).alias("is_error"),
        (pl.col("type") == "progress").fill_null(False).alias("is_progress"),
        _is_again().alias("is_again"),
        *counts,
    )  # fmt: skip
    split = pl.col("ephemeral_5m_input_tokens") + pl.col("ephemeral_1h_input_tokens")
    total = pl.when(pl.col("is_zeroed")).then(0).when(written > 0).then(written).otherwise(split)
    lines = lines.with_columns(total.alias("cache_creation_input_tokens"))
    hour = pl.min_horizontal("ephemeral_1h_input_tokens", "cache_creation_input_tokens")
    return lines.with_columns(hour.alias("ephemeral_1h_input_tokens")).with_columns(
        (written - pl.col("ephemeral_1h_input_tokens")).alias("ephemeral_5m_input_tokens"),
        pl.coalesce(
            "message_id", "request_id", "uuid", pl.format("line:{}:{}", "file_id", "line_no")
        ).alias("key"),
    )  # fmt: skip


def _is_again() -> pl.Expr:
    """A line whose uuid its file had before: the whole conversation is sometimes written a second time."""
    place = pl.col("uuid").hash() ^ pl.col("file_id").hash()
    return pl.col("uuid").is_not_null() & ~place.is_first_distinct()


def _with_files(lines: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Lines with the session, agent and place of their file, and ``claim``: how weak a claim to ownership is."""
    homes = (
        files.select(FILE_COLUMNS)
        .sort("first_at", "last_at", "session_id", "file_id", nulls_last=True)
        .with_row_index("file_rank")
        .rename({"session_id": "home_session_id", "agent_id": "home_agent_id"})
        .drop("first_at", "last_at")
    )
    lines = lines.join(homes, on="file_id", how="left", validate="m:1", maintain_order="left")
    is_agent_file = (pl.col("kind") == "agent").fill_null(False)
    is_marked = pl.col("forked_from_uuid").is_not_null() | (
        ~is_agent_file & (pl.col("session_id") != pl.col("home_session_id")).fill_null(False)
    )
    is_side = is_agent_file | pl.col("is_sidechain").fill_null(False)
    claim = pl.col("is_progress") * 8 + is_side * 4 + is_marked * 2 + pl.col("is_zeroed") * 1
    return lines.with_columns(
        is_side.alias("is_side"),
        claim.cast(pl.Int8).alias("claim"),
        pl.coalesce("home_session_id", "session_id").alias("home_session_id"),
        pl.coalesce("home_agent_id", "agent_id").alias("home_agent_id"),
    )


def _codes(lines: pl.DataFrame) -> Ints:
    """A number for each distinct key."""
    numbered = lines.select("key").unique(maintain_order=False).with_row_index("code")
    coded = lines.select("key").join(numbered, on="key", how="left", validate="m:1", maintain_order="left")
    return coded["code"].to_numpy().astype(np.int64)


def _grouped(codes: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    is_start = np.ones(len(codes), dtype=bool)
    is_start[1:] = sorted_codes[1:] != sorted_codes[:-1]
    return order, np.flatnonzero(is_start)
