"""Price cards: which card a model id finds, from when, and in whose table."""

from __future__ import annotations

from pathlib import Path

import orjson
import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.errors import NotFoundError, ReadError, UsageError
from ccanalytics.models import canonical_model, named_model
from ccanalytics.prices import PRICES_VARIABLE, load_prices, refreshed_file
from ccanalytics.refresh import cards_of, refresh_prices
from ccanalytics.schema.money import PRICES


def rates(model: str, **options: object) -> list[tuple[float, ...]]:
    return [c.rates for c in load_prices(**options).find(model)]  # type: ignore[arg-type]


def test_prices_is_a_table_in_its_declared_order() -> None:
    frame = cc.prices()
    assert frame.schema == PRICES.polars()
    assert frame.equals(frame.sort("card", "model", "valid_from", "cli_version", maintain_order=True))
    assert frame.select("card", "model", "valid_from", "cli_version").is_unique().all()


def test_cards_of_one_model_follow_each_other_without_gap_or_overlap() -> None:
    listed = cc.prices().filter(pl.col("card") == "list")
    for (model,), cards in listed.partition_by("model", as_dict=True).items():
        begins, ends = cards["valid_from"].to_list(), cards["valid_to"].to_list()
        assert (begins[0], ends[-1]) == (None, None), model
        assert begins[1:] == ends[:-1], model


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "claude-sonnet-4-5",
        ),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("vertex_ai/claude-opus-4-6@default", "claude-opus-4-6"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-opus-4.1", "claude-opus-4-1"),
        ("CLAUDE-SONNET-4-5", "claude-sonnet-4-5"),
        ("claude-4-opus-20250514", "claude-opus-4-0"),
        ("claude-opus-4-20250514", "claude-opus-4-0"),
        ("claude-4.5-sonnet", "claude-sonnet-4-5"),
        ("claude-opus-5-5-20261001", "claude-opus-5-5"),
        ("claude-2.1", "claude-2-1"),
        ("claude-instant-1.2", "claude-instant-1-2"),
    ],
)
def test_every_form_of_an_id_finds_its_card(id: str, name: str) -> None:
    assert canonical_model(id) == name
    assert load_prices().find(id)


@pytest.mark.parametrize(
    "id",
    [
        "claude-opus-9",
        "claude-sonnet-4-7",
        "claude-haiku-4-6",
        "gpt-5",
        "glm-4.6",
        "claude-zeta-99",
        "my-deployment",
        "",
        "arn:aws:bedrock:us-east-1:1:application-inference-profile/x",
        "claude-mythos-preview",
        "claude-opus-40",
    ],
)
def test_a_model_nobody_knows_has_no_card(id: str) -> None:
    assert load_prices().find(id) == ()


def test_a_name_inside_another_id_is_no_card_but_claude_code_finds_it() -> None:
    assert canonical_model("my-claude-sonnet-4-5-tuned") is None
    assert named_model("my-claude-sonnet-4-5-tuned") == "claude-sonnet-4-5"


def test_pr12_bedrock_and_vertex_ids_have_the_card_of_their_model() -> None:
    ids = ["us.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"]
    assert {r for id in [*ids, "claude-haiku-4-5@20251001"] for r in rates(id)} == set(rates("claude-haiku-4-5"))


def test_pr13_a_context_suffix_changes_no_price() -> None:
    assert rates("claude-opus-4-8[1m]") == rates("claude-opus-4-8")


def test_pr18_an_exact_key_comes_before_a_recognised_name() -> None:
    own = {
        "anthropic.claude-opus-4-6-v1": {"input": 7, "output": 35, "long_above_tokens": 200_000, "long_input": 14},
        "claude-opus-4-6": {"input": 6, "output": 30},
    }
    assert rates("claude-opus-4-6", overrides=own)[0][:2] == (6, 30)
    assert rates("anthropic.claude-opus-4-6-v1", overrides=own)[0][:2] == (7, 35)
    # A name recognised in another form takes the plain key, never the cloud's.
    assert rates("eu.anthropic.claude-opus-4-6-v1", overrides=own)[0][:2] == (6, 30)
    assert rates(
        "claude-opus-4-6", overrides={"anthropic.claude-opus-4-6-v1": own["anthropic.claude-opus-4-6-v1"]}
    ) == (rates("claude-opus-4-6"))


def test_pr19_the_tables_own_read_price_is_used_and_the_rule_only_where_there_is_none() -> None:
    own = {"model-y": {"input": 4, "output": 8, "cache_read": 0.1}}
    assert rates("model-y", overrides=own) == [(4, 8, 5, 8, 0.1)]
    assert rates("model-y", overrides={"model-y": {"input": 4, "output": 8}}) == [(4, 8, 5, 8, 0.4)]


def test_cards_come_from_argument_variable_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.toml"
    file.write_text(
        '[[model]]\nmodel = "model-z"\ninput = 2.0\noutput = 4\nvalid_to = 2026-08-31\n'
        '[[model]]\nname = "model-z"\ninput = 3\noutput = 6\nvalid_from = 2026-09-01\naliases = ["zed"]\n'
        '["other/model.1"]\ninput = 1\noutput = 1\n'
    )
    assert [r[0] for r in rates("model-z", overrides=file)] == [3, 2]
    assert rates("zed", overrides=str(file))[0][0] == 3
    assert rates("model-z") == []
    monkeypatch.setenv(PRICES_VARIABLE, str(file))
    assert rates("other/model.1")[0][:2] == (1, 1)
    assert cc.prices().filter(pl.col("card") == "user")["model"].to_list() == ["model-z", "model-z", "other/model.1"]
    # The frame itself can stand for a file, and an argument comes before the variable.
    frame = cc.prices().filter(pl.col("model") == "model-z")
    monkeypatch.delenv(PRICES_VARIABLE)
    assert [r[0] for r in rates("model-z", overrides=frame)] == [3, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[model]\n", "not TOML"),
        ("[[model]]\ninput = 1\n", "no model name"),
        ('[[model]]\nmodel = "m"\ninptu = 1\n', "inptu"),
        ('[[model]]\nmodel = "m"\ninput = "x"\n', "give a number"),
        ('[[model]]\nmodel = "m"\ninput = -1\n', "at least 0"),
        ('[[model]]\nmodel = "m"\ninput = 1\nvalid_from = "soon"\n', "give a date"),
        ("m = 3\n", "give a table"),
    ],
)
def test_a_price_file_that_makes_no_sense_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_prices(file)


def test_a_price_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRICES_VARIABLE, str(tmp_path / "none.toml"))
    with pytest.raises(NotFoundError, match=r"none\.toml"):
        cc.prices()


PUBLIC = orjson.dumps(
    {
        "sample_spec": {"input_cost_per_token": "text"},
        "relay-model-2": {"input_cost_per_token": 5e-07, "output_cost_per_token": 1.5e-06, "litellm_provider": "x"},
        "claude-opus-9": {
            "input_cost_per_token": 3e-06,
            "output_cost_per_token": 1.5e-05,
            "cache_read_input_token_cost": 3e-07,
            "input_cost_per_token_above_200k_tokens": 6e-06,
            "output_cost_per_token_above_200k_tokens": 2.25e-05,
            "provider_specific_entry": {"us": 1.1, "fast": 2.0},
        },
        "claude-opus-4-8": {"input_cost_per_token": 1.0, "output_cost_per_token": 1.0},
        "an-image-model": {"output_cost_per_image": 0.04},
    }
)


def test_a_refresh_adds_models_nobody_knew_and_changes_none(tmp_path: Path) -> None:
    asked: list[str] = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return PUBLIC

    file = refresh_prices("https://prices.example/table.json", opener=fetch)
    assert asked == ["https://prices.example/table.json"]
    assert file == refreshed_file()
    assert rates("relay-model-2")[0][:2] == (0.5, 1.5)
    [card] = load_prices().find("claude-opus-9[1m]")
    assert (card.rates[0], card.rates[4], card.long_rates[:2], card.us_factor, card.fast_factor) == (
        3, 0.3, (6, 22.5), 1.1, 2
    )  # fmt: skip
    assert rates("claude-opus-4-8")[0][0] == 5


def test_a_refresh_that_fails_changes_nothing() -> None:
    def refuse(url: str) -> bytes:
        raise OSError("no route")

    with pytest.raises(ReadError, match="no route"):
        refresh_prices(opener=refuse)
    for body in (b"<html>", b"[]", b"{}"):
        with pytest.raises(UsageError):
            cards_of(body)
    with pytest.raises(UsageError, match="https"):
        refresh_prices("file:///etc/passwd")
    assert not refreshed_file().exists()
