"""Timestamps as written on a line → milliseconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

_TS = pl.Datetime("ms", "UTC")
_MAX_MS = 253_402_300_800_000
_LENGTH = 24
_MODEL = b"0000-00-00T00:00:00.000Z"
_MARKS = [i for i, c in enumerate(_MODEL) if c != 48]
_DIGITS = [i for i, c in enumerate(_MODEL) if c == 48]
_NONE = "1970-01-01T00:00:00.000Z"


BAD_TIME = ("bad_timestamp", "a timestamp that is no ISO 8601 time")


def read_times(texts: Sequence[str | None]) -> tuple[pl.Series, pl.Series, list[int]]:
    """Times, the text of those written another way than usual (else null), and which ones are no time at all."""
    plain = plain_times(texts)
    if plain is not None:
        empty = pl.Series([None], dtype=pl.String)
        return plain, empty.new_from_index(0, len(texts)) if texts else empty.clear(), []
    ms: list[int | None] = []
    odd: list[str | None] = []
    for text in texts:
        value, is_plain = parse_time(text) if text is not None else (None, True)
        ms.append(value)
        odd.append(None if is_plain or text is None else text[:80])
    bad = [i for i, (text, value) in enumerate(zip(texts, ms, strict=True)) if text is not None and value is None]
    return pl.Series(ms, dtype=pl.Int64).cast(_TS), pl.Series(odd, dtype=pl.String), bad


def plain_times(texts: Sequence[str | None]) -> pl.Series | None:
    """The times of texts that are all null or ``YYYY-MM-DDTHH:MM:SS.mmmZ``; None when one is neither."""
    n = len(texts)
    n_null = texts.count(None)
    if n_null == n:
        return pl.Series([None], dtype=_TS).new_from_index(0, n) if n else pl.Series([], dtype=_TS)
    filled = [_NONE if t is None else t for t in texts] if n_null else texts
    if list(map(len, filled)).count(_LENGTH) != n:  # type: ignore[arg-type]
        return None
    joined = "".join(filled)  # type: ignore[arg-type]
    if not joined.isascii():
        return None
    at = _milliseconds(np.frombuffer(joined.encode("ascii"), dtype=np.uint8).reshape(n, _LENGTH))
    if at is None:
        return None
    times = pl.Series(at, dtype=pl.Int64).cast(_TS)
    if not n_null:
        return times
    known = pl.Series(np.array([t is not None for t in texts]))
    return times.zip_with(known, pl.Series([None], dtype=_TS).new_from_index(0, n))


def _milliseconds(chars: Any) -> Any:
    """Milliseconds since 1970 of rows of 24 characters; None when one is no time."""
    model = np.frombuffer(_MODEL, dtype=np.uint8)
    if not (chars[:, _MARKS] == model[_MARKS]).all():
        return None
    digits = (chars[:, _DIGITS] - 48).astype(np.int32)
    if (digits > 9).any():
        return None
    year = digits[:, :4] @ np.array([1000, 100, 10, 1], dtype=np.int32)
    month, day, hour, minute, second = (digits[:, i] * 10 + digits[:, i + 1] for i in (4, 6, 8, 10, 12))
    ms = digits[:, 14:] @ np.array([100, 10, 1], dtype=np.int32)
    in_range = (year > 0) & (month > 0) & (month < 13) & (day > 0) & (day <= _month_days(year, month))
    if not (in_range & (hour < 24) & (minute < 60) & (second < 60)).all():
        return None
    days = _days_since_1970(year.astype(np.int64), month, day)
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + ms


def _month_days(year: Any, month: Any) -> Any:
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    days = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int32)
    return days[np.minimum(month, 12)] + (is_leap & (month == 2))


def _days_since_1970(year: Any, month: Any, day: Any) -> Any:
    # Years that begin in March end with the leap day, so that months before it have fixed lengths.
    y = year - (month < 3)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return y * 365 + y // 4 - y // 100 + y // 400 + of_year - 719_468


def parse_time(text: str) -> tuple[int | None, bool]:
    """Milliseconds since 1970, None when the text is no time; and whether it is written the usual way."""
    at = parse_timestamp(text)
    value = at if at is not None and -_MAX_MS < at < _MAX_MS else None
    marks = len(text) == _LENGTH and text.isascii() and all(text[i] == chr(_MODEL[i]) for i in _MARKS)
    return value, value is not None and marks and all(text[i].isdigit() for i in _DIGITS)


def parse_timestamp(text: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text in any spelling; None when it is none."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    try:
        delta = at - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        return None
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000
