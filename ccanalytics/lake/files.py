"""One Parquet file of a lake: types that every reader knows, and what each column means in the file itself."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import polars as pl

from ccanalytics.schema import SCHEMA_VERSION, Table

from .layout import table_of

ROW_GROUP_ROWS = 1 << 16
ZSTD_LEVEL = 1
"""The default of 3 takes a third longer and comes out larger on these tables, whose columns are encoded first."""


def write_file(name: str, frame: pl.DataFrame, path: Path) -> None:
    """Write a table's rows, all of which lie in ``frame``, and see them through to the disk."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    stored = to_stored(name, frame)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        stored.write_parquet(
            file,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            statistics=True,
            row_group_size=ROW_GROUP_ROWS,
            metadata=metadata_of(name),
        )
        file.flush()
        os.fsync(file.fileno())


def to_stored(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Closed sets as plain strings and unsigned numbers as signed ones of the same bits: other readers lack both."""
    return frame.with_columns(
        pl.col(c.name).cast(pl.String) if c.values else pl.col(c.name).reinterpret(signed=True)
        for c in table_of(name).columns
        if c.values or c.dtype == "u64"
    )


def scan_files(name: str, paths: Sequence[Path]) -> pl.LazyFrame:
    """The rows of these files with the declared types, in no order."""
    table = table_of(name)
    frame = pl.scan_parquet(list(paths), hive_partitioning=False, schema=stored_schema(table))
    return frame.with_columns(
        pl.col(c.name).cast(pl.Enum(c.values)) if c.values else pl.col(c.name).reinterpret(signed=False)
        for c in table.columns
        if c.values or c.dtype == "u64"
    )


def stored_schema(table: Table) -> pl.Schema:
    """The types in the file."""
    plain = {c.name: pl.String() if c.values else pl.Int64() for c in table.columns if c.values or c.dtype == "u64"}
    return pl.Schema({n: plain.get(n, d) for n, d in table.polars().items()})


@cache
def metadata_of(name: str) -> dict[str, str]:
    """Key-value metadata of a file: version of the schema, grain and key of the table, meaning of each column."""
    table = table_of(name)
    columns = [
        {k: v for k, v in (("name", c.name), ("dtype", c.dtype), ("meaning", c.meaning), ("source", c.source),
                           ("unit", c.unit), ("values", list(c.values))) if v}
        for c in table.columns
    ]  # fmt: skip
    about = {"name": name, "grain": table.grain, "key": table.key, "order": table.order}
    return {
        "ccanalytics.schema_version": str(SCHEMA_VERSION),
        "ccanalytics.table": json.dumps(about, ensure_ascii=False),
        "ccanalytics.columns": json.dumps(columns, ensure_ascii=False),
    }
