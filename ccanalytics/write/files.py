"""Bytes on disk: private files, appends that never glue lines, replacement that never loses the old file."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from ccanalytics.errors import WriteError

Sync = Literal["disk", "system"]
"""``disk``: wait until the device has the bytes (fsync); ``system``: until the operating system has them."""

FILE_MODE = 0o600
DIR_MODE = 0o700
_BINARY = getattr(os, "O_BINARY", 0)


def make_private_dirs(path: Path) -> None:
    """Create ``path`` and its missing parents with mode 0700; directories that exist keep their mode."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(DIR_MODE)


def append_bytes(path: Path, data: bytes, *, sync: Sync = "disk") -> None:
    """Append whole lines to a file in one write; a torn last line is closed first, so nothing is glued to it.

    The file is opened anew each time: an editor that replaced it meanwhile is not written past.
    When the device is full the part already written is cut off again and ``WriteError`` is raised.
    """
    is_new = not path.exists()
    if is_new:
        make_private_dirs(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, FILE_MODE)
    try:
        size = os.fstat(fd).st_size
        if size and not _ends_with_newline(fd, size):
            data = b"\n" + data
        _write_all(fd, data, size, path)
        if sync == "disk":
            os.fsync(fd)
    finally:
        os.close(fd)
    if is_new and sync == "disk":
        sync_directory(path.parent)


def _ends_with_newline(fd: int, size: int) -> bool:
    os.lseek(fd, size - 1, os.SEEK_SET)
    return os.read(fd, 1) == b"\n"


def _write_all(fd: int, data: bytes, size: int, path: Path) -> None:
    view, done = memoryview(data), 0
    try:
        while done < len(data):
            done += os.write(fd, view[done:])
    except OSError as error:
        # Cut back only what is surely ours: another process may have appended meanwhile.
        if done and os.fstat(fd).st_size == size + done:
            os.ftruncate(fd, size)
        raise WriteError(
            f"could not append {len(data)} bytes to {path}: {error.strerror}; what the file held before is unchanged",
            path=str(path),
            errno=error.errno,
        ) from error


def replace_file(path: Path, chunks: Iterable[bytes], *, mode: int | None = None) -> int:
    """Write ``chunks`` aside and rename over ``path``; returns the bytes written.

    At every moment ``path`` holds either the whole old content or the whole new one. The permission bits
    of the old file are kept (0600 for a new one).
    """
    if mode is None:
        mode = path.stat().st_mode & 0o777 if path.exists() else FILE_MODE
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    written = 0
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                written += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        aside.chmod(mode)
        aside.replace(path)
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(
            f"could not replace {path}: {error.strerror}; the file is unchanged (is it open in another program?)",
            path=str(path),
            errno=error.errno,
        ) from error
    finally:
        aside.unlink(missing_ok=True)
    sync_directory(path.parent)
    return written


def sync_directory(directory: Path) -> None:
    """Make a created or renamed name durable, where directories can be opened (not on Windows)."""
    if os.name == "nt":
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        # Some network file systems refuse fsync on a directory; the rename itself has happened.
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def split_lines(data: bytes) -> Iterator[bytes]:
    """Lines with their line ends; LF alone ends a line (a text may hold U+2028, VT or FF)."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end
