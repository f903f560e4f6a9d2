"""cc.stable, cc.compare, cc.expect, and the sanitising file."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.errors import ExpectationError, NotFoundError, UsageError
from ccanalytics.testing import sanitize_path

COSTS = pl.DataFrame({"model": ["haiku", "opus"], "calls": [3, 10], "cost_usd": [0.02, 0.40]})


@pytest.fixture(scope="module")
def t() -> Any:
    return cc.load_sample()


# expect


def test_a_frame_that_meets_all_demands_comes_back() -> None:
    same = cc.expect(COSTS, pl.col("calls") > 0, at_most={"cost_usd": 0.4}, at_least={"calls": 3}, rows=2, equals=COSTS)
    assert same is COSTS
    assert cc.expect(COSTS.lazy()).equals(COSTS)


def test_the_message_shows_the_rows_at_fault_and_no_others() -> None:
    with pytest.raises(ExpectationError, match=r"1 row with cost_usd above 0\.3") as failure:
        cc.expect(COSTS, at_most={"cost_usd": 0.3})
    assert "opus" in str(failure.value)
    assert "haiku" not in str(failure.value)
    rows = failure.value.facts["rows"]
    assert isinstance(rows, pl.DataFrame)
    assert rows["model"].to_list() == ["opus"]
    assert isinstance(failure.value, AssertionError)


def test_every_demand_that_fails_is_told() -> None:
    with pytest.raises(ExpectationError) as failure:
        cc.expect(COSTS, pl.col("calls") < 5, at_least={"cost_usd": 0.1}, rows=3)
    for part in ("where this is not so", "below 0.1", "2 rows, expected 3"):
        assert part in str(failure.value)


@pytest.mark.parametrize(("factor", "passes"), [(1.04, True), (1.06, False), (0.96, True), (0.94, False)])
def test_numbers_may_be_off_by_the_tolerance_and_no_more(factor: float, passes: bool) -> None:
    dearer = COSTS.with_columns(pl.col("cost_usd") * factor)
    if passes:
        cc.expect(dearer, equals=COSTS, tolerance={"cost_usd": 0.05})
    else:
        with pytest.raises(ExpectationError, match=r"cost_usd differs by more than 5\.00%"):
            cc.expect(dearer, equals=COSTS, tolerance={"cost_usd": 0.05})


def test_a_limit_has_the_tolerance_too() -> None:
    cc.expect(COSTS, at_most={"cost_usd": 0.39}, tolerance=0.05)


def test_the_last_digits_of_a_sum_do_not_matter() -> None:
    cc.expect(COSTS.with_columns(pl.col("cost_usd") + 1e-15), equals=COSTS)


def test_missing_and_unexpected_rows_are_told_apart() -> None:
    other = COSTS.with_columns(model=pl.Series(["haiku", "sonnet"]))
    with pytest.raises(ExpectationError, match=r"(?s)1 row missing.*sonnet.*1 row not expected.*opus"):
        cc.expect(COSTS, equals=other)


def test_an_unknown_value_keeps_to_no_limit() -> None:
    unknown = pl.DataFrame(
        {"model": ["x", "y"], "cost_usd": [None, float("nan")]}, schema_overrides={"cost_usd": pl.Float64}
    )
    with pytest.raises(ExpectationError, match="2 rows"):
        cc.expect(unknown, at_most={"cost_usd": 1.0})
    with pytest.raises(ExpectationError):
        cc.expect(COSTS, equals=COSTS.with_columns(cost_usd=pl.lit(None, dtype=pl.Float64)))


def test_expected_frames_are_read_from_files(tmp_path: Path) -> None:
    COSTS.write_csv(tmp_path / "c.csv")
    COSTS.write_parquet(tmp_path / "c.parquet")
    COSTS.write_ndjson(tmp_path / "c.ndjson")
    for name in ("c.csv", "c.parquet", "c.ndjson"):
        cc.expect(COSTS, equals=tmp_path / name)
    with pytest.raises(NotFoundError, match="write it once"):
        cc.expect(COSTS, equals=tmp_path / "none.csv")


def test_wrong_questions_are_answered_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="it has model, calls, cost_usd"):
        cc.expect(COSTS, at_most={"price": 1})
    with pytest.raises(ExpectationError, match="name the columns in on="):
        cc.expect(pl.concat([COSTS, COSTS]), equals=COSTS)


# compare


def test_a_corpus_differs_from_itself_in_nothing(t: Any) -> None:
    frame = cc.compare(t, t)
    assert frame["difference"].drop_nulls().eq(0).all()
    assert frame.filter(by="total", measure="calls")["a"].to_list() == [len(t.calls)]
    assert frame.filter(by="total", measure="turns")["a"].to_list() == [len(t.turns.filter(pl.col("turn_no") > 0))]


def test_causes_add_up_to_the_difference(t: Any) -> None:
    ids = t.sessions["session_id"].to_list()
    frame = cc.compare((t, ids[:4]), (t, ids[4:])).filter(measure="cost_usd")
    total = frame.filter(by="total")["difference"].item()
    for by in ("model", "agent_type", "tool"):
        assert frame.filter(by=by)["difference"].sum() == pytest.approx(total)
        assert frame.filter(by=by)["difference"].abs().is_sorted(descending=True)


def test_a_group_that_one_side_lacks_counts_as_nothing(t: Any) -> None:
    opus = t.sessions.filter(pl.col("models") == "claude-opus-5-5")["session_id"].to_list()
    frame = cc.compare((t, opus), t).filter(by="model", measure="calls")
    assert frame.filter(key="claude-haiku-5-5")["a"].to_list() == [0.0]


def test_paths_can_be_compared(t: Any) -> None:
    from ccanalytics.sample import sample_path

    assert cc.compare(sample_path(), str(sample_path())).equals(cc.compare(t, t))


# stable


def test_nb02_ids_become_names_by_order_of_appearance(t: Any) -> None:
    frame = cc.stable(t.sessions.select("session_id", "cwd", "title", "cost_usd"))
    assert frame["session_id"].to_list() == [f"session {i}" for i in range(1, len(frame) + 1)]
    assert frame["cwd"][0] == "folder 1"
    assert frame["title"].equals(t.sessions["title"])


def test_display_settings_hold_and_are_put_back() -> None:
    def shown() -> str:
        return str(pl.DataFrame({"a": [1 / 3], "b": ["x" * 100]}))

    before = shown()
    with cc.stable():
        assert "0.3333" in shown()
        assert max(map(len, shown().splitlines())) <= 120
    assert shown() == before


# the sanitising file


def test_nb04_what_changes_from_run_to_run_is_hidden_and_amounts_are_not() -> None:
    assert sanitize_path().is_file()
    text = (
        '<img src="data:image/png;base64,iVBORw0KGgo="> <X at 0x7f00aa12bc34> /tmp/ipykernel_12/345.py:1: W '
        "/home/dev/app /tmp/pytest-of-me/x $1.23 42 calls 2026-11-03 10:00 0.25 s 4337be2d-7645-4af1-9ac3-4e1d9a0a2dc5"
    )
    rules = configparser.RawConfigParser()
    rules.read(sanitize_path())
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    assert text == (
        '<img src="PICTURE"> <X at ADDRESS> CELL:1: W HOME/app TEMPORARY $1.23 42 calls 2026-11-03 10:00 0.25 s UUID'
    )
