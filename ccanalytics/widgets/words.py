"""Words of raw entries: what a line says, as text, in a short form or whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import CCAnalyticsError
from ..secrets import mask_secrets

PREVIEW_CHARS = 240
MOST_CHARS = 200_000
"""Longer texts are cut on the page; the whole is in the raw line."""
MAX_DEPTH = 20
LINES_SHOWN = 50
"""Lines that a list within the details of a choice shows."""


def raw_entries(t: Any, ids: Sequence[int]) -> list[dict[str, Any] | None]:
    """The raw objects of these entries; None where the file is gone or has changed, or the object keeps no files."""
    if not hasattr(t, "raw"):
        return [None] * len(ids)
    try:
        return list(t.raw(list(ids)))
    except CCAnalyticsError:
        return [_one(t, i) for i in ids]


def _one(t: Any, entry_id: int) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = t.raw([entry_id])[0]
        return found
    except CCAnalyticsError:
        return None


def words_of(entry: dict[str, Any] | None) -> str:
    """Everything an entry says as one text: its blocks one after another, calls of tools with their input."""
    if entry is None:
        return "(the line cannot be read any more)"
    return "\n".join(filter(None, _parts(entry)))


def preview_of(entry: dict[str, Any] | None) -> str:
    """The beginning of what an entry says, on one line, secrets masked."""
    text = " ".join(words_of(entry)[: PREVIEW_CHARS * 4].split())
    return mask_secrets(text)[:PREVIEW_CHARS]


def whole_of(entry: dict[str, Any] | None) -> str:
    """All that an entry says, secrets masked, cut where a page would suffer."""
    text = words_of(entry)
    more = f"\n… {len(text) - MOST_CHARS:,} more characters" if len(text) > MOST_CHARS else ""
    return mask_secrets(text[:MOST_CHARS]) + more


def json_of(entry: dict[str, Any] | None) -> str:
    """The raw object, indented, as it was written."""
    text = json.dumps(entry, ensure_ascii=False, indent=2, default=str)
    return text if len(text) <= 5 * MOST_CHARS else text[: 5 * MOST_CHARS] + "\n…"


def _parts(entry: dict[str, Any]) -> Iterator[str]:
    message = entry.get("message")
    if isinstance(message, dict):
        yield from _content(message.get("content"))
        return
    for key in ("content", "summary", "customTitle", "aiTitle", "lastPrompt", "value"):
        if isinstance(entry.get(key), str):
            yield entry[key]
    for key in ("attachment", "data", "compactMetadata", "snapshot"):
        if isinstance(entry.get(key), dict):
            yield _brief(entry[key])


def _content(content: object, depth: int = 0) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list) and depth < MAX_DEPTH:
        for block in content:
            yield from _block(block, depth)


def _block(block: object, depth: int) -> Iterator[str]:
    if not isinstance(block, dict):
        yield str(block)
        return
    kind = block.get("type")
    if kind in ("tool_use", "server_tool_use"):
        yield f"{block.get('name') or 'tool'} {_brief(block.get('input'))}"
    elif kind == "tool_result":
        yield from _content(block.get("content"), depth + 1)
    elif kind == "image":
        yield "[image]"
    else:
        yield from (str(block[k]) for k in ("text", "thinking") if block.get(k))


def _brief(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)[:MOST_CHARS]


def found_in(entries: Iterable[dict[str, Any] | None]) -> list[str]:
    """Texts to search in, one per entry."""
    return [words_of(e) for e in entries]
