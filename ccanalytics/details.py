"""The JSON in ``entries.detail`` and ``blocks.detail`` as typed columns, one per fact asked for.

What a transcript says may have any type; a fact of another type than expected is null, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import orjson
import polars as pl

Kind = Literal["str", "i64", "f64", "bool"]
_DTYPES: dict[str, pl.DataType] = {"str": pl.String(), "i64": pl.Int64(), "f64": pl.Float64(), "bool": pl.Boolean()}


def read_details(details: pl.Series, facts: Mapping[str, Kind]) -> pl.DataFrame:
    """One column per fact, in the rows' order; a fact is a path such as ``result.agentId``.

    Examples
    --------
    >>> read_details(pl.Series(['{"result":{"status":"completed"}}', None]), {"result.status": "str"})["result.status"]
    shape: (2,)
    Series: 'result.status' [str]
    [
        "completed"
        null
    ]
    """
    told = details.is_not_null()
    if told.sum() < len(details) // 2:
        # Most lines have no detail: read those that do, and put each back in its row.
        place = pl.select(pl.when(told).then(told.cum_sum() - 1)).to_series()
        return read_details(details.drop_nulls(), facts).select(pl.all().gather(place))
    below: dict[str, list[object]] = {"": parse_details(details)}
    columns = {}
    for path, kind in facts.items():
        above, _, key = path.rpartition(".")
        values = [v.get(key) if isinstance(v, dict) else None for v in _at(below, above)]
        columns[path] = pl.Series(path, [None if v is None else _as(v, kind) for v in values], dtype=_DTYPES[kind])
    return pl.DataFrame(columns)


def _at(below: dict[str, list[object]], path: str) -> list[object]:
    """The values at a path, looked up once for all facts below it."""
    if path not in below:
        above, _, key = path.rpartition(".")
        below[path] = [v.get(key) if isinstance(v, dict) else None for v in _at(below, above)]
    return below[path]


def parse_details(details: pl.Series) -> list[object]:
    """The decoded objects; None for null and for what is no JSON."""
    return [None if text is None else _loads(text) for text in details.to_list()]


def _loads(text: str) -> object:
    try:
        value: object = orjson.loads(text)
    except ValueError:
        return None
    return value


def _as(value: object, kind: Kind) -> object:
    if value is None:
        return None
    if isinstance(value, bool):
        return value if kind == "bool" else None
    if isinstance(value, str):
        return value if kind == "str" else None
    if not isinstance(value, int | float):
        return None
    if kind == "str":
        return str(value)
    # Beyond this a number is not exact, and a sum or product of a few would not fit a column; NaN is not below it.
    if kind == "bool" or not abs(value) <= 2**53:
        return None
    return float(value) if kind == "f64" else int(value)
