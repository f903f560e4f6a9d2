"""One thread of entries: what each line holds and which line it hangs on."""

from __future__ import annotations

import threading
import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ccanalytics.errors import UsageError

from .lines import Json, encode
from .queue import AppendQueue, Receipt

FORMAT_VERSION = "2.1.332"
"""The Claude Code version whose line format is written."""

TRANSCRIPT_TYPES = ("user", "assistant", "system", "attachment", "progress")
Content = str | list[Json]


def new_uuid() -> str:
    """A random uuid, as Claude Code names its lines."""
    return str(uuids.uuid4())


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """The time as transcripts have it: UTC with milliseconds and a Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Conversation:
    """Entries of one thread, each hung on the line that Claude Code would hang it on.

    A tool result hangs on the line that made the call, everything else on the last line written.
    Made by `TranscriptWriter` (the main thread) and its ``agent`` method; methods may be called from several threads.
    """

    def __init__(
        self,
        queue: AppendQueue,
        path: Path,
        envelope: Mapping[str, str],
        *,
        agent_id: str | None = None,
        clock: Callable[[], datetime] = now,
        make_uuid: Callable[[], str] = new_uuid,
    ) -> None:
        self.path = path
        self.agent_id = agent_id
        self.last_uuid: str | None = None
        self._queue = queue
        self._envelope = dict(envelope)
        self._clock = clock
        self._make_uuid = make_uuid
        self._guard = threading.RLock()
        self._callers: dict[str, str] = {}
        self._prompt_id: str | None = None
        self._has_written = False

    @property
    def session_id(self) -> str:
        """Session the lines belong to (for an agent, the session that started it)."""
        return self._envelope["sessionId"]

    def user(self, content: Content, **fields: object) -> Receipt:
        """Write a prompt: a string or a list of content blocks; ``fields`` are further keys (``isMeta`` …)."""
        self._prompt_id = self._make_uuid()
        return self._write([{"type": "user", "message": {"role": "user", "content": content}, **fields}])

    def assistant(self, message: Mapping[str, object], *, request_id: str | None = None, **fields: object) -> Receipt:
        """Write an API message, one line per content block, all with the whole usage.

        Parameters
        ----------
        message
            The message as the API returns it: ``id``, ``model``, ``content``, ``stop_reason``, ``usage``.
        request_id
            The API's request id.
        fields
            Further keys of each line.
        """
        content = message.get("content")
        if not isinstance(content, list):
            raise UsageError(
                f"message.content must be a list of blocks, got {type(content).__name__}", got=type(content)
            )
        extra = {**({"requestId": request_id} if request_id else {}), **fields}
        whole: Json = {"id": None, "type": "message", "role": "assistant", "model": None, **message}
        # A message without blocks still has a usage that was paid for: one line with an empty list keeps it.
        parts = [[block] for block in content] or [[]]
        return self._write([{"message": {**whole, "content": part}, **extra, "type": "assistant"} for part in parts])

    def tool_result(
        self,
        tool_use_id: str,
        content: Content = "",
        *,
        is_error: bool = False,
        tool_use_result: object = None,
        **fields: object,
    ) -> Receipt:
        """Write the result of a call; it hangs on the line of the call, whatever was written since."""
        block: Json = {"tool_use_id": tool_use_id, "type": "tool_result", "content": content}
        if is_error:
            block["is_error"] = True
        entry: Json = {"type": "user", "message": {"role": "user", "content": [block]}}
        if tool_use_result is not None:
            entry["toolUseResult"] = tool_use_result
        caller = self._callers.get(tool_use_id)
        if caller:
            entry["sourceToolAssistantUUID"] = caller
        return self._write([{**entry, **fields}])

    def system(self, subtype: str, content: str | None = None, **fields: object) -> Receipt:
        """Write a system line (``turn_duration``, ``api_error``, ``local_command`` …)."""
        text = {} if content is None else {"content": content}
        return self._write([{"type": "system", "subtype": subtype, **text, **fields}])

    def attachment(self, attachment: Mapping[str, object], **fields: object) -> Receipt:
        """Write an attachment line; ``attachment`` has at least a ``type``."""
        return self._write([{"attachment": dict(attachment), "type": "attachment", **fields}])

    def compact(
        self,
        summary: Content,
        *,
        trigger: Literal["manual", "auto"] = "manual",
        pre_tokens: int = 0,
        post_tokens: int | None = None,
        duration_ms: int | None = None,
        keep: Iterable[str] = (),
    ) -> Receipt:
        """Write a compact boundary and the summary that takes the place of what came before.

        ``keep`` names the entries that stay behind the summary, in order, each hanging on the one before.
        """
        boundary, anchor, kept = self._make_uuid(), self._make_uuid(), list(keep)
        metadata: Json = {"trigger": trigger, "preTokens": pre_tokens}
        if duration_ms is not None:
            metadata["durationMs"] = duration_ms
        if kept:
            metadata["preservedSegment"] = {"headUuid": kept[0], "anchorUuid": anchor, "tailUuid": kept[-1]}
            metadata["preservedMessages"] = {"anchorUuid": anchor, "uuids": kept, "allUuids": kept}
        if post_tokens is not None:
            metadata["postTokens"] = post_tokens
        with self._guard:
            line = {
                "parentUuid": None,
                "logicalParentUuid": self.last_uuid,
                "type": "system",
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "isMeta": False,
                "level": "info",
                "compactMetadata": metadata,
                "uuid": boundary,
            }
            prompt = {"type": "user", "message": {"role": "user", "content": summary}, "uuid": anchor}
            receipt = self._write([line, {**prompt, "isVisibleInTranscriptOnly": True, "isCompactSummary": True}])
            self._write_tail()
            return receipt

    def _write_tail(self) -> None:
        """What is written again after a compaction, so that it stays near the end: nothing in an agent's file."""

    def rewind(self, uuid: str | None) -> None:
        """Let the next line hang on ``uuid`` (null: begin a new root), which leaves what followed as a branch."""
        with self._guard:
            self.last_uuid = uuid

    def append(self, entry: Mapping[str, object]) -> Receipt:
        """Write an entry as it is; of a message line, the keys that are absent are filled in.

        Absent keys of a message line are its ``uuid``, its parent, its time and the envelope; a metadata line gets its
        ``sessionId``. Keys that are present are never changed, nulls included.
        """
        if not isinstance(entry.get("type"), str):
            raise UsageError("an entry needs a 'type' (user, assistant, custom-title …)", got=sorted(entry))
        if entry["type"] in TRANSCRIPT_TYPES:
            return self._write([dict(entry)])
        return self._put(encode({**entry, "sessionId": entry.get("sessionId", self.session_id)}))

    def _write(self, entries: list[Json]) -> Receipt:
        with self._guard:
            whole = [self._complete(entry) for entry in entries]
            return self._put(b"".join(map(encode, whole)), tuple(str(e["uuid"]) for e in whole))

    def _put(self, lines: bytes, uuids: tuple[str, ...] = ()) -> Receipt:
        self._has_written = True
        return self._queue.put(self.path, lines, uuids)

    def _complete(self, entry: Json) -> Json:
        """The entry with its envelope, keys in the order Claude Code writes them (byte scanners rely on it)."""
        given = dict(entry)
        line: Json = {"parentUuid": given.pop("parentUuid") if "parentUuid" in given else self._parent(entry)}
        if "logicalParentUuid" in given:
            line["logicalParentUuid"] = given.pop("logicalParentUuid")
        line["isSidechain"] = given.pop("isSidechain", self.agent_id is not None)
        if entry["type"] == "user" and self._prompt_id and "promptId" not in given:
            line["promptId"] = self._prompt_id
        if self.agent_id is not None:
            line["agentId"] = given.pop("agentId", self.agent_id)
        uuid, moment = given.pop("uuid", None) or self._make_uuid(), given.pop("timestamp", None)
        line |= {**given, "uuid": uuid, "timestamp": moment or stamp(self._clock())}
        line |= {key: value for key, value in self._envelope.items() if key not in line}
        self._follow(line)
        return line

    def _parent(self, entry: Json) -> str | None:
        for block in _blocks(entry):
            if block.get("type") == "tool_result":
                return self._callers.get(str(block.get("tool_use_id")), self.last_uuid)
        return self.last_uuid

    def _follow(self, line: Json) -> None:
        """Remember what later lines hang on; progress lines are never hung on."""
        if line["type"] == "progress":
            return
        self.last_uuid = line["uuid"]
        if line["type"] == "assistant":
            for block in _blocks(line):
                if block.get("type") == "tool_use":
                    self._callers[str(block.get("id"))] = line["uuid"]


def _blocks(entry: Mapping[str, Any]) -> list[Json]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
