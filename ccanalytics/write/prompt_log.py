"""`append_history`: one more prompt in ``history.jsonl``, under the lock Claude Code uses."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from ccanalytics.errors import WriteError

from .conversation import now
from .files import DIR_MODE, append_bytes, make_private_dirs, replace_file
from .lines import Json, encode
from .writer import config_directory

MAX_INLINE_CHARS = 1024
PASTE_STORE = "paste-cache"
STALE_SECONDS = 10
RETRIES = 3
FIRST_WAIT_SECONDS = 0.05


def append_history(
    display: str,
    *,
    project: str | os.PathLike[str],
    session_id: str | None = None,
    pasted: Mapping[int, str] | None = None,
    config_dir: str | os.PathLike[str] | None = None,
    at: datetime | None = None,
) -> Json:
    """Append a prompt to ``history.jsonl`` and return the line written.

    Parameters
    ----------
    display
        The prompt as it was shown, with ``[Pasted text #1 +12 lines]`` where something was pasted.
    project
        Working directory it was typed in.
    session_id
        Session it was typed into.
    pasted
        Pasted texts by their number. Up to 1,024 characters stand in the line itself; a longer one goes to the paste
        store as a file named by its content, and the line has the name.
    config_dir
        Configuration directory; default ``$CLAUDE_CONFIG_DIR``, else ``~/.claude``.
    at
        When it was typed; default: now.

    Raises
    ------
    WriteError
        Another process holds the lock; nothing was appended.
    """
    root = config_directory(config_dir)
    make_private_dirs(root)
    entry: Json = {
        "display": display,
        "pastedContents": {str(n): _paste(root, n, text) for n, text in (pasted or {}).items()},
        "timestamp": round((at or now()).timestamp() * 1000),
        "project": str(project),
    }
    if session_id is not None:
        entry["sessionId"] = session_id
    path = root / "history.jsonl"
    with locked(path):
        append_bytes(path, encode(entry))
    return entry


def _paste(root: Path, number: int, text: str) -> Json:
    if len(text) <= MAX_INLINE_CHARS:
        return {"id": number, "type": "text", "content": text}
    data = text.encode("utf-8", "surrogatepass")
    name = hashlib.sha256(data).hexdigest()[:16]
    path = root / PASTE_STORE / f"{name}.txt"
    if not path.exists():
        make_private_dirs(path.parent)
        replace_file(path, [data])
    return {"id": number, "type": "text", "contentHash": name}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file: the directory ``<file>.lock``, which counts as left behind after 10 seconds.

    Making a directory either succeeds or not, on every file system; Claude Code's own lock is the same directory.
    """
    lock = path.with_name(path.name + ".lock")
    wait = FIRST_WAIT_SECONDS
    for attempt in range(RETRIES + 1):
        if _take(lock):
            break
        if attempt == RETRIES:
            raise WriteError(
                f"{path} is locked by another process ({lock} is younger than {STALE_SECONDS} s); nothing was written, "
                "try again",
                path=str(path),
                lock=str(lock),
            )
        time.sleep(wait)
        wait *= 2
    mine = lock.stat()
    try:
        yield
    finally:
        # A process that thought this lock stale may have taken it over; then it is no longer ours to free.
        with contextlib.suppress(FileNotFoundError):
            held = lock.stat()
            if (held.st_ino, held.st_mtime_ns) == (mine.st_ino, mine.st_mtime_ns):
                lock.rmdir()


def _take(lock: Path) -> bool:
    with contextlib.suppress(FileExistsError):
        lock.mkdir(DIR_MODE)
        return True
    with contextlib.suppress(OSError):
        if time.time() - lock.stat().st_mtime > STALE_SECONDS:
            lock.rmdir()
            lock.mkdir(DIR_MODE)
            return True
    return False
