"""`remove_entry`: take one line out of a transcript, physically, without ever risking another line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Literal

from ccanalytics.errors import NotFoundError, UsageError, WriteError

from .files import replace_file, split_lines
from .lines import Json, objects_in, set_value

TAIL_BYTES = 64 * 1024
LIMIT_BYTES = 50 * 1024 * 1024
_ROUNDS = 3


@dataclass(slots=True)
class Removal:
    """What was done to the file, and what it cost."""

    path: Path
    uuid: str
    method: Literal["tail", "rewrite"] = "tail"
    n_removed: int = 0
    n_reparented: int = 0
    parent_uuid: str | None = None
    """What the removed entry hung on."""
    bytes_read: int = 0
    bytes_written: int = 0


def remove_entry(
    file: str | os.PathLike[str],
    uuid: str,
    *,
    reparent: bool = False,
    copies: Literal["nearest", "all"] = "nearest",
    limit_bytes: int = LIMIT_BYTES,
) -> Removal:
    """Remove the entry with this ``uuid`` from a transcript file.

    A line in the last 64 KiB is cut out in place, at a cost that does not depend on the size of the file; otherwise
    the file is written anew beside itself and renamed. Only an entry's own ``uuid`` counts, never a ``parentUuid`` or a
    text that mentions it. Every other byte stays as it is, and at every moment every other entry is whole on disk.

    Parameters
    ----------
    file
        The transcript.
    uuid
        The entry to remove.
    reparent
        Let the entries that hang on the removed one hang on its parent (this reads the whole file).
    copies
        ``"nearest"``: the copies in the tail if there are any, as Claude Code does; ``"all"``: every copy in the file
        (this reads the whole file), which is what cutting out a secret needs when a uuid occurs twice.
    limit_bytes
        Files larger than this are not rewritten (50 MiB).

    Returns
    -------
    Removal
        How it was done, how many lines went, and what the entry hung on.

    Raises
    ------
    NotFoundError
        There is no such file or entry; the file is unchanged.
    WriteError
        The file is over the limit, changes while it is read, or cannot be written; no other entry is lost.
    """
    path = Path(file).resolve()
    if not isinstance(uuid, str) or not uuid:
        raise UsageError("uuid must be the uuid of an entry, got an empty value", got=uuid)
    if not path.is_file():
        raise NotFoundError(f"there is no transcript file {path}", path=str(path))
    done = Removal(path, uuid)
    try:
        if copies == "nearest" and _remove_from_tail(path, done, reparent=reparent):
            return done
        return _rewrite(path, done, reparent=reparent, limit_bytes=limit_bytes)
    except PermissionError as error:
        raise WriteError(f"{path} may not be changed: {error.strerror}; it is as it was", path=str(path)) from error


@dataclass(slots=True)
class _Edit:
    """Lines with the entry taken out: what is left, line by line, and what was found."""

    uuid: str
    reparent: bool
    kept: list[bytes] = field(default_factory=list)
    removed: list[Json] = field(default_factory=list)
    n_reparented: int = 0
    first_changed: int | None = None

    def run(self, lines: Iterable[bytes]) -> _Edit:
        children: list[int] = []
        for line in lines:
            if not _mentions(line, self.uuid):
                self.kept.append(line)
                continue
            rest, is_child = self._take_out(line)
            if rest:
                self.kept.append(rest)
                if is_child:
                    children.append(len(self.kept) - 1)
            if rest != line and self.first_changed is None:
                self.first_changed = len(self.kept) - (1 if rest else 0)
        if self.reparent and self.removed:
            self._reparent(children)
        return self

    def _take_out(self, line: bytes) -> tuple[bytes, bool]:
        """The line without the entry (nothing when the entry was all of it), and whether a child is on what is left."""
        found = objects_in(line)
        own = [f for f in found if f.value.get("uuid") == self.uuid]
        is_child = any(f.value.get("parentUuid") == self.uuid for f in found if f not in own)
        if not own:
            return line, is_child
        self.removed += [f.value for f in own]
        rest = line
        for f in reversed(own):
            rest = rest[: f.start] + rest[f.end :]
        return (rest if len(own) < len(found) else b""), is_child

    def _reparent(self, children: list[int]) -> None:
        parent = self.parent_uuid
        for at in children:
            line = self.kept[at]
            for f in reversed(objects_in(line)):
                if f.value.get("parentUuid") == self.uuid:
                    line = line[: f.start] + set_value(line[f.start : f.end], "parentUuid", parent) + line[f.end :]
                    self.n_reparented += 1
            self.kept[at] = line
            self.first_changed = at if self.first_changed is None else min(at, self.first_changed)

    @property
    def parent_uuid(self) -> str | None:
        parent = self.removed[-1].get("parentUuid") if self.removed else None
        return parent if isinstance(parent, str) and parent != self.uuid else None


def _mentions(line: bytes, uuid: str) -> bool:
    # An escaped spelling of the uuid is legal JSON; lines with escapes are rare enough to be parsed.
    return uuid.encode() in line or b"\\u" in line


def _remove_from_tail(path: Path, done: Removal, *, reparent: bool) -> bool:
    with open(path, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        start, tail = _tail(file, size)
        done.bytes_read += len(tail)
        edit = _Edit(done.uuid, reparent).run(split_lines(tail))
        if not edit.removed or (reparent and _is_parent_before(file, start, done)):
            return False
        unchanged = b"".join(edit.kept[: edit.first_changed])
        start += len(unchanged)
        rest = b"".join(edit.kept[edit.first_changed :])
        if start + len(rest) > size:
            # Longer parents: the new tail would reach into the copy that keeps it safe.
            return False
        done.bytes_written += _replace_tail(file, start, size, rest)
    _note(done, edit, "tail")
    return True


def _tail(file: FileIO, size: int) -> tuple[int, bytes]:
    """The whole lines among the last 64 KiB of the file, and where they begin."""
    start = max(size - TAIL_BYTES - 1, 0)
    file.seek(start)
    tail = _read(file, size - start)
    if start == 0:
        return 0, tail
    first = tail.find(b"\n") + 1
    return (start + first, tail[first:]) if first else (size, b"")


def _read(file: FileIO, size: int) -> bytes:
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_parent_before(file: FileIO, end: int, done: Removal) -> bool:
    """Whether a line before the tail hangs on the entry (lines out of order); read in pieces, written never."""
    needle, overlap, kept = done.uuid.encode(), len(done.uuid.encode()), b""
    file.seek(0)
    while end > 0 and (part := file.read(min(end, 1 << 20))):
        end -= len(part)
        done.bytes_read += len(part)
        if needle in kept + part:
            return True
        kept = part[-overlap:]
    return False


def _replace_tail(file: FileIO, start: int, size: int, rest: bytes) -> int:
    """Let ``rest`` be what follows ``start``, so that every line of it is whole on disk at every moment.

    Writing over the old tail would tear the line that stands across the place a crash left off. So the new tail is
    first appended as a copy (entries that occur twice are one entry), then written to its place, and the copy cut off.
    """
    if not rest:
        file.truncate(start)
        os.fsync(file.fileno())
        return 0
    file.seek(size - 1)
    gap = b"" if file.read(1) == b"\n" else b"\n"
    copy = gap + rest
    _write(file, size, copy)
    _write(file, start, rest)
    end = size + len(copy)
    if file.seek(0, os.SEEK_END) != end:
        raise WriteError(
            f"{file.name} grew while a line was being removed; nothing is lost, but its last lines stand there twice. "
            "Close the session that writes to it and remove the line again",
            path=str(file.name),
        )
    file.truncate(start + len(rest))
    os.fsync(file.fileno())
    return len(copy) + len(rest)


def _write(file: FileIO, at: int, data: bytes) -> None:
    file.seek(at)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    os.fsync(file.fileno())


def _rewrite(path: Path, done: Removal, *, reparent: bool, limit_bytes: int) -> Removal:
    for _ in range(_ROUNDS):
        before = path.stat()
        if before.st_size > limit_bytes:
            raise WriteError(
                f"{path} has {before.st_size} bytes, and the line is not among its last {TAIL_BYTES}; files over "
                f"{limit_bytes} bytes are not rewritten. Raise limit_bytes to allow it",
                path=str(path),
                size=before.st_size,
                limit=limit_bytes,
            )
        data = path.read_bytes()
        done.bytes_read += len(data)
        edit = _Edit(done.uuid, reparent).run(split_lines(data))
        if not edit.removed:
            raise NotFoundError(
                f"no entry of {path} has the uuid {done.uuid!r}; the file is unchanged", path=str(path), uuid=done.uuid
            )
        if _is_unchanged(path, before):
            done.bytes_written += replace_file(path, _checked(edit.kept, path, before))
            _note(done, edit, "rewrite")
            return done
    raise WriteError(f"{path} changes while it is read; close the session that writes to it", path=str(path))


def _checked(lines: list[bytes], path: Path, before: os.stat_result) -> Iterator[bytes]:
    yield from lines
    if not _is_unchanged(path, before):
        raise WriteError(f"{path} grew while it was rewritten; it is unchanged, try again", path=str(path))


def _is_unchanged(path: Path, before: os.stat_result) -> bool:
    after = path.stat()
    return (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)


def _note(done: Removal, edit: _Edit, method: Literal["tail", "rewrite"]) -> None:
    done.method = method
    done.n_removed = len(edit.removed)
    done.n_reparented = edit.n_reparented
    done.parent_uuid = edit.parent_uuid
