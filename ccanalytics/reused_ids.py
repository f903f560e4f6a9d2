"""Message ids that stand for several answers: relays that answer every request under one id.

An id from the API belongs to one answer. Some gateways reuse theirs, and then one id hides many requests. Lines are
told apart by request id; without one, by the size of the prompt, which never changes within an answer, and (for ids
not from the API) by file, unless uuid or time shows a copy. A side question repeats the parent's message under another
request id, and stays with the parent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

_PLACEHOLDER_TOKENS = 8
_API_PREFIX = "msg_"
_MIX = np.uint64(0x9E3779B97F4A7C15)


def split_reused(lines: pl.DataFrame, order: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> pl.Series | None:
    """The column ``key`` with reused message ids told apart, or None when there is none.

    Parameters
    ----------
    lines
        Usage lines in order of ownership.
    order, starts
        Rows by key, and where each key begins in them.
    """
    suspects = _suspects(lines, order, starts)
    if not len(suspects):
        return None
    part = _requests(lines[suspects].with_columns(pl.Series("row", suspects), pl.int_range(pl.len()).alias("claim")))
    part = part.filter(pl.col("request").n_unique().over("key") > 1)
    if part.is_empty():
        return None
    keys = lines["key"].to_list()
    for row, key in part.select("row", pl.format("{}:{}", "key", "request")).iter_rows():
        keys[row] = key
    return pl.Series("key", keys, dtype=pl.String)


def _suspects(
    lines: pl.DataFrame, order: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Rows whose message id has two request ids, or lines without one that show different prompts; by claim."""
    if not len(starts):
        return order[:0]
    has_request = lines["request_id"].is_not_null().to_numpy()
    request = lines["request_id"].hash().to_numpy()
    several = _differs(request, has_request, order, starts)
    hard = ~lines.select(_soft()).to_series().to_numpy()
    prompt = np.zeros(len(lines), dtype=np.uint64)
    for column in _PROMPT:
        prompt = prompt * _MIX + lines[column].to_numpy().astype(np.uint64)
    some_without = np.logical_or.reduceat(~has_request[order], starts)
    several |= some_without & _differs(prompt, hard, order, starts)
    foreign = ~lines["key"].str.starts_with(_API_PREFIX).to_numpy()
    several |= some_without & _differs(lines["file_id"].to_numpy().astype(np.uint64), foreign, order, starts)
    if not several.any():
        return order[:0]
    rows = order[np.repeat(several, np.diff(np.append(starts, len(order))))]
    found: npt.NDArray[np.int64] = rows[lines["message_id"].is_not_null().to_numpy()[rows]]
    return found


_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _soft() -> pl.Expr:
    """A line that does not show its prompt for certain: zeroed, or written before the answer ended."""
    unfinished = pl.col("stop_reason").is_null() & (pl.col("output_tokens") <= _PLACEHOLDER_TOKENS)
    return (pl.col("input_tokens") == 0) | unfinished


def _differs(
    values: npt.NDArray[np.uint64],
    counts: npt.NDArray[np.bool_],
    order: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Per group: do the values that count differ?"""
    top = np.uint64(2**64 - 1)
    low = np.minimum.reduceat(np.where(counts, values, top)[order], starts)
    high = np.maximum.reduceat(np.where(counts, values, np.uint64(0))[order], starts)
    differs: npt.NDArray[np.bool_] = low < high
    return differs


def _requests(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with ``request``: what tells the answers under one id apart."""
    prompt = [pl.col(c) for c in _PROMPT]
    is_main = ~(pl.col("is_side") | pl.col("is_progress"))
    lines = _with_origin(lines).with_columns(_soft().alias("is_soft"), is_main.alias("is_main"))
    # A request seen on the main thread, or one that only agents show: but an agent's line with the parent's prompt
    # is the parent's message, told again under a request id of its own.
    on_main = pl.col("is_main").any().over("key", "request_id")
    lines = lines.with_columns((pl.col("request_id").is_not_null() & on_main).alias("is_known"))
    first_known = (
        lines.filter("is_known").unique(["key", *_PROMPT], keep="first", maintain_order=True)
        .select("key", *_PROMPT, pl.col("request_id").alias("same_prompt"))
    )  # fmt: skip
    lines = lines.join(
        first_known, on=["key", *_PROMPT], how="left", validate="m:1", maintain_order="left", nulls_equal=True
    )
    request = (
        pl.when("is_known").then("request_id")
        .otherwise(pl.coalesce(
            "same_prompt",
            "request_id",
            pl.when(~pl.col("is_soft")).then(pl.concat_str(*prompt, "origin", separator="-")),
        ))
    )  # fmt: skip
    lines = lines.with_columns(request.alias("request")).sort("entry_id")
    near = pl.col("request").fill_null(strategy="backward").fill_null(strategy="forward").over("key", "file_id")
    lines = lines.with_columns(near).sort("claim")
    return lines.with_columns(pl.coalesce("request", pl.col("request").drop_nulls().first().over("key"), pl.lit("")))


def _with_origin(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines in order of claim with ``origin``: the file they are copied from, else their own; 0 for ids of the API."""
    by_uuid = pl.col("file_id").first().over("key", pl.coalesce("uuid", pl.col("claim").cast(pl.String)))
    lines = lines.with_columns(by_uuid.alias("linked"))
    at = pl.coalesce(pl.col("timestamp").dt.epoch("ms"), -1 - pl.col("claim"))
    lines = lines.with_columns(pl.col("linked").first().over("key", at))
    # One line that shows the copy is enough: a fork stamps its last line anew.
    lines = lines.with_columns(pl.when(pl.col("linked") != pl.col("file_id")).then("linked").alias("linked"))
    lines = lines.with_columns(pl.col("linked").drop_nulls().first().over("key", "file_id", *_PROMPT))
    is_api = pl.col("key").str.starts_with(_API_PREFIX)
    return lines.with_columns(origin=pl.when(is_api).then(0).otherwise(pl.coalesce("linked", "file_id")))
