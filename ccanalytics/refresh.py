"""Fetching a public price table, when asked to: the one use of the network, and never needed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from .errors import ReadError, UsageError
from .prices import refreshed_file

PUBLIC_PRICES = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"
_MAX_BYTES = 32 << 20
_FIELDS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_write_5m": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "cache_read": "cache_read_input_token_cost",
}

Opener = Callable[[str], bytes]


def refresh_prices(url: str = PUBLIC_PRICES, *, opener: Opener | None = None, path: str | Path | None = None) -> Path:
    """Fetch a public price table and keep it as a file of cards that the next ``load_prices`` reads.

    Cards of the package and of the user come before fetched ones; these serve models that nobody else knows.

    Parameters
    ----------
    url
        A price table in LiteLLM's format.
    opener
        Called with the URL, returns the bytes; default: ``urllib``.
    path
        Where to keep it; default: :func:`ccanalytics.prices.refreshed_file`.

    Returns
    -------
    The file written.

    Raises
    ------
    ReadError
        The table could not be fetched; nothing has changed.
    UsageError
        What came is not a price table; nothing has changed.
    """
    try:
        body = (opener or _fetch)(url)
    except OSError as error:
        raise ReadError(f"cannot fetch prices from {url}: {error}; the packaged prices still serve", url=url) from error
    cards = cards_of(body)
    target = Path(path) if path is not None else refreshed_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(orjson.dumps({"source": url, "cards": cards}, option=orjson.OPT_INDENT_2))
    Path(file.name).replace(target)
    return target


def cards_of(body: bytes) -> list[dict[str, object]]:
    """Cards for :mod:`ccanalytics.prices` from a price table in LiteLLM's format, in the order of its names."""
    try:
        table = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the price table is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise UsageError(f"the price table is a JSON {type(table).__name__}; expected an object of models")
    cards = [card for name, row in sorted(table.items()) if isinstance(row, dict) for card in _card(name, row)]
    if not cards:
        raise UsageError("the price table has no model with a price per token")
    return cards


def _card(name: str, row: Mapping[str, object]) -> list[dict[str, object]]:
    rates = {kind: _per_million(row.get(field)) for kind, field in _FIELDS.items()}
    if rates["input"] is None or rates["output"] is None:
        return []
    card: dict[str, object] = {"model": name, **{k: r for k, r in rates.items() if r is not None}}
    long = {f"long_{k}": _per_million(row.get(f"{field}_above_200k_tokens")) for k, field in _FIELDS.items()}
    if long["long_input"] is not None:
        hour = long["long_cache_write_1h"] or 2 * long["long_input"]
        card |= {"long_above_tokens": 200_000, **{k: v for k, v in long.items() if v is not None}}
        card["long_cache_write_1h"] = hour
    factors = row.get("provider_specific_entry")
    for factor in ("fast", "us"):
        value = factors.get(factor) if isinstance(factors, dict) else None
        if isinstance(value, int | float) and value > 0:
            card[f"{factor}_factor"] = float(value)
    return [card]


def _per_million(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    # Prices are listed per token; the product is rounded so that 3e-06 comes out as 3 and not as 2.9999999999999996.
    return round(value * 1e6, 9)


def _fetch(url: str) -> bytes:
    if not url.startswith("https://"):
        raise UsageError(f"prices are fetched over https only, not from {url!r}", url=url)
    import urllib.request

    with urllib.request.urlopen(url, timeout=30) as reply:
        body: bytes = reply.read(_MAX_BYTES)
    return body
