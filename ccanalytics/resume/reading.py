"""Which lines of the files the program would have read: the scope of a resume, damage, and files over 5 MiB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import orjson
import polars as pl

from ccanalytics.graph import Rows

from .large import LARGE_BYTES, is_there, lines_of_large_file
from .nodes import Rules

LargeFiles = Literal["rules", "whole"]

_TYPES = ("user", "assistant", "system", "attachment", "progress", "last-prompt")
# What stands behind an object makes 2.1.88 lose the line; 2.1.332 keeps the object.
_BEHIND = ("nul_bytes", "glued_records", "torn_line", "record_behind_damage")


@dataclass(frozen=True, slots=True)
class Read:
    """What was read, and rows of ``problems`` for what was not."""

    places: Rows
    """Places in ``entries`` of the lines that take part."""
    problems: pl.DataFrame
    not_read: Rows
    """entry_id of conversation lines that the program leaves unread."""


def lines_read(
    entries: pl.DataFrame,
    files: pl.DataFrame,
    problems: pl.DataFrame,
    *,
    rules: Rules,
    large_files: LargeFiles,
    read_bytes: Callable[[str], bytes],
) -> Read:
    """The lines of ``files`` that take part.

    ``read_bytes`` gives the content of a file by its path; it is asked only under 2.1.88 for files over 5 MiB.
    """
    keep = entries.select(
        pl.col("type").is_in(_TYPES)
        & ~pl.col("is_rescued").fill_null(False)
        & pl.col("file_id").is_in(files["file_id"].implode())
    ).to_series()
    places = keep.fill_null(False).arg_true().cast(pl.Int64)
    whole = places
    if rules == "2.1.88":
        places = _without_refused(places, entries, problems)
    cuts: list[dict[str, Any]] = []
    large = files.filter(pl.col("size_bytes") > LARGE_BYTES) if large_files == "rules" else files.head(0)
    for file in large.iter_rows(named=True):
        places, cut = _cut_large(places, entries, file, rules=rules, read_bytes=read_bytes)
        if cut is not None:
            cuts.append(cut)
    gone = (
        np.setdiff1d(whole.to_numpy(), places.to_numpy(), assume_unique=True) if len(places) < len(whole) else whole[:0]
    )
    return Read(places.to_numpy(), pl.DataFrame(cuts, schema=_CUT_SCHEMA), entries["entry_id"].gather(gone).to_numpy())


_CUT_SCHEMA = {
    "file_id": pl.Int32,
    "line_no": pl.Int32,
    "byte_offset": pl.Int64,
    "code": pl.String,
    "entry_id": pl.Int64,
    "uuid": pl.String,
    "detail": pl.String,
}


def _without_refused(places: pl.Series, entries: pl.DataFrame, problems: pl.DataFrame) -> pl.Series:
    """2.1.88: lines with something behind their object are lost, and reading stops at a line it cannot take in."""
    lines = entries.select("file_id", "line_no")[places].with_columns(places.alias("place"))
    behind = problems.filter(pl.col("code").is_in(_BEHIND)).select("file_id", "line_no").unique()
    if behind.height:
        lines = lines.join(behind, on=["file_id", "line_no"], how="anti", maintain_order="left")
    nulls = problems.filter((pl.col("code") == "not_an_object") & pl.col("detail").str.contains("null", literal=True))
    bare = entries.filter(
        (pl.col("type") == "content-replacement")
        & ~pl.col("detail").fill_null("").str.contains('"toolUseIds"', literal=True)
    )
    stops = pl.concat([nulls.select("file_id", "line_no"), bare.select("file_id", "line_no")])
    if not stops.height:
        return lines["place"]
    first = stops.group_by("file_id").agg(pl.col("line_no").min().alias("stop"))
    joined = lines.join(first, on="file_id", how="left", validate="m:1", maintain_order="left")
    return joined.filter(pl.col("stop").is_null() | (pl.col("line_no") < pl.col("stop")))["place"]


def _cut_large(
    places: pl.Series,
    entries: pl.DataFrame,
    file: dict[str, Any],
    *,
    rules: Rules,
    read_bytes: Callable[[str], bytes],
) -> tuple[pl.Series, dict[str, Any] | None]:
    file_id = file["file_id"]
    if rules == "2.1.332":
        start = _last_plain_boundary(entries, file_id)
        if start is None:
            return places, None
        keep = pl.col("line_no") >= start
        words = f"before the last plain compact boundary of a file of {file['size_bytes']:,} bytes"
    else:
        kept = lines_of_large_file(read_bytes(file["path"]))
        if kept is None:
            return places, None
        keep = pl.col("line_no").is_in(kept)
        words = f"on dead branches or before a boundary of a file of {file['size_bytes']:,} bytes"
    a, b = np.searchsorted(places.to_numpy(), np.searchsorted(entries["file_id"].to_numpy(), [file_id, file_id + 1]))
    mine = places[int(a) : int(b)]
    lines = entries.select("file_id", "line_no", "type", "entry_id", "uuid")[mine].with_columns(mine.alias("place"))
    gone = lines.filter(~keep & pl.col("type").is_in(_TYPES[:4]))
    left = pl.concat([places[: int(a)], lines.filter(keep)["place"], places[int(b) :]])
    if not gone.height:
        return left, None
    first = gone.row(0, named=True)
    return left, {
        "file_id": file_id,
        "line_no": first["line_no"],
        "code": "large_file_not_read",
        "entry_id": first["entry_id"],
        "uuid": first["uuid"],
        "detail": f"Claude Code {rules} does not read {gone.height} entries {words}",
    }


def _last_plain_boundary(entries: pl.DataFrame, file_id: int) -> int | None:
    rows = (
        _of_file(entries.select("file_id", "line_no", "type", "subtype", "detail"), file_id)
        .filter((pl.col("type") == "system") & (pl.col("subtype") == "compact_boundary"))
        .select("line_no", "detail")
    )
    for line_no, detail in reversed(rows.rows()):
        meta = compact_metadata(detail)
        if not is_there(meta.get("preservedSegment")) and not is_there(meta.get("preservedMessages")):
            return int(line_no)
    return None


def _of_file(entries: pl.DataFrame, file_id: int) -> pl.DataFrame:
    a, b = np.searchsorted(entries["file_id"].to_numpy(), [file_id, file_id + 1])
    return entries[int(a) : int(b)]


def compact_metadata(detail: str | None) -> dict[str, Any]:
    """compactMetadata of a boundary; empty when there is none."""
    value = orjson.loads(detail) if detail else None
    meta = value.get("compactMetadata") if isinstance(value, dict) else None
    return meta if isinstance(meta, dict) else {}
