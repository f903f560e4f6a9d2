"""Facts out of the JSON of details: typed, whatever stands there."""

from __future__ import annotations

import json

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from ccanalytics.details import read_details

values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.just([1])
)
objects = st.one_of(
    st.none(), st.just("{"), st.builds(lambda v: json.dumps({"a": {"b": v}}), values), st.just('{"a":3}')
)


def plain(text: str | None, kind: type) -> object:
    try:
        value = json.loads(text or "null")["a"]["b"]
    except (ValueError, TypeError, KeyError):
        return None
    return value if type(value) is kind else None


@given(st.lists(objects, max_size=9))
def test_a_fact_of_another_type_is_null_and_rows_stay_in_place(details: list[str | None]) -> None:
    found = read_details(pl.Series("d", details, dtype=pl.String), {"a.b": "bool"})
    assert found["a.b"].to_list() == [plain(d, bool) for d in details]
    assert read_details(pl.Series("d", details, dtype=pl.String), {"a.b": "i64"}).height == len(details)


def test_numbers_become_the_kind_asked_for() -> None:
    details = pl.Series(['{"a":1}', '{"a":1.6}', '{"a":"x"}', '{"a":true}', '{"a":1e300}'])
    assert read_details(details, {"a": "i64"})["a"].to_list() == [1, 1, None, None, None]
    assert read_details(details, {"a": "f64"})["a"].to_list() == [1.0, 1.6, None, None, None]
    assert read_details(details, {"a": "str"})["a"].to_list() == ["1", "1.6", "x", None, "1e+300"]
