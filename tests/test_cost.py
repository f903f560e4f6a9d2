"""Cost by any key: zones, windows, exact sums, and the same totals whichever way one slices."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import combinations
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given, settings

from ccanalytics.cost import build_cost, cost_report, plain_rows
from ccanalytics.cost_keys import KEYS
from ccanalytics.errors import UsageError
from ccanalytics.pricing import PART_NAMES
from ccanalytics.schema.money import CALLS, COST_MEASURES
from ccanalytics.schema.work import AGENTS, TOOLS
from ccanalytics.windows import build_windows


def calls_at(*times: str, **columns: object) -> pl.DataFrame:
    """One call of 1000 output tokens (0.015 USD) at each time."""
    rows = [
        {"call_id": f"c{n}", "first_at": t, "model": "claude-sonnet-4-5", "output_tokens": 1000, **columns}
        for n, t in enumerate(times)
    ]
    frame = pl.DataFrame(rows).with_columns(pl.col("first_at").str.to_datetime("%+", time_unit="ms", time_zone="UTC"))
    return CALLS.conform(frame.with_columns(last_at=pl.col("first_at")))


def keys_of(frame: pl.DataFrame, key: str) -> list[object]:
    return frame[key].to_list()


def test_columns_are_the_keys_and_the_declared_measures() -> None:
    frame = build_cost(calls_at("2026-03-01T00:00:00Z"), ["day", "model"], tz="UTC")
    assert frame.columns == ["day", "model", *(c.name for c in COST_MEASURES)]
    assert {frame.schema[c.name] for c in COST_MEASURES if c.dtype == "i64"} == {pl.Int64()}


def test_ti01_a_day_is_the_zones_day() -> None:
    calls = calls_at("2026-03-10T05:15:00Z")
    assert keys_of(build_cost(calls, "day", tz="America/Los_Angeles"), "day") == [date(2026, 3, 9)]
    assert keys_of(build_cost(calls, "day", tz="UTC"), "day") == [date(2026, 3, 10)]


def test_ti01_the_default_zone_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert keys_of(build_cost(calls_at("2026-03-10T16:00:00Z"), "day"), "day") == [date(2026, 3, 11)]


def test_ti03_a_session_of_several_days_counts_on_each() -> None:
    calls = calls_at("2026-04-03T10:00:00Z", "2026-04-04T10:00:00Z", "2026-04-09T10:00:00Z", session_id="s")
    calls = calls.with_columns(output_tokens=pl.Series([100, 200, 50]))
    assert build_cost(calls, "day", tz="UTC")["output_tokens"].to_list() == [100, 200, 50]


def test_ti04_the_hour_that_repeats_is_two_hours_of_one_day() -> None:
    calls = calls_at("2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z")
    hours = build_cost(calls, "hour", tz="America/New_York")
    assert len(hours) == 2
    assert [h.utcoffset() for h in hours["hour"]] == [timedelta(hours=-4), timedelta(hours=-5)]
    assert len(build_cost(calls, "day", tz="America/New_York")) == 1


def test_ti04_a_day_without_midnight_and_a_zone_off_by_minutes() -> None:
    santiago = build_cost(calls_at("2024-09-08T04:30:00Z"), ["day", "week", "month", "hour"], tz="America/Santiago")
    assert santiago.select("day", "week", "month").row(0) == (date(2024, 9, 8), date(2024, 9, 2), date(2024, 9, 1))
    [hour] = build_cost(calls_at("2026-06-01T00:20:00Z"), "hour", tz="Asia/Kathmandu")["hour"]
    assert (hour.hour, hour.minute) == (6, 0)


def test_ti05_day_and_month_use_the_same_zone() -> None:
    calls = calls_at("2026-02-01T01:00:00Z", "2026-02-15T01:00:00Z")
    for tz, first in (("America/Bogota", date(2026, 1, 31)), ("UTC", date(2026, 2, 1))):
        days, months = build_cost(calls, "day", tz=tz), build_cost(calls, "month", tz=tz)
        assert keys_of(days, "day")[0] == first
        assert keys_of(months, "month")[0] == first.replace(day=1)
        assert days["output_tokens"].sum() == months["output_tokens"].sum() == build_cost(calls)["output_tokens"][0]


def test_ti06_the_zone_has_an_effect_and_an_unknown_one_is_an_error() -> None:
    calls = calls_at("2026-06-01T23:30:00Z")
    assert keys_of(build_cost(calls, "day", tz="UTC"), "day") == [date(2026, 6, 1)]
    assert keys_of(build_cost(calls, "day", tz="Asia/Kathmandu"), "day") == [date(2026, 6, 2)]
    for zone in ("Mars/Olympus", "", "../etc/passwd"):
        with pytest.raises(UsageError):
            build_cost(calls, "day", tz=zone)


def test_ti07_a_window_begins_at_the_full_hour_of_its_first_call() -> None:
    calls = calls_at("2026-05-01T09:37:00Z", "2026-05-01T12:05:00Z", "2026-05-01T15:20:00Z", "2026-05-03T01:00:00Z")
    frame = build_cost(calls, "block", tz="UTC")
    assert [b.strftime("%d %H:%M") for b in frame["block"]] == ["01 09:00", "01 15:00", "03 01:00"]
    assert frame["calls"].to_list() == [2, 1, 1]


def test_a_call_at_the_very_end_of_a_window_opens_the_next() -> None:
    frame = build_cost(calls_at("2026-05-01T09:30:00Z", "2026-05-01T13:59:59.999Z", "2026-05-01T14:00:00Z"), "block")
    assert frame["calls"].to_list() == [2, 1]


def test_the_running_window_is_projected_at_its_rate() -> None:
    calls = calls_at("2026-05-01T02:00:00Z", "2026-05-01T09:00:00Z", "2026-05-01T09:30:00Z")
    past, running = build_windows(calls, tz="UTC", now=datetime(2026, 5, 1, 10, tzinfo=UTC)).to_dicts()
    assert (past["is_running"], past["projected_cost_usd"]) == (False, None)
    assert running["cost_usd"] == pytest.approx(0.03)
    assert running["cost_per_hour_usd"] == pytest.approx(0.03)
    assert running["projected_cost_usd"] == pytest.approx(0.15)
    assert running["projected_total_tokens"] == 10_000
    assert running["ends_at"] - running["block"] == timedelta(hours=5)


def test_pr07_what_has_no_price_is_counted_and_named() -> None:
    calls = calls_at("2026-05-01T09:00:00Z", "2026-05-01T10:00:00Z")
    calls = calls.with_columns(model=pl.Series(["claude-opus-5", "claude-zeta-99"]))
    report = cost_report(calls, "model", tz="UTC")
    assert report["unpriced_models"] == ["claude-zeta-99"]
    assert [r["cost_usd"] for r in report["rows"]] == [pytest.approx(0.025), None]  # type: ignore[attr-defined]
    assert report["totals"]["cost_usd"] == pytest.approx(0.025)  # type: ignore[index]
    assert report["totals"]["unpriced_calls"] == 1  # type: ignore[index]


def test_pr13_a_context_suffix_is_no_model_of_its_own() -> None:
    calls = calls_at("2026-05-01T09:00:00Z", "2026-05-01T10:00:00Z")
    calls = calls.with_columns(model=pl.Series(["claude-opus-4-8[1m]", "claude-opus-4-8"]))
    assert build_cost(calls, "model")["model"].to_list() == ["claude-opus-4-8"]


def test_pr16_the_total_has_the_cache_and_the_cache_has_its_share() -> None:
    calls = calls_at("2026-05-01T09:00:00Z").with_columns(
        input_tokens=pl.lit(100), cache_creation_input_tokens=pl.lit(300), cache_read_input_tokens=pl.lit(600),
        ephemeral_5m_input_tokens=pl.lit(300), output_tokens=pl.lit(50),
    )  # fmt: skip
    [row] = build_cost(calls, detail="full").to_dicts()
    assert (row["total_tokens"], row["cache_read_share"]) == (1050, 0.6)
    assert row["saved_by_reads_usd"] == pytest.approx(600 * 2.7e-6)
    assert row["write_premium_usd"] == pytest.approx(300 * 0.75e-6)


def test_what_expired_in_the_cache_and_was_written_again_is_lost() -> None:
    calls = calls_at("2026-05-01T09:00:00Z", "2026-05-01T09:04:00Z", "2026-05-01T09:20:00Z", session_id="s")
    calls = calls.with_columns(
        cache_creation_input_tokens=pl.Series([10_000, 1000, 12_000]),
        ephemeral_5m_input_tokens=pl.Series([10_000, 1000, 12_000]),
        cache_read_input_tokens=pl.Series([0, 10_000, 0]),
    )
    frame = build_cost(calls, "hour", detail="full")
    assert frame["lost_to_expiry_usd"][0] == pytest.approx(11_000 * (3.75 - 0.3) * 1e-6)
    alone = build_cost(
        calls.with_columns(ephemeral_1h_input_tokens=pl.lit(1), ephemeral_5m_input_tokens=pl.lit(0)), detail="full"
    )
    assert alone["lost_to_expiry_usd"][0] == 0


def test_since_and_until_cut_by_the_zones_days() -> None:
    calls = calls_at("2026-05-01T23:30:00Z", "2026-05-02T12:00:00Z", "2026-05-03T00:30:00Z")
    assert build_cost(calls, since="2026-05-02", until="2026-05-02", tz="UTC")["calls"][0] == 1
    assert build_cost(calls, since="2026-05-02", until="2026-05-02", tz="Europe/Berlin")["calls"][0] == 2
    assert build_cost(calls, since=datetime(2026, 5, 3, tzinfo=UTC), tz="UTC")["calls"][0] == 1


def test_an_empty_report_has_zero_totals_and_no_rows() -> None:
    report = cost_report(CALLS.empty(), "day", tz="UTC")
    assert report["rows"] == []
    assert report["unpriced_models"] == []
    assert report["totals"]["cost_usd"] == 0  # type: ignore[index]


@pytest.mark.parametrize("by", ["nonsense", ["day", "color"], "day,,moon"])
def test_an_unknown_key_is_named_with_those_that_exist(by: str | list[str]) -> None:
    with pytest.raises(UsageError, match="allowed: hour, day"):
        build_cost(CALLS.empty(), by)


def test_keys_may_be_spelled_as_columns_and_repeated() -> None:
    frame = build_cost(calls_at("2026-05-01T09:00:00Z", session_id="s"), "session_id, session,day", tz="UTC")
    assert frame.columns[:2] == ["session", "day"]


def test_a_report_has_its_times_as_text() -> None:
    rows = plain_rows(build_cost(calls_at("2026-05-01T22:30:00Z"), "day,week,month,hour,block", tz="Europe/Berlin"))
    assert [rows[0][k] for k in ("day", "week", "month", "hour", "block")] == [
        "2026-05-02", "2026-04-27", "2026-05", "2026-05-02T00:00:00+02:00", "2026-05-02T00:00:00+02:00",
    ]  # fmt: skip


def test_a_call_is_shared_out_over_its_tools() -> None:
    calls = calls_at("2026-05-01T09:00:00Z", "2026-05-01T10:00:00Z")
    tools = TOOLS.conform(
        pl.DataFrame(
            {"call_id": ["c0"] * 3, "name": ["Bash", "Read", "Bash"], "entry_id": [1, 1, 2], "block_no": [0, 1, 0]}
        )
    )
    frame = build_cost(calls, "tool", tools=tools)
    assert frame.select("tool", "output_tokens", "calls").rows() == [
        ("Bash", 667, 1),
        ("Read", 333, 0),
        (None, 1000, 1),
    ]
    assert frame["cost_usd"].to_list() == [pytest.approx(0.01), pytest.approx(0.005), pytest.approx(0.015)]


def test_agent_types_have_main_for_the_main_thread() -> None:
    calls = calls_at("2026-05-01T09:00:00Z", "2026-05-01T10:00:00Z", session_id="s")
    calls = calls.with_columns(agent_id=pl.Series([None, "a1"]), is_sidechain=pl.Series([False, True]))
    agents = AGENTS.conform(
        pl.DataFrame({"session_id": ["s", "s"], "agent_id": [None, "a1"], "agent_type": [None, "Explore"]})
    )
    assert build_cost(calls, "agent_type", agents=agents)["agent_type"].to_list() == ["Explore", "main"]


def test_money_is_summed_exactly_whatever_the_order() -> None:
    own = {"m": {"input": 0.1, "output": 1e9}}
    calls = calls_at(*["2026-05-01T09:00:00Z"] * 200, model="m").with_columns(
        input_tokens=pl.int_range(pl.len()) * 7 + 1,
        output_tokens=pl.when(pl.int_range(pl.len()) % 50 == 0).then(3).otherwise(0),
    )
    exact = build_cost(calls, prices=own)["cost_usd"][0]
    for seed in range(5):
        assert build_cost(calls.sample(fraction=1, shuffle=True, seed=seed), prices=own)["cost_usd"][0] == exact
    from ccanalytics.policies import price_calls

    assert exact == float(sum(map(Fraction, price_calls(calls, prices=own)["cost_usd"])))


TIMES = st.datetimes(datetime(2026, 2, 26), datetime(2026, 4, 2)).map(lambda t: t.replace(microsecond=0))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "first_at": st.one_of(st.none(), TIMES),
            "session_id": st.sampled_from(["s1", "s2"]),
            "agent_id": st.sampled_from([None, "a1"]),
            "model": st.sampled_from(["claude-opus-5", "claude-haiku-4-5[1m]", "who"]),
            "project": st.sampled_from(["/p", None]),
            "git_branch": st.sampled_from(["main", None]),
            "version": st.sampled_from(["2.1.1", "2.1.2"]),
            "input_tokens": st.integers(0, 10**6),
            "output_tokens": st.integers(0, 10**6),
            "web_search_requests": st.integers(0, 3),
            "turn_no": st.integers(0, 3),
        }
    ),
    max_size=12,
)
SIMPLE = [k for k in KEYS if k not in ("tool", "agent_type")]


@settings(max_examples=25)
@given(
    ROWS, st.lists(st.sampled_from(SIMPLE), max_size=3), st.sampled_from(["UTC", "America/St_Johns", "Asia/Kathmandu"])
)
def test_totals_are_equal_whichever_way_one_slices(rows: list[dict[str, object]], by: list[str], tz: str) -> None:
    calls = with_turns(rows)
    sliced, total = build_cost(calls, by, tz=tz), build_cost(calls, tz=tz)
    for column in (c.name for c in COST_MEASURES if c.dtype == "i64"):
        assert sliced[column].sum() == total[column][0]
    assert sliced["cost_usd"].sum() == pytest.approx(total["cost_usd"][0] or 0.0, rel=1e-12)
    names = list(dict.fromkeys(by))
    assert sliced.select(names).is_unique().all() or not names
    assert sliced.equals(sliced.sort(names, nulls_last=True)) or not names


def with_turns(rows: list[dict[str, object]]) -> pl.DataFrame:
    turns = pl.Series("turn_no", [r.pop("turn_no") for r in rows], dtype=pl.Int32)
    frame = pl.DataFrame(
        [{"call_id": str(n), **r} for n, r in enumerate(rows)],
        schema_overrides={"first_at": pl.Datetime("ms"), "agent_id": pl.String, "project": pl.String},
        infer_schema_length=None,
    )
    if not rows:
        return CALLS.empty().with_columns(turns)
    return CALLS.conform(frame.with_columns(pl.col("first_at").dt.replace_time_zone("UTC"))).with_columns(turns)


@settings(max_examples=20)
@given(ROWS)
def test_parts_of_a_group_sum_to_its_cost(rows: list[dict[str, object]]) -> None:
    frame = build_cost(with_turns(rows), ["model", "session"], detail="parts")
    for row in frame.filter(pl.col("cost_usd").is_not_null()).to_dicts():
        assert sum(row[p] for p in PART_NAMES) == pytest.approx(row["cost_usd"], rel=1e-9, abs=1e-12)


@given(st.lists(TIMES, min_size=1, max_size=12))
def test_windows_agree_with_a_plain_loop(times: list[datetime]) -> None:
    expected: list[datetime] = []
    for at in sorted(times):
        if not expected or at >= expected[-1] + timedelta(hours=5):
            expected.append(at.replace(minute=0, second=0))
    frame = build_cost(calls_at(*(t.replace(tzinfo=UTC).isoformat() for t in times)), "block", tz="UTC")
    assert [b.replace(tzinfo=None) for b in frame["block"]] == expected


@settings(max_examples=40)
@given(TIMES, st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]))
def test_days_and_hours_agree_with_the_standard_library(at: datetime, tz: str) -> None:
    aware = at.replace(tzinfo=UTC).astimezone(ZoneInfo(tz))
    frame = build_cost(calls_at(at.replace(tzinfo=UTC).isoformat()), ["day", "hour"], tz=tz)
    assert frame["day"][0] == aware.date()
    assert frame["hour"][0] == aware - timedelta(minutes=aware.minute, seconds=aware.second)


def test_every_pair_of_keys_is_possible() -> None:
    calls = calls_at("2026-05-01T09:00:00Z", session_id="s").with_columns(turn_no=pl.lit(1))
    for pair in combinations(SIMPLE[:8], 2):
        assert build_cost(calls, pair, tz="UTC")["calls"].to_list() == [1]
