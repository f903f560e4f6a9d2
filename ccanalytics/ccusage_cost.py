"""What ccusage 20.0.24 shows, learned by running it on made-up transcripts."""

from __future__ import annotations

import numpy as np
import polars as pl

from .models import canonical_model
from .prices import Card, PriceTable
from .pricing import Picked, Sheet, coded, is_regional


def pick_ccusage(calls: pl.DataFrame, prices: PriceTable) -> Picked:
    """The current list card of the answering model, where the table inside ccusage 20.0.24 has the model."""
    codes, names = coded(calls["model"])
    cards: list[Card] = []
    number = [-1] * (len(names) + 1)
    for code, name in enumerate(names):
        family = canonical_model(name)
        known = family and family not in _CCUSAGE_UNKNOWN and name not in _CCUSAGE_UNKNOWN_IDS
        found = [c for c in prices.find(name) if c.owner == "list"] if known else []
        if found:
            number[code] = len(cards)
            cards.append(found[0])
    return cards, np.asarray(number, dtype=np.int64)[codes]


_CCUSAGE_UNKNOWN = frozenset(
    f"claude-{name}"
    for name in ("opus-5-5", "sonnet-5-5", "haiku-5-5", "fable-5-2", "mythos-5-2", "2-0", "2-1", "instant-1-2")
)
_CCUSAGE_UNKNOWN_IDS = frozenset(("claude-opus-4-0", "claude-sonnet-4-0", "claude-3-5-sonnet-latest"))
_CCUSAGE_LONG = frozenset(("claude-sonnet-4-5", "claude-sonnet-4-0"))


def long_kinds_split(sheet: Sheet) -> None:
    """ccusage charges the long price on what a kind of token has above 200 000, each kind by itself."""
    for n, tokens in enumerate(sheet.tokens):
        long = sheet.gather(
            [
                c.long_rates[n] if c.long_rates and canonical_model(c.model) in _CCUSAGE_LONG else c.rates[n]
                for c in sheet.cards
            ]
        )
        above = np.maximum(tokens - 200_000, 0)
        share = np.divide(above, tokens, out=np.zeros_like(tokens), where=tokens > 0)
        sheet.rates[n] = np.where(above > 0, sheet.rates[n] * (1 - share) + long * share, sheet.rates[n])


def bedrock_regions(sheet: Sheet) -> None:
    """The table inside ccusage has the regional Bedrock profiles of newer models 10 % dearer."""
    regional = is_regional(sheet.calls["model"])
    dearer = [1.0 if canonical_model(c.model) in _CCUSAGE_SAME_EVERYWHERE else 1.1 for c in sheet.cards]
    new = sheet.gather(dearer, default=1.0)
    sheet.factor = np.where(regional, sheet.factor * new, sheet.factor)


_OLD_NAMES = (
    "opus-4-0",
    "opus-4-1",
    "sonnet-4-0",
    "3-7-sonnet",
    "3-5-sonnet",
    "3-5-haiku",
    "3-opus",
    "3-sonnet",
    "3-haiku",
)
_CCUSAGE_SAME_EVERYWHERE = frozenset(f"claude-{name}" for name in _OLD_NAMES)


def recorded_cost(sheet: Sheet) -> None:
    """ccusage takes the cost that old versions wrote on the line instead of computing one."""
    sheet.fixed = sheet.calls["recorded_cost_usd"].cast(pl.Float64).fill_null(np.nan).to_numpy()
