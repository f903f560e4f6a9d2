"""Collapsed spans: what a ``marble-origami-commit`` line stands for, in builds where that is switched on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import polars as pl

from ccanalytics.graph import NONE

from .plan import Plan

COLLAPSED = -1_000_000_000
"""In place of a row: the summary of a collapsed span; ``COLLAPSED - entry_id`` names the commit line."""


def collapse_spans(plan: Plan, entries: pl.DataFrame) -> Plan:
    """The plan with every committed span of entries replaced by one made-up user entry.

    A commit counts when its first and last entry are both on the chain, in this order, and no compact boundary of the
    file stands behind it.
    """
    nodes = plan.nodes
    commits = entries.filter(
        (pl.col("type") == "marble-origami-commit")
        & ~pl.col("is_rescued").fill_null(False)
        & pl.col("file_id").is_in(nodes.file_ids.tolist())
    ).select("entry_id", "file_id", "detail")
    if not commits.height:
        return plan
    row, keep = plan.row.copy(), np.ones(len(plan.row), dtype=bool)
    ends = np.full(nodes.n_files, NONE, dtype=np.int64)
    boundaries = np.flatnonzero(nodes.is_boundary)
    ends[nodes.file[boundaries]] = nodes.entry[boundaries]
    for entry_id, file_id, detail in commits.iter_rows():
        file = int(np.searchsorted(nodes.file_ids, file_id))
        span = orjson.loads(detail) if detail else {}
        first, last = nodes.find(file, [span.get("firstArchivedUuid"), span.get("lastArchivedUuid")])
        if first < 0 or last < 0 or ends[file] > entry_id:
            continue
        a, b = np.flatnonzero(row == first), np.flatnonzero(row == last)
        if len(a) and len(b) and a[0] <= b[0]:
            keep[a[0] : b[0] + 1] = False
            keep[a[0]] = True
            row[a[0]] = COLLAPSED - entry_id
    return replace(plan, file=plan.file[keep], row=row[keep])
