"""Every table as data: column, dtype, unit, meaning, source field.

A table is declared once, here; frames, Parquet metadata, documentation and tests are derived from it.
The declarations import nothing heavy, so that worker processes can use them without polars.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

SCHEMA_VERSION = 1

Dtype = Literal["str", "bool", "i32", "i64", "u64", "f64", "ts"]
"""Names of the dtypes a column may have; ``ts`` is a UTC time with millisecond precision."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, dtype, meaning, where it comes from, its unit, and a closed set of values if any."""

    name: str
    dtype: Dtype
    meaning: str
    source: str = ""
    unit: str = ""
    values: tuple[str, ...] = ()
    is_text: bool = False
    """True for columns that hold words of the conversation; they are null unless text was asked for."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what a row is, its key, its sort order, and its columns in order."""

    name: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    sort: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(c.name for c in self.columns)

    @property
    def order(self) -> tuple[str, ...]:
        """The columns every public result is sorted by (the key unless stated otherwise)."""
        return self.sort or self.key

    def column(self, name: str) -> Column:
        """The column of that name; ``KeyError`` when there is none."""
        for c in self.columns:
            if c.name == name:
                return c
        raise KeyError(name)

    def polars(self) -> pl.Schema:
        """The schema as polars has it: names to dtypes, in order; closed sets are ``Enum``."""
        return _polars_schema(self)

    def arrow(self) -> pa.Schema:
        """The schema as Arrow has it; closed sets are plain strings (no dictionaries)."""
        return _arrow_schema(self)

    def empty(self) -> pl.DataFrame:
        """A frame of this table with no rows."""
        import polars as pl

        return pl.DataFrame(schema=self.polars())

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """``frame`` with exactly the declared columns, order and dtypes; missing columns become null.

        A column that is not declared is an error: tables do not grow by accident.
        """
        import polars as pl

        extra = [c for c in frame.columns if c not in self.names]
        if extra:
            raise ValueError(f"table {self.name} has undeclared columns {extra}")
        have = set(frame.columns)
        return frame.select(
            pl.col(n).cast(d, strict=True) if n in have else pl.lit(None, dtype=d).alias(n)
            for n, d in self.polars().items()
        )


@cache
def _polars_schema(table: Table) -> pl.Schema:
    import polars as pl

    plain: dict[str, pl.DataType] = {
        "str": pl.String(),
        "bool": pl.Boolean(),
        "i32": pl.Int32(),
        "i64": pl.Int64(),
        "u64": pl.UInt64(),
        "f64": pl.Float64(),
        "ts": pl.Datetime("ms", "UTC"),
    }
    return pl.Schema({c.name: pl.Enum(c.values) if c.values else plain[c.dtype] for c in table.columns})


@cache
def _arrow_schema(table: Table) -> pa.Schema:
    import pyarrow as pa

    types: dict[str, Any] = {
        "str": pa.large_string(),
        "bool": pa.bool_(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "u64": pa.uint64(),
        "f64": pa.float64(),
        "ts": pa.timestamp("ms", "UTC"),
    }
    return pa.schema([pa.field(c.name, types[c.dtype]) for c in table.columns])


_MODULES = ("base", "graph", "money", "work", "listing")


@cache
def tables() -> dict[str, Table]:
    """All declared tables by name, in the order of the documentation."""
    found: dict[str, Table] = {}
    for module in _MODULES:
        for value in vars(import_module(f"{__name__}.{module}")).values():
            if isinstance(value, Table):
                found[value.name] = value
    return found
