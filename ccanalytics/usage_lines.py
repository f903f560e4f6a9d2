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
    """Lines of answers, in the order of entries, and the answer each belongs to.

    ``order`` are the rows of ``lines`` by answer, and within an answer by their claim to own it: main thread before
    agents, originals before marked copies, then by time, then by file. ``starts`` are where the answers begin in it.
    """

    lines: pl.DataFrame
    order: Ints
    starts: Ints
    other: pl.DataFrame
    """Synthetic and error lines, which belong to no answer."""
    homes: pl.DataFrame
    """Session, agent and place of each file."""

    @property
    def owners(self) -> Ints:
        """Row of the owning line of each answer."""
        return self.order[self.starts]

    @property
    def sizes(self) -> Ints:
        """Number of lines of each answer."""
        return np.diff(np.append(self.starts, len(self.order)))

    def spread(self, values: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
        """One value per answer → one per line, in the order of ``lines``."""
        out = np.empty(len(self.order), dtype=values.dtype)
        out[self.order] = np.repeat(values, self.sizes)
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
        equals the last by claim.
        """
        lines = self.lines
        files = lines["file_id"].to_numpy()
        at_home = files == self.spread(files[self.owners])
        stopped = lines["stop_reason"].is_not_null().to_numpy()
        score = lines["output_tokens"].to_numpy() * 8 + stopped * 4 + at_home * 2 + ~lines["is_again"].to_numpy()
        is_best = score == self.spread(self.reduce(score, np.maximum))
        place = np.empty(len(self.order), dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        best: Ints = self.order[self.reduce(np.where(is_best, place, -1), np.maximum)]
        return best

    def at_home(self, lines: pl.DataFrame) -> pl.DataFrame:
        """``lines`` with the session, agent and place of their file."""
        placed = lines.join(self.homes, on="file_id", how="left", validate="m:1", maintain_order="left")
        return placed.with_columns(
            pl.coalesce("home_session_id", "session_id").alias("home_session_id"),
            pl.coalesce("home_agent_id", "agent_id").alias("home_agent_id"),
        )


def read_usage(entries: pl.DataFrame, files: pl.DataFrame) -> Usage:
    """Usage lines of ``entries``, cleaned, grouped and ordered.

    Parameters
    ----------
    entries
        The ``entries`` table, or usage lines of it with at least :data:`CALL_COLUMNS`.
    files
        The ``files`` table, at least :data:`FILE_COLUMNS`.
    """
    lines = entries.filter(pl.col("has_usage").fill_null(False)).select(CALL_COLUMNS)
    lines = _clean(lines if lines["entry_id"].is_sorted() else lines.sort("entry_id"))
    homes = (
        files.select(FILE_COLUMNS)
        .sort("first_at", "last_at", "session_id", "file_id", nulls_last=True)
        .rename({"session_id": "home_session_id", "agent_id": "home_agent_id"})
        .drop("first_at", "last_at")
    )
    is_other = (lines["is_synthetic"] | lines["is_error"]).to_numpy()
    other = lines.filter(is_other)
    answers = lines.filter(~is_other) if len(other) else lines
    answers, claim = _with_claim(answers, homes)
    order, starts = _grouped(answers["key"], claim)
    keys = split_reused(answers, order, starts)
    if keys is not None:
        answers = answers.with_columns(keys)
        order, starts = _grouped(answers["key"], claim)
    return Usage(answers, order, starts, other, homes)


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


def _with_claim(lines: pl.DataFrame, homes: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """Lines with ``is_side``, and the rows of ``lines`` by how strong their claim is to own their answer."""
    place = _places(lines["file_id"].to_numpy(), homes["file_id"].to_numpy())
    # One row more stands for a file that is not in the table.
    is_agent = np.append((homes["kind"] == "agent").fill_null(False).to_numpy(), False)[place]
    home_session = homes["home_session_id"].gather(np.minimum(place, max(len(homes) - 1, 0))) if len(homes) else None
    is_side = is_agent | lines["is_sidechain"].fill_null(False).to_numpy()
    is_marked = lines["forked_from_uuid"].is_not_null().to_numpy()
    if home_session is not None:
        is_elsewhere = (lines["session_id"] != home_session).fill_null(False).to_numpy()
        is_marked |= is_elsewhere & ~is_agent & (place < len(homes))
    weakness = lines["is_progress"].to_numpy() * 8 + is_side * 4 + is_marked * 2 + lines["is_zeroed"].to_numpy()
    never = np.iinfo(np.int64).max
    at = lines["timestamp"].dt.epoch("ms").fill_null(never).to_numpy()
    return lines.with_columns(pl.Series("is_side", is_side)), np.lexsort((place, at, weakness))


def _places(wanted: npt.NDArray[np.int32], known: npt.NDArray[np.int32]) -> Ints:
    """Where each wanted value stands in ``known``; its length where it does not."""
    if not len(known):
        return np.zeros(len(wanted), dtype=np.int64)
    by_value = np.argsort(known)
    at = np.minimum(np.searchsorted(known, wanted, sorter=by_value), len(known) - 1)
    found: Ints = np.where(known[by_value[at]] == wanted, by_value[at], len(known))
    return found


def _grouped(keys: pl.Series, claim: Ints) -> tuple[Ints, Ints]:
    """Rows by key, within it by claim, and where each key begins."""
    codes = keys.hash().to_numpy()
    order, starts = _sorted_by(codes, claim)
    ordered = keys.gather(order)
    is_start = np.ones(len(keys), dtype=bool)
    is_start[1:] = (ordered != ordered.shift()).to_numpy()[1:]
    if is_start.sum() != len(starts):
        # Two keys have one hash: rare beyond telling, but money is not left to chance.
        order, starts = _sorted_by(keys.rank("dense").to_numpy().astype(np.uint64), claim)
    return order, starts


def _sorted_by(codes: npt.NDArray[np.uint64], claim: Ints) -> tuple[Ints, Ints]:
    order = claim[np.argsort(codes[claim], kind="stable")]
    ordered = codes[order]
    is_start = np.ones(len(codes), dtype=bool)
    is_start[1:] = ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(is_start)
