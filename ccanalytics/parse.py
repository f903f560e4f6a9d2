"""Bytes of one transcript → columns and problems.

Pure: knows nothing of files, caches or sessions. Rows are numbered from 0 within the given bytes; the loader turns
them into entry ids. Only LF separates lines: U+2028 and its kin stand inside texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import Literal

import msgspec
import polars as pl

from .columns import block_frame, entry_frame
from .decode import Line, decode_line, line_from_object
from .rescue import rescue_line

Content = Literal["none", "preview", "full"]
BATCH_LINES = 4096
"""Lines decoded before they become columns; bounds the memory taken by decoded objects."""
BATCH_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a transcript, whole lines except perhaps the last, and where they begin in it."""

    data: bytes
    first_line_no: int = 1
    first_offset: int = 0
    is_end: bool = True
    """The data reach the end of the file, so that an unfinished last line is pending and not damage."""


@dataclass(slots=True)
class Part:
    """What became of one stretch."""

    n_rows: int = 0
    n_lines: int = 0
    """Lines that end with LF, plus one for a last line without."""
    n_bytes: int = 0
    n_settled_rows: int = 0
    """Rows from lines that end with LF: what comes behind may still change when the file grows."""
    n_settled_bytes: int = 0
    n_settled_lines: int = 0
    n_pending_bytes: int = 0
    """Bytes at the end that are an unfinished record."""


@dataclass(slots=True)
class Parsed:
    """What some stretches hold.

    ``entries`` and ``blocks`` have the declared columns but ``row`` (from 0, over all stretches) in place of
    ``entry_id``; ``entries`` also has ``part``, the number of the stretch, in place of ``file_id``. ``problems`` has
    ``part``, ``row`` (null when no entry is concerned), ``line_no``, ``byte_offset``, ``code``, ``detail``.
    """

    entries: pl.DataFrame
    blocks: pl.DataFrame
    problems: pl.DataFrame
    parts: list[Part]


@dataclass(slots=True)
class Batch:
    """Decoded lines, perhaps of several stretches, with their places."""

    lines: list[Line] = field(default_factory=list)
    raws: list[bytes] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    line_nos: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    rescued: list[int] = field(default_factory=list)
    """Rows within the batch that Claude Code itself would not have read."""
    first_row: int = 0


@dataclass(slots=True)
class Problems:
    """Problem rows as they are found."""

    part: int = 0
    rows: list[tuple[int, int | None, int, int, str, str]] = field(default_factory=list)

    def add(self, row: int | None, line_no: int, offset: int, code: str, detail: str, part: int | None = None) -> None:
        """One more problem; of the current stretch unless another is named."""
        self.rows.append((self.part if part is None else part, row, line_no, offset, code, detail))

    def frame(self) -> pl.DataFrame:
        """All problems as a frame."""
        return pl.DataFrame(self.rows, schema=PROBLEM_ROWS, orient="row")


PROBLEM_ROWS = {
    "part": pl.Int64,
    "row": pl.Int64,
    "line_no": pl.Int32,
    "byte_offset": pl.Int64,
    "code": pl.String,
    "detail": pl.String,
}


def parse_bytes(data: bytes, *, content: Content = "none") -> Parsed:
    """The entries, blocks and problems in ``data``, the bytes of one whole transcript.

    Parameters
    ----------
    data : bytes
        The file as it is on disk; the last line may lack its newline.
    content : {"none", "preview", "full"}
        Whether ``text`` columns are filled: not, with 200 characters (secrets masked), or whole.

    Returns
    -------
    Parsed
        With one part. Never raises for anything in ``data``.
    """
    return parse_stretches([Stretch(data)], content=content)


def parse_stretches(stretches: Iterable[Stretch], *, content: Content = "none") -> Parsed:
    """As ``parse_bytes``, of several stretches at once: columns are built over all of them together."""
    problems, parts = Problems(), list[Part]()
    entries: list[pl.DataFrame] = []
    blocks: list[pl.DataFrame] = []
    batch = Batch()
    size = 0
    for number, stretch in enumerate(stretches):
        raw = stretch.data.split(b"\n")
        part, problems.part = Part(n_lines=len(raw) - (not raw[-1]), n_bytes=len(stretch.data)), number
        parts.append(part)
        n_problems, line_no, offset, start = len(problems.rows), stretch.first_line_no, stretch.first_offset, 0
        last = raw.pop()
        part.n_settled_bytes, part.n_settled_lines = part.n_bytes - len(last), len(raw)
        while start < len(raw):
            chunk, n_bytes = _next_chunk(raw, start, size, len(batch.lines))
            n_before = len(batch.lines)
            decode_chunk(chunk, batch, problems, line_no, offset)
            part.n_rows += len(batch.lines) - n_before
            start, line_no = start + len(chunk), line_no + len(chunk)
            offset, size = offset + n_bytes, size + n_bytes
            if len(batch.lines) >= BATCH_LINES or size >= BATCH_BYTES:
                batch, size = _flush(batch, problems, entries, blocks, content), 0
        part.n_settled_rows = part.n_rows
        if last:
            n_before = len(batch.lines)
            _decode_one(last, batch, problems, line_no, offset, is_open=stretch.is_end)
            part.n_rows += len(batch.lines) - n_before
            part.n_pending_bytes = _pending(batch, n_before, last, offset, problems, n_problems, is_end=stretch.is_end)
            size += len(last)
    _flush(batch, problems, entries, blocks, content)
    return Parsed(_concat(entries), _concat(blocks), problems.frame(), parts)


def _next_chunk(raw: list[bytes], start: int, size: int, n_lines: int) -> tuple[list[bytes], int]:
    chunk = raw[start : start + max(1, BATCH_LINES - n_lines)]
    n_bytes = sum(map(len, chunk)) + len(chunk)
    if size + n_bytes > BATCH_BYTES and len(chunk) > 1:
        room, n_bytes = max(0, BATCH_BYTES - size), 0
        for i, line in enumerate(chunk):
            n_bytes += len(line) + 1
            if n_bytes >= room:
                return chunk[: i + 1], n_bytes
    return chunk, n_bytes


def _flush(
    batch: Batch, problems: Problems, entries: list[pl.DataFrame], blocks: list[pl.DataFrame], content: Content
) -> Batch:
    if batch.lines or not entries:
        entries.append(entry_frame(batch, problems, content))
        blocks.append(block_frame(batch, content))
    return Batch(first_row=batch.first_row + len(batch.lines))


def _pending(
    batch: Batch, n_before: int, last: bytes, offset: int, problems: Problems, n_problems: int, *, is_end: bool
) -> int:
    """Bytes of an unfinished record at the end of a file; a last line that is whole counts, newline or not."""
    if not is_end:
        return 0
    if len(batch.lines) > n_before:
        end = batch.offsets[-1] + batch.lengths[-1] - offset
        return len(last[end:].strip(b" \t\r\0"))
    refused = any(p[3] >= offset for p in problems.rows[n_problems:])
    return 0 if refused else len(last.strip(b" \t\r"))


def _concat(frames: list[pl.DataFrame]) -> pl.DataFrame:
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical", rechunk=False)


def decode_chunk(chunk: list[bytes], batch: Batch, problems: Problems, line_no: int, offset: int) -> None:
    """Decode the lines of ``chunk`` into ``batch``; lines that fail go to ``problems``, what can be saved is."""
    try:
        lines = list(map(decode_line, chunk))
        # The typed decoder takes an object with any blanks around it; the object's own place is wanted.
        if all(raw[0] == 123 and raw[-1] == 125 for raw in chunk):
            _take_all(batch, lines, chunk, problems.part, line_no, offset)
            return
    except (msgspec.MsgspecError, ValueError, RecursionError, IndexError):
        pass
    for raw in chunk:
        _decode_one(raw, batch, problems, line_no, offset)
        line_no += 1
        offset += len(raw) + 1


def _take_all(batch: Batch, lines: list[Line], chunk: list[bytes], part: int, line_no: int, offset: int) -> None:
    lengths = list(map(len, chunk))
    batch.lines.extend(lines)
    batch.raws.extend(chunk)
    batch.parts.extend([part] * len(chunk))
    batch.line_nos.extend(range(line_no, line_no + len(chunk)))
    batch.lengths.extend(lengths)
    batch.offsets.extend(accumulate((n + 1 for n in lengths[:-1]), initial=offset))


def _decode_one(
    raw: bytes, batch: Batch, problems: Problems, line_no: int, offset: int, *, is_open: bool = False
) -> None:
    body = raw.strip(b" \t\r")
    if line_no == 1 and body.startswith(b"\xef\xbb\xbf"):
        body = body[3:].strip(b" \t\r")
    if not body:
        return
    start = raw.index(body)
    try:
        _take(batch, decode_line(body), body, problems.part, line_no, offset + start, is_rescued=False)
        return
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    found = rescue_line(body, is_open=is_open)
    row = None
    for piece in found.pieces:
        row = batch.first_row + len(batch.lines)
        place = offset + start + piece.start
        line, odd = line_from_object(piece.value)
        _take(batch, line, body[piece.start : piece.end], problems.part, line_no, place, is_rescued=piece.is_rescued)
        _note_odd(problems, row, line_no, place, odd)
    for code, words in found.problems:
        problems.add(row, line_no, offset + start, code, words)


def _take(batch: Batch, line: Line, raw: bytes, part: int, line_no: int, offset: int, *, is_rescued: bool) -> None:
    if is_rescued:
        batch.rescued.append(len(batch.lines))
    batch.lines.append(line)
    batch.raws.append(raw)
    batch.parts.append(part)
    batch.line_nos.append(line_no)
    batch.offsets.append(offset)
    batch.lengths.append(len(raw))


def _note_odd(problems: Problems, row: int, line_no: int, offset: int, odd: list[str]) -> None:
    if not odd:
        return
    names = sorted(set(odd))
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    code = "odd_message" if "message" in names else "odd_field"
    problems.add(row, line_no, offset, code, f"fields of an odd type, read as null: {shown}")


def parse_timestamp(text: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text in any spelling; None when it is none."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    try:
        delta = at - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        return None
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000
