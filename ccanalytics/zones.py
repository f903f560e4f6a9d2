"""Times given by people: dates, moments, spans back from now, zones by name."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .errors import UsageError

_SPAN = re.compile(r"(\d{1,6})\s*([hdwm])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "m": timedelta(days=30)}


def zone(name: str | None) -> ZoneInfo | tzinfo:
    """The time zone of that name; None is the machine's own. ``UsageError`` for a name nobody knows."""
    if name is None:
        return ZoneInfo(local_zone_name())
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"no time zone is called {name!r}; use a name like 'Europe/Berlin' or 'UTC'", got=name
        ) from None


def local_zone_name() -> str:
    """IANA name of the machine's time zone; ``UTC`` when it cannot be told."""
    import os
    from pathlib import Path

    for candidate in (os.environ.get("TZ", "").lstrip(":"), _linked_zone(Path("/etc/localtime"))):
        if candidate:
            try:
                return ZoneInfo(candidate).key
            except (ZoneInfoNotFoundError, ValueError, OSError):
                continue
    return "UTC"


def _linked_zone(link: object) -> str:
    from pathlib import Path

    try:
        target = str(Path(str(link)).resolve())
    except OSError:
        return ""
    return target.split("zoneinfo/", 1)[1] if "zoneinfo/" in target else ""


def parse_moment(
    value: str | date | datetime, *, tz: str | None = None, is_end: bool = False, now: datetime | None = None
) -> datetime:
    """A moment in UTC.

    A date is its beginning in ``tz`` (default: the machine's zone), or its end (exclusive) when ``is_end``; text may
    be an ISO date or time, ``YYYYMMDD``, ``today``, ``yesterday``, or a span back from now such as ``7d``, ``12h``.
    """
    local = zone(tz)
    if isinstance(value, str):
        value = _read(value.strip(), local, now or datetime.now(UTC))
    if isinstance(value, datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=local)).astimezone(UTC)
    if is_end:
        value = value + timedelta(days=1)
    return datetime(value.year, value.month, value.day, tzinfo=local).astimezone(UTC)


def _read(text: str, local: tzinfo, now: datetime) -> date | datetime:
    span = _SPAN.fullmatch(text)
    if span:
        return now - int(span[1]) * _UNITS[span[2]]
    today = now.astimezone(local).date()
    if text in ("today", "yesterday"):
        return today if text == "today" else today - timedelta(days=1)
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no date; write 2026-03-01, 2026-03-01T12:00, today, yesterday, or a span like 7d", got=text
        ) from None
