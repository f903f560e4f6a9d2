"""Pieces of files that are parsed together, here or in a worker process."""

from __future__ import annotations

import gc
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from typing import Literal

import msgspec
import polars as pl

from .parse import Part, Stretch, parse_stretches

MAX_UNPACKED_BYTES = 8 << 30
"""A compressed file that grows beyond this is refused; no transcript is that large."""


class Piece(msgspec.Struct, array_like=True):
    """A stretch of a file: the whole of it, or from one line end to another."""

    path: str
    offset: int = 0
    length: int = -1
    """-1: to the end of the file, however far it has grown."""
    first_line_no: int = 1
    is_end: bool = True
    is_hashed: bool = False
    """Whether a hash of what is settled is wanted, to know the file again when it has grown."""


class Job(msgspec.Struct):
    """Pieces to be parsed together."""

    pieces: list[Piece]
    content: Literal["none", "preview", "full", "usage"] = "none"


class Facts(msgspec.Struct, array_like=True):
    """What became of one piece (see ``parse.Part``)."""

    n_rows: int
    n_lines: int
    n_bytes: int
    n_settled_rows: int
    n_settled_bytes: int
    n_settled_lines: int
    n_pending_bytes: int
    digests: list[tuple[int, bytes]] = []
    """Lengths and hashes of the settled bytes, one after the other; empty when they are not known."""


class Summary(msgspec.Struct, array_like=True):
    """What the lines of a file say of the file."""

    cwd: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    holds_agent: bool = False
    """All its lines are an agent's, or a team member's, whatever its name says."""


class Meta(msgspec.Struct, array_like=True):
    """The .meta.json beside a file: what identifies its state, and its text (empty when it is damaged)."""

    signature: tuple[int, int, int, int]
    text: str


class JobResult(msgspec.Struct):
    """Frames over all pieces of a job, facts of each piece, and the pieces that could not be read."""

    parts: list[Facts]
    unreadable: dict[int, str] = {}
    entries: pl.DataFrame | None = None
    blocks: pl.DataFrame | None = None
    problems: pl.DataFrame | None = None
    summaries: list[Summary] = []
    """One for each piece where they are known already."""
    metas: list[Meta | None] = []


def run_job(job: Job) -> JobResult:
    """Read and parse the pieces of a job. A file that cannot be read is named in the result; nothing raises."""
    unreadable: dict[int, str] = {}
    digests: list[list[tuple[int, bytes]]] = []
    with collector_off():
        parsed = parse_stretches(_read(job.pieces, unreadable, digests), content=job.content)
    facts = [_facts(p, d) for p, d in zip(parsed.parts, digests, strict=True)]
    return JobResult(facts, unreadable, parsed.entries, parsed.blocks, parsed.problems)


def _facts(p: Part, digests: list[tuple[int, bytes]]) -> Facts:
    settled = (p.n_settled_rows, p.n_settled_bytes, p.n_settled_lines)
    return Facts(p.n_rows, p.n_lines, p.n_bytes, *settled, p.n_pending_bytes, digests)


@contextmanager
def collector_off() -> Iterator[None]:
    """Garbage collection switched off within; a parse makes many objects and no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(
    pieces: Iterable[Piece], unreadable: dict[int, str], digests: list[list[tuple[int, bytes]]]
) -> Iterator[Stretch]:
    for number, piece in enumerate(pieces):
        try:
            data = read_piece(piece)
        except (OSError, EOFError, zlib.error, ValueError, ImportError) as e:
            data, unreadable[number] = b"", _why(e)
        digests.append(_digests(data) if piece.is_hashed and number not in unreadable else [])
        yield Stretch(data, piece.first_line_no, piece.offset, piece.is_end)


def _digests(data: bytes) -> list[tuple[int, bytes]]:
    n_settled = data.rfind(b"\n") + 1
    return [(n_settled, sha256(memoryview(data)[:n_settled]).digest()[:16])]


def _why(e: Exception) -> str:
    # The name of the file is in the files table; the system's own words may hold other paths.
    return (getattr(e, "strerror", None) or str(e) or type(e).__name__)[:200]


def read_piece(piece: Piece) -> bytes:
    """The bytes of a piece, unpacked when its name says it is compressed."""
    if "://" in piece.path:
        from .remote import read_remote

        return read_remote(piece)
    with open(piece.path, "rb", buffering=0) as f:
        if piece.path.endswith(".gz"):
            return _bounded(gzip.GzipFile(fileobj=f))
        if piece.path.endswith(".zst"):
            return _bounded(_zstd_reader(f))
        if piece.offset:
            f.seek(piece.offset)
        return _read_raw(f, piece.length)


def _read_raw(f: io.FileIO, length: int) -> bytes:
    if length < 0:
        return f.readall()
    data = f.read(length) or b""
    while len(data) < length and (more := f.read(length - len(data))):
        data += more
    return data


def _bounded(stream: io.BufferedIOBase | io.RawIOBase) -> bytes:
    data = stream.read(MAX_UNPACKED_BYTES + 1) or b""
    if len(data) > MAX_UNPACKED_BYTES:
        raise ValueError(f"unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    return data


def _zstd_reader(f: io.FileIO) -> io.BufferedIOBase:
    try:
        return import_module("compression.zstd").ZstdFile(f)  # type: ignore[no-any-return]
    except ImportError:
        pass
    try:
        zstandard = import_module("zstandard")
    except ImportError:
        raise ImportError("reading .zst needs Python 3.14 or the package zstandard") from None
    return zstandard.ZstdDecompressor().stream_reader(f, read_across_frames=True)  # type: ignore[no-any-return]
