"""What the prompt cache saved, what it cost to fill, and what was lost when it expired."""

from __future__ import annotations

import numpy as np
import polars as pl

from .policies import priced_sheet
from .prices import Overrides, PriceTable

CACHE_NAMES = ("saved_by_reads_usd", "write_premium_usd", "lost_to_expiry_usd")
_FIVE_MINUTES_MS, _HOUR_MS = 300_000, 3_600_000


def cache_use_of_calls(calls: pl.DataFrame, *, prices: Overrides | PriceTable | None = None) -> pl.DataFrame:
    """Per call, in the order of ``calls``: what reading from the cache saved against plain input, what writing to it
    cost on top, and what writing again cost after it had expired.

    Expiry is an estimate: within one thread and model, a call that comes later than the cache lived (five minutes, or
    an hour where the call before wrote for an hour) and reads less than the call before left there, has written the
    missing part again; that part is charged as a write instead of a read.

    Returns
    -------
    ``saved_by_reads_usd``, ``write_premium_usd``, ``lost_to_expiry_usd``, at list prices; null without a price.
    """
    sheet = priced_sheet(calls, "list", prices=prices)
    given, _, write_5m, write_1h, read = sheet.rates
    _, _, tokens_5m, tokens_1h, tokens_read = sheet.tokens
    expired = _expired_tokens(calls)
    written = np.where(tokens_1h > 0, write_1h, write_5m)
    columns = {
        "saved_by_reads_usd": _amount(tokens_read, given - read),
        "write_premium_usd": _amount(tokens_5m, write_5m - given) + _amount(tokens_1h, write_1h - given),
        "lost_to_expiry_usd": _amount(expired, written - read),
    }
    return pl.DataFrame({k: v * sheet.factor for k, v in columns.items()}).fill_nan(None)


def _amount(
    tokens: np.ndarray[tuple[int], np.dtype[np.float64]], rate: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.where(tokens == 0, 0.0, tokens / 1e6 * rate)


def _expired_tokens(calls: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    thread = ["session_id", "agent_id", "model"]
    left = pl.col("cache_read_input_tokens") + pl.col("cache_creation_input_tokens")
    life = pl.when(pl.col("ephemeral_1h_input_tokens") > 0).then(_HOUR_MS).otherwise(_FIVE_MINUTES_MS)
    ordered = calls.with_row_index("row").sort("first_at", "call_id", nulls_last=True)
    gap = (pl.col("first_at") - pl.col("last_at").shift().over(thread)).dt.total_milliseconds()
    missing = left.shift().over(thread) - pl.col("cache_read_input_tokens")
    again = pl.min_horizontal(missing, "cache_creation_input_tokens").clip(lower_bound=0)
    expired = pl.when(gap > life.shift().over(thread)).then(again).otherwise(0).fill_null(0)
    return ordered.with_columns(expired=expired).sort("row")["expired"].cast(pl.Float64).to_numpy()
