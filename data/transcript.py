"""A writer of made-up Claude Code transcripts: one conversation, line by line, as the program would write it.

Ids and times come from the session's name and a clock that only the story moves, so the same story gives the same
bytes. Token counts follow the words written (or the size a result is said to have) and a prompt cache with a life time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

from billing import Bill, Line, usage_of

SYSTEM_PROMPT_TOKENS = 17_400
PARTIAL_BEFORE = (2, 1, 97)
"""Versions before this wrote a block's line while the answer still streamed, with the usage known at its start."""


@dataclass
class Call:
    """A tool call that was written: its id, the uuid of its line, and what was asked."""

    id: str
    line: str
    name: str
    input: Line


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return len(text.encode()) * 10 // 37 + 1


@dataclass
class Conversation:
    """One transcript file being written: the main thread of a session, or one agent."""

    name: str
    cwd: str
    at: datetime
    model: str
    version: str = "2.1.332"
    branch: str = "main"
    cache: str = "1h"
    session: str = ""
    agent: str = ""
    bill: Bill = field(default_factory=Bill)
    lines: list[Line] = field(default_factory=list)
    parent: str | None = None
    prompt_id: str = ""
    context: int = SYSTEM_PROMPT_TOKENS
    cached: int = 0
    cached_at: datetime | None = None
    prompts: list[Line] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    torn: Line | None = None
    n_ids: int = 0
    turn_from: datetime | None = None

    def __post_init__(self) -> None:
        self.session = self.session or self.new_uuid()
        self.started = self.at

    def digest(self, size: int) -> bytes:
        """Bytes that depend on the name and on how many ids were made before."""
        self.n_ids += 1
        return blake2b(f"{self.name}:{self.n_ids}".encode(), digest_size=size).digest()

    def new_uuid(self) -> str:
        """A uuid in the form of version 4."""
        return str(uuid.UUID(bytes=self.digest(16), version=4))

    def wait(self, seconds: float) -> str:
        """Move the clock; the time as written on a line."""
        self.at += timedelta(seconds=seconds)
        return stamp(self.at)

    def put(
        self, kind: str, fields: Line, *, seconds: float = 0.02, parent: str | None = "", keep: bool = False
    ) -> str:
        """Write a line with the envelope of its version, return its uuid; ``keep`` leaves the chain where it is."""
        line: Line = {"parentUuid": self.parent if parent == "" else parent, "isSidechain": bool(self.agent)}
        if self.agent:
            line["agentId"] = self.agent
        line |= {"type": kind} | fields
        line["uuid"] = fields.get("uuid") or self.new_uuid()
        line["timestamp"] = self.wait(seconds)
        line |= {"userType": "external", "entrypoint": "cli", "cwd": self.cwd, "sessionId": self.session}
        line |= {"version": self.version, "gitBranch": self.branch}
        self.lines.append(line)
        if not keep:
            self.parent = line["uuid"]
        return str(line["uuid"])

    def note(self, kind: str, **fields: Any) -> None:
        """Write a line that is not part of the conversation (titles, snapshots, queue, cost)."""
        self.lines.append({"type": kind, **fields, "sessionId": self.session})

    def attach(self, kind: str, **fields: Any) -> str:
        """Write an attachment line."""
        return self.put("attachment", {"attachment": {"type": kind, **fields}})

    def open(self, *, title: str = "") -> None:
        """What stands before the first prompt in the terminal."""
        self.note("mode", mode="normal")
        self.note("permission-mode", permissionMode="acceptEdits")
        if title:
            self.note("ai-title", aiTitle=title)
            self.bill.add(self.at, "claude-haiku-5-5", usage_of(412, 9, 0, (0, 0)), 0.6)

    def prompt(self, text: str, *, after: float = 40.0, image: str = "", **fields: Any) -> str:
        """A person types a prompt."""
        self.prompt_id = self.new_uuid()
        self.turn_from = self.at + timedelta(seconds=after)
        content: Any = text
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": image}
            content = [{"type": "text", "text": text}, {"type": "image", "source": source}]
        extra: Line = {} if self.agent else {"permissionMode": "acceptEdits"}
        if self.at_least(2, 1, 200) and not self.agent:
            extra |= {"origin": {"kind": "human"}, "promptSource": "typed"}
        message: Line = {"message": {"role": "user", "content": content}}
        own = self.put("user", {"promptId": self.prompt_id, **message, **extra, **fields}, seconds=after)
        self.context += tokens(text) + (1_500 if image else 0)
        if not self.agent:
            self.prompts.append({"display": text, "at": self.at})
            self.snapshot(own)
        return own

    def snapshot(self, message: str, files: Line | None = None, *, update: bool = False) -> None:
        """A file-history snapshot, or an update of the one taken at ``message``."""
        shot = {"messageId": message, "trackedFileBackups": files or {}, "timestamp": stamp(self.at)}
        own = self.new_uuid() if update else message
        line = {"type": "file-history-snapshot", "messageId": own, "snapshot": shot, "isSnapshotUpdate": update}
        self.lines.append(line)

    def reply(
        self,
        text: str = "",
        calls: Sequence[tuple[str, Line]] = (),
        *,
        thinking: str | None = None,
        hidden: int = 0,
        seconds: float = 6.0,
        searches: Sequence[str] = (),
    ) -> list[Call]:
        """The model answers: one line per block, one message; ``hidden`` thinking has tokens but no text."""
        blocks: list[Line] = []
        if thinking is not None or hidden:
            signature = self.digest(24).hex()
            blocks.append({"type": "thinking", "thinking": thinking or "", "signature": signature})
        if text:
            blocks.append({"type": "text", "text": text})
        for query in searches:
            own = "srvtoolu_" + self.digest(10).hex()
            blocks.append({"type": "server_tool_use", "id": own, "name": "web_search", "input": {"query": query}})
            blocks.append({"type": "web_search_tool_result", "tool_use_id": own, "content": []})
        for name, given in calls:
            blocks.append({"type": "tool_use", "id": "toolu_" + self.digest(10).hex(), "name": name, "input": given})
        usage = self.spend(sum(tokens(json.dumps(b)) for b in blocks) + hidden, len(searches), seconds)
        return self.write_answer(blocks, usage, stop="tool_use" if calls else "end_turn", seconds=seconds)

    def write_answer(self, blocks: Sequence[Line], usage: Line, *, stop: str, seconds: float) -> list[Call]:
        """The lines of one answer; old versions write the early ones with the usage at the start of the stream."""
        message_id, request = "msg_" + self.digest(12).hex(), "req_" + self.digest(12).hex()
        made: list[Call] = []
        for no, block in enumerate(blocks):
            last = no == len(blocks) - 1
            partial = not self.at_least(*PARTIAL_BEFORE) and not last
            message: Line = {"id": message_id, "type": "message", "role": "assistant", "model": self.model}
            message |= {"content": [block], "stop_reason": None if partial else stop, "stop_sequence": None}
            message["usage"] = usage | {"output_tokens": 2} if partial else usage
            extra: Line = {"requestId": request}
            if self.at_least(2, 1, 200):
                extra |= {"requestedModel": self.model, "effort": "medium"}
            line = self.put("assistant", {"message": message, **extra}, seconds=seconds / len(blocks))
            if block["type"] == "tool_use":
                made.append(Call(block["id"], line, block["name"], block["input"]))
        return made

    def spend(self, output: int, searches: int, seconds: float) -> Line:
        """The usage of one request: what the cache still holds is read, the rest is written to it."""
        life = timedelta(hours=1) if self.cache == "1h" else timedelta(minutes=5)
        if self.cached_at is None or self.at - self.cached_at > life:
            self.cached = 0
        fresh = 4 + output % 7
        written = max(0, self.context - self.cached - fresh)
        split = (written, 0) if self.cache == "5m" else (0, written)
        usage = usage_of(fresh, output, self.cached, split, searches)
        self.cached, self.cached_at = self.context, self.at
        self.context += output
        self.bill.add(self.at + timedelta(seconds=seconds), self.model, usage, seconds)
        return usage

    def result(
        self,
        call: Call,
        text: Any,
        data: Any = None,
        *,
        seconds: float = 0.8,
        size: int = 0,
        error: bool = False,
        **fields: Any,
    ) -> str:
        """A tool answers; ``size`` is its length in tokens where the text here is an abridgement."""
        block: Line = {"tool_use_id": call.id, "type": "tool_result", "content": text, "is_error": error}
        extra: Line = {"toolUseResult": data} if data is not None else {}
        extra["sourceToolAssistantUUID"] = call.line
        self.context += size or tokens(text if isinstance(text, str) else json.dumps(text))
        message: Line = {"role": "user", "content": [block]}
        fields = {"promptId": self.prompt_id, "message": message, **extra, **fields}
        return self.put("user", fields, seconds=seconds, parent=call.line)

    def run(self, name: str, given: Line, text: str, data: Any = None, *, say: str = "", **options: Any) -> Call:
        """One call and its result."""
        call = self.reply(say, [(name, given)], seconds=options.pop("thinks", 4.0))[0]
        self.result(call, text, data, **options)
        return call

    def bash(self, command: str, output: str, *, failed: bool = False, **options: Any) -> Call:
        """A shell command and its output."""
        data: Line = {"stdout": "" if failed else output, "stderr": output if failed else "", "interrupted": False}
        text = f"Exit code 1\n{output}" if failed else output
        given: Line = {"command": command, "description": options.pop("why", "Run a command")}
        found = f"Error: {text}" if failed else data | {"isImage": False}
        return self.run("Bash", given, text, found, error=failed, **options)

    def edit(self, path: str, old: str, new: str, *, prompt: str, version: int = 1, **options: Any) -> Call:
        """A file edit, with the snapshot update that goes before its result."""
        full = f"{self.cwd}/{path}"
        given: Line = {"file_path": full, "old_string": old, "new_string": new, "replace_all": False}
        call = self.reply(options.pop("say", ""), [("Edit", given)], seconds=options.pop("thinks", 5.0))[0]
        backup = f"{blake2b(full.encode(), digest_size=8).hexdigest()}@v{version}"
        entry = {"backupFileName": backup, "version": version, "backupTime": stamp(self.at)}
        self.snapshot(prompt, {path: entry}, update=True)
        patch = [{"oldStart": 12, "oldLines": 1, "newStart": 12, "newLines": 1, "lines": [f"-{old}", f"+{new}"]}]
        data: Line = {
            "filePath": full,
            "oldString": old,
            "newString": new,
            "structuredPatch": patch,
            "userModified": False,
        }
        self.result(call, f"The file {full} has been updated.", data | {"replaceAll": False}, seconds=0.3, **options)
        return call

    def read(self, path: str, text: str, *, lines: int = 40, **options: Any) -> Call:
        """A file is read."""
        return self.run("Read", {"file_path": f"{self.cwd}/{path}"}, text, self.read_data(path, text, lines), **options)

    def read_data(self, path: str, text: str, lines: int) -> Line:
        """What is recorded of a read beside its text."""
        data: Line = {
            "filePath": f"{self.cwd}/{path}",
            "content": text,
            "numLines": lines,
            "startLine": 1,
            "totalLines": lines,
        }
        return {"type": "text", "file": data}

    def end_turn(self) -> None:
        """What is written when a turn is over."""
        begun = self.turn_from or self.started
        took = round((self.at - begun).total_seconds() * 1000)
        count = sum(line["type"] in ("user", "assistant") for line in self.lines)
        fields: Line = {"subtype": "turn_duration", "durationMs": took, "messageCount": count, "isMeta": False}
        self.put("system", fields)
        if self.at_least(2, 1, 64) and self.prompts:
            leaf = {"leafUuid": self.parent} if self.at_least(2, 1, 144) else {}
            self.note("last-prompt", lastPrompt=self.prompts[-1]["display"], **leaf)

    def close(self, *, lines: tuple[int, int] = (0, 0)) -> None:
        """What is written when the program ends: its own account of the session."""
        took = round((self.at - self.started).total_seconds() * 1000)
        total, api_ms, usage = self.bill.sum()
        account: Line = {"totalCostUSD": total, "totalAPIDuration": api_ms}
        account |= {"totalToolDuration": took // 9, "totalLinesAdded": lines[0], "totalLinesRemoved": lines[1]}
        account |= {"totalDuration": took, "startTime": round(self.started.timestamp() * 1000)}
        self.note("cost-state", **account, modelUsage=usage, hasUnknownModelCost=False)

    def compact(self, summary: str, *, trigger: str, kept: int = 0, seconds: float = 38.0) -> str:
        """A compaction; the last ``kept`` lines of the conversation stay. Returns the summary's uuid."""
        before, tail = self.context, self.tail(kept)
        self.bill.add(self.at, self.model, usage_of(9, tokens(summary) + 600, before, (0, 0)), seconds)
        boundary, own = self.new_uuid(), self.new_uuid()
        after = SYSTEM_PROMPT_TOKENS + tokens(summary) + 260 * kept
        facts: Line = {"trigger": trigger, "preTokens": before, "durationMs": round(seconds * 1000)}
        if kept:
            facts["preservedSegment"] = {"headUuid": tail[0], "anchorUuid": own, "tailUuid": tail[-1]}
            facts["preservedMessages"] = {"anchorUuid": own, "uuids": tail, "allUuids": tail}
        facts |= {"postTokens": after, "cumulativeDroppedTokens": 0}
        fields: Line = {
            "logicalParentUuid": self.parent,
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
        }
        fields |= {"isMeta": False, "uuid": boundary, "level": "info", "compactMetadata": facts}
        self.put("system", fields, seconds=seconds, parent=None)
        message: Line = {"message": {"role": "user", "content": summary}, "uuid": own}
        self.put("user", message | {"isVisibleInTranscriptOnly": True, "isCompactSummary": True})
        self.context, self.cached = after, 0
        return own

    def tail(self, count: int) -> list[str]:
        """The uuids of the last conversation lines, in order."""
        spoken = [str(e["uuid"]) for e in self.lines if e["type"] in ("user", "assistant")]
        return spoken[-count:] if count else []

    def at_least(self, *version: int) -> bool:
        """Whether the version written is that one or later."""
        return tuple(int(part) for part in self.version.split(".")) >= version


def stamp(at: datetime) -> str:
    """A time as transcripts have it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def slug(cwd: str) -> str:
    """The folder name of a working directory."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in cwd)


def write_lines(path: Path, lines: Iterable[Line], torn: Line | None = None) -> None:
    """Write a transcript; ``torn`` is a line the program did not live to finish."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(dumps(line) + "\n" for line in lines)
    if torn is not None:
        text += dumps(torn)[: len(dumps(torn)) * 3 // 5]
    path.write_text(text, encoding="utf-8", newline="\n")


def dumps(value: Any) -> str:
    """JSON as transcripts have it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
