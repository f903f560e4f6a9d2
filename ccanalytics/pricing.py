"""The sheet a policy works on: a card and five prices per call, the rules that change them, and the sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from .prices import KINDS, Card, PriceTable
from .schema.money import COST_PARTS

Floats = npt.NDArray[np.float64]
Picked = tuple[list[Card], npt.NDArray[np.int64]]
"""Cards, and the number of the card of each call (-1 for none)."""

Pick = Callable[[pl.DataFrame, PriceTable], Picked]

_TOKENS = (
    "input_tokens",
    "output_tokens",
    "ephemeral_5m_input_tokens",
    "ephemeral_1h_input_tokens",
    "cache_read_input_tokens",
)
PART_NAMES = tuple(c.name for c in COST_PARTS)


@dataclass
class Sheet:
    """Arrays over calls that the rules of a policy change: five prices, a factor on their sum, searches."""

    calls: pl.DataFrame
    cards: list[Card]
    index: npt.NDArray[np.int64]
    """Card of each call; -1 for none."""
    bedrock_regional_factor: float = 1.0
    rates: list[Floats] = field(init=False)
    plain: list[Floats] = field(init=False)
    factor: Floats = field(init=False)
    search: Floats = field(init=False)
    fixed: Floats = field(init=False)
    """A cost that stands instead of the computed one; NaN for none."""

    def __post_init__(self) -> None:
        self.tokens = [self.calls[c].fill_null(0).to_numpy().astype(np.float64) for c in _TOKENS]
        self.prompt = self.tokens[0] + self.tokens[2] + self.tokens[3] + self.tokens[4]
        self.rates = [self.gather([c.rates[n] for c in self.cards]) for n in range(len(KINDS))]
        self.plain = list(self.rates)
        self.factor = np.ones(len(self.index))
        self.search = np.zeros(len(self.index))
        self.fixed = np.full(len(self.index), np.nan)

    def gather(self, values: Sequence[float], *, default: float = np.nan) -> Floats:
        """One value per call from one value per card; ``default`` where the call has no card."""
        return np.append(np.asarray(values, dtype=np.float64), default)[self.index]

    def is_equal(self, column: str, value: str) -> npt.NDArray[np.bool_]:
        """Where a text column has exactly this value."""
        return (self.calls[column] == value).fill_null(False).to_numpy()

    def frame(self) -> pl.DataFrame:
        """Cost and parts, added up in the order Claude Code adds them, so that its figures come out to the bit."""
        is_fixed = ~np.isnan(self.fixed)
        kinds = [np.where(is_fixed & np.isnan(k), 0.0, k) for k in self._kinds(self.plain)]
        plain = _sum(kinds)
        tokens = _sum(self._kinds(self.rates)) * self.factor
        total = np.where(is_fixed, self.fixed, tokens + self.search)
        modifiers = np.where(is_fixed, self.fixed - plain - self.search, tokens - plain)
        advisor = self.is_equal("source", "advisor")
        columns = dict(zip((f"cost_{kind}_usd" for kind in KINDS), kinds, strict=True))
        columns |= {"cost_search_usd": self.search, "cost_modifiers_usd": modifiers}
        columns = {k: np.where(advisor, 0.0, v) for k, v in columns.items()}
        columns |= {"cost_advisor_usd": np.where(advisor, total, 0.0), "cost_usd": total}
        frame = pl.DataFrame({k: columns[k] for k in (*PART_NAMES, "cost_usd")}).fill_nan(None)
        unpriced = pl.col("cost_usd").is_null()
        return frame.with_columns(pl.when(~unpriced).then(pl.col(PART_NAMES).fill_null(0.0)))

    def _kinds(self, rates: Sequence[Floats]) -> list[Floats]:
        # No tokens of a kind cost nothing, whether or not the model has a price for it.
        return [np.where(n == 0, 0.0, n / 1e6 * r) for n, r in zip(self.tokens, rates, strict=True)]


def _sum(kinds: Sequence[Floats]) -> Floats:
    given, output, write_5m, write_1h, read = kinds
    return given + output + read + (write_5m + write_1h)


def long_prompts(sheet: Sheet) -> None:
    """A prompt above the card's threshold pays the long prices on all of that request."""
    above = sheet.gather([np.inf if c.long_above_tokens is None else c.long_above_tokens for c in sheet.cards])
    is_long = sheet.prompt > above
    for n in range(len(KINDS)):
        long = sheet.gather([c.long_rates[n] if c.long_rates else np.nan for c in sheet.cards])
        sheet.rates[n] = np.where(is_long, long, sheet.rates[n])


def fast_mode(sheet: Sheet) -> None:
    """Fast mode multiplies all five token prices by the model's factor."""
    factor = np.where(
        sheet.is_equal("speed", "fast"), sheet.gather([c.fast_factor for c in sheet.cards], default=1.0), 1.0
    )
    sheet.rates = [r * factor for r in sheet.rates]


def batch_tier(sheet: Sheet) -> None:
    """The batch tier charges a share of every token price."""
    factor = sheet.gather([c.batch_factor for c in sheet.cards], default=1.0)
    sheet.factor = np.where(sheet.is_equal("service_tier", "batch"), sheet.factor * factor, sheet.factor)


def us_inference(sheet: Sheet) -> None:
    """US inference multiplies the token prices of the models that offer it."""
    factor = sheet.gather([c.us_factor for c in sheet.cards], default=1.0)
    sheet.factor = np.where(sheet.is_equal("inference_geo", "us"), sheet.factor * factor, sheet.factor)


def bedrock_profiles(sheet: Sheet) -> None:
    """Regional Bedrock profiles are dearer where the user's price table says so."""
    if sheet.bedrock_regional_factor != 1:
        regional = is_regional(sheet.calls["model"])
        sheet.factor = np.where(regional, sheet.factor * sheet.bedrock_regional_factor, sheet.factor)


def is_regional(models: pl.Series) -> npt.NDArray[np.bool_]:
    """Ids with a Bedrock profile that keeps the data in a region."""
    return models.str.contains(r"(?:^|/)(?:us|eu|au|jp)\.anthropic\.").fill_null(False).to_numpy()


def web_searches(sheet: Sheet) -> None:
    """Searches are charged one by one and never multiplied; fetches are free."""
    count = sheet.calls["web_search_requests"].fill_null(0).to_numpy().astype(np.float64)
    sheet.search = np.where(count == 0, 0.0, count * sheet.gather([c.web_search for c in sheet.cards]))


def coded(column: pl.Series) -> tuple[npt.NDArray[np.int64], list[str]]:
    """A text column as numbers and the names they stand for; null is -1."""
    names = column.drop_nulls().unique(maintain_order=True)
    codes = column.replace_strict(names, list(range(len(names))), default=-1, return_dtype=pl.Int64)
    return codes.fill_null(-1).to_numpy(), names.to_list()


Rule = Callable[[Sheet], None]
