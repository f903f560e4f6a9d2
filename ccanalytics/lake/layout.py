"""Where each row of each table lies in a lake: ``<table>/data.parquet``, or by month and project.

The folder level is called ``project_key`` because ``project`` is a column of some tables: readers that turn folders
into columns would put one in place of the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import polars as pl

from ccanalytics.projects import project_name, safe_name
from ccanalytics.schema import Table, tables
from ccanalytics.schema.base import PROBLEMS
from ccanalytics.schema.work import TEAM_TABLES

HIDDEN = "_ccanalytics"
"""Folder of what belongs to the lake itself; readers pass over names with an underscore."""

DERIVED = (
    "edges", "chains", "resume", "calls", "ledger", "tools", "agents", "turns", "compactions", "sessions", "events",
    "parallelism",
)  # fmt: skip
"""Tables made from the base tables, of sessions that have something to do with one another."""
EXPORTED = ("files", "entries", "blocks", "problems", *DERIVED, "team_members")
PARTITIONED = frozenset({"entries", "blocks", "edges", "chains", "calls", "ledger", "tools", "turns", "events"})
_NULLS_LAST = frozenset({"problems", "read_problems", "calls", "team_members"})
_OWN_TIMES = ("timestamp", "first_at", "started_at")
_UNDATED, _NOWHERE = "undated", "none"


def table_of(name: str) -> Table:
    """The declaration of an exported table; ``read_problems`` (kept for the lake itself) is one like ``problems``."""
    return PROBLEMS if name == "read_problems" else TEAM_TABLES.get(name) or tables()[name]


def in_order(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows in the order of the loaded table."""
    order = table_of(name).order
    return frame.sort(order, nulls_last=name in _NULLS_LAST, maintain_order=True)


def lazily_in_order(name: str, frame: pl.LazyFrame) -> pl.LazyFrame:
    """As :func:`in_order`, when it is collected."""
    return frame.sort(table_of(name).order, nulls_last=name in _NULLS_LAST, maintain_order=True)


def entry_id_columns(name: str) -> list[str]:
    """Columns that hold entry ids: the declaration has them as 64-bit numbers called ``…_id``."""
    return [c.name for c in table_of(name).columns if c.dtype == "i64" and c.name.endswith("_id")]


def file_id_columns(name: str) -> list[str]:
    """Columns that hold file ids: 32-bit numbers called ``…_id``."""
    return [c.name for c in table_of(name).columns if c.dtype == "i32" and c.name.endswith("_id")]


def whole_place(name: str) -> str:
    """Place of the one file of a table that is not partitioned, relative to the lake."""
    return f"{HIDDEN}/{name}.parquet" if name == "read_problems" else f"{name}/data.parquet"


def empty_place(name: str) -> str:
    """Place of the file that shows the types of a table without rows."""
    if name not in PARTITIONED:
        return whole_place(name)
    return f"{name}/month={_UNDATED}/project_key={_NOWHERE}/data.parquet"


def split_rows(
    name: str, frame: pl.DataFrame, entries: pl.DataFrame, files: pl.DataFrame
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a table with the place of the file they belong in.

    Parameters
    ----------
    entries, files
        The base tables that hold the entries and files the rows speak of, with the same ids.
    """
    if name not in PARTITIONED:
        if len(frame):
            yield whole_place(name), frame
        return
    months, homes = _months(frame, entries, files), _homes(frame, entries, files)
    projects = dict(zip(files["file_id"], files["project"], strict=True))
    keyed = frame.with_columns(months.alias("__month"), homes.alias("__home"))
    places = keyed.select("__month", "__home").unique()
    names = pl.Series([_place(name, m, projects.get(f)) for m, f in places.iter_rows()], dtype=pl.String)
    keyed = keyed.join(
        places.with_columns(__place=names), on=["__month", "__home"], how="left", validate="m:1", nulls_equal=True,
        maintain_order="left",
    )  # fmt: skip
    for key, rows in keyed.partition_by("__place", maintain_order=True, as_dict=True).items():
        yield str(key[0]), rows.drop("__month", "__home", "__place")


def _months(frame: pl.DataFrame, entries: pl.DataFrame, files: pl.DataFrame) -> pl.Series:
    """Year and month as one number: of the row's own time, else of its entry's, else of its file's first."""
    own = next((c for c in _OWN_TIMES if c in frame.columns), None)
    times = _of_entry(frame, entries.select("entry_id", "file_id", "timestamp"))
    begins = files.select("file_id", begins="first_at")
    times = times.join(begins, on="file_id", how="left", validate="m:1", maintain_order="left")
    if own is not None:
        times = times.with_columns(frame[own].alias("own"))
    choice = pl.coalesce(*(["own"] if own is not None else []), "timestamp", "begins")
    return times.select((choice.dt.year() * 100 + choice.dt.month()).fill_null(0)).to_series()


def _homes(frame: pl.DataFrame, entries: pl.DataFrame, files: pl.DataFrame) -> pl.Series:
    """The file a row belongs to: its own, else its entry's, else the first of its session."""
    homes = _of_entry(frame, entries.select("entry_id", "file_id"))["file_id"]
    if "file_id" in frame.columns:
        homes = frame.select(pl.coalesce("file_id", homes)).to_series()
    if homes.null_count() and "session_id" in frame.columns:
        first = files.drop_nulls("session_id").unique("session_id", keep="first", maintain_order=True)
        by_session = frame.select("session_id").join(
            first.select("session_id", "file_id"), on="session_id", how="left", validate="m:1", maintain_order="left"
        )
        homes = by_session.select(pl.coalesce(homes, "file_id")).to_series()
    return homes.alias("home")


def _of_entry(frame: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    key = "entry_id" if "entry_id" in frame.columns else "child_id"
    return frame.select(entry_id=key).join(facts, on="entry_id", how="left", validate="m:1", maintain_order="left")


def _place(name: str, month: int, project: str | None) -> str:
    when = f"{month // 100:04d}-{month % 100:02d}" if month else _UNDATED
    return f"{name}/month={when}/project_key={project_key(project)}/data.parquet"


def project_key(project: str | None) -> str:
    """A folder name for a project: readable, safe, and never that of another project.

    >>> project_key("/home/me/app")
    'app-36ddd434'
    """
    if project is None:
        return _NOWHERE
    digest = hashlib.blake2b(project.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{safe_name(project_name(project), length=60)}-{digest}"
