"""Answering calls that have no result, with lines that say they were made up."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Sequence
from typing import Any

from .lines import Json, encode
from .mend_lines import Line, Step
from .mend_links import Links

MADE_UP = "[Tool result missing: added by ccanalytics repair, the call was never answered on disk]"
_ENVELOPE = ("isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch")


def hidden_calls(links: Links, resumed: Sequence[str]) -> list[str]:
    """Assistant entries with calls that a resume passes over although the conversation goes on behind them."""
    shown, hidden = set(resumed), list[str]()
    at = resumed[-1] if resumed else None
    seen = set[str]()
    while at is not None and at in links.nodes and at not in seen:
        seen.add(at)
        node = links.nodes[at]
        if at not in shown and node.value.get("type") == "assistant":
            hidden.append(at)
        at = node.parent
    return hidden


def answer_calls(lines: list[Line], unanswered: Collection[str]) -> tuple[list[Line], list[Step]]:
    """Put an error result behind each call of the ``unanswered`` entries that nothing in the file answers.

    A resume leaves out an entry none of whose calls has a result, together with the text in it. The made-up
    results are marked (``isSynthetic``), have the time of the call, and stand right behind it, so that they are never
    the end of the conversation.
    """
    answered = {b.get("tool_use_id") for line in lines for b in _blocks(line.value) if b.get("type") == "tool_result"}
    mended, steps = list[Line](), list[Step]()
    for line in lines:
        mended.append(line)
        if line.value is None or line.value.get("uuid") not in unanswered:
            continue
        for block in _blocks(line.value):
            call = block.get("id")
            if block.get("type") == "tool_use" and isinstance(call, str) and call not in answered:
                mended.append(_result(line, line.value, call))
                reason = f"call {call} has no result, so a resume leaves out this answer; the made-up result is marked"
                steps.append(Step("answer_call", line.no, reason, str(line.value["uuid"]), None, call))
    return mended, steps


def _result(line: Line, caller: Json, call: str) -> Line:
    block = {"tool_use_id": call, "type": "tool_result", "content": MADE_UP, "is_error": True}
    value: Json = {
        "parentUuid": caller["uuid"],
        **{key: caller[key] for key in _ENVELOPE if key in caller},
        "type": "user",
        "message": {"role": "user", "content": [block]},
        # The same name each time it is made, so that mending a copy gives the same file.
        "uuid": str(uuids.uuid5(uuids.NAMESPACE_OID, f"ccanalytics repair {caller['uuid']} {call}")),
        "timestamp": caller.get("timestamp"),
        "sourceToolAssistantUUID": caller["uuid"],
        "isSynthetic": True,
    }
    return Line(line.no, encode(value).rstrip(b"\n"), value)


def _blocks(value: Json | None) -> list[dict[str, Any]]:
    message = (value or {}).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
