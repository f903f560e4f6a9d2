"""Tables of a loaded object, whether it was read from transcripts (eager) or from Parquet (lazy)."""

from __future__ import annotations

import polars as pl

from .errors import NotFoundError


def eager(table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The table as a frame."""
    return table.collect() if isinstance(table, pl.LazyFrame) else table


def of_session(table: pl.DataFrame, session: str | None) -> pl.DataFrame:
    """The rows of that session; the beginning of its id is enough when only one session begins so.

    Raises
    ------
    NotFoundError
        No session has that id although one was asked for.
    """
    if session is None:
        return table.clear()
    rows = table.filter(pl.col("session_id") == session)
    if len(rows) or not len(table):
        return rows
    found = table.filter(pl.col("session_id").str.starts_with(session))
    ids = found["session_id"].unique().to_list()
    if len(ids) == 1:
        return found
    what = f"{len(ids)} sessions begin with" if ids else "no session is called"
    raise NotFoundError(f"{what} {session!r}; t.sessions lists them", session=session, n_matches=len(ids))
