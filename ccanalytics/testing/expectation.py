"""Demands on a frame that fail with the rows at fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from ..errors import ExpectationError, NotFoundError, UsageError

Tolerance = float | Mapping[str, float]
ROWS_SHOWN = 10


def expect(
    frame: pl.DataFrame | pl.LazyFrame,
    *conditions: pl.Expr,
    equals: pl.DataFrame | str | Path | None = None,
    on: str | Sequence[str] | None = None,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    rows: int | None = None,
    tolerance: Tolerance = 0.0,
) -> pl.DataFrame:
    """The frame itself, if it meets every demand; else ``ExpectationError``, which shows the rows at fault.

    Parameters
    ----------
    frame
        What to look at.
    conditions
        Expressions that must be true in every row: ``cc.expect(t.tools, pl.col("outcome") != "error")``.
    equals
        A frame, or a CSV, Parquet or JSON-lines file with one: the same rows, with numbers within ``tolerance``.
    on
        Columns that tell the rows apart; by default those of ``equals`` that hold no numbers.
    at_most, at_least
        Limits by column, for every row. An unknown value (null) does not keep to a limit.
    rows
        How many rows there must be.
    tolerance
        Part of the expected number by which a number may be off, for all columns or by column (``{"cost_usd": 0.05}``).

    Examples
    --------
    >>> import ccanalytics as cc, polars as pl
    >>> costs = pl.DataFrame({"model": ["opus", "haiku"], "cost_usd": [0.40, 0.02]})
    >>> cc.expect(costs, at_most={"cost_usd": 0.5}, rows=2).height
    2
    """
    found = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    faults: list[Fault] = _condition_faults(found, conditions)
    for limits, is_upper in ((at_most or {}, True), (at_least or {}, False)):
        for column, limit in limits.items():
            faults += _limit_faults(found, column, limit, is_upper=is_upper, part=_part(tolerance, column))
    if rows is not None and len(found) != rows:
        faults.append((f"{len(found)} rows, expected {rows}", found))
    if equals is not None:
        faults += _unequal(found, _read(equals), on, tolerance)
    if faults:
        raise ExpectationError(_sentence(faults), rows=pl.concat([f for _, f in faults], how="diagonal_relaxed"))
    return found


Fault = tuple[str, pl.DataFrame]


def _condition_faults(found: pl.DataFrame, conditions: Sequence[pl.Expr]) -> list[Fault]:
    out = []
    for condition in conditions:
        # What cannot be told (null) is not met.
        bad = found.filter(~condition.fill_null(False))
        if len(bad):
            out.append((f"{_rows(bad)} where this is not so: {condition}", bad))
    return out


def _limit_faults(found: pl.DataFrame, column: str, limit: float, *, is_upper: bool, part: float) -> list[Fault]:
    _check_columns(found, [column])
    slack = abs(limit) * part
    value = pl.col(column)
    met = value <= limit + slack if is_upper else value >= limit - slack
    bad = found.filter(~met.fill_null(False) | value.cast(pl.Float64).is_nan().fill_null(False))
    word = "above" if is_upper else "below"
    return [(f"{_rows(bad)} with {column} {word} {limit:g}, or unknown", bad)] if len(bad) else []


def _unequal(
    found: pl.DataFrame, wanted: pl.DataFrame, on: str | Sequence[str] | None, tolerance: Tolerance
) -> list[Fault]:
    keys = [on] if isinstance(on, str) else list(on) if on is not None else _keys(wanted)
    _check_columns(found, wanted.columns)
    _check_columns(wanted, keys)
    measures = [c for c in wanted.columns if c not in keys]
    got = found.select(wanted.columns).with_columns(pl.col(k).cast(wanted[k].dtype) for k in keys)
    if not keys:
        got, wanted, keys = got.with_row_index("row"), wanted.with_row_index("row"), ["row"]
    for side, name in ((got, "the frame"), (wanted, "equals")):
        twice = side.filter(side.select(keys).is_duplicated())
        if len(twice):
            return [(f"{_rows(twice)} of {name} share the same {', '.join(keys)}; name the columns in on=", twice)]
    missing = wanted.join(got, on=keys, how="anti", nulls_equal=True)
    extra = got.join(wanted, on=keys, how="anti", nulls_equal=True)
    out = [(f"{_rows(f)} {what}", f) for f, what in ((missing, "missing"), (extra, "not expected")) if len(f)]
    both = got.join(
        wanted, on=keys, how="inner", suffix=" expected", nulls_equal=True, validate="1:1", maintain_order="left"
    )
    for column in measures:
        bad = both.filter(~_close(column, wanted[column].dtype, _part(tolerance, column)))
        if len(bad):
            allowed = f" by more than {_part(tolerance, column):.2%}" if wanted[column].dtype.is_numeric() else ""
            out.append(
                (f"{_rows(bad)} where {column} differs{allowed}", bad.select(*keys, column, f"{column} expected"))
            )
    return out


def _keys(wanted: pl.DataFrame) -> list[str]:
    return [c for c, d in wanted.schema.items() if not d.is_numeric()]


def _close(column: str, dtype: pl.DataType, part: float) -> pl.Expr:
    got, wanted = pl.col(column), pl.col(f"{column} expected")
    if not dtype.is_numeric():
        return got.cast(pl.String).eq_missing(wanted.cast(pl.String))
    # A hair of slack: a sum of floats may differ in its last digits from machine to machine.
    slack = wanted.abs() * part + wanted.abs() * 1e-9 + 1e-12
    near = ((got - wanted).abs() <= slack).fill_null(False)
    return near | (got.is_null() & wanted.is_null())


def _read(source: pl.DataFrame | str | Path) -> pl.DataFrame:
    if isinstance(source, pl.DataFrame):
        return source
    path = Path(source)
    if not path.is_file():
        raise NotFoundError(
            f"{path} does not exist; write it once, for example by frame.write_csv({str(path)!r})", path=str(path)
        )
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".csv": pl.read_csv,
        ".parquet": pl.read_parquet,
        ".ndjson": pl.read_ndjson,
        ".jsonl": pl.read_ndjson,
    }
    if path.suffix not in readers:
        raise UsageError(f"{path} is read as {', '.join(readers)}; it ends in {path.suffix!r}", got=path.suffix)
    return readers[path.suffix](path)


def _check_columns(frame: pl.DataFrame, columns: Sequence[str]) -> None:
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise UsageError(f"the frame has no column {missing[0]!r}; it has {', '.join(frame.columns)}", columns=missing)


def _part(tolerance: Tolerance, column: str) -> float:
    part = tolerance.get(column, 0.0) if isinstance(tolerance, Mapping) else tolerance
    if part < 0:
        raise UsageError(f"tolerance is {part}; it is a part of the expected number, 0.05 for 5 %", got=part)
    return part


def _rows(frame: pl.DataFrame) -> str:
    return "1 row" if len(frame) == 1 else f"{len(frame):,} rows"


def _sentence(faults: Sequence[Fault]) -> str:
    with pl.Config(
        tbl_rows=ROWS_SHOWN, tbl_cols=8, tbl_width_chars=120, fmt_str_lengths=40, tbl_hide_dataframe_shape=True
    ):
        return "\n".join(f"{what}\n{rows.head(ROWS_SHOWN)}" for what, rows in faults)
