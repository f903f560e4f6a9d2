"""A slow, plain reading of one transcript: which lines are good, and what they say. Shares no code with the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

BLANK = b" \t\r"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class GoodLine:
    """A line that is one JSON object and nothing else."""

    line_no: int
    byte_offset: int
    byte_length: int
    value: dict[str, Any]


def good_lines(data: bytes) -> list[GoodLine]:
    """Every line of a file that is a JSON object in UTF-8; lines end with LF alone."""
    found = []
    offset = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        body = line.strip(BLANK)
        if number == 1 and body.startswith(BOM):
            body = body[3:].strip(BLANK)
        value = object_of(body)
        if value is not None:
            found.append(GoodLine(number, offset + line.index(body), len(body), value))
        offset += len(line) + 1
    return found


def object_of(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(name: str) -> Any:
    raise ValueError(name)


TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
FIELDS = {
    "type": "type",
    "uuid": "uuid",
    "parent_uuid": "parentUuid",
    "session_id": "sessionId",
    "agent_id": "agentId",
    "version": "version",
    "cwd": "cwd",
    "request_id": "requestId",
    "git_branch": "gitBranch",
}


def facts_of(line: dict[str, Any]) -> dict[str, Any]:
    """What the columns of an entry must say of a line: text where there is text, counts where there are counts."""
    facts = {column: text_or_none(line.get(key)) for column, key in FIELDS.items()}
    message = line.get("message")
    message = message if isinstance(message, dict) else {}
    facts["message_id"] = text_or_none(message.get("id"))
    facts["model"] = text_or_none(message.get("model"))
    used = message.get("usage")
    used = used if isinstance(used, dict) else {}
    return facts | {name: count_or_none(used.get(name)) for name in TOKENS}


def text_or_none(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    # A lone surrogate is no character; it can be no cell of a column either.
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def count_or_none(value: object) -> int | None:
    """A count is a whole number from 0 to 2**53, however it is spelt."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value <= 2**53 else None
