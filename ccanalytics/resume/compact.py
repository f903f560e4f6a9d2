"""Kept messages and snips: what a compact boundary or a snip line does to the links, before a chain is walked."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import polars as pl

from ccanalytics.graph import NONE

from .large import is_there
from .nodes import UNKNOWN, Nodes, Rules, mixed
from .reading import compact_metadata

LIST, SEGMENT, SNIP = 1, 2, 3
"""Values of ``Nodes.relinked``."""


class Kept:
    """What the last boundary of a file keeps: the anchor's row and the last kept row."""

    __slots__ = ("anchor", "last")

    def __init__(self, anchor: int, last: int) -> None:
        self.anchor, self.last = anchor, last


def keep_messages(nodes: Nodes, entries: pl.DataFrame, *, rules: Rules) -> dict[int, Kept]:
    """Relink and prune every file at its last boundary; what was kept, by file.

    Changes ``nodes.parent``, ``nodes.alive`` and ``nodes.relinked``. ``entries`` is the whole table.
    """
    boundaries = np.flatnonzero(nodes.is_boundary)
    if not len(boundaries):
        return {}
    detail = entries["detail"].gather(_places(entries, nodes.entry[boundaries]))
    by_file: dict[int, list[tuple[int, str | None]]] = {}
    for row, file, text in zip(boundaries.tolist(), nodes.file[boundaries].tolist(), detail.to_list(), strict=True):
        if rules == "2.1.332":
            by_file[file] = [(row, text)]
        else:
            by_file.setdefault(file, []).append((row, text))
    found: dict[int, Kept] = {}
    for file, rows in by_file.items():
        kept = _keep_332(nodes, file, *rows[-1]) if rules == "2.1.332" else _keep_88(nodes, file, rows)
        if kept is not None:
            found[file] = kept
    return found


def _places(entries: pl.DataFrame, ids: Any) -> pl.Series:
    return pl.Series(np.searchsorted(entries["entry_id"].to_numpy(), ids))


def _keep_332(nodes: Nodes, file: int, boundary: int, detail: str | None) -> Kept | None:
    if not detail or "preserved" not in detail:
        return None
    meta = compact_metadata(detail)
    messages, segment = meta.get("preservedMessages"), meta.get("preservedSegment")
    if isinstance(messages, dict) and isinstance(messages.get("uuids"), list):
        kept = nodes.find(file, messages["uuids"]) if messages["uuids"] else []
        if min(kept, default=0) < 0:
            return None
        anchor, how = messages.get("anchorUuid"), LIST
    elif isinstance(segment, dict):
        walked = _walk_segment(nodes, file, segment)
        if walked is None:
            return None
        kept, anchor, how = walked, segment.get("anchorUuid"), SEGMENT
    else:
        return None
    anchor_row = _relink(nodes, file, kept, anchor, how) if kept else NONE
    gone = _prune(nodes, file, boundary, kept)
    rows = np.arange(nodes.starts[file], nodes.starts[file + 1])
    parent = nodes.parent[rows]
    lost = rows[(parent >= 0) & np.isin(parent, gone) & nodes.alive[rows]]
    if kept:
        lost = lost[lost != kept[0]]
        nodes.relinked[lost] = how
    nodes.parent[lost] = kept[-1] if kept else UNKNOWN
    if kept and nodes.parent[kept[0]] >= 0 and not nodes.alive[nodes.parent[kept[0]]]:
        nodes.parent[kept[0]] = UNKNOWN
    return Kept(anchor_row, kept[-1]) if kept else None


def _keep_88(nodes: Nodes, file: int, boundaries: list[tuple[int, str | None]]) -> Kept | None:
    segments = [compact_metadata(d).get("preservedSegment") if d and "preserved" in d else None for _, d in boundaries]
    if not any(map(is_there, segments)):
        return None
    last, segment = boundaries[-1][0], segments[-1]
    kept: list[int] = []
    anchor_row = NONE
    if is_there(segment):
        names = segment if isinstance(segment, dict) else {}
        walked = _walk_segment(nodes, file, names)
        if walked is None:
            return None
        kept = walked
        anchor_row = _relink(nodes, file, kept[:1], names.get("anchorUuid"), SEGMENT, last=kept[-1])
    gone = _prune(nodes, file, last, kept)
    rows = np.arange(nodes.starts[file], nodes.starts[file + 1])
    parent = nodes.parent[rows]
    nodes.parent[rows[(parent >= 0) & np.isin(parent, gone)]] = UNKNOWN
    return Kept(anchor_row, kept[-1]) if kept else None


def _walk_segment(nodes: Nodes, file: int, segment: dict[str, Any]) -> list[int] | None:
    head, at = nodes.find(file, [segment.get("headUuid"), segment.get("tailUuid")])
    if head < 0:
        return None
    found: dict[int, None] = {}
    while at >= 0 and at not in found:
        found[at] = None
        if at == head:
            return list(found)[::-1]
        at = int(nodes.parent[at])
    return None


def _relink(nodes: Nodes, file: int, kept: list[int], anchor: object, how: int, *, last: int | None = None) -> int:
    """Hang the kept rows below the anchor in their order, and what hung on the anchor below the last of them."""
    named = isinstance(anchor, str) and bool(anchor)
    anchor_row = nodes.find(file, [anchor])[0] if named else NONE
    rows = np.arange(nodes.starts[file], nodes.starts[file + 1])
    if named:
        # An anchor that does not exist is still a name that entries may have as their parent.
        key = mixed(pl.Series([anchor], dtype=pl.String), np.array([file]))[0]
        has = nodes.parent[rows] == anchor_row if anchor_row >= 0 else nodes.parent[rows] == UNKNOWN
        moved = rows[has & (nodes.parent_key[rows] == key)] if anchor_row < 0 else rows[has]
        moved = moved[~np.isin(moved, kept)]
        nodes.parent[moved] = kept[-1] if last is None else last
        nodes.relinked[moved] = how
    top = anchor_row if anchor_row >= 0 else (UNKNOWN if named else NONE)
    nodes.parent[kept] = [top, *kept[:-1]]
    nodes.relinked[kept] = how
    return anchor_row


def _prune(nodes: Nodes, file: int, boundary: int, kept: list[int]) -> Any:
    nodes.is_kept[kept] = True
    gone = np.setdiff1d(np.arange(nodes.starts[file], boundary), kept)
    nodes.alive[gone] = False
    return gone


def snip(nodes: Nodes, entries: pl.DataFrame) -> set[int]:
    """Take out what snip lines name; entries below hang on the nearest one left. Files where that runs in a circle."""
    marked = entries.filter(
        pl.col("detail").fill_null("").str.contains('"snipMetadata"', literal=True)
        & pl.col("entry_id").is_in(nodes.entry)
    ).select("entry_id", "detail")
    if not marked.height:
        return set()
    gone: dict[int, set[int]] = {}
    for entry_id, detail in marked.iter_rows():
        row = int(np.flatnonzero(nodes.entry == entry_id)[0])
        meta = orjson.loads(detail).get("snipMetadata")
        names = meta.get("removedUuids") if isinstance(meta, dict) else None
        if not isinstance(names, list) or not names or not nodes.alive[row]:
            continue
        file = int(nodes.file[row])
        found = [r for r in nodes.find(file, names) if r >= 0 and nodes.alive[r]]
        gone.setdefault(file, set()).update(found)
    return {file for file, rows in gone.items() if _take_out(nodes, file, rows)}


def _take_out(nodes: Nodes, file: int, gone: set[int]) -> bool:
    """Remove rows of one file; true when one of the ways up from them is a circle of removed rows."""
    nodes.alive[list(gone)] = False
    nodes.is_snipped[list(gone)] = True
    rows = np.arange(nodes.starts[file], nodes.starts[file + 1])
    below = rows[np.isin(nodes.parent[rows], list(gone)) & nodes.alive[rows]]
    for row in below.tolist():
        at, seen = int(nodes.parent[row]), set[int]()
        while at in gone and at not in seen:
            seen.add(at)
            at = int(nodes.parent[at])
        if at in seen:
            return True
        nodes.parent[row] = at
        nodes.relinked[row] = SNIP
    return False
