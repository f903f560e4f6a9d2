"""From the entries of a conversation to the messages that are sent to the API.

Both generations take the same steps; they differ in where attachments go, in whether joined calls move behind other
blocks, and in what becomes of an empty list and of thinking by another model. Texts that the program makes up are
marked with ``synthetic``; of their wording only the beginning is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from .nodes import Rules

Block = dict[str, Any]
Message = dict[str, Any]

TEXTS = {
    "no-response": "No response requested.",
    "continue": "Continue from where you left off.",
    "no-content": "(no content)",
    "call-removed": "[Tool use interrupted]",
    "orphan-removed": "[Orphaned tool result removed due to conversation resume]",
    "missing-result": "[Tool result missing due to internal error]",
    "interrupted-result": "[Tool call interrupted: the session ended before a result was recorded]",
}
NO_MODEL = "<synthetic>"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the conversation: as written, or made up (then ``made`` says what it is)."""

    type: str
    raw: Mapping[str, Any] = field(default_factory=dict)
    made: str = ""
    call: str | None = None
    """The call that a made-up result answers."""
    text: str = ""
    """The text of a made-up summary."""
    absorbed: tuple[Mapping[str, Any], ...] = ()
    """2.1.88: user lines whose blocks are part of this entry."""

    @property
    def is_boundary(self) -> bool:
        """A compact boundary."""
        return self.type == "system" and self.raw.get("subtype") == "compact_boundary"

    @property
    def is_left_out(self) -> bool:
        """System lines but local commands, and reports of API errors, are not sent."""
        if self.type == "system":
            return self.raw.get("subtype") != "local_command"
        return self.type == "assistant" and self.raw.get("isApiErrorMessage") is True

    @property
    def message(self) -> Mapping[str, Any]:
        """The message object; empty when there is none."""
        found = self.raw.get("message")
        return found if isinstance(found, dict) else {}

    def is_result(self) -> bool:
        """A user entry with a tool result."""
        return self.type == "user" and any(b.get("type") == "tool_result" for b in _blocks_as_written(self.raw))


@dataclass(slots=True)
class Draft:
    """A message in the making."""

    role: str
    blocks: list[Block] = field(default_factory=list)
    n_joined: int = 0
    message_id: object = None
    attached: list[str] = field(default_factory=list)
    """2.1.332: rendered attachments that stand next to it."""
    is_context: bool = False
    """2.1.88: the message that the program puts first; its own text is left out again."""

    @property
    def has_result(self) -> bool:
        """Whether it holds a tool result."""
        return any(b["type"] == "tool_result" for b in self.blocks)


def api_messages(
    items: Sequence[Item], *, rules: Rules, model: str | None = None, replacements: Mapping[str, str] | None = None
) -> list[Message]:
    """The messages sent to the API for a conversation.

    Parameters
    ----------
    items : sequence of Item
        The conversation, in order.
    rules : {"2.1.332", "2.1.88"}
        Generation of the program.
    model : str, optional
        The model now in use, whose thinking is kept; default is the last one in the conversation.
    replacements : mapping, optional
        Contents to show for tool results, by tool_use_id.

    Returns
    -------
    list of dict
        ``{"role", "blocks"}``; blocks have ``synthetic`` where the program makes them up.
    """
    start = max((i for i, item in enumerate(items) if item.is_boundary), default=0)
    used = [item for item in items[start:] if item.type == "attachment" or not item.is_left_out]
    if rules == "2.1.332":
        drafts = _collect_332(used, model or _last_model(used))
    else:
        drafts = _collect_88(used)
    for draft in drafts:
        _arrange(draft, rules)
    _drop_repeated_calls(drafts)
    drafts = _pair_results(drafts, rules)
    return _written(drafts, replacements or {})


def _last_model(items: Sequence[Item]) -> str | None:
    for item in reversed(items):
        model = item.message.get("model") if item.type == "assistant" else None
        if isinstance(model, str) and model != NO_MODEL:
            return model
    return None


def _collect_332(items: Sequence[Item], model: str | None) -> list[Draft]:
    drafts: list[Draft] = []
    for item in items:
        if item.type == "assistant":
            _add_answer(drafts, item, [b for b in _blocks(item) if _is_kept(b, item, model)])
            continue
        beside = drafts[-1] if drafts and drafts[-1].role != "assistant" else None
        if item.type == "attachment":
            if beside is None:
                beside = Draft("attachments")
                drafts.append(beside)
            beside.attached.append(attachment_text(item.raw))
            continue
        blocks = _blocks(item)
        if not blocks:
            continue
        if beside is None:
            beside = Draft("user")
            drafts.append(beside)
        beside.role = "user"
        beside.blocks += blocks
        beside.n_joined += 1
    for i, draft in enumerate(drafts):
        if draft.role == "attachments":
            # With an answer before and after it, or nothing before it, it has no user message to stand next to.
            alone = i == 0 or i + 1 < len(drafts)
            draft.role = "user" if alone else "system"
            draft.blocks = [{"type": "text", "text": "\n".join(draft.attached)}]
            draft.attached = []
    return drafts


def _is_kept(block: Block, item: Item, model: str | None) -> bool:
    return block["type"] not in ("thinking", "redacted_thinking") or item.message.get("model") == model


def _collect_88(items: Sequence[Item]) -> list[Draft]:
    drafts = [Draft("user", n_joined=1, is_context=True)]
    for item in _attachments_moved_up(items):
        if item.type == "assistant":
            _add_answer(drafts, item, _blocks(item))
            continue
        if drafts[-1].role == "assistant":
            drafts.append(Draft("user"))
        draft = drafts[-1]
        draft.n_joined += 1
        if item.type == "attachment":
            _remind(draft, attachment_text(item.raw))
        else:
            draft.blocks += _blocks(item)
            if draft.n_joined > 1:
                draft.blocks = _results_first(draft.blocks)
    return drafts


def _attachments_moved_up(items: Sequence[Item]) -> list[Item]:
    """Attachments right behind the answer or tool result before them, or at the front."""
    out: list[Item] = []
    last = 0
    for item in items:
        if item.type == "attachment":
            out.insert(last, item)
            last += 1
            continue
        out.append(item)
        if item.type == "assistant" or item.is_result():
            last = len(out)
    return out


def _remind(draft: Draft, text: str) -> None:
    end = draft.blocks[-1] if draft.blocks else {}
    if end.get("type") == "tool_result" and isinstance(end.get("content"), str):
        end.setdefault("reminders", []).append(text)
    else:
        draft.blocks.append({"type": "text", "reminders": [text]})


def _add_answer(drafts: list[Draft], item: Item, blocks: list[Block]) -> None:
    """Join the line to an earlier message of its id, if nothing but results and answers stands between."""
    ident = item.message.get("id")
    message_id: object = object() if item.made else (ident if isinstance(ident, str) and ident else None)
    for draft in reversed(drafts):
        if draft.role == "assistant":
            if draft.message_id == message_id:
                draft.blocks += blocks
                draft.n_joined += 1
                return
        elif draft.role == "user" and not draft.has_result:
            break
    drafts.append(Draft("assistant", blocks, 1, message_id))


def _arrange(draft: Draft, rules: Rules) -> None:
    if draft.n_joined < 2:
        return
    if draft.role == "user":
        draft.blocks = _results_first(draft.blocks)
    elif draft.role == "assistant" and rules == "2.1.332":
        draft.blocks.sort(key=lambda b: b["type"] == "tool_use")


def _results_first(blocks: list[Block]) -> list[Block]:
    return sorted(blocks, key=lambda b: b["type"] != "tool_result")


def _drop_repeated_calls(drafts: list[Draft]) -> None:
    used = set[object]()
    for draft in drafts:
        if draft.role != "assistant":
            continue
        kept: list[Block] = []
        for block in draft.blocks:
            if block["type"] == "tool_use":
                if _mark(block["id"]) in used:
                    continue
                used.add(_mark(block["id"]))
            kept.append(block)
        draft.blocks = kept or [_text("call-removed" if draft.blocks else "no-content")]


def _pair_results(drafts: list[Draft], rules: Rules) -> list[Draft]:
    """Every call answered in the message right behind it, and no result without its call."""
    out: list[Draft] = []
    for i, draft in enumerate(drafts):
        if draft.role == "user":
            before = drafts[i - 1] if i else None
            calls = _calls(before) if before is not None and before.role == "assistant" else []
            _answer_calls(draft, calls, lost="orphan-removed" if not out and rules == "2.1.332" else "no-content")
        out.append(draft)
        follower = drafts[i + 1] if i + 1 < len(drafts) else None
        if draft.role == "assistant" and (follower is None or follower.role != "user"):
            lacking = _calls(draft)
            if lacking:
                out.append(Draft("user", [_error_result("missing-result", c) for c in lacking]))
    return out


def _mark(name: object) -> object:
    """What stands for an id in a set: as in JavaScript, an object or array is the same as itself alone."""
    return name if isinstance(name, Hashable) else id(name)


def _calls(draft: Draft) -> list[Any]:
    return [b["id"] for b in draft.blocks if b["type"] == "tool_use"]


def _answer_calls(draft: Draft, calls: list[Any], *, lost: str) -> None:
    seen = set[object]()
    kept: list[Block] = []
    for block in draft.blocks:
        if block["type"] == "tool_result":
            if block["tool_use_id"] not in calls or _mark(block["tool_use_id"]) in seen:
                continue
            seen.add(_mark(block["tool_use_id"]))
        kept.append(block)
    kept = [_error_result("missing-result", c) for c in calls if _mark(c) not in seen] + kept
    if not kept and draft.blocks and not draft.is_context:
        kept = [_text(lost)]
    draft.blocks = kept


def _written(drafts: list[Draft], replacements: Mapping[str, str]) -> list[Message]:
    out: list[Message] = []
    for draft in drafts:
        if draft.blocks or not draft.is_context:
            out.append({"role": draft.role, "blocks": [_replaced(b, replacements) for b in draft.blocks]})
        if draft.attached:
            out.append({"role": "system", "blocks": [{"type": "text", "text": "\n".join(draft.attached)}]})
    return out


def _replaced(block: Block, replacements: Mapping[str, str]) -> Block:
    if block["type"] == "tool_result" and _mark(block["tool_use_id"]) in replacements and "synthetic" not in block:
        return {**block, "content": replacements[block["tool_use_id"]], "replaced": True}
    return block


def _text(name: str) -> Block:
    return {"type": "text", "text": TEXTS[name], "synthetic": name}


def _error_result(name: str, call: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": call, "content": TEXTS[name], "is_error": True, "synthetic": name}


def _blocks(item: Item) -> list[Block]:
    if item.made == "interrupted-result":
        return [_error_result(item.made, item.call)]
    if item.made == "collapsed":
        return [{"type": "text", "text": item.text, "synthetic": item.made}]
    if item.made:
        return [_text(item.made)]
    if item.type == "system":
        content = item.raw.get("content")
        return [{"type": "text", "text": content if isinstance(content, str) else ""}]
    written = [b for raw in (item.raw, *item.absorbed) for b in _blocks_as_written(raw)]
    return [_shown(b) for b in written]


def _blocks_as_written(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    message = raw.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _shown(block: Mapping[str, Any]) -> Block:
    kind = block.get("type")
    if kind == "text":
        return {"type": kind, "text": block.get("text") or ""}
    if kind == "tool_use":
        return {"type": kind, "id": block.get("id"), "name": block.get("name"), "input": block.get("input")}
    if kind == "tool_result":
        return {
            "type": kind,
            "tool_use_id": block.get("tool_use_id"),
            "content": block.get("content", ""),
            "is_error": block.get("is_error") is True,
        }
    if kind == "thinking":
        return {"type": kind, "thinking": block.get("thinking") or ""}
    if kind == "image":
        return {"type": kind, "source": block.get("source")}
    return {**block, "type": kind if isinstance(kind, str) else "unknown"}


_SPOKEN = frozenset(("content", "snippet", "prompt", "text", "stdout", "additionalContext", "message", "output"))


def attachment_text(raw: Mapping[str, Any]) -> str:
    """The words of an attachment; its JSON when it has none. The program's own wording differs by type and version."""
    attachment = raw.get("attachment")
    found: list[str] = []
    stack: list[tuple[str, object]] = [("", attachment)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, str) and key in _SPOKEN:
            found.append(value)
        elif isinstance(value, dict):
            stack += [(k, v) for k, v in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(key, v) for v in reversed(value)]
    return "\n".join(found) or orjson.dumps(attachment, default=str).decode()
