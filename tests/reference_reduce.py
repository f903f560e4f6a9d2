"""A slow, plain reading of how a resumed chain becomes messages for the API. Shares no code with the package."""

from __future__ import annotations

import json
from typing import Any

from tests.reference_resume import Entry, Rules

Block = dict[str, Any]
Message = dict[str, Any]

TEXTS = {
    "no-response": "No response requested.",
    "continue": "Continue from where you left off.",
    "no-content": "(no content)",
    "call-removed": "[Tool use interrupted]",
    "orphan-removed": "[Orphaned tool result removed]",
    "missing-result": "[Tool result missing]",
    "interrupted-result": "[Tool call interrupted]",
}


def messages(chain: list[Entry], rules: Rules, model: str | None = None) -> list[Message]:
    """API messages of a chain, as ``resume --format json`` has them."""
    start = max((i for i, e in enumerate(chain) if e.is_boundary), default=0)
    entries = [e for e in chain[start:] if not e.is_api_error]
    model = model or last_model(entries)
    found = collect_88(entries) if rules == "2.1.88" else collect_332(entries, model)
    for m in found:
        arrange(m, rules)
    unique_calls(found)
    found = pair_results(found, rules)
    return finish(found, rules)


def last_model(entries: list[Entry]) -> str | None:
    named = [e.message.get("model") for e in entries if e.type == "assistant"]
    return next((m for m in reversed(named) if isinstance(m, str) and m != "<synthetic>"), None)


def text(name: str) -> Block:
    return {"type": "text", "text": TEXTS[name], "synthetic": name}


def error_result(name: str, call: str) -> Block:
    return {"type": "tool_result", "tool_use_id": call, "content": TEXTS[name], "is_error": True, "synthetic": name}


def entry_blocks(e: Entry) -> list[Block]:
    if e.made == "assistant":
        return [text("no-response")]
    if e.made == "user":
        return [error_result("interrupted-result", e.answers)] if e.answers is not None else [text("continue")]
    if e.type == "system":
        return [{"type": "text", "text": str(e.raw.get("content") or "")}]
    return [shown(b) for b in e.blocks]


def shown(b: Block) -> Block:
    kind = b.get("type")
    if kind == "text":
        return {"type": "text", "text": b.get("text", "")}
    if kind == "tool_use":
        return {"type": "tool_use", "id": b.get("id"), "name": b.get("name"), "input": b.get("input")}
    if kind == "tool_result":
        return {
            "type": "tool_result",
            "tool_use_id": b.get("tool_use_id"),
            "content": b.get("content"),
            "is_error": b.get("is_error") is True,
        }
    if kind == "thinking":
        return {"type": "thinking", "thinking": b.get("thinking", "")}
    if kind == "image":
        return {"type": "image", "source": b.get("source")}
    return dict(b)


def attachment_text(e: Entry) -> str:
    found: list[str] = []

    def strings(value: object, key: str) -> None:
        if isinstance(value, str):
            if key in ("content", "snippet", "prompt", "text"):
                found.append(value)
        elif isinstance(value, dict):
            for k, v in value.items():
                strings(v, k)
        elif isinstance(value, list):
            for v in value:
                strings(v, key)

    strings(e.raw.get("attachment"), "")
    return "\n".join(found) or json.dumps(e.raw.get("attachment"), ensure_ascii=False)


def joins(found: list[Message], message_id: object) -> Message | None:
    """The earlier assistant message a line belongs to."""
    for m in reversed(found):
        if m["role"] == "assistant":
            if m["id"] == message_id:
                return m
        elif m["role"] == "user" and not any(b["type"] == "tool_result" for b in m["blocks"]):
            return None
    return None


def add_assistant(found: list[Message], e: Entry, blocks: list[Block]) -> None:
    message_id = object() if e.made else e.message_id
    m = joins(found, message_id)
    if m is None:
        found.append({"role": "assistant", "id": message_id, "blocks": blocks, "n": 1})
    else:
        m["blocks"] += blocks
        m["n"] += 1


def collect_332(entries: list[Entry], model: str | None) -> list[Message]:
    found: list[Message] = []
    for e in entries:
        last = found[-1] if found else None
        if e.type == "attachment":
            if last is None or last["role"] == "assistant":
                found.append({"role": "attachments", "blocks": [], "n": 0, "attached": [attachment_text(e)]})
            else:
                last.setdefault("attached", []).append(attachment_text(e))
        elif e.type == "assistant":
            blocks = entry_blocks(e)
            kept = [
                b
                for b in blocks
                if b["type"] not in ("thinking", "redacted_thinking") or e.message.get("model") == model
            ]
            add_assistant(found, e, kept)
        elif e.type == "user" or e.raw.get("subtype") == "local_command":
            blocks = entry_blocks(e)
            if not blocks:
                continue
            if last is not None and last["role"] != "assistant":
                last.update(role="user", blocks=last["blocks"] + blocks, n=last["n"] + 1)
            else:
                found.append({"role": "user", "blocks": blocks, "n": 1})
    for i, m in enumerate(found):
        if m["role"] == "attachments":
            alone = i == 0 or i + 1 < len(found)
            m.update(
                role="user" if alone else "system", blocks=[{"type": "text", "text": "\n".join(m.pop("attached"))}]
            )
    return found


def collect_88(entries: list[Entry]) -> list[Message]:
    found: list[Message] = [{"role": "user", "blocks": [{"type": "text", "context": True}], "n": 1}]
    for e in move_attachments(entries):
        if e.type == "assistant":
            add_assistant(found, e, entry_blocks(e))
            continue
        if e.type == "system" and e.raw.get("subtype") != "local_command":
            continue
        last = found[-1]
        if last["role"] == "assistant":
            last = {"role": "user", "blocks": [], "n": 0}
            found.append(last)
        last["n"] += 1
        if e.type == "attachment":
            end = last["blocks"][-1] if last["blocks"] else {}
            if end.get("type") == "tool_result" and isinstance(end.get("content"), str):
                end.setdefault("reminders", []).append(attachment_text(e))
            else:
                last["blocks"].append({"type": "text", "reminders": [attachment_text(e)]})
        else:
            last["blocks"] = results_first(last["blocks"] + entry_blocks(e)) if last["n"] > 1 else entry_blocks(e)
    return found


def move_attachments(entries: list[Entry]) -> list[Entry]:
    out: list[Entry] = []
    for e in entries:
        if e.type != "attachment":
            out.append(e)
            continue
        at = len(out)
        while at > 0 and not (out[at - 1].type in ("assistant", "attachment") or out[at - 1].is_result):
            at -= 1
        out.insert(at, e)
    return out


def results_first(blocks: list[Block]) -> list[Block]:
    return [b for b in blocks if b["type"] == "tool_result"] + [b for b in blocks if b["type"] != "tool_result"]


def arrange(m: Message, rules: Rules) -> None:
    if m["n"] < 2:
        return
    if m["role"] == "user":
        m["blocks"] = results_first(m["blocks"])
    elif m["role"] == "assistant" and rules == "2.1.332":
        m["blocks"] = [b for b in m["blocks"] if b["type"] != "tool_use"] + [
            b for b in m["blocks"] if b["type"] == "tool_use"
        ]


def unique_calls(found: list[Message]) -> None:
    used: set[object] = set()
    for m in found:
        if m["role"] != "assistant":
            continue
        kept = []
        for b in m["blocks"]:
            if b["type"] == "tool_use":
                if b["id"] in used:
                    continue
                used.add(b["id"])
            kept.append(b)
        if not kept:
            kept = [text("call-removed" if m["blocks"] else "no-content")]
        m["blocks"] = kept


def pair_results(found: list[Message], rules: Rules) -> list[Message]:
    out: list[Message] = []
    for i, m in enumerate(found):
        if m["role"] == "assistant":
            out.append(m)
            follower = next((n for n in found[i + 1 :]), None)
            if follower is None or follower["role"] != "user":
                lost = [b["id"] for b in m["blocks"] if b["type"] == "tool_use"]
                if lost:
                    out.append({"role": "user", "blocks": [error_result("missing-result", c) for c in lost]})
            continue
        if m["role"] == "user":
            before = found[i - 1] if i and found[i - 1]["role"] == "assistant" else None
            calls = [b["id"] for b in before["blocks"] if b["type"] == "tool_use"] if before else []
            repair_user(m, calls, first=not out and rules == "2.1.332")
        out.append(m)
    return out


def repair_user(m: Message, calls: list[Any], *, first: bool) -> None:
    seen: set[object] = set()
    kept = []
    for b in m["blocks"]:
        if b["type"] == "tool_result":
            if b["tool_use_id"] not in calls or b["tool_use_id"] in seen:
                continue
            seen.add(b["tool_use_id"])
        kept.append(b)
    kept = [error_result("missing-result", c) for c in calls if c not in seen] + kept
    if not kept and m["blocks"]:
        kept = [text("orphan-removed" if first else "no-content")]
    m["blocks"] = kept


def finish(found: list[Message], rules: Rules) -> list[Message]:
    out: list[Message] = []
    for m in found:
        blocks = [b for b in m["blocks"] if "context" not in b]
        attached = m.get("attached")
        if blocks or len(blocks) == len(m["blocks"]):
            out.append({"role": m["role"], "blocks": blocks})
        if attached:
            out.append({"role": "system", "blocks": [{"type": "text", "text": "\n".join(attached)}]})
    return out
