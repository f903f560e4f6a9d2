"""A session's whole story: through all compactions, with dropped branches and agents where they belong."""

from __future__ import annotations

import numpy as np
import polars as pl

from . import graph
from .chains import PROGRESS, Tree, full_path, logical_tree
from .edges import copied_from
from .errors import NotFoundError
from .graph import NONE, Mask, Rows
from .schema.story import HISTORY


def build_history(
    session_id: str, files: pl.DataFrame, tree: Tree, chains: pl.DataFrame, edges: pl.DataFrame
) -> pl.DataFrame:
    """One row per entry of a session, nothing twice, in the order of the story.

    Parameters
    ----------
    session_id : str
        The session; its main transcript and its agents' files are told together.
    files, chains, edges : pl.DataFrame
        The tables.
    tree : Tree
        The repaired links.

    Returns
    -------
    pl.DataFrame
        Table ``history``. Compact boundaries hang on what came before them. A line that repeats another of the same
        session is left out; one copied from another session names it in ``copy_of``. Progress lines are left out.

    Raises
    ------
    NotFoundError
        There is no such session.
    """
    own = files.filter(pl.col("session_id") == session_id)
    if not own.height:
        raise NotFoundError(f"there is no session {session_id!r} among the transcripts", session_id=session_id)
    n = len(tree.entry)
    place = np.full(len(tree.links.file) + 1, NONE, dtype=np.int64)
    place[tree.entry] = np.arange(n)
    original = np.append(copied_from(tree.links, files)[0], NONE)[tree.entry]
    original = place[original]
    inside = np.isin(tree.file, own["file_id"].to_numpy()) & (tree.kind != PROGRESS)
    shown = inside & ~_repeats(inside, original, tree.file, chains)
    parent = _story_parents(tree, place, edges)
    parent = _past_hidden(parent, shown, original)
    story = full_path(tree)
    rows = np.flatnonzero(shown)
    at = np.full(n + 1, NONE, dtype=np.int64)
    at[rows] = np.arange(len(rows))
    # Beside the way first, the way itself last: it leads on.
    local = graph.without_cycles(at[parent[rows]])
    ordered = rows[graph.order(local, _rank(tree, story, chains)[rows])]
    return _frame(session_id, tree, chains, ordered, parent, original)


def _repeats(inside: Mask, original: Rows, file: Rows, chains: pl.DataFrame) -> Mask:
    """Lines that are there a second time: replaced by a later line, or a copy of one in another file of the session."""
    replaced = (chains["off_reason"].cast(pl.String) == "replaced").fill_null(False).to_numpy()
    source = original.clip(min=0)
    copied = (original >= 0) & inside[source] & (file[source] != file)
    return np.asarray(replaced | copied, dtype=bool)


def _story_parents(tree: Tree, place: Rows, edges: pl.DataFrame) -> Rows:
    parent = logical_tree(tree).copy()
    # What a resume shows is told in its order; kept messages are told where they were written, before the boundary.
    resumed = np.flatnonzero(tree.on_resume)
    resumed = resumed[np.argsort(tree.position[resumed], kind="stable")]
    before, after = resumed[:-1], resumed[1:]
    follows = (tree.file[after] == tree.file[before]) & (after > before)
    parent[after[follows]] = before[follows]
    started = edges.filter(pl.col("kind").cast(pl.String) == "spawn").select("child_id", "parent_id")
    elsewhere = tree.links.elsewhere[tree.entry]
    free = (parent < 0) & (elsewhere >= 0)
    parent[free] = place[elsewhere[free]]
    child, call = place[started["child_id"].to_numpy()], place[started["parent_id"].to_numpy()]
    ok = (child >= 0) & (call >= 0)
    # An agent's first line may name a parent of its own; the call says more.
    parent[child[ok]] = call[ok]
    return graph.without_cycles(parent)


def _past_hidden(parent: Rows, shown: Mask, original: Rows) -> Rows:
    """Parents that are not shown give way to the line they repeat, else to their own parent."""
    step = np.where(shown, NONE, np.where(original >= 0, original, parent))
    found = graph.nearest(graph.without_cycles(step), shown)
    return np.where(parent >= 0, found[parent.clip(min=0)], NONE)


def _rank(tree: Tree, story: Mask, chains: pl.DataFrame) -> Rows:
    branch = chains["branch_no"].to_numpy()
    return np.where(tree.on_resume, 3, np.where(story & (branch == 0), 2, 1)).astype(np.int64)


def _frame(session_id: str, tree: Tree, chains: pl.DataFrame, rows: Rows, parent: Rows, original: Rows) -> pl.DataFrame:
    entries = tree.links.entries.select("entry_id", "uuid", "type", "subtype", "timestamp", "agent_id")[
        tree.entry[rows]
    ]
    own = chains.select("file_id", "branch_no", "dropped_id", "segment", "on_resume", "off_reason")[rows]
    above, source = parent[rows], original[rows]
    copied = (source >= 0) & (tree.file[source.clip(min=0)] != tree.file[rows])
    return HISTORY.conform(
        pl.concat([entries, own], how="horizontal").with_columns(
            pl.lit(session_id).alias("session_id"),
            pl.Series("position", np.arange(len(rows))),
            pl.Series("parent_id", tree.entry[above]).set(pl.Series(above < 0), None),
            pl.Series("copy_of", tree.entry[source]).set(pl.Series(~copied), None),
            _part().alias("part"),
        )
    )


def _part() -> pl.Expr:
    reason = pl.col("off_reason").cast(pl.String)
    return (
        pl.when(reason == "sidechain")
        .then(pl.lit("sidechain"))
        .when(reason == "agent")
        .then(pl.lit("agent"))
        .when(reason == "orphan")
        .then(pl.lit("orphan"))
        .when(reason.is_in(["rescued", "replaced", "refused"]))
        .then(pl.lit("other"))
        .when(pl.col("branch_no") == 0)
        .then(pl.lit("main"))
        .otherwise(pl.lit("branch"))
    )
