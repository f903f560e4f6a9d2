"""Files that have something to do with one another: only they need to be in memory together.

What links two files is any id that both show: session, message, request, entry, tool call, team. Tables made of such a
group are those made of everything, because no row of them looks beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

_ENTRY_KEYS = (
    "uuid", "parent_uuid", "logical_parent_uuid", "leaf_uuid", "source_tool_assistant_uuid", "message_ref",
    "forked_from_uuid", "session_id", "forked_from_session_id", "message_id", "request_id", "tool_use_id",
    "parent_tool_use_id", "source_tool_use_id", "team_name",
)  # fmt: skip


def read_keys(files: pl.DataFrame, entries: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """``file_id`` and hashes of the ids that the lines of each file show, each once."""
    calls = blocks.select("entry_id", "tool_use_id").drop_nulls()
    calls = calls.join(entries.select("entry_id", "file_id"), on="entry_id", how="inner", validate="m:1")
    parts = [entries.select("file_id", key=pl.col(c)).drop_nulls().unique() for c in _ENTRY_KEYS if entries[c].count()]
    parts += [calls.select("file_id", key="tool_use_id").unique(), files.select("file_id", key="session_id")]
    keys = pl.concat(parts).drop_nulls().filter(pl.col("key") != "")
    return keys.select("file_id", pl.col("key").hash(5)).unique()


def team_keys(team_members: pl.DataFrame) -> Iterable[tuple[int, int]]:
    """Hashes that belong together because a session leads a team."""
    pairs = team_members.select("team_name", "lead_session_id").drop_nulls().unique()
    hashed = pairs.select(pl.all().hash(5))
    return [(int(a), int(b)) for a, b in hashed.iter_rows()]


def build_groups(
    file_ids: npt.NDArray[np.int32],
    n_rows: npt.NDArray[np.int64],
    keys: pl.DataFrame,
    *,
    together: Iterable[tuple[int, int]] = (),
    max_rows: int,
) -> list[npt.NDArray[np.int32]]:
    """The files in groups of about ``max_rows`` entries (one that belongs together may be larger).

    Parameters
    ----------
    file_ids, n_rows
        All files in the order of their paths, with their numbers of entries.
    keys
        What :func:`read_keys` gives, of all of them.
    together
        Pairs of hashes that mean the same.
    """
    place = dict(zip(file_ids.tolist(), range(len(file_ids)), strict=True))
    above = list(range(len(file_ids)))
    for a, b in _links(keys, together):
        top_a, top_b = _top(above, place[a]), _top(above, place[b])
        above[max(top_a, top_b)] = min(top_a, top_b)
    members: dict[int, list[int]] = {}
    for i in range(len(file_ids)):
        members.setdefault(_top(above, i), []).append(i)
    groups: list[list[int]] = []
    size = max_rows
    for rows in members.values():
        n = int(n_rows[rows].sum())
        if not groups or size + n > max_rows:
            groups.append([])
            size = 0
        groups[-1] += rows
        size += n
    return [file_ids[sorted(g)] for g in groups]


def _links(keys: pl.DataFrame, together: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs of files that share an id: each with the first that shows it."""
    same = dict(together)
    if same:
        key = pl.col("key").replace(
            pl.Series(list(same), dtype=pl.UInt64), pl.Series(list(same.values()), dtype=pl.UInt64)
        )
        keys = keys.with_columns(key)
    shared = keys.filter(pl.col("key").is_duplicated())
    first = pl.col("file_id").min().over("key")
    pairs = shared.select("file_id", first=first).filter(pl.col("file_id") != pl.col("first")).unique()
    return [(int(a), int(b)) for a, b in pairs.iter_rows()]


def _top(above: list[int], at: int) -> int:
    while above[at] != at:
        above[at] = above[above[at]]
        at = above[at]
    return at
