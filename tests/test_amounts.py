"""Money added up without rounding: the same to the last bit in every order and grouping."""

from __future__ import annotations

import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from ccanalytics.amounts import call_amounts, finish_amounts, sum_amounts
from ccanalytics.schema.money import CALLS

costs = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.floats(4e-9, 500.0), st.just(0.0))), max_size=20
)


def calls_of(rows: list[tuple[str, float | None]]) -> pl.DataFrame:
    names, money = [s for s, _ in rows], [c for _, c in rows]
    frame = {"session_id": pl.Series(names, dtype=pl.String), "cost_usd": pl.Series(money, dtype=pl.Float64)}
    return CALLS.conform(pl.DataFrame(frame))


@given(costs)
def test_a_sum_is_that_of_fsum_to_the_last_bit(rows: list[tuple[str, float | None]]) -> None:
    amounts = call_amounts(calls_of(rows))
    found = finish_amounts(sum_amounts(amounts, ["session_id"]))
    for session, n, unpriced, cost in found.select("session_id", "calls", "unpriced_calls", "cost_usd").iter_rows():
        known = [c for s, c in rows if s == session and c is not None]
        assert cost == (math.fsum(known) if known else None)
        assert (n, unpriced) == (sum(s == session for s, _ in rows), n - len(known))


@given(costs)
def test_sums_of_parts_add_up_to_the_sum_of_all_to_the_last_bit(rows: list[tuple[str, float | None]]) -> None:
    amounts = call_amounts(calls_of(rows)).with_columns(all=pl.lit("x"))
    parts = sum_amounts(amounts, ["session_id"]).with_columns(all=pl.lit("x"))
    if rows:
        whole = finish_amounts(sum_amounts(amounts, ["all"]))
        again = finish_amounts(sum_amounts(parts, ["all"]))
        assert whole.equals(again)
