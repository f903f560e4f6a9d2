"""What a call costs: the list, Claude Code itself, ccusage."""

from __future__ import annotations

from datetime import datetime

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given, settings

from ccanalytics.errors import UsageError
from ccanalytics.policies import price_calls
from ccanalytics.pricing import PART_NAMES
from ccanalytics.schema.money import CALLS

NOW = datetime(2026, 11, 1)


def made(*calls: dict[str, object]) -> pl.DataFrame:
    """Calls with these columns; the cache writes' total follows from the split."""
    rows = [{"call_id": str(n), "first_at": NOW, "model": "claude-sonnet-4-5", **c} for n, c in enumerate(calls)]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return CALLS.conform(frame.with_columns(pl.col("first_at").cast(pl.Datetime("ms")).dt.replace_time_zone("UTC")))


def call(
    model: str = "claude-sonnet-4-5",
    input: int = 0,
    output: int = 0,
    read: int = 0,
    w5: int = 0,
    w1: int = 0,
    **more: object,
) -> dict[str, object]:
    return {
        "model": model,
        "input_tokens": input,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "ephemeral_5m_input_tokens": w5,
        "ephemeral_1h_input_tokens": w1,
        "cache_creation_input_tokens": w5 + w1,
        **more,
    }


def cost(model: str = "claude-sonnet-4-5", policy: str = "list", prices: object = None, **what: object) -> float | None:
    frame = price_calls(made(call(model, **what)), policy, prices=prices)  # type: ignore[arg-type]
    value: float | None = frame["cost_usd"][0]
    return value


def test_pr01_an_hours_cache_write_costs_twice_the_input() -> None:
    frame = price_calls(made(call(input=120, output=800, w5=40_000, w1=60_000, read=500_000)))
    parts = frame.row(0, named=True)
    # Above 200 000 tokens of prompt this model is dearer; what the prompt's size adds is a part of its own.
    assert parts["cost_usd"] - parts["cost_modifiers_usd"] == pytest.approx(0.67236)
    assert parts["cost_cache_write_1h_usd"] == pytest.approx(0.36)
    assert parts["cost_cache_write_5m_usd"] == pytest.approx(0.15)
    flat = {"claude-sonnet-4-5": {"input": 3, "output": 15}}
    assert cost(input=120, output=800, w5=40_000, w1=60_000, read=500_000, prices=flat) == pytest.approx(0.67236)


def test_pr03_above_200k_all_tokens_pay_the_premium() -> None:
    assert cost(input=1000, w5=60_000, read=150_000, output=2000) == pytest.approx(0.591)
    assert cost(input=1000, w5=60_000, read=139_000, output=2000) == pytest.approx(0.2997)


def test_pr04_flat_models_have_no_premium() -> None:
    assert cost("claude-sonnet-4-6", input=1000, w5=60_000, read=240_000, output=2000) == pytest.approx(0.330)


def test_the_premium_of_the_fours_ended_on_its_day() -> None:
    for model, long in (("claude-opus-4-6", 2.0), ("claude-sonnet-4-6", 2.0)):
        before = cost(model, read=250_000, first_at=datetime(2026, 3, 12, 23, 59, 59, 999_000))
        after = cost(model, read=250_000, first_at=datetime(2026, 3, 13))
        assert before is not None
        assert after is not None
        assert before == pytest.approx(long * after)


def test_pr05_the_threshold_is_for_one_request_never_for_a_sum() -> None:
    calls = made(*[call(input=90_000)] * 900)
    assert price_calls(calls)["cost_usd"].sum() == pytest.approx(900 * 90_000 * 3e-6)


def test_pr07_an_unknown_model_costs_null_not_nothing() -> None:
    frame = price_calls(made(call(input=1000), call("claude-zeta-99", input=1000), call("claude-zeta-99")))
    assert frame["cost_usd"].to_list() == [pytest.approx(0.003), None, 0.0]
    assert frame.row(1) == (None,) * (len(PART_NAMES) + 1)


def test_pr08_a_recorded_cost_is_never_ours() -> None:
    assert cost(output=1000, recorded_cost_usd=0.0) == pytest.approx(0.015)
    assert cost(output=1000, recorded_cost_usd=0.5) == pytest.approx(0.015)


def test_pr09_fast_mode_multiplies_by_the_models_own_factor() -> None:
    assert cost("claude-opus-5", input=1000, output=3000, read=100_000, speed="fast") == pytest.approx(0.26)
    assert cost("claude-opus-5", input=1000, output=3000, read=100_000, speed="standard") == pytest.approx(0.13)
    assert cost("claude-opus-4-6", input=1000, output=1000, speed="fast") == pytest.approx(0.18)
    assert cost("claude-sonnet-4-5", input=1000, output=1000, speed="fast") == pytest.approx(0.018)
    dated = {
        "claude-opus-4-6": [
            {"input": 5, "output": 25, "fast_factor": 6, "valid_to": "2026-07-31"},
            {"input": 5, "output": 25, "valid_from": "2026-08-01"},
        ]
    }
    for at, factor in ((datetime(2026, 7, 31), 6), (datetime(2026, 8, 1), 1)):
        price = cost("claude-opus-4-6", input=1000, speed="fast", first_at=at, prices=dated)
        assert price == pytest.approx(0.005 * factor)


def test_pr10_sonnet_5_has_its_own_price() -> None:
    assert cost("claude-sonnet-5", input=1000, output=1000, w5=1000, w1=1000, read=1000) == pytest.approx(0.0187)


@pytest.mark.parametrize("until", ["2026-08-31", "2026-09-01", "2026-09-01T00:00:00Z", None])
def test_pr11_prices_that_change_on_a_date_go_by_the_time_of_the_call(until: str | None) -> None:
    old: dict[str, object] = {"input": 2, "output": 2} | ({"valid_to": until} if until else {})
    own = {"z": [old, {"input": 3, "output": 3, "valid_from": "2026-09-01"}]}
    assert cost("z", input=1_000_000, first_at=datetime(2026, 8, 31, 23, 59, 59), prices=own) == pytest.approx(2)
    assert cost("z", input=1_000_000, first_at=datetime(2026, 9, 1), prices=own) == pytest.approx(3)


def test_pr12_regional_bedrock_profiles_can_be_dearer_and_are_not_by_default() -> None:
    regional, plain = "us.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"
    assert cost(regional, input=1000) == cost(plain, input=1000) == pytest.approx(0.001)
    own = {"bedrock_regional_factor": 1.1}
    assert cost(regional, input=1000, prices=own) == pytest.approx(0.0011)
    assert cost(plain, input=1000, prices=own) == pytest.approx(0.001)


def test_a_users_card_that_ended_gives_way_to_the_packaged_one() -> None:
    own = {"claude-opus-5": {"input": 1, "output": 1, "valid_to": "2026-08-31"}}
    assert cost("claude-opus-5", input=1_000_000, first_at=datetime(2026, 8, 1), prices=own) == pytest.approx(1)
    assert cost("claude-opus-5", input=1_000_000, first_at=datetime(2026, 9, 1), prices=own) == pytest.approx(5)


def test_pr15_searches_are_charged_and_fetches_are_not() -> None:
    assert cost(input=500, output=100, web_search_requests=3, web_fetch_requests=7) == pytest.approx(0.0330)


def test_batch_halves_tokens_and_not_searches() -> None:
    assert cost(input=1000, web_search_requests=1, service_tier="batch") == pytest.approx(0.0115)
    assert cost(input=1000, web_search_requests=1, service_tier="priority") == pytest.approx(0.013)


def test_us_inference_costs_more_only_where_it_is_offered() -> None:
    assert cost("claude-opus-4-6", input=1000, inference_geo="us") == pytest.approx(0.0055)
    assert cost("claude-opus-4-5", input=1000, inference_geo="us") == pytest.approx(0.005)
    assert cost("claude-opus-4-6", input=1000, inference_geo="US") == pytest.approx(0.005)


def test_claude_code_charges_us_inference_for_every_model_and_never_halves_a_batch() -> None:
    assert cost("claude-opus-4-5", "claude-code", input=1000, inference_geo="us") == pytest.approx(0.0055)
    assert cost("claude-opus-4-5", "claude-code", input=1000, inference_geo="us", version="2.1.200") == 0.005
    assert cost("claude-opus-4-5", "claude-code", input=1000, service_tier="batch") == pytest.approx(0.005)


def test_claude_code_charges_the_model_it_asked_for() -> None:
    asked = "claude-sonnet-4-5-20250929"
    assert cost("relay", "claude-code", input=1_000_000, requested_model=asked) == pytest.approx(3)
    assert cost("relay", "list", input=1_000_000, requested_model=asked) is None
    old = cost("claude-3-5-haiku-20241022", "claude-code", input=1_000_000, requested_model=asked, version="1.0.60")
    assert old == pytest.approx(0.8)


@pytest.mark.parametrize(("version", "price"), [("2.1.112", 3), ("2.1.150", 5), ("2.1.250", 5), ("2.1.300", 4)])
def test_claude_code_charges_an_unknown_model_as_its_default(version: str, price: float) -> None:
    assert cost("gpt-5", "claude-code", input=1_000_000, version=version) == pytest.approx(price)


@pytest.mark.parametrize(
    ("version", "model", "input", "long"),
    [
        ("1.0.60", "claude-sonnet-4-20250514", 3, 3),
        ("1.0.128", "claude-sonnet-4-20250514", 3, 6),
        ("2.0.76", "claude-sonnet-4-5-20250929", 3, 6),
        ("2.1.112", "claude-sonnet-4-5-20250929[1m]", 3, 3),
        ("2.0.14", "claude-haiku-4-5-20251001", 3, 3),
        ("2.0.76", "claude-haiku-4-5-20251001", 1, 1),
        ("2.1.20", "claude-opus-4-6", 15, 15),
        ("2.1.50", "claude-opus-4-6[1m]", 5, 10),
        ("2.1.50", "claude-sonnet-4-6", 5, 10),
        ("2.1.88", "claude-sonnet-4-6", 3, 3),
        ("2.1.200", "claude-sonnet-5", 3, 3),
        ("2.1.250", "claude-sonnet-5", 2, 2),
        ("2.1.250", "claude-opus-5-5", 5, 5),
        ("2.1.332", "claude-opus-5-5", 4, 4),
        ("2.1.332", "claude-opus-4-1-20250805", 4, 4),
        ("2.1.332", "claude-opus-4-1@20250805", 15, 15),
        ("2.1.332", "anthropic.claude-opus-4-1-20250805-v1:0", 15, 15),
        ("2.1.332", "opusplan", 2, 2),
        ("not a version", "claude-opus-5-5", 4, 4),
    ],
)
def test_claude_code_charges_by_its_version(version: str, model: str, input: float, long: float) -> None:
    assert cost(model, "claude-code", input=1000, version=version) == pytest.approx(input / 1000)
    assert cost(model, "claude-code", input=300_000, version=version) == pytest.approx(0.3 * long)


def test_claude_codes_rules_changed_with_its_versions() -> None:
    for version, write in (("2.1.150", 3.75), ("2.1.200", 6)):
        assert cost(policy="claude-code", w1=1_000_000, version=version) == pytest.approx(
            write if version == "2.1.150" else 6
        )
    for version, search in (("1.0.24", 0), ("1.0.60", 0.01)):
        assert cost(policy="claude-code", web_search_requests=1, version=version) == pytest.approx(search)
    for version, factor in (("2.1.20", 1), ("2.1.88", 6)):
        price = cost("claude-opus-4-6", "claude-code", input=1000, speed="fast", version=version)
        assert price == pytest.approx(0.015 if version == "2.1.20" else 0.005 * factor)


def test_haiku_5_5_is_five_times_dearer_from_the_next_token_after_100_000() -> None:
    for policy in ("list", "claude-code"):
        assert cost("claude-haiku-5-5", policy, input=50_000, read=50_000) == pytest.approx(0.0055)
        assert cost("claude-haiku-5-5", policy, input=50_001, read=50_000) == pytest.approx(5 * 0.0055, rel=1e-4)


def test_claude_codes_sum_comes_out_to_the_bit() -> None:
    parts = (12 / 1e6 * 3 + 64 / 1e6 * 15 + 2200 / 1e6 * 0.3) + (70 / 1e6 * 3.75 + 46 / 1e6 * 6)
    assert cost(policy="claude-code", input=12, output=64, read=2200, w5=70, w1=46) == parts


def test_ccusage_splits_each_kind_at_200k_and_knows_no_batch_search_or_geography() -> None:
    assert cost(policy="ccusage", input=300_000) == pytest.approx(1.2)
    assert cost(policy="ccusage", input=150_000, read=150_000) == pytest.approx(0.495)
    assert cost(policy="ccusage", w1=300_000) == pytest.approx(2.4)
    assert cost(policy="ccusage", input=1000, service_tier="batch", inference_geo="us", web_search_requests=9) == 0.003
    assert cost("claude-opus-4-6", "ccusage", w1=1000, speed="fast") == pytest.approx(0.06)
    assert cost("us.anthropic.claude-opus-4-5-20251101-v1:0", "ccusage", input=1000) == pytest.approx(0.0055)


def test_ccusage_takes_a_recorded_cost_and_does_not_know_the_newest_models() -> None:
    assert cost(policy="ccusage", input=1000, recorded_cost_usd=9.99) == 9.99
    assert cost("claude-opus-5-5", "ccusage", input=1000) is None
    assert cost("claude-opus-5-5", "ccusage", input=1000, recorded_cost_usd=1.5) == 1.5


def test_a_policy_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="cheapest"):
        cost(policy="cheapest")


def test_an_empty_frame_has_an_empty_price() -> None:
    for policy in ("list", "claude-code", "ccusage"):
        assert price_calls(CALLS.empty(), policy).height == 0


MODELS = ["claude-opus-5-5", "claude-sonnet-4-5", "claude-haiku-5-5", "us.anthropic.claude-opus-4-6-v1", "who", None]
ANY_CALL = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        **{k: st.integers(0, 400_000) for k in ("input", "output", "read", "w5", "w1")},
        "speed": st.sampled_from(["fast", "standard", None]),
        "service_tier": st.sampled_from(["batch", "standard", None]),
        "inference_geo": st.sampled_from(["us", "", None]),
        "web_search_requests": st.integers(0, 20),
        "source": st.sampled_from(["transcript", "advisor"]),
        "version": st.sampled_from(["1.0.24", "2.1.50", "2.1.332", None]),
        "recorded_cost_usd": st.sampled_from([None, 0.25]),
    }
)


@settings(max_examples=25)
@given(st.lists(ANY_CALL, min_size=1, max_size=8), st.sampled_from(["list", "claude-code", "ccusage"]))
def test_the_parts_sum_to_the_total(calls: list[dict[str, object]], policy: str) -> None:
    frame = price_calls(made(*(call(**c) for c in calls)), policy)  # type: ignore[arg-type]
    for row in frame.iter_rows(named=True):
        if row["cost_usd"] is None:
            assert all(row[p] is None for p in PART_NAMES)
        else:
            assert sum(row[p] for p in PART_NAMES) == pytest.approx(row["cost_usd"], rel=1e-12, abs=1e-15)


@settings(max_examples=25)
@given(st.lists(ANY_CALL, min_size=1, max_size=6), st.sampled_from(["list", "claude-code", "ccusage"]))
def test_a_call_costs_the_same_alone_as_among_others(calls: list[dict[str, object]], policy: str) -> None:
    together = price_calls(made(*(call(**c) for c in calls)), policy)["cost_usd"].to_list()  # type: ignore[arg-type]
    alone = [price_calls(made(call(**c)), policy)["cost_usd"][0] for c in calls]  # type: ignore[arg-type]
    assert together == alone
