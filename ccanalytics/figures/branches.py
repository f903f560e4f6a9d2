"""A session as a railway map: one track per branch, with rewinds, forks and compactions."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from .style import COLORS, faint, finish, ink, muted, new_axes, remark, say_empty
from .text import number_axis

MAX_TRACKS = 60


def branch_tracks(chains: pl.DataFrame) -> pl.DataFrame:
    """One row per branch of the entries given, in order: ``branch_no``, ``track``, ``first``, ``last`` (places in the
    file), ``from_track``, ``from_place`` (where it leaves another; null for one that begins by itself), ``n``,
    ``on_resume`` (entries that a resume loads).

    ``chains`` is of one file; places count its entries from 0.
    """
    placed = chains.sort("entry_id").with_row_index("place").with_columns(pl.col("place").cast(pl.Int64))
    heads = placed.group_by("branch_no", maintain_order=True).agg(
        pl.col("place").min().alias("first"),
        pl.col("place").max().alias("last"),
        pl.col("parent_id").sort_by("place").first(),
        pl.len().cast(pl.Int64).alias("n"),
        pl.col("on_resume").fill_null(False).sum().cast(pl.Int64),
    )
    heads = heads.sort("on_resume", "first", descending=[True, False]).with_row_index("track")
    heads = heads.with_columns(pl.col("track").cast(pl.Int64))
    tracks = heads.select("branch_no", pl.col("track").alias("from_track"))
    parents = placed.select(pl.col("entry_id").alias("parent_id"), pl.col("place").alias("from_place"), "branch_no")
    parents = parents.join(tracks, on="branch_no", how="left", validate="m:1").drop("branch_no")
    return heads.join(parents, on="parent_id", how="left", validate="m:1", maintain_order="left").select(
        "branch_no", "track", "first", "last", "from_track", "from_place", "n", "on_resume"
    )


def plot_branches(
    chains: pl.DataFrame,
    compactions: pl.DataFrame | None = None,
    edges: pl.DataFrame | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """The branches of one session's file.

    Parameters
    ----------
    chains
        Rows of one file; what a resume loads is drawn strong, what was left behind pale.
    compactions
        Boundaries to mark.
    edges
        Links; those of kind ``copy`` mark entries that another session holds too, recovered where a link was mended.
    """
    whole = branch_tracks(chains)
    tracks = whole.filter(pl.col("track") < MAX_TRACKS)
    ax = new_axes(ax, height=min(9.0, max(1.7, 1.2 + 0.25 * len(tracks))))
    if not len(tracks):
        say_empty(ax, "no entries")
        return finish(ax, "Branches", grid="none")
    _lines(ax, tracks)
    placed = _places(chains, tracks)
    _mark(ax, placed, _ids(compactions, "entry_id"), "D", COLORS[1], "compaction")
    copies = edges.filter(pl.col("kind").cast(pl.String) == "copy") if edges is not None else None
    _mark(ax, placed, _ids(copies, "child_id"), "s", COLORS[3], "copied from another session")
    mended = edges.filter(pl.col("kind").cast(pl.String).is_in(MENDED)) if edges is not None else None
    _mark(ax, placed, _ids(mended, "child_id"), "P", COLORS[5], "link mended")
    leaves = placed.filter("is_leaf")
    ax.plot(leaves["place"], leaves["track"], "|", color=ink(), markersize=9, label="end of a branch")
    ax.set_yticks(tracks["track"].to_list(), [f"branch {b}" for b in tracks["branch_no"]], fontsize=8)
    ax.set_ylim(len(tracks) - 0.3, -0.7)
    ax.set_xlabel("entry of the file, in order")
    ax.margins(x=0.02)
    number_axis(ax.xaxis, "calls")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, fontsize=9)
    remark(ax, f"{len(whole) - len(tracks)} shorter branches not shown" if len(whole) > len(tracks) else "")
    return finish(ax, "Branches: rewinds, forks, compactions", grid="none")


MENDED = ("bridged", "logical", "relinked", "recovered", "spliced")
"""Kinds of links that were not simply written down."""


def _ids(frame: pl.DataFrame | None, column: str) -> list[int]:
    return [] if frame is None else frame[column].to_list()


def _places(chains: pl.DataFrame, tracks: pl.DataFrame) -> pl.DataFrame:
    placed = chains.sort("entry_id").with_row_index("place")
    return placed.join(tracks.select("branch_no", "track"), on="branch_no", how="inner", validate="m:1")


def _lines(ax: Axes, tracks: pl.DataFrame) -> None:
    for strong, text in ((True, "loaded on resume"), (False, "left behind")):
        rows = tracks.filter((pl.col("on_resume") > 0) == strong)
        color, width = (COLORS[0], 3.2) if strong else (faint(), 2.2)
        runs = [[(a, t), (max(b, a + 0.3), t)] for a, b, t in rows.select("first", "last", "track").iter_rows()]
        if runs:
            ax.add_collection(LineCollection(runs, colors=color, linewidths=width, label=text))
    forks = tracks.drop_nulls("from_track").filter(pl.col("from_track") != pl.col("track"))
    reach = max(1.0, float(tracks["last"].max() or 1) * 0.015)  # type: ignore[arg-type]
    bends = [
        _bend(a, b, c, d, reach)
        for a, b, c, d in forks.select("from_place", "from_track", "first", "track").iter_rows()
    ]
    if bends:
        ax.add_collection(LineCollection(bends, colors=muted(), linewidths=1, zorder=0.9))
        ax.plot(forks["from_place"], forks["from_track"], "o", color=ax.get_facecolor(), markeredgecolor=ink(),
                markersize=6, linestyle="none", label="went back to here")  # fmt: skip


def _bend(x0: float, y0: float, x1: float, y1: float, reach: float) -> list[tuple[float, float]]:
    """From where it leaves one track down to its own, then along it to its first entry."""
    s = np.linspace(0, 1, 12)
    turn = min(reach, max(x1 - x0, 0.0)) * s
    return [*zip(x0 + turn, y0 + (y1 - y0) * s * s * (3 - 2 * s), strict=True), (x1, y1)]


def _mark(ax: Axes, placed: pl.DataFrame, ids: list[int], marker: str, color: str, name: str) -> None:
    rows = placed.filter(pl.col("entry_id").is_in(ids))
    if len(rows):
        ax.plot(rows["place"], rows["track"], marker, color=color, markeredgecolor=ink(), markeredgewidth=0.6,
                markersize=7, linestyle="none", label=name, zorder=3)  # fmt: skip
