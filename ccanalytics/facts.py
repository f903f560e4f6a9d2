"""Facts of a line that are worth a column but are not numbers or ids: what kind of prompt, what came of a call.

Nothing here keeps conversation text; what must be compared later is kept as a hash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec
import orjson
from msgspec import Raw

from .decode import NO_RAW, Attachment, Block, Hunk, Input, Line, Progress, Result, loads
from .lenient import input_from_raw
from .secrets import mask_secrets

_PREFIXES: tuple[tuple[str, str], ...] = (
    ("<command-name>", "command"),
    ("<command-message>", "command"),
    ("<command-args>", "command"),
    ("<local-command-stdout>", "command_output"),
    ("<local-command-stderr>", "command_output"),
    ("<local-command-caveat>", "caveat"),
    ("Caveat: The messages below were generated", "caveat"),
    ("<task-notification>", "task_notification"),
    ("[Request interrupted by user", "interrupt"),
    ("<bash-input>", "shell_input"),
    ("<bash-stdout>", "shell_output"),
    ("<bash-stderr>", "shell_output"),
    ("<user-prompt-submit-hook>", "hook"),
    ("<session-start-hook>", "hook"),
    ("<teammate-message", "teammate"),
    ("<tick>", "meta"),
    ("<system-reminder>", "meta"),
)
_FIRST = tuple({p[0] for p, _ in _PREFIXES})
_TAG = re.compile(r"<(task-id|tool-use-id|status|command-name)>\s*([^<]{1,200}?)\s*</")
_AGENT_SIGN = "agentId: "
_AGENT_ID = re.compile(r"agentId: ([A-Za-z0-9_-]{1,80})")


def text_hash(text: str) -> int:
    """A 64-bit hash of a text without the blanks around it; equal texts have equal hashes on every machine."""
    return int.from_bytes(blake2b(text.strip().encode("utf-8", "replace"), digest_size=8).digest(), "big")


def user_text(line: Line) -> str:
    """The text of a user message: the string, or its text blocks joined by newlines."""
    content = line.message.content if line.message is not None else None
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    texts = [b.text for b in content if b.type == "text" and b.text]
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def prompt_kind(line: Line, text: str) -> str:
    """What kind of user entry this is; ``typed`` is what a person (or a calling program) wrote."""
    if line.is_compact_summary:
        return "compact_summary"
    content = line.message.content if line.message is not None else None
    if isinstance(content, list) and any(b.type == "tool_result" for b in content):
        return "tool_result"
    head = text.lstrip()[:48] if text[:1].isspace() else text[:48]
    if head.startswith(_FIRST):
        for prefix, kind in _PREFIXES:
            if head.startswith(prefix):
                return kind
    if b"task-notification" in bytes(line.origin):
        return "task_notification"
    if line.is_meta:
        return "meta"
    has_other = isinstance(content, list) and any(b.type != "text" for b in content)
    return "typed" if head.strip() or has_other else "empty"


def user_facts(line: Line, *, has_more: bool) -> tuple[str, int | None, str | None]:
    """Prompt kind, text hash and ``detail`` of a user entry; ``has_more``: a field that few entries have is set."""
    content = line.message.content if line.message is not None else None
    if type(content) is list and len(content) == 1 and content[0].type == "tool_result" and not line.is_compact_summary:
        text, kind = "", "tool_result"
    else:
        text = user_text(line)
        kind = prompt_kind(line, text)
    hashed = text_hash(text) if text and kind in ("typed", "teammate", "command", "shell_input") else None
    return kind, hashed, _dump(_user_detail(line, text, kind, has_more=has_more))


def _user_detail(line: Line, text: str, kind: str, *, has_more: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    result = line.tool_use_result
    if result is None:
        pass
    elif isinstance(result, Result):
        facts = result_facts(result)
        if len(facts) > 2:
            out["result"] = orjson.Fragment(facts)
    elif isinstance(result, str):
        out["result_kind"] = _string_result(result)
    else:
        out["result_kind"] = "list"
    if kind == "tool_result":
        found = _agent_in_results(line)
        if found:
            out["agent_id"] = found
    elif kind in ("task_notification", "command"):
        out.update(tags(text))
    if has_more:
        out.update(_user_envelope(line))
    return out


_USER_FIELDS = (
    ("permission_mode", "permissionMode"),
    ("prompt_source", "promptSource"),
    ("tool_denial_kind", "toolDenialKind"),
    ("interrupted_message_id", "interruptedMessageId"),
    ("turn_origin", "turnOrigin"),
)


def any_more_of_users(lines: Sequence[Line]) -> bool:
    """Whether any of these user entries has a field that few have; written out, because it is asked of every line."""
    return any(
        o.permission_mode is not None
        or o.prompt_source is not None
        or o.tool_denial_kind is not None
        or o.interrupted_message_id is not None
        or o.turn_origin is not None
        or o.origin
        or o.permission_decision
        for o in lines
    )


def _user_envelope(line: Line) -> dict[str, Any]:
    out = {key: v for name, key in _USER_FIELDS if (v := getattr(line, name)) is not None}
    origin = small_json(line.origin)
    if isinstance(origin, dict) and isinstance(origin.get("kind"), str):
        out["origin"] = origin["kind"]
    decision = small_json(line.permission_decision)
    if isinstance(decision, str):
        out["permissionDecision"] = decision
    elif isinstance(decision, dict):
        kept = ("behavior", "decision", "type", "source")
        out["permissionDecision"] = {k: v for k, v in decision.items() if isinstance(v, (bool, int)) or k in kept}
    return out


def _string_result(text: str) -> str:
    if text.startswith("User rejected") or "doesn't want to" in text[:200]:
        return "rejected"
    return "error" if text.startswith(("Error", "InputValidationError")) else "text"


def tags(text: str) -> dict[str, Any]:
    """What the tags of a notification or a command say."""
    names = {"task-id": "task_id", "tool-use-id": "tool_use_id", "status": "status", "command-name": "command"}
    out: dict[str, Any] = {}
    for tag, value in _TAG.findall(text[:4000]):
        out.setdefault(names[tag], value)
    return out


def _agent_in_results(line: Line) -> str | None:
    content = line.message.content if line.message is not None else None
    if not isinstance(content, list):
        return None
    for b in content:
        if b.type == "tool_result":
            text = block_text(b)
            # The agent tool writes the id at the end of its answer; old versions at the start.
            if text.find(_AGENT_SIGN, 0, 300) >= 0 or text.find(_AGENT_SIGN, max(0, len(text) - 600)) >= 0:
                found = _AGENT_ID.search(text[:300]) or _AGENT_ID.search(text[-600:])
                if found:
                    return found[1]
    return None


def result_facts(result: Result) -> bytes:
    """The facts of a toolUseResult as JSON, null and false ones left out."""
    hunks, content = result.structured_patch, result.content
    result.structured_patch, result.content = None, NO_RAW
    facts = _encode(result)
    if b":null" in facts or b":false" in facts:
        facts = orjson.dumps({k: v for k, v in orjson.loads(facts).items() if v is not None and v is not False})
    if hunks is None:
        return facts
    added, removed = _changed_lines(result, hunks, content)
    more = b'"linesAdded":%d,"linesRemoved":%d}' % (added, removed)
    return facts[:-1] + b"," + more if len(facts) > 2 else b"{" + more


_encode = msgspec.json.Encoder().encode


def _changed_lines(result: Result, hunks: list[Hunk], content: Raw) -> tuple[int, int]:
    added = removed = 0
    for hunk in hunks:
        for text in hunk.lines or ():
            added += text.startswith("+")
            removed += text.startswith("-")
    if result.type == "create" and not added:
        written = small_json(content, limit=1 << 26)
        added = len(written.splitlines()) if isinstance(written, str) else 0
    return added, removed


def block_text(b: Block) -> str:
    """The text of a block: its own, its thinking, or that of a result's parts joined."""
    if b.text is not None:
        return b.text
    if b.thinking is not None:
        return b.thinking
    if isinstance(b.content, str):
        return b.content
    if b.content is not None:
        return "".join(p.text for p in b.content if p.text)
    return ""


_AGENT_TOOLS = frozenset(("Task", "Agent", "SendMessage", "Workflow", "TeamCreate", "Teammate"))
_SHELL_TOOLS = frozenset(("Bash", "PowerShell", "BashOutput"))


def call_facts(b: Block) -> tuple[str | None, int | None]:
    """The ``detail`` of a tool_use block and the hash of an agent call's prompt."""
    if len(b.input) <= 2:
        return None, None
    inp = input_from_raw(b.input)
    out: dict[str, Any] = {}
    hashed = None
    path = inp.file_path or inp.notebook_path or inp.path
    if isinstance(path, str):
        out["file_path"] = path
    if b.name in _AGENT_TOOLS:
        for name in ("subagent_type", "name", "description", "run_in_background", "model", "resume", "to", "team_name"):
            value = getattr(inp, name)
            if value is not None:
                out[name] = value
        if isinstance(inp.prompt, str):
            hashed = text_hash(inp.prompt)
    elif b.name in _SHELL_TOOLS and isinstance(inp.command, str):
        head = inp.command.split(None, 1)
        # NAME=value in front of a command often is a token.
        if head and "=" not in head[0]:
            out["command_head"] = mask_secrets(head[0][:80])
        if inp.run_in_background:
            out["run_in_background"] = True
    if isinstance(inp.url, str):
        out["url_host"] = _host(inp)
    if inp.todos is not None:
        out["n_todos"] = len(inp.todos)
    return _dump(out), hashed


def _host(inp: Input) -> str:
    return str(inp.url).split("://", 1)[-1].split("/", 1)[0].rsplit("@", 1)[-1][:200]


def attachment_detail(a: Attachment) -> tuple[str | None, int | None]:
    """The ``detail`` of an attachment and the hash of a queued prompt."""
    prompt, origin = a.prompt, a.origin
    a.prompt = a.origin = NO_RAW
    detail = _without_type(a)
    if a.type != "queued_command":
        return detail, None
    sender = small_json(origin)
    if isinstance(sender, dict) and isinstance(sender.get("kind"), str):
        detail = dump_detail((orjson.loads(detail) if detail else {}) | {"origin": sender["kind"]})
    text = small_json(prompt, limit=1 << 24)
    if isinstance(text, list):
        text = "\n".join(p["text"] for p in text if isinstance(p, dict) and isinstance(p.get("text"), str))
    if not isinstance(text, str):
        return detail, None
    if text.lstrip()[:48].startswith("<task-notification>"):
        facts = orjson.loads(detail) if detail else {}
        detail = dump_detail(facts | tags(text) | {"prompt_kind": "task_notification"})
    return detail, text_hash(text)


def progress_detail(p: Progress) -> str | None:
    """The ``detail`` of a progress line."""
    p.message = None
    return _without_type(p)


def _without_type(facts: Attachment | Progress) -> str | None:
    # The type is a column; it stands first in these structs, and null fields are not written.
    text, kind = _encode(facts), facts.type
    if kind is not None:
        text = b"{" + text[_quoted_length(kind) + 9 :]
    return text.decode() if len(text) > 2 else None


@lru_cache(256)
def _quoted_length(text: str) -> int:
    return len(_encode(text))


_ASSISTANT_FIELDS = (
    ("stream_cut_cause", "streamCutCause"),
    ("api_error_status", "apiErrorStatus"),
    ("effort", "effort"),
    ("advisor_model", "advisorModel"),
    ("is_aborted_mid_stream", "isAbortedMidStream"),
    ("attribution_agent", "attributionAgent"),
    ("attribution_skill", "attributionSkill"),
    ("attribution_plugin", "attributionPlugin"),
    ("attribution_mcp_server", "attributionMcpServer"),
    ("attribution_mcp_tool", "attributionMcpTool"),
    ("duration_ms", "durationMs"),
)


def any_more_of_assistants(lines: Sequence[Line]) -> bool:
    """Whether any of these assistant entries has a field that few have; written out as above."""
    return any(
        o.stream_cut_cause is not None
        or o.api_error_status is not None
        or o.effort is not None
        or o.advisor_model is not None
        or o.is_aborted_mid_stream is not None
        or o.attribution_agent is not None
        or o.attribution_skill is not None
        or o.attribution_plugin is not None
        or o.attribution_mcp_server is not None
        or o.attribution_mcp_tool is not None
        or o.duration_ms is not None
        or o.error
        or o.supersedes
        for o in lines
    )


def assistant_detail(line: Line) -> str | None:
    """The ``detail`` of an assistant entry."""
    out = {key: v for name, key in _ASSISTANT_FIELDS if (v := getattr(line, name)) is not None}
    if len(line.error):
        error = small_json(line.error)
        if isinstance(error, str) and len(error) <= 80:
            out["error"] = error
    if len(line.supersedes):
        out["supersedes"] = small_json(line.supersedes)
    return dump_detail(out)


def small_json(raw: Raw, limit: int = 4096) -> Any:
    """The value of a raw piece of JSON; None when it is empty, larger than ``limit`` bytes, or damaged."""
    if not len(raw) or len(raw) > limit:
        return None
    try:
        return loads(bytes(raw))
    except ValueError:
        return None


def dump_detail(detail: dict[str, Any]) -> str | None:
    """JSON text of a detail without its nulls; None when it is empty."""
    return _dump({k: v for k, v in detail.items() if v is not None})


def _dump(kept: dict[str, Any]) -> str | None:
    if not kept:
        return None
    try:
        return orjson.dumps(kept).decode()
    except (TypeError, ValueError, RecursionError):
        return None
