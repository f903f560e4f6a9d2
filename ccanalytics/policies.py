"""What a call costs: three policies, each a way to pick a card and a few rules over the same columns.

``list``: what the API's price list says at the time of the call.
``claude-code``: what Claude Code itself shows, by its version.
``ccusage``: what ccusage 20 shows, to explain differences to those who use it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from .ccusage_cost import bedrock_regions, long_kinds_split, pick_ccusage, recorded_cost
from .claude_code_cost import pick_by_version, us_inference_for_all, web_searches_free_at_first
from .errors import UsageError
from .prices import Card, Overrides, PriceTable, load_prices
from .pricing import (
    Pick,
    Picked,
    Rule,
    Sheet,
    batch_tier,
    bedrock_profiles,
    coded,
    fast_mode,
    long_prompts,
    us_inference,
    web_searches,
)

Policy = Literal["list", "claude-code", "ccusage"]


def price_calls(
    calls: pl.DataFrame, policy: Policy = "list", *, prices: Overrides | PriceTable | None = None
) -> pl.DataFrame:
    """Cost of each call by a policy, whole and in parts, in the order of ``calls``.

    Parameters
    ----------
    calls
        Rows of the ``calls`` table (any subset of rows).
    policy
        ``list``, ``claude-code`` or ``ccusage``.
    prices
        The user's price cards (see :func:`ccanalytics.prices.load_prices`); they do not touch ``claude-code``.

    Returns
    -------
    ``cost_usd`` and the parts that sum to it, in USD; all null where the model has no price and tokens were used.
    """
    return priced_sheet(calls, policy, prices=prices).frame()


def priced_sheet(calls: pl.DataFrame, policy: Policy, *, prices: Overrides | PriceTable | None = None) -> Sheet:
    """The sheet of a policy over ``calls`` after all its rules: prices, factors and searches as arrays."""
    if policy not in POLICIES:
        raise UsageError(f"policy is {policy!r}; allowed: {', '.join(POLICIES)}", policy=policy)
    pick, rules = POLICIES[policy]
    table = load_prices(prices)
    sheet = Sheet(calls, *pick(calls, table), bedrock_regional_factor=table.bedrock_regional_factor)
    for rule in rules:
        rule(sheet)
    return sheet


def _pick_by_time(calls: pl.DataFrame, prices: PriceTable) -> Picked:
    """The card of the answering model at the time of the call."""
    at = calls["first_at"].dt.epoch("ms")
    # A call without a time is priced as the latest one would be.
    latest = at.drop_nulls().max()
    times = at.fill_null(latest if latest is not None else 0).to_numpy()
    codes, names = coded(calls["model"])
    cards: list[Card] = []
    index = np.full(len(calls), -1, dtype=np.int64)
    for code, name in enumerate(names):
        found = prices.find(name)
        if not found:
            continue
        rows = np.flatnonzero(codes == code)
        # Later cards first, so that the best one that covers the time has the last word.
        for card in reversed(found):
            here = np.ones(1, dtype=bool)
            if card.valid_from is not None:
                here = here & (times[rows] >= card.valid_from)
            if card.valid_to is not None:
                here = here & (times[rows] < card.valid_to)
            index[rows] = np.where(here, len(cards), index[rows])
            cards.append(card)
    return cards, index


POLICIES: dict[str, tuple[Pick, tuple[Rule, ...]]] = {
    "list": (_pick_by_time, (long_prompts, fast_mode, us_inference, bedrock_profiles, batch_tier, web_searches)),
    "claude-code": (pick_by_version, (long_prompts, fast_mode, us_inference_for_all, web_searches_free_at_first)),
    "ccusage": (pick_ccusage, (long_kinds_split, fast_mode, bedrock_regions, recorded_cost)),
}
"""How each policy picks a card and the rules it applies, in order."""
