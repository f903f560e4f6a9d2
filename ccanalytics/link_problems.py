"""Links that lead nowhere, in a circle, to a name that is not unique, or into another session: rows of problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from . import graph
from .edges import NO_TIME, Links, since
from .graph import NONE, Rows
from .resume.nodes import mixed
from .resume.reading import compact_metadata
from .schema.base import PROBLEMS

MAX_NAMED = 40
"""How many uuids a problem's words name at most."""


def link_problems(links: Links, files: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``problems`` for links that lead nowhere, in a circle, or to a name that is not unique.

    Codes: ``missing_parent``, ``parent_in_other_file``, ``cycle``, ``duplicate_uuid``, ``foreign_session``,
    ``kept_messages_missing``. Each names
    the line, both ends and the time between them (for a missing end: since the last
    entry before in the file that has a time).
    """
    rows = [
        _missing(links, np.flatnonzero(links.is_missing)),
        _in_other_file(links, np.flatnonzero(links.elsewhere >= 0), files),
        _cycles(links),
        _duplicates(links),
        _foreign(links, files),
        _kept(links),
    ]
    return PROBLEMS.conform(pl.concat([r for r in rows if r.height] or [PROBLEMS.empty()], how="diagonal_relaxed"))


def _problem(links: Links, rows: Rows, code: str, other: pl.Series, gap: Rows, detail: pl.Series) -> pl.DataFrame:
    table = links.entries.select("file_id", "line_no", "byte_offset", "entry_id", "uuid")[rows]
    return table.with_columns(
        pl.lit(code).alias("code"),
        other.alias("other_uuid"),
        pl.Series("gap_ms", gap).set(pl.Series(gap == NO_TIME), None),
        detail.alias("detail"),
    )


def _gap(links: Links, rows: Rows, others: Rows) -> Rows:
    known = (rows >= 0) & (others >= 0)
    a, b = links.time[rows.clip(min=0)], links.time[others.clip(min=0)]
    known &= (a != NO_TIME) & (b != NO_TIME)
    return np.where(known, np.where(known, a, 0) - np.where(known, b, 0), NO_TIME)


def _before(links: Links, rows: Rows) -> Rows:
    up = rows - 1
    return np.where((up >= 0) & (links.file[up.clip(min=0)] == links.file[rows]), up, NONE)


def _timed_before(links: Links, rows: Rows) -> Rows:
    """The nearest entry before in the file that has a time: snapshots and other metadata have none."""
    timed = np.maximum.accumulate(np.where(links.time != NO_TIME, np.arange(len(links.time)), NONE))
    up = np.where(rows > 0, timed[(rows - 1).clip(min=0)], NONE)
    return np.where((up >= 0) & (links.file[up.clip(min=0)] == links.file[rows]), up, NONE)


def _missing(links: Links, rows: Rows) -> pl.DataFrame:
    words = pl.Series(["the parent is in no file that was read"] * len(rows), dtype=pl.String)
    return _problem(
        links,
        rows,
        "missing_parent",
        links.entries["parent_uuid"][rows],
        _gap(links, rows, _timed_before(links, rows)),
        words,
    )


def _in_other_file(links: Links, rows: Rows, files: pl.DataFrame) -> pl.DataFrame:
    away = links.elsewhere[rows]
    path = files["path"].gather(np.searchsorted(files["file_id"].to_numpy(), links.file[away]))
    words = "the parent is in another file: " + path.str.split("/").list.last()
    return _problem(
        links, rows, "parent_in_other_file", links.entries["parent_uuid"][rows], _gap(links, rows, away), words
    )


def _cycles(links: Links) -> pl.DataFrame:
    n = len(links.parent)
    backward = np.flatnonzero(links.parent >= np.arange(n))
    if not len(backward):
        return PROBLEMS.empty()
    rows = np.flatnonzero(np.isin(links.file, np.unique(links.file[backward])))
    place = np.full(n, NONE, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    parent = links.parent[rows]
    found = graph.trace(np.where(parent >= 0, place[parent.clip(min=0)], NONE)).cycle
    heads = np.flatnonzero(found == np.arange(len(rows)))
    if not len(heads):
        return PROBLEMS.empty()
    uuid = links.entries["uuid"]
    details: list[str] = []
    for head in heads.tolist():
        members = rows[found == head]
        names = ", ".join(uuid.gather(members[:MAX_NAMED]).to_list())
        details.append(f"the links of {len(members)} entries run in a circle: {names}")
    top = rows[heads]
    others = links.parent[top]
    return _problem(
        links, top, "cycle", uuid.gather(others), _gap(links, top, others), pl.Series(details, dtype=pl.String)
    )


def _duplicates(links: Links) -> pl.DataFrame:
    keys = links.key[links.by_key]
    new = np.insert(keys[1:] != keys[:-1], 0, True)[: len(keys)]
    if new.all():
        return PROBLEMS.empty()
    rows, first = links.by_key[~new], links.by_key[since(new)[~new]]
    words = "the uuid was first on line " + links.entries["line_no"].gather(first).cast(pl.String)
    return _problem(links, rows, "duplicate_uuid", links.entries["uuid"].gather(first), _gap(links, rows, first), words)


def _foreign(links: Links, files: pl.DataFrame) -> pl.DataFrame:
    """Lines of a main transcript that name another session than the file's."""
    at = np.searchsorted(files["file_id"].to_numpy(), links.file)
    own = files["session_id"].gather(at)
    is_main = (files["kind"].cast(pl.String) == "session").gather(at)
    written = links.entries["session_id"]
    rows = np.flatnonzero((is_main & written.is_not_null() & (written != own)).fill_null(False).to_numpy())
    # A fork that copied the line and forgot its session is no damage: the line is at home as well.
    uuid = links.entries["uuid"]
    away = pl.DataFrame({"row": rows, "uuid": uuid.gather(rows), "session": written.gather(rows)})
    home = pl.DataFrame({"uuid": uuid, "session": own}).filter(pl.col("uuid").is_in(away["uuid"].implode()))
    rows = away.join(home, on=["uuid", "session"], how="anti", maintain_order="left")["row"].to_numpy()
    words = "a line of session " + written.gather(rows) + " in the file of session " + own.gather(rows)
    before = _before(links, rows)
    other = links.entries["uuid"].gather(pl.Series(before).set(pl.Series(before < 0), None))
    return _problem(links, rows, "foreign_session", other, _gap(links, rows, before), words)


def _kept(links: Links) -> pl.DataFrame:
    """Compact boundaries that say which messages were kept, where these are not to be found."""
    detail = links.entries["detail"]
    is_boundary = (links.entries["subtype"] == "compact_boundary").fill_null(False)
    rows: list[int] = []
    lacking: list[str | None] = []
    words: list[str] = []
    for row in is_boundary.arg_true().to_list():
        meta = compact_metadata(detail[row]) if "preserved" in (detail[row] or "") else {}
        found = _lacking(links, row, meta)
        if found is not None:
            rows.append(row)
            lacking.append(found[0])
            words.append(found[1])
    at = np.array(rows, dtype=np.int64)
    return _problem(
        links,
        at,
        "kept_messages_missing",
        pl.Series(lacking, dtype=pl.String),
        np.full(len(at), NO_TIME, dtype=np.int64),
        pl.Series(words, dtype=pl.String),
    )


def _lacking(links: Links, row: int, meta: dict[str, Any]) -> tuple[str | None, str] | None:
    """The first kept message that is missing, and what that is; None when all are there."""
    messages, segment = meta.get("preservedMessages"), meta.get("preservedSegment")
    file = links.file[row : row + 1]
    if isinstance(messages, dict) and isinstance(messages.get("uuids"), list):
        for name in messages["uuids"]:
            if not isinstance(name, str) or links.find(mixed(pl.Series([name]), file))[0] < 0:
                return (name if isinstance(name, str) else None), "a kept message is not in the file; none are kept"
        return None
    if not isinstance(segment, dict):
        return None
    head, at = segment.get("headUuid"), segment.get("tailUuid")
    ends = pl.Series([x if isinstance(x, str) else "" for x in (head, at)])
    top, here = links.find(mixed(ends, np.repeat(file, 2))).tolist()
    for name, place in ((at, here), (head, top)):
        if place < 0:
            return (name if isinstance(name, str) else None), "an end of the kept messages is not in the file"
    seen = set[int]()
    while here >= 0 and here not in seen:
        if here == top:
            return None
        seen.add(here)
        here = int(links.parent[here])
    return head, "the kept messages do not lead from their last to their first; none are kept"
