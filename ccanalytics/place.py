"""What a file is, by the place it lies in and, where that does not tell, by its first lines."""

# Paths stay text here: there are many, and each is looked at once.
from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

Kind = Literal["session", "agent"]
Layout = Literal["session", "flat", "subagents", "workflow", "other"]

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
UNREADABLE = (OSError, EOFError, ValueError, zlib.error)
"""What reading a file may come to, archives included."""
HEAD_BYTES = 65_536
"""How much of a file is looked at."""

# A workflow's log and the prompt history are JSONL too, but no transcripts.
_OTHER_LOGS = {f"{name}{suffix}" for name in ("journal", "history") for suffix in SUFFIXES}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a file without reading it whole; ``None`` where only its lines could tell."""

    kind: Kind
    layout: Layout
    session_id: str | None = None
    agent_id: str | None = None
    workflow_id: str | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """What the first line with an envelope says about the file it is in."""

    is_sidechain: bool = False
    agent_id: str | None = None
    team_name: str | None = None
    session_id: str | None = None

    @property
    def kind(self) -> Kind:
        """An agent's file or a session's."""
        return content_kind(is_sidechain=self.is_sidechain, agent_id=self.agent_id, team_name=self.team_name)


def classify(path: str, name: str, trail: tuple[str, ...]) -> Facts | None:
    """What a file is; ``None`` when it is no transcript. ``trail`` are the folders below ``projects`` it lies in."""
    stem = stem_of(name)
    agent = stem.removeprefix("agent-") if stem.startswith("agent-") else None
    if "subagents" in trail[1:]:
        return _below_subagents(path, stem, agent, trail)
    beside_sessions = len(trail) <= 1
    if agent is not None:
        return Facts("agent", "flat" if beside_sessions else "other", agent_id=agent)
    if is_uuid(stem):
        return Facts("session", "session" if beside_sessions else "other", stem)
    head = read_head(path)
    if head is None:
        return Facts("session", "session", stem) if beside_sessions else None
    layout: Layout = "other" if not beside_sessions else "flat" if head.kind == "agent" else "session"
    # Its first lines may be copied from another session: a name that its own lines repeat is the session's.
    own = stem if head.kind == "session" and _names_session(path, stem) else None
    return Facts(head.kind, layout, own or head.session_id or stem, head.agent_id)


def _names_session(path: str, session_id: str) -> bool:
    """True when a line at the beginning or at the end of a file carries this session id."""
    try:
        with _open(path) as file:
            ends = file.read(HEAD_BYTES)
            if len(ends) == HEAD_BYTES and file.seekable() and not path.endswith((".gz", ".zst")):
                file.seek(-HEAD_BYTES, os.SEEK_END)
                ends += file.read(HEAD_BYTES)
    except UNREADABLE:
        return False
    name = json.dumps(session_id, ensure_ascii=False).encode("utf-8", "replace")
    return b'"sessionId":' + name in ends or b'"sessionId": ' + name in ends


def _below_subagents(path: str, stem: str, agent: str | None, trail: tuple[str, ...]) -> Facts:
    at = trail.index("subagents", 1)
    run = trail[at + 2] if trail[at + 1 : at + 2] == ("workflows",) and len(trail) > at + 2 else None
    session = trail[at - 1] if at > 1 else None
    if agent is None or session is None:
        head = read_head(path) or Head()
        agent, session = agent or head.agent_id or stem, session or head.session_id
    return Facts("agent", "workflow" if run else "subagents", session, agent, run)


def content_kind(*, is_sidechain: bool | None, agent_id: str | None, team_name: str | None) -> Kind:
    """What a file is by the first of its lines that has an envelope (``isSidechain``): an agent's file or a session's.

    A file named like a session can hold an agent's lines; files named ``agent-*`` need not be asked.
    """
    return "agent" if is_sidechain or agent_id or team_name else "session"


def read_head(path: str) -> Head | None:
    """What the first lines say the file is; ``None`` when they are no transcript's."""
    try:
        with _open(path) as file:
            return head_of(file.read(HEAD_BYTES))
    except UNREADABLE:
        return None


def head_of(data: bytes) -> Head | None:
    """What the first lines of a file, given as bytes, say it is; ``None`` when they are no transcript's."""
    session_id = None
    for line in lines_of(data):
        # Lines made by hand or by relays leave `isSidechain` out; a line of the conversation has a uuid then.
        has_envelope = b'"isSidechain"' in line or b'"uuid":' in line
        if not has_envelope and (session_id or b'"sessionId"' not in line):
            continue
        head = _facts_on(line)
        session_id = session_id or head.session_id
        if has_envelope:
            return Head(head.is_sidechain, head.agent_id, head.team_name, head.session_id or session_id)
    return Head(session_id=session_id) if session_id else None


def lines_of(data: bytes) -> Iterator[bytes]:
    """The lines one by one: mostly the first few are enough."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1


def place_of(folder: str, names: Sequence[str] = ()) -> tuple[str | None, tuple[str, ...]]:
    """Configuration folder of a folder the user named, and its trail below ``projects``, as far as its path tells.

    ``names`` are what is in it; the trail is empty when it is no project's folder nor below one.
    """
    if "projects" in names:
        return folder, ()
    parts = Path(folder).parts
    if "projects" in parts:
        at = len(parts) - 1 - parts[::-1].index("projects")
        trail = parts[at + 1 :]
        # A folder of the user's own may be called projects too.
        if len(trail) <= 1 or is_uuid(trail[1]) or "subagents" in trail:
            return str(Path(*parts[:at])), trail
    if "subagents" in parts[2:]:
        return None, parts[parts.index("subagents", 2) - 2 :]
    if "subagents" in names:
        return None, parts[-2:]
    is_project = any(is_transcript_name(n) or os.path.isdir(os.path.join(folder, n, "subagents")) for n in names)
    return None, parts[-1:] if is_project else ()


def is_transcript_name(name: str) -> bool:
    """True when a file of this name may be a transcript."""
    return name.endswith(SUFFIXES) and name not in _OTHER_LOGS


def is_uuid(text: str) -> bool:
    """True for the names Claude Code gives to sessions."""
    return _UUID.fullmatch(text) is not None


def stem_of(name: str) -> str:
    """The name without ``.jsonl`` and what follows."""
    return name.partition(".jsonl")[0]


def _facts_on(line: bytes) -> Head:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        # Longer than what was read: the envelope stands before the message.
        text = line.partition(b'"message":')[0].decode("utf-8", "replace")
        entry = dict(re.findall(r'"(agentId|teamName|sessionId)":"([^"\\]*)"', text))
        entry["isSidechain"] = '"isSidechain":true' in text
    if not isinstance(entry, dict):
        return Head()
    words = {k: v for k, v in entry.items() if isinstance(v, str) and v}
    return Head(entry.get("isSidechain") is True, words.get("agentId"), words.get("teamName"), words.get("sessionId"))


def _open(path: str) -> IO[bytes]:
    if path.endswith(".gz"):
        import gzip

        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.endswith(".zst"):
        import pyarrow as pa

        return cast("IO[bytes]", pa.input_stream(path, compression="zstd"))
    return open(path, "rb")
