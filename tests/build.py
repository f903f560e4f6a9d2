"""Small builders of transcript lines, with fixed ids and a fixed clock.

A builder makes one line and leaves out what hangs on its place; :func:`chain` fills that in (parent, time, session …)::

    lines = chain(
        user("u1", "list the files"),
        tool_use("a1", "Bash", {"command": "ls"}),
        tool_result("r1", call="a1", content="a.py"),
        assistant("a2", "One file.", usage=usage(output=7)),
    )
    write_session(tmp_path, lines)

Names such as ``"u1"`` are short for uuids (:func:`uid`); a whole uuid stands for itself. Any field can be set by its
own name (``isMeta=True``) and is taken away by ``DROP``; ``parent="u1"``, ``logical="a1"`` and ``seconds=60`` are short
for parentUuid, logicalParentUuid and timestamp.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

Line = dict[str, Any]
Block = dict[str, Any]

START: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CWD: Final = "/home/dev/app"
VERSION: Final = "2.1.332"
MODEL: Final = "claude-sonnet-4-5-20250929"
DROP: Final = object()
"""Given as a field's value: the field is absent from the line."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NODE_TYPES = {"user", "assistant", "system", "attachment", "progress"}


def uid(name: str) -> str:
    """The uuid that a short name stands for; a uuid stands for itself."""
    return name if _UUID.fullmatch(name) else str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def at(seconds: float = 0) -> str:
    """A timestamp as Claude Code writes it, so many seconds after ``START``."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


# Message lines


def user(name: str, content: str | Sequence[Block] = "hello", **fields: object) -> Line:
    return _node("user", name, {"message": {"role": "user", "content": _content(content)}}, fields)


def assistant(
    name: str,
    content: str | Sequence[Block] = "ok",
    *,
    message_id: str | None = None,
    model: str = MODEL,
    usage: Line | None = None,
    stop_reason: str | None = "end_turn",
    **fields: object,
) -> Line:
    """One assistant line; lines of one API message share ``message_id``."""
    ident = message_id or f"msg_{name}"
    message = {
        "id": ident,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [text(content)] if isinstance(content, str) else list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": _default_usage() if usage is None else usage,
    }
    return _node("assistant", name, {"message": message, "requestId": "req_" + ident.removeprefix("msg_")}, fields)


def tool_use(name: str, tool: str = "Bash", input: Line | None = None, *, call: str | None = None, **kw: Any) -> Line:
    """An assistant line with one tool_use block; ``call`` (else ``name``) names the tool_use id."""
    kw.setdefault("stop_reason", "tool_use")
    return assistant(name, [tool_use_block(call or name, tool, input)], **kw)


def tool_result(
    name: str, call: str, content: object = "done", *, is_error: bool | None = None, **fields: object
) -> Line:
    """A user line that answers ``call``; give ``toolUseResult=`` for the structured result beside it."""
    return user(name, [tool_result_block(call, content, is_error=is_error)], **fields)


def system(name: str, subtype: str, **fields: object) -> Line:
    return _node("system", name, {"subtype": subtype, "isMeta": False, "level": "info"}, fields)


def boundary(
    name: str, *, logical: str | None = None, trigger: str = "auto", pre_tokens: int = 150_000, **metadata: object
) -> Line:
    """A compact boundary: it has no parent; ``logical`` names what came before. Other names go into compactMetadata."""
    line = system(name, "compact_boundary", content="Conversation compacted")
    head: Line = {"parentUuid": None, "logicalParentUuid": uid(logical) if logical else None}
    return head | line | {"compactMetadata": {"trigger": trigger, "preTokens": pre_tokens, **metadata}}


def segment(head: str, anchor: str, tail: str) -> Line:
    """A preservedSegment for :func:`boundary`."""
    return {"headUuid": uid(head), "anchorUuid": uid(anchor), "tailUuid": uid(tail)}


def compact_summary(name: str, text: str = "This session is being continued …", **fields: object) -> Line:
    return user(name, text, isCompactSummary=True, isVisibleInTranscriptOnly=True, **fields)


def attachment(name: str, kind: str, payload: Line | None = None, **fields: object) -> Line:
    return _node("attachment", name, {"attachment": {"type": kind, **(payload or {})}}, fields)


def progress(name: str, kind: str, data: Line | None = None, *, call: str = "t1", **fields: object) -> Line:
    extra = {"data": {"type": kind, **(data or {})}, "toolUseID": f"toolu_{call}", "parentToolUseID": f"toolu_{call}"}
    return _node("progress", name, extra, fields)


# Lines that are no part of the chain


def summary(text: str, leaf: str) -> Line:
    return {"type": "summary", "summary": text, "leafUuid": uid(leaf)}


def meta(kind: str, **fields: object) -> Line:
    """Any other line: ``meta("custom-title", customTitle="Garden")``."""
    return {"type": kind, **fields}


# Blocks and usage


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking(words: str, signature: str = "c2ln") -> Block:
    return {"type": "thinking", "thinking": words, "signature": signature}


def tool_use_block(call: str, tool: str = "Bash", input: Line | None = None) -> Block:
    return {"type": "tool_use", "id": f"toolu_{call}", "name": tool, "input": {} if input is None else input}


def tool_result_block(call: str, content: object = "done", *, is_error: bool | None = None) -> Block:
    block: Block = {"tool_use_id": f"toolu_{call}", "type": "tool_result", "content": content}
    return block if is_error is None else block | {"is_error": is_error}


def usage(
    *, input: int = 3, output: int = 5, read: int = 0, write_5m: int = 0, write_1h: int = 0, **fields: object
) -> Line:
    return {
        "input_tokens": input,
        "cache_creation_input_tokens": write_5m + write_1h,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": write_5m, "ephemeral_1h_input_tokens": write_1h},
        "output_tokens": output,
        "service_tier": "standard",
        **fields,
    }


# Lines to files


def chain(
    *lines: Line,
    session: str = "s1",
    agent: str | None = None,
    cwd: str | object = CWD,
    version: str = VERSION,
    start: float = 0,
    step: float = 1,
    parent: str | None = None,
) -> list[Line]:
    """The lines with everything filled in that is missing: each hangs on the one before, one ``step`` later."""
    envelope: Line = {
        "isSidechain": agent is not None,
        **({} if agent is None else {"agentId": agent}),
        "userType": "external",
        "entrypoint": "cli",
        "cwd": cwd,
        "sessionId": uid(session),
        "version": version,
        "gitBranch": "main",
    }
    done: list[Line] = []
    last = uid(parent) if parent else None
    for number, line in enumerate(lines):
        if line.get("type") in _NODE_TYPES:
            line = {"parentUuid": last} | line | {k: v for k, v in envelope.items() if k not in line}
            line.setdefault("timestamp", at(start + number * step))
            last = line["uuid"] if line["uuid"] is not DROP else last
        elif line.get("type") != "summary":
            line = {**line, "sessionId": line.get("sessionId", uid(session))}
        done.append({k: v for k, v in line.items() if v is not DROP})
    return done


def dump(line: Line | str | bytes) -> bytes:
    """One line as it stands in a file, without its LF; text and bytes are taken as they are."""
    if isinstance(line, bytes):
        return line
    if isinstance(line, str):
        return line.encode()
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def write_lines(path: Path, lines: Iterable[Line | str | bytes]) -> Path:
    """Write a JSONL file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(dump(line) + b"\n" for line in lines))
    return path


def write_session(
    config: Path, lines: Iterable[Line | str | bytes], *, session: str = "s1", project: str = "-home-dev-app"
) -> Path:
    """Write ``config/projects/<project>/<session>.jsonl``; ``config`` is then what ``cc.load`` takes."""
    return write_lines(config / "projects" / project / f"{uid(session)}.jsonl", lines)


def write_agent(
    config: Path,
    agent: str,
    lines: Iterable[Line | str | bytes],
    *,
    session: str = "s1",
    project: str = "-home-dev-app",
    meta: Line | None = None,
    workflow: str | None = None,
    flat: bool = False,
) -> Path:
    """Write an agent's file below ``subagents/`` (the rule), in a workflow's folder, or flat beside the session."""
    folder = config / "projects" / project
    if not flat:
        folder = folder / uid(session) / "subagents"
    if workflow is not None:
        folder = folder / "workflows" / workflow
    path = write_lines(folder / f"agent-{agent}.jsonl", lines)
    if meta is not None:
        path.with_suffix(".meta.json").write_bytes(dump(meta))
    return path


def _node(kind: str, name: str, body: Line, fields: dict[str, object]) -> Line:
    line: Line = {"type": kind, **body, "uuid": uid(name)}
    parents = {"parent": "parentUuid", "logical": "logicalParentUuid"}
    for key, value in fields.items():
        if key == "seconds":
            assert isinstance(value, int | float)
            line["timestamp"] = at(value)
        elif key in parents:
            line[parents[key]] = uid(value) if isinstance(value, str) else value
        else:
            line[key] = value
    return line


def _content(content: str | Sequence[Block]) -> str | list[Block]:
    return content if isinstance(content, str) else list(content)


def _default_usage() -> Line:
    return usage()
