"""The sessions Claude Code offers for resuming, from the first and last 64 KiB of each file."""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from .errors import UsageError
from .find import FoundFile, PathLike, find_files
from .place import head_of, is_uuid, lines_of, stem_of
from .projects import project_of

if TYPE_CHECKING:
    import polars as pl

END_BYTES = 65_536
"""How much Claude Code reads of a file's beginning and of its end."""

PROMPT_CHARS = 200

_VALUE = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>")
_NOT_TYPED = re.compile(
    r"<local-command-stdout>|<session-start-hook>|<tick>|<goal>|\[Request interrupted by user[^\]]*\]"
    r"|<ide_opened_file>.*</ide_opened_file>\Z|<ide_selection>.*</ide_selection>\Z",
    re.DOTALL,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Listing:
    """What the list shows of one session; ``created_ms`` and ``modified_ms`` are milliseconds since 1970."""

    summary: str
    custom_title: str | None
    first_prompt: str | None
    tag: str | None
    git_branch: str | None
    cwd: str | None
    created_ms: int | None
    modified_ms: int
    size: int
    is_agent: bool


def list_sessions(
    path: PathLike | Sequence[PathLike] | None = None,
    *,
    projects: str | Sequence[str] | None = None,
    scan: Literal["ends", "whole"] = "ends",
    agents: bool = False,
) -> pl.DataFrame:
    """One row per session that can be resumed, newest file first, with the title Claude Code shows.

    Parameters
    ----------
    path
        As in ``load``: a configuration folder, a project's folder … Default: your own transcripts.
    projects
        Only these projects, by directory, folder name or last part of the path.
    scan
        ``"ends"`` reads 64 KiB at both ends of a file, as Claude Code does. ``"whole"`` looks through large files and
        fills ``middle_title``; the other columns stay as they are.
    agents
        Also files that turn out to be an agent's or a team member's only behind their first line (``is_agent``).

    Returns
    -------
    polars.DataFrame
        The table ``session_list``: key ``session_id``; left out are files that begin as a sidechain and sessions with
        nothing to show. Where one session lies in two folders, the newer file counts.

    Raises
    ------
    NotFoundError
        The path does not exist.
    """
    if scan not in ("ends", "whole"):
        raise UsageError(f"scan={scan!r} is not known; it can be 'ends' or 'whole'.", scan=scan)
    newest: dict[str, tuple[FoundFile, Listing]] = {}
    for file in find_files(path, projects=projects):
        session_id = stem_of(os.path.basename(file.path))
        if file.layout != "session" or not is_uuid(session_id) or not file.path.endswith(".jsonl"):
            continue
        shown = read_listing(file.path)
        if shown and shown.is_agent and not agents:
            continue
        if shown and (session_id not in newest or shown.modified_ms > newest[session_id][1].modified_ms):
            newest[session_id] = file, shown
    rows = [_row(session_id, shown, file) for session_id, (file, shown) in newest.items()]
    if scan == "whole":
        for row, (file, shown) in zip(rows, newest.values(), strict=True):
            row["middle_title"] = _middle_title(file.path, shown.custom_title)
    return _frame(rows)


def read_listing(path: str) -> Listing | None:
    """What the list shows of one file; ``None`` when it is not listed (a sidechain, nothing to show, unreadable)."""
    try:
        with open(path, "rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            head = tail = file.read(END_BYTES)
            # A smaller file is its own end.
            if stat.st_size > END_BYTES:
                file.seek(stat.st_size - END_BYTES)
                tail = file.read(END_BYTES)
    except OSError:
        return None
    first_line = head.partition(b"\n")[0]
    if not head or b'"isSidechain":true' in first_line or b'"isSidechain": true' in first_line:
        return None
    title = _title(tail) if head is tail else _title(tail, head)
    prompt = _first_prompt(head)
    summary = title or _last(tail, b"lastPrompt") or _last(tail, b"summary") or prompt
    if not summary:
        return None
    kind = head_of(head)
    return Listing(
        summary=summary,
        custom_title=title,
        first_prompt=prompt or None,
        tag=_tag(tail),
        git_branch=_last(tail, b"gitBranch") or _first(head, b"gitBranch") or None,
        cwd=_first(head, b"cwd") or None,
        created_ms=_milliseconds(_first(head, b"timestamp")),
        modified_ms=stat.st_mtime_ns // 1_000_000,
        size=stat.st_size,
        is_agent=kind is not None and kind.kind == "agent",
    )


def _title(*places: bytes | mmap.mmap) -> str | None:
    """The user's title, else the model's; each is looked for in the places in turn."""
    # One search for the end of both keys: most sessions have neither.
    with_title = [data for data in places if data.rfind(b'Title":') >= 0]
    return next((t for key in (b"customTitle", b"aiTitle") for data in with_title if (t := _last(data, key))), None)


def _last(data: bytes | mmap.mmap, key: bytes) -> str | None:
    """The last string value of a key, found as text; one with a blank after the colon goes before one without."""
    if data.rfind(b'"%b":' % key) < 0:
        return None
    for pattern in (b'"%b": "' % key, b'"%b":"' % key):
        at = data.rfind(pattern)
        while at >= 0:
            value = _VALUE.match(data, at + len(pattern))
            if value:
                return _unescaped(value[0][:-1])
            # Two of them can share a quote.
            at = data.rfind(pattern, 0, at + len(pattern) - 1)
    return None


def _first(data: bytes, key: bytes) -> str | None:
    """The first string value of a key, found as text; one written without a blank goes before one with it."""
    for pattern in (b'"%b":"' % key, b'"%b": "' % key):
        at = data.find(pattern)
        value = _VALUE.match(data, at + len(pattern)) if at >= 0 else None
        if value:
            return _unescaped(value[0][:-1])
    return None


def _tag(tail: bytes) -> str | None:
    start = b'{"type":"tag"'
    at = tail.rfind(b"\n" + start) + 1
    if at == 0 and not tail.startswith(start):
        return None
    return _last(tail[at:].partition(b"\n")[0], b"tag") or None


def _first_prompt(head: bytes) -> str | None:
    """The first words somebody typed; the name of a command only when there are no other words."""
    command = None
    for text in _user_texts(head):
        words = text.replace("\n", " ").strip()
        named = _COMMAND.search(words)
        if named:
            command = command or named[1]
        elif words and not _NOT_TYPED.match(words):
            return words if len(words) <= PROMPT_CHARS else words[:PROMPT_CHARS].rstrip() + "…"
    return command


def _user_texts(head: bytes) -> Iterator[str]:
    for line in lines_of(head):
        is_user = b'"type":"user"' in line or b'"type": "user"' in line
        if not is_user or b'"tool_result"' in line or _says(line, b"isMeta") or _says(line, b"isCompactSummary"):
            continue
        try:
            entry = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict) or entry.get("type") != "user" or not isinstance(entry.get("message"), dict):
            continue
        content = entry["message"].get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks if isinstance(blocks, list) else []:
            if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
                yield _SURROGATE.sub("\ufffd", block["text"])


def _says(line: bytes, key: bytes) -> bool:
    return b'"%b":true' % key in line or b'"%b": true' % key in line


def _unescaped(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        return _SURROGATE.sub("\ufffd", json.loads(f'"{text}"'))
    except ValueError:
        return text


def _milliseconds(timestamp: str | None) -> int | None:
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _middle_title(path: str, shown: str | None) -> str | None:
    """The last title of the whole file, the user's before the model's, if it is not the one that is shown."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size <= END_BYTES:
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                title = _title(data)
    except (OSError, ValueError):
        # Gone or cut since its ends were read.
        return None
    return title if title and title != shown else None


def _row(session_id: str, shown: Listing, file: FoundFile) -> dict[str, object]:
    project, worktree = project_of(shown.cwd)
    return {
        "session_id": session_id,
        "summary": shown.summary,
        "custom_title": shown.custom_title,
        "first_prompt": shown.first_prompt,
        "tag": shown.tag,
        "git_branch": shown.git_branch,
        "cwd": shown.cwd,
        "created_at": shown.created_ms,
        "modified_at": shown.modified_ms,
        "size_bytes": shown.size,
        "project": project,
        "worktree": worktree,
        "project_dir": file.project_dir,
        "is_agent": shown.is_agent,
        "middle_title": None,
        "path": _SURROGATE.sub("\ufffd", file.path),
    }


def _frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    import polars as pl

    from .schema.listing import SESSION_LIST

    numbers = dict.fromkeys(("created_at", "modified_at"), pl.Int64())
    frame = pl.DataFrame(rows, schema={**SESSION_LIST.polars(), **numbers})
    return SESSION_LIST.conform(frame.sort("modified_at", "session_id", descending=[True, False]))
