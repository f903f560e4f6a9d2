"""API messages in the form the recorded cases have them: markers in place of texts."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.build import Line

_MARK = re.compile(r"«(m\d+)»")


def shown(messages: list[Line]) -> list[Line]:
    """Messages with every text reduced to its markers, as in ``messages`` of a case."""
    return [{"role": m["role"], "blocks": [_block(b) for b in m["blocks"]]} for m in messages]


def _block(block: Line) -> Line:
    kind = block["type"]
    out: Line = {"type": kind}
    if kind == "text":
        out |= _text(block)
    elif kind == "tool_use":
        out |= {"id": block["id"], "name": block["name"]}
    elif kind == "tool_result":
        out |= _result(block)
    elif kind == "thinking":
        out["marker"] = _MARK.findall(block["thinking"])[0]
    elif kind == "redacted_thinking":
        out["markers"] = _MARK.findall(block["data"])
    elif kind == "image":
        out["data"] = block["source"]["data"][:24]
    if "reminders" in block:
        out["reminders"] = [m for text in block["reminders"] for m in _MARK.findall(text)]
    return out


def _text(block: Line) -> Line:
    if "synthetic" in block:
        return {"synthetic": block["synthetic"]}
    return _marks(block["text"], "literal") if "text" in block else {}


def _result(block: Line) -> Line:
    out: Line = {"tool_use_id": block["tool_use_id"]}
    if block["is_error"]:
        out["is_error"] = True
    if "synthetic" in block:
        return out | {"synthetic": block["synthetic"]}
    content: Any = block["content"]
    if isinstance(content, list):
        return out | {"content": [_block(part) for part in content]}
    found = _MARK.findall(json.dumps(content, ensure_ascii=False))
    return out | ({"markers": found} if found else {"literal": content})


def _marks(text: str, otherwise: str) -> Line:
    found = _MARK.findall(text)
    if not found:
        return {otherwise: text}
    return {"marker": found[0]} if len(found) == 1 else {"markers": found}
