"""`TranscriptWriter`: sessions written to disk the way Claude Code writes its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal

import orjson

from ccanalytics.errors import NotFoundError, UsageError
from ccanalytics.projects import project_slug

from .conversation import FORMAT_VERSION, TRANSCRIPT_TYPES, Conversation, new_uuid, now
from .files import Sync, make_private_dirs, replace_file
from .lines import Json, encode, objects_in
from .queue import MAX_BATCH_BYTES, WINDOW_MS, AppendQueue, Receipt
from .remove import Removal, remove_entry

TAIL_TYPES = (
    "last-prompt",
    "ai-title",
    "custom-title",
    "tag",
    "agent-name",
    "agent-color",
    "agent-setting",
    "mode",
    "permission-mode",
    "worktree-state",
    "pr-link",
)
"""Metadata lines written again at the end of the file on close, in this order: lists of sessions read only the tail."""

_MAX_LAST_PROMPT = 200


class TranscriptWriter(Conversation):
    """Writes one session; lines are queued and appended in batches, at most the last batch is lost in a crash.

    Every method that writes returns a `Receipt` to wait for or to await.

    Parameters
    ----------
    config_dir
        Configuration directory; default ``$CLAUDE_CONFIG_DIR``, else ``~/.claude``.
    cwd
        Working directory of the session; names the project folder. Default: the current one.
    session_id
        Session to write, a new one by default. When its file exists it is continued: the next line hangs on its last.
    git_branch, version, entrypoint
        What each line says of itself.
    window_ms, max_batch_bytes
        How long lines are gathered before they are appended, and how large one append may be.
    sync
        ``"disk"``: a receipt is done when the device has the lines; ``"system"``: when the operating system has them.
    clock, make_uuid
        Where times and uuids come from (for tests).

    Examples
    --------
    >>> with TranscriptWriter(config, cwd="/home/dev/app") as writer:
    ...     asked = writer.user("Say hello")
    ...     block = {"type": "text", "text": "Hello"}
    ...     answered = writer.assistant({"id": "msg_1", "model": "claude-opus-4-5", "content": [block]})
    >>> asked.done() and answered.done()
    True
    """

    def __init__(
        self,
        config_dir: str | os.PathLike[str] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        git_branch: str = "",
        version: str = FORMAT_VERSION,
        entrypoint: str = "sdk-py",
        window_ms: float = WINDOW_MS,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        sync: Sync = "disk",
        clock: Callable[[], datetime] = now,
        make_uuid: Callable[[], str] = new_uuid,
    ) -> None:
        session_id = session_id or make_uuid()
        where = str(cwd) if cwd is not None else str(Path.cwd())
        _check_name("session_id", session_id)
        self.config_dir = config_directory(config_dir)
        envelope = {
            "userType": "external",
            "entrypoint": entrypoint,
            "cwd": where,
            "sessionId": session_id,
            "version": version,
            "gitBranch": git_branch,
        }
        path = self.config_dir / "projects" / project_slug(where) / f"{session_id}.jsonl"
        queue = AppendQueue(window_ms=window_ms, max_batch_bytes=max_batch_bytes, sync=sync)
        super().__init__(queue, path, envelope, clock=clock, make_uuid=make_uuid)
        self.parent_session_id: str | None = None
        self._metadata: dict[str, Json] = {}
        self._agents: dict[str, AgentWriter] = {}
        self._is_closed = False
        if path.exists():
            self._continue(path)

    def _continue(self, path: Path) -> None:
        for entry in _entries(path):
            if entry.get("type") in TAIL_TYPES:
                self._metadata[entry["type"]] = entry
            elif entry.get("type") in TRANSCRIPT_TYPES and entry.get("uuid") and not entry.get("isSidechain"):
                self._follow(entry)

    def user(self, content: str | list[Json], **fields: object) -> Receipt:
        """Write a prompt; a typed one is remembered as the session's last prompt."""
        if isinstance(content, str) and not fields.get("isMeta") and not content.lstrip().startswith("<"):
            flat = " ".join(content.split())
            shown = flat if len(flat) <= _MAX_LAST_PROMPT else flat[:_MAX_LAST_PROMPT].rstrip() + "…"
            self._metadata["last-prompt"] = {"type": "last-prompt", "lastPrompt": shown}
        return super().user(content, **fields)

    def append(self, entry: Mapping[str, object]) -> Receipt:
        """Write an entry as it is (see `Conversation.append`); one that names an agent goes to the agent's file."""
        agent_id = entry.get("agentId")
        if isinstance(agent_id, str) and agent_id and entry.get("type") in (*TRANSCRIPT_TYPES, "content-replacement"):
            return self.agent(agent_id=agent_id).append(entry)
        if entry.get("type") in TAIL_TYPES:
            self._metadata[str(entry["type"])] = dict(entry)
        return super().append(entry)

    def set_title(self, title: str) -> Receipt:
        """Name the session, as ``/rename`` does."""
        return self.append({"type": "custom-title", "customTitle": title})

    def set_tag(self, tag: str) -> Receipt:
        """Tag the session; an empty tag takes the tag away."""
        return self.append({"type": "tag", "tag": tag})

    def set_mode(self, mode: str) -> Receipt:
        """Note the mode (``normal``, ``coordinator``)."""
        return self.append({"type": "mode", "mode": mode})

    def set_permission_mode(self, mode: str) -> Receipt:
        """Note the permission mode (``default``, ``plan``, ``acceptEdits`` …)."""
        return self.append({"type": "permission-mode", "permissionMode": mode})

    def agent(
        self,
        tool_use_id: str | None = None,
        *,
        agent_id: str | None = None,
        agent_type: str = "general-purpose",
        description: str | None = None,
        **meta: object,
    ) -> AgentWriter:
        """The writer of an agent's own file ``<session>/subagents/agent-<id>.jsonl``; made on first use.

        ``tool_use_id`` is the call that started the agent; it goes with type, description and ``meta`` into the
        ``.meta.json`` beside the file. Asking again for a known ``agent_id`` gives the same writer.
        """
        return self._agent(None, tool_use_id, agent_id, agent_type, description=description, meta=meta)

    def _agent(
        self,
        parent: AgentWriter | None,
        tool_use_id: str | None,
        agent_id: str | None,
        agent_type: str,
        *,
        description: str | None,
        meta: Mapping[str, object],
    ) -> AgentWriter:
        with self._guard:
            if agent_id in self._agents:
                return self._agents[agent_id]
            agent_id = agent_id or "a" + self._make_uuid().replace("-", "")[:16]
            _check_name("agent_id", agent_id)
            known: Json = {"agentType": agent_type, "description": description, "toolUseId": tool_use_id}
            known["parentAgentId"] = parent.agent_id if parent else None
            known["spawnDepth"] = parent.depth + 1 if parent else 1
            known |= meta
            agent = AgentWriter(self, parent, agent_id, {k: v for k, v in known.items() if v is not None})
            self._agents[agent_id] = agent
            return agent

    def new_session(self, session_id: str | None = None) -> TranscriptWriter:
        """Close this session and begin another in the same project; the old file says in which one it goes on."""
        new = self._sibling(session_id)
        self.append({"type": "continued-in", "continuedInSessionId": new.session_id})
        self.close()
        return new

    def fork(self, *, at: str | None = None, title: str | None = None) -> TranscriptWriter:
        """A new session that begins with a copy of this one, up to and including the entry ``at``.

        Copies have new uuids and say where they come from (``forkedFrom``); message ids and usage stay, so that
        counting by message id counts a call once.
        """
        self.flush()
        new = self._sibling(None)
        new._write_copies(list(_until(_entries(self.path), at)), self.session_id)
        for entry in self._metadata.values():
            if entry["type"] not in ("last-prompt", "custom-title"):
                new.append({**entry, "sessionId": new.session_id})
        if title is not None:
            new.set_title(title)
        return new

    def _sibling(self, session_id: str | None) -> TranscriptWriter:
        new = TranscriptWriter(
            self.config_dir,
            cwd=self._envelope["cwd"],
            session_id=session_id or self._make_uuid(),
            git_branch=self._envelope["gitBranch"],
            version=self._envelope["version"],
            entrypoint=self._envelope["entrypoint"],
            clock=self._clock,
            make_uuid=self._make_uuid,
        )
        new._queue = self._queue
        new.parent_session_id = self.session_id
        return new

    def _write_copies(self, entries: list[Json], source: str) -> None:
        renamed = {entry["uuid"]: self._make_uuid() for entry in entries}
        copies = []
        for entry in entries:
            copy: Json = _rename({**entry, "sessionId": self.session_id}, renamed)
            copy["forkedFrom"] = {"sessionId": source, "messageUuid": entry["uuid"]}
            copies.append(copy)
            self._follow(copy)
        if copies:
            self._put(b"".join(map(encode, copies)), tuple(c["uuid"] for c in copies))

    def remove(self, uuid: str, *, reparent: bool = False) -> Removal:
        """Take a written line out of the file again (see `remove_entry`); what is queued is written first."""
        with self._guard, self._queue._writing:
            self.flush()
            removal = remove_entry(self.path, uuid, reparent=reparent)
            if self.last_uuid == uuid:
                self.last_uuid = removal.parent_uuid
            return removal

    def flush(self) -> None:
        """Write everything queued, agents' lines included; returns when it is on disk."""
        self._queue.flush()

    def close(self) -> None:
        """Write the metadata lines again at the end of the file, then everything queued. Closing twice does nothing."""
        if not self._is_closed:
            self._is_closed = True
            if self._has_written:
                self._write_tail()
        self.flush()

    def _write_tail(self) -> None:
        for kind in TAIL_TYPES:
            entry = self._metadata.get(kind)
            if entry is None:
                continue
            if kind == "last-prompt":
                entry = {**entry, "leafUuid": self.last_uuid}
            self._put(encode({**entry, "sessionId": self.session_id}))

    def __enter__(self) -> TranscriptWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.close()
        return False


class AgentWriter(Conversation):
    """Writes the lines of one agent run; made by ``agent`` of a `TranscriptWriter` or of another agent."""

    def __init__(self, writer: TranscriptWriter, parent: AgentWriter | None, agent_id: str, meta: Json) -> None:
        path = writer.path.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl"
        super().__init__(
            writer._queue,
            path,
            writer._envelope,
            agent_id=agent_id,
            clock=writer._clock,
            make_uuid=writer._make_uuid,
        )
        self._writer, self._parent_agent, self.meta = writer, parent, meta
        if path.exists():
            for entry in _entries(path):
                if entry.get("type") in TRANSCRIPT_TYPES and entry.get("uuid"):
                    self._follow(entry)
        make_private_dirs(path.parent)
        meta_path = path.with_name(f"agent-{agent_id}.meta.json")
        if not meta_path.exists():
            replace_file(meta_path, [orjson.dumps(meta)])

    @property
    def depth(self) -> int:
        """1 for an agent started by the main thread, 2 for one started by such an agent …"""
        return self._parent_agent.depth + 1 if self._parent_agent else 1

    def agent(
        self,
        tool_use_id: str | None = None,
        *,
        agent_id: str | None = None,
        agent_type: str = "general-purpose",
        description: str | None = None,
        **meta: object,
    ) -> AgentWriter:
        """The writer of an agent started by this one (see `TranscriptWriter.agent`)."""
        return self._writer._agent(self, tool_use_id, agent_id, agent_type, description=description, meta=meta)

    def finish(self, content: str | list[Json], **result: object) -> Receipt:
        """Hand the agent's answer back as the result of the call that started it, on the thread that made the call."""
        tool_use_id = self.meta.get("toolUseId")
        if not tool_use_id:
            raise NotFoundError(
                f"agent {self.agent_id} was made without tool_use_id; write the result with tool_result on its parent",
                agent_id=self.agent_id,
            )
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        facts = {
            "status": "completed",
            "agentId": self.agent_id,
            "agentType": self.meta["agentType"],
            "content": blocks,
        }
        owner = self._parent_agent or self._writer
        return owner.tool_result(tool_use_id, blocks, tool_use_result={**facts, **result})


def _check_name(what: str, name: str) -> None:
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"{what} must be a plain name (letters, digits, - _ .), got {name!r}", got=name)


def config_directory(given: str | os.PathLike[str] | None) -> Path:
    """The one configuration directory that is written to: as given, else the environment's first, else the default."""
    if given is not None:
        return Path(given)
    named = os.environ.get("CLAUDE_CONFIG_DIR", "").split(",")[0].strip()
    return Path(named) if named else Path.home() / ".claude"


def _entries(path: Path) -> Iterator[Json]:
    with path.open("rb") as file:
        for line in file:
            for found in objects_in(line):
                yield found.value


def _until(entries: Iterator[Json], at: str | None) -> Iterator[Json]:
    """Message lines of the main thread, up to and including the one with the uuid ``at``."""
    for entry in entries:
        if entry.get("type") in ("user", "assistant", "system", "attachment") and entry.get("uuid"):
            if not entry.get("isSidechain"):
                yield entry
            if entry["uuid"] == at:
                return
    if at is not None:
        raise NotFoundError(f"no entry has the uuid {at!r}; fork at an entry of this session", uuid=at)


_LINKS = frozenset(
    {"uuid", "parentUuid", "logicalParentUuid", "sourceToolAssistantUUID", "headUuid", "anchorUuid", "tailUuid"}
)


def _rename(entry: Json, renamed: Mapping[str, str]) -> Json:
    """The entry with its own links, and those of its compaction, in the new uuids."""
    copy = {k: renamed.get(v, v) if k in _LINKS and isinstance(v, str) else v for k, v in entry.items()}
    metadata = copy.get("compactMetadata")
    if isinstance(metadata, dict):
        copy["compactMetadata"] = {k: _rename_kept(v, renamed) for k, v in metadata.items()}
    return copy


def _rename_kept(value: object, renamed: Mapping[str, str]) -> object:
    if not isinstance(value, dict):
        return value
    lists = {k: [renamed.get(u, u) for u in v] for k, v in value.items() if k in ("uuids", "allUuids")}
    return {**{k: renamed.get(v, v) if k in _LINKS else v for k, v in value.items()}, **lists}
