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
BY_PROJECT = frozenset({"entries", "blocks", "edges", "chains"})
"""Tables by month and project: those with most rows."""
BY_MONTH = frozenset({"calls", "ledger", "tools", "turns", "events"})
"""Tables by month alone; by project too, their files would be too small to be worth opening."""
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
    return _place(name, 0, None) if name in BY_PROJECT | BY_MONTH else whole_place(name)


def split_rows(
    name: str, frame: pl.DataFrame, entries: pl.DataFrame, files: pl.DataFrame
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a table with the place of the file they belong in.

    Parameters
    ----------
    entries, files
        The base tables that hold the entries and files the rows speak of, with the same ids.
    """
    if name not in BY_PROJECT | BY_MONTH:
        if len(frame):
            yield whole_place(name), frame
        return
    projects = [None, *files["project"].drop_nulls().unique().sort()]
    keys = [_months(frame, entries, files).alias("__month")]
    if name in BY_PROJECT:
        numbers = files.select("file_id", n=pl.col("project").replace_strict(projects, range(len(projects))))
        keys.append(_homes(frame, entries).replace_strict(numbers["file_id"], numbers["n"]).alias("__project"))
    names = [k.name for k in keys]
    parts = frame.with_columns(keys).partition_by(names, maintain_order=True, as_dict=True, include_key=False)
    for key, rows in parts.items():
        yield _place(name, key[0], projects[key[1]] if len(key) > 1 else None), rows


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


def _homes(frame: pl.DataFrame, entries: pl.DataFrame) -> pl.Series:
    """The file a row belongs to: its own, else its entry's."""
    return (
        frame["file_id"]
        if "file_id" in frame.columns
        else _of_entry(frame, entries.select("entry_id", "file_id"))["file_id"]
    )


def _of_entry(frame: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    key = "entry_id" if "entry_id" in frame.columns else "child_id"
    return frame.select(entry_id=key).join(facts, on="entry_id", how="left", validate="m:1", maintain_order="left")


def _place(name: str, month: int, project: str | None) -> str:
    when = f"{month // 100:04d}-{month % 100:02d}" if month else _UNDATED
    where = f"project_key={project_key(project)}/" if name in BY_PROJECT else ""
    return f"{name}/month={when}/{where}data.parquet"


def project_key(project: str | None) -> str:
    """A folder name for a project: readable, safe, and never that of another project.

    >>> project_key("/home/me/app")
    'app-36ddd434'
    """
    if project is None:
        return _NOWHERE
    digest = hashlib.blake2b(project.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{safe_name(project_name(project), length=60)}-{digest}"
