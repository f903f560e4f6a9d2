"""What Claude Code itself charges: the cards it knew in each version, and how its rules changed."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl

from .models import is_first_party, named_model
from .prices import Card, PriceTable
from .pricing import Picked, Sheet, coded, web_searches

_LATEST = (10**6,)
_BY_ANSWER_UNTIL = (1, 0, 128)
_FREE_SEARCH_UNTIL = (1, 0, 60)
_US_FACTOR_FROM = (2, 1, 250)
_ALIASES = {
    "sonnet": "claude-sonnet-5-5",
    "opusplan": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "default": "claude-opus-5-5",
    "best": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}


def pick_by_version(calls: pl.DataFrame, prices: PriceTable) -> Picked:
    """The card Claude Code of that version charges for the model it asked for."""
    keys = ["model", "requested_model", "version"]
    pairs = calls.select(keys).unique(maintain_order=True)
    history: dict[str, list[tuple[tuple[int, ...], Card]]] = {}
    for card in prices.claude_code:
        history.setdefault(card.model, []).append((version_key(card.cli_version), card))
    cards = [_charged_card(history, *pair) for pair in pairs.iter_rows()]
    numbered = pairs.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("card"))
    index = calls.select(keys).join(
        numbered, on=keys, how="left", nulls_equal=True, validate="m:1", maintain_order="left"
    )
    return cards, index["card"].to_numpy()


def version_key(version: str | None) -> tuple[int, ...]:
    """Numbers of a version, to compare; a missing or unreadable version counts as the latest."""
    numbers = re.findall(r"\d+", (version or "").split("-")[0])[:3]
    return tuple(int(n[:9]) for n in numbers) or _LATEST


def _charged_card(
    history: dict[str, list[tuple[tuple[int, ...], Card]]], model: str | None, asked: str | None, version: str | None
) -> Card:
    now = version_key(version)
    charged = (model if now < _BY_ANSWER_UNTIL else asked or model) or ""
    # A family's name is an alias where it was asked for; an answer never has it as its model.
    name = named_model(_ALIASES.get(charged.removesuffix("[1m]"), charged)) or "(unknown)"
    if name in ("claude-opus-4-0", "claude-opus-4-1") and is_first_party(charged):
        name = "(first-party opus 4)"
    for candidate in (name, "(unknown)"):
        known = [card for since, card in history.get(candidate, ()) if since <= now]
        if known:
            return known[-1]
    raise AssertionError("the price table has a card for unknown models in every version")


def us_inference_for_all(sheet: Sheet) -> None:
    """Claude Code from 2.1.250 on multiplies for every model, whether or not it offers US inference."""
    us = sheet.is_equal("inference_geo", "us") & _from_version(sheet, _US_FACTOR_FROM)
    sheet.factor = np.where(us, sheet.factor * 1.1, sheet.factor)


def web_searches_free_at_first(sheet: Sheet) -> None:
    """Claude Code charged no searches before 1.0.60."""
    web_searches(sheet)
    sheet.search = np.where(_from_version(sheet, _FREE_SEARCH_UNTIL), sheet.search, 0.0)


def _from_version(sheet: Sheet, since: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    codes, names = coded(sheet.calls["version"])
    return np.asarray([*(version_key(n) >= since for n in names), True], dtype=bool)[codes]
