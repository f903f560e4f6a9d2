"""Advisor iterations: answers of a second model inside one request, charged apart from it."""

from __future__ import annotations

import numpy as np
import orjson
import polars as pl

from .schema.money import TOKENS
from .usage_lines import COUNTS

_OWN = {*COUNTS, "ephemeral_5m_input_tokens", "call_id", "model", "requested_model", "speed", "stop_reason"}


def advisor_calls(calls: pl.DataFrame, iterations: pl.Series) -> list[pl.DataFrame]:
    """A call for every advisor iteration, charged apart from the answer it belongs to, with that answer's place."""
    rows, added = [], []
    has = iterations.str.contains('"advisor_message"', literal=True).fill_null(False)
    for row in np.flatnonzero(has.to_numpy()):
        parent = calls["call_id"][int(row)]
        for n, item in enumerate(advisor_iterations(iterations[int(row)])):
            rows.append(int(row))
            added.append({"call_id": f"{parent}:advisor:{n}", "advisor_parent": parent, **item})
    if not rows:
        return []
    kept = calls[rows].drop(c for c in calls.columns if c in _OWN)
    schema = {c.name: pl.Int64 for c in TOKENS} | dict.fromkeys(("call_id", "advisor_parent", "model"), pl.String)
    nothing = [pl.lit(0, dtype=pl.Int64).alias(c) for c in COUNTS if c not in schema]
    return [
        kept.with_columns(
            *pl.DataFrame(added, schema=schema).get_columns(),
            *nothing,
            source=pl.lit("advisor"),
            recorded_cost_usd=pl.lit(None, dtype=pl.Float64),
            is_partial=pl.lit(False),
        )
    ]


def advisor_iterations(text: str) -> list[dict[str, int | str | None]]:
    """Model and token counts of the advisor iterations in ``usage.iterations``; what is malformed counts as nothing."""
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    found = []
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") == "advisor_message":
            split = item.get("cache_creation")
            hour, five = (
                _count(split.get(f"ephemeral_{t}_input_tokens")) if isinstance(split, dict) else 0 for t in ("1h", "5m")
            )
            written = _count(item.get("cache_creation_input_tokens")) or hour + five
            hour = min(hour, written)
            model = item.get("model")
            found.append(
                {
                    "model": model if isinstance(model, str) else None,
                    **{c: _count(item.get(c)) for c in ("input_tokens", "output_tokens", "cache_read_input_tokens")},
                    "cache_creation_input_tokens": written,
                    "ephemeral_1h_input_tokens": hour,
                    "ephemeral_5m_input_tokens": written - hour,
                }
            )
    return found


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**15:
        return 0
    return int(value)
