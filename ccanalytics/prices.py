"""Price cards: the dated table in the package, the user's own, and which card a model has at a moment."""

from __future__ import annotations

import datetime as dt
import math
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path

import orjson
import polars as pl

from .errors import NotFoundError, UsageError
from .models import canonical_model, is_first_party
from .schema.money import PRICES

KINDS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
"""The five token prices of a card, in the order they are kept in."""

PRICES_VARIABLE = "CCANALYTICS_PRICES"
_REGIONAL = "bedrock_regional_factor"
_CACHE_RULE = {"cache_write_5m": 1.25, "cache_write_1h": 2.0, "cache_read": 0.1}

Overrides = str | os.PathLike[str] | Mapping[str, object] | pl.DataFrame
"""What may stand for a user's prices: a TOML file, a mapping of model to card (or cards), a frame like ``prices()``."""


@dataclass(frozen=True, slots=True)
class Card:
    """Prices of one model in one span of time, in USD per million tokens; NaN where there is no such price."""

    model: str
    rates: tuple[float, ...]
    owner: str = "list"
    aliases: tuple[str, ...] = ()
    valid_from: int | None = None
    valid_to: int | None = None
    cli_version: str | None = None
    long_above_tokens: int | None = None
    long_rates: tuple[float, ...] = ()
    batch_factor: float = 0.5
    fast_factor: float = 1.0
    us_factor: float = 1.0
    web_search: float = 0.01
    context_window: int | None = None
    source: str = ""
    note: str = ""

    def covers(self, at: int) -> bool:
        """True when the card applies at that time (milliseconds since 1970, UTC)."""
        return (self.valid_from is None or at >= self.valid_from) and (self.valid_to is None or at < self.valid_to)


@dataclass(frozen=True)
class PriceTable:
    """All cards, those of the user first, and the date of the packaged ones."""

    date: str
    cards: tuple[Card, ...]
    claude_code: tuple[Card, ...] = field(default=(), repr=False)
    bedrock_regional_factor: float = 1.0
    """On token prices of ids with a regional Bedrock profile (``us.anthropic.…``); an option, off by default."""

    def find(self, model: str) -> tuple[Card, ...]:
        """Cards of a model id, best first.

        The user's come before the packaged, an exact key before a recognised name, the later before the earlier.
        """
        name = canonical_model(model)
        found: list[Card] = []
        for owner in ("user", "list", "fetched"):
            names = self._by_name.get(owner, {})
            found += names.get(model) or (names.get(name) if name else None) or ()
        return tuple(found)

    @cached_property
    def _by_name(self) -> dict[str, dict[str, list[Card]]]:
        index: dict[str, dict[str, list[Card]]] = {}
        # Where two spans overlap, the one that began later holds.
        for card in sorted(self.cards, key=lambda c: -math.inf if c.valid_from is None else c.valid_from, reverse=True):
            for key in dict.fromkeys((card.model, *card.aliases)):
                index.setdefault(card.owner, {}).setdefault(key, []).append(card)
        # A first-party id in the user's table also stands for the other forms of its name, where it is alone.
        own = index.get("user", {})
        for key in list(own):
            name = canonical_model(key)
            if name and name not in own and is_first_party(key):
                own[name] = own[key]
        return index

    def frame(self) -> pl.DataFrame:
        """The cards as the ``prices`` table."""
        return _frame((*self.cards, *self.claude_code))


def prices(overrides: Overrides | None = None) -> pl.DataFrame:
    """The price table: one row per card, list prices and the cards Claude Code charges by its version.

    Parameters
    ----------
    overrides
        A TOML file, a mapping of model name to card (or list of cards) or a frame; see :func:`load_prices`.

    Returns
    -------
    One row per card, sorted by owner, model and validity; prices in USD per million tokens, null where the model
    has none; ``valid_from`` inclusive, ``valid_to`` exclusive, both UTC.
    """
    return load_prices(overrides).frame()


def load_prices(overrides: Overrides | PriceTable | None = None) -> PriceTable:
    """The packaged price table with the user's cards in front of it.

    The user's cards are the argument's, else those of the TOML file ``$CCANALYTICS_PRICES`` names, else those of
    ``prices.toml`` in the platform's configuration directory of ccanalytics. A card has the keys ``model``, ``input``,
    ``output`` and, where they differ from the rule (1.25, 2 and 0.1 times input), ``cache_write_5m``,
    ``cache_write_1h``, ``cache_read``; ``valid_from`` and ``valid_to`` (UTC; a date as ``valid_to`` is included whole,
    a time is the first moment it no longer holds), ``aliases``, ``long_above_tokens`` with ``long_…`` prices,
    ``batch_factor``, ``fast_factor``, ``us_factor``, ``web_search``. Outside the span of the user's cards the packaged
    ones apply. ``bedrock_regional_factor = 1.1`` beside the cards makes regional Bedrock profiles dearer.

    Raises
    ------
    UsageError
        The file or mapping is not a price table; says which card and key.
    NotFoundError
        The file named by argument or variable does not exist.
    """
    if isinstance(overrides, PriceTable):
        return overrides
    packaged, own, fetched = _packaged(), _read_overrides(overrides), _read_fetched()
    if not own and not fetched:
        return packaged
    factors = [c.us_factor for c in own if c.model == _REGIONAL]
    cards = (*(c for c in own if c.model != _REGIONAL), *packaged.cards, *fetched)
    return replace(packaged, cards=cards, bedrock_regional_factor=factors[0] if factors else 1.0)


def refreshed_file() -> Path:
    """Where a fetched table is kept: ``prices-fetched.json`` in the platform's data directory of ccanalytics."""
    from platformdirs import user_data_path

    return user_data_path("ccanalytics", appauthor=False) / "prices-fetched.json"


def _read_fetched() -> tuple[Card, ...]:
    file = refreshed_file()
    return _read_fetched_file(str(file), file.stat().st_mtime_ns) if file.is_file() else ()


@cache
def _read_fetched_file(path: str, _modified: int) -> tuple[Card, ...]:
    doc = orjson.loads(Path(path).read_bytes())
    return tuple(_card({**row, "source": doc["source"]}, "fetched") for row in doc["cards"])


@cache
def _packaged() -> PriceTable:
    # Not importlib.resources: loading that takes longer than everything else here.
    doc = orjson.loads((Path(__file__).parent / "data" / "prices.json").read_bytes())
    defaults = {k: doc[k] for k in ("web_search", "batch_factor")}
    cards = tuple(_card({**defaults, **row}, "list") for row in doc["list"])
    own = tuple(_card({**defaults, **row}, "claude-code") for row in doc["claude_code"])
    return PriceTable(doc["date"], cards, own)


def _read_overrides(overrides: Overrides | None) -> tuple[Card, ...]:
    if isinstance(overrides, pl.DataFrame):
        return tuple(_card(_plain_keys(row), "user") for row in overrides.iter_rows(named=True))
    if isinstance(overrides, Mapping):
        return tuple(_cards_of(overrides))
    path = overrides or os.environ.get(PRICES_VARIABLE) or default_file()
    if path is None:
        return ()
    file = Path(path).expanduser()
    try:
        return _read_toml(str(file), file.stat().st_mtime_ns)
    except FileNotFoundError:
        raise NotFoundError(
            f"price file {file} does not exist" + ("" if overrides else f"; make it or unset {PRICES_VARIABLE}"),
            path=str(file),
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"price file {file} is not TOML: {error}", path=str(file)) from error


@cache
def _read_toml(path: str, _modified: int) -> tuple[Card, ...]:
    return tuple(_cards_of(tomllib.loads(Path(path).read_text("utf-8"))))


def default_file() -> Path | None:
    """The user's own price file, ``prices.toml`` in the platform's configuration directory; None when there is none."""
    from platformdirs import user_config_path

    path = user_config_path("ccanalytics", appauthor=False) / "prices.toml"
    return path if path.is_file() else None


def _cards_of(doc: Mapping[str, object]) -> Iterable[Card]:
    """Cards of ``[[model]]`` tables and of ``["model name"]`` tables or lists of tables."""
    for key, value in doc.items():
        if key == _REGIONAL:
            yield Card(_REGIONAL, (), "user", us_factor=_number(doc, key, key))
            continue
        for row in value if isinstance(value, Sequence) and not isinstance(value, str) else (value,):
            if not isinstance(row, Mapping):
                raise UsageError(
                    f"price of {key!r} is {row!r}; give a table such as {{input = 3, output = 15}}", model=key
                )
            yield _card({**({} if key == "model" else {"model": key}), **_plain_keys(row)}, "user")


def _plain_keys(row: Mapping[str, object]) -> dict[str, object]:
    return {k.removesuffix("_usd"): v for k, v in row.items() if v is not None and k != "card"}


_KEYS = {*KINDS, *(f"long_{k}" for k in KINDS), "name", *(f.name for f in fields(Card))} - {
    "rates",
    "long_rates",
    "owner",
}


def _card(row: Mapping[str, object], owner: str) -> Card:
    model = row.get("model", row.get("name"))
    unknown = [k for k in row if k not in _KEYS]
    if not isinstance(model, str) or unknown:
        trouble = f"keys {unknown}" if unknown else "no model name"
        raise UsageError(f"price card {model!r} has {trouble}; allowed: {sorted(_KEYS)}", model=model)
    rates = [_number(row, k, model) for k in KINDS]
    if owner == "user":
        rates = [
            r if not math.isnan(r) else rates[0] * _CACHE_RULE.get(k, math.nan)
            for k, r in zip(KINDS, rates, strict=True)
        ]
    above = row.get("long_above_tokens")
    long = tuple(_number(row, f"long_{k}", model) for k in KINDS) if above is not None else ()
    names = row.get("aliases") or ()
    return Card(
        model,
        tuple(rates),
        owner,
        aliases=tuple(n.strip() for n in names.split(","))
        if isinstance(names, str)
        else tuple(map(str, _listed(names))),
        valid_from=_moment(row, "valid_from", model),
        valid_to=_moment(row, "valid_to", model, is_end=True),
        cli_version=None if row.get("cli_version") is None else str(row["cli_version"]),
        long_above_tokens=None if above is None else int(_number(row, "long_above_tokens", model)),
        long_rates=long,
        batch_factor=_number(row, "batch_factor", model, 0.5),
        fast_factor=_number(row, "fast_factor", model, 1.0),
        us_factor=_number(row, "us_factor", model, 1.0),
        web_search=_number(row, "web_search", model, 0.01),
        context_window=None if row.get("context_window") is None else int(_number(row, "context_window", model)),
        source=str(row.get("source", "")),
        note=str(row.get("note", "")),
    )


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) else (value,)


def _number(row: Mapping[str, object], key: str, model: str, default: float = math.nan) -> float:
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UsageError(f"price card {model!r}: {key} is {value!r}; give a number of at least 0", model=model, key=key)
    return float(value)


def _moment(row: Mapping[str, object], key: str, model: str, *, is_end: bool = False) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        when = _date_or_time(value.strip()) if isinstance(value, str) else value
        if isinstance(when, dt.date) and not isinstance(when, dt.datetime):
            when = dt.datetime(when.year, when.month, when.day) + dt.timedelta(days=is_end)
        if isinstance(when, dt.datetime):
            return round((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        pass
    raise UsageError(f"price card {model!r}: {key} is {value!r}; give a date such as 2026-09-01", model=model, key=key)


def _date_or_time(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return dt.datetime.fromisoformat(text)


def _frame(cards: Sequence[Card]) -> pl.DataFrame:
    nan = (math.nan,) * len(KINDS)
    rows = [
        {
            "card": c.owner,
            "model": c.model,
            "aliases": ", ".join(c.aliases) or None,
            "valid_from": c.valid_from,
            "valid_to": c.valid_to,
            **{k: getattr(c, k) for k in ("cli_version", "long_above_tokens", "context_window")},
            **{f"{k}_usd": r for k, r in zip(KINDS, c.rates, strict=True)},
            **{f"long_{k}_usd": r for k, r in zip(KINDS, c.long_rates or nan, strict=True)},
            **{k: getattr(c, k) for k in ("batch_factor", "fast_factor", "us_factor")},
            "web_search_usd": c.web_search,
            "source": c.source or None,
            "note": c.note or None,
        }
        for c in cards
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    times = [
        pl.from_epoch(pl.col(k).cast(pl.Int64), "ms").dt.replace_time_zone("UTC") for k in ("valid_from", "valid_to")
    ]
    frame = frame.with_columns(*times, pl.col(pl.Float64).fill_nan(None))
    return PRICES.conform(frame).sort("card", "model", "valid_from", "cli_version", maintain_order=True)
