"""Bytes of one transcript → columns and problems.

Pure: knows nothing of files, caches or sessions. Rows are numbered from 0 within the given bytes; the loader turns
them into entry ids. Only LF separates lines: U+2028 and its kin stand inside texts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Literal

import msgspec
import polars as pl

from .columns import RAW_TYPES, Columns
from .decode import Line, decode_line, decode_lines
from .lean import UsageColumns, decode_for_usage
from .lenient import line_from_object
from .rescue import rescue_line
from .schema.base import BLOCKS, ENTRIES

Content = Literal["none", "preview", "full"]
Reading = Literal["none", "preview", "full", "usage"]
"""``usage``: entries that carry no usage have their place and the fields that say whose file it is, no more."""
BATCH_LINES = 512
BATCH_BYTES = 4 << 20
"""Lines and bytes decoded before their facts are taken; bounds the memory that decoded texts take."""
FRAME_ROWS = 1 << 15


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
    raws: dict[int, bytes] = field(default_factory=dict)
    """The bytes of lines whose facts are taken from the whole object."""
    parts: list[int] = field(default_factory=list)
    line_nos: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    rescued: list[int] = field(default_factory=list)
    """Rows within the batch that Claude Code itself would not have read."""
    first_row: int = 0

    def only(self, rows: list[int]) -> Batch:
        """These lines of it."""
        raws = {k: self.raws[i] for k, i in enumerate(rows) if i in self.raws}
        parts, line_nos, offsets, lengths = (
            [cells[i] for i in rows] for cells in (self.parts, self.line_nos, self.offsets, self.lengths)
        )
        return Batch([self.lines[i] for i in rows], raws, parts, line_nos, offsets, lengths)


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


PROBLEM_ROWS: dict[str, pl.DataType] = {
    "part": pl.Int64(),
    "row": pl.Int64(),
    "line_no": pl.Int32(),
    "byte_offset": pl.Int64(),
    "code": pl.String(),
    "detail": pl.String(),
}
ENTRY_ROWS: dict[str, pl.DataType] = {
    "row": pl.Int64(),
    "part": pl.Int64(),
    **{name: dtype for name, dtype in ENTRIES.polars().items() if name not in ("entry_id", "file_id")},
}
BLOCK_ROWS: dict[str, pl.DataType] = {
    "row": pl.Int64(),
    **{name: dtype for name, dtype in BLOCKS.polars().items() if name != "entry_id"},
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


def parse_stretches(stretches: Iterable[Stretch], *, content: Reading = "none") -> Parsed:
    """As ``parse_bytes``, of several stretches at once: columns are built over all of them together."""
    reader = _Reader(content)
    for stretch in stretches:
        reader.read(stretch)
    return reader.parsed()


class _Reader:
    """Lines are decoded in batches that fit a processor's cache; their cells gather until a frame is worth it."""

    def __init__(self, reading: Reading) -> None:
        self._reading: Reading = reading
        self._decode = decode_for_usage if reading == "usage" else _decode_whole
        self._problems = Problems()
        self._parts: list[Part] = []
        self._batch = Batch()
        self._n_batch_bytes = 0
        self._columns = self._new_columns()
        self._frames: list[tuple[pl.DataFrame, pl.DataFrame]] = []
        self._first_row = 0

    def read(self, stretch: Stretch) -> None:
        """Decode the lines of one stretch."""
        data, ends = stretch.data, _newlines(stretch.data)
        settled = ends[-1] + 1 if ends else 0
        part = Part(n_bytes=len(data), n_settled_bytes=settled, n_settled_lines=len(ends))
        part.n_lines = len(ends) + (settled < len(data))
        self._problems.part = len(self._parts)
        self._parts.append(part)
        first_row, at, start, is_utf8 = self._next_row(), 0, 0, _is_utf8(data)
        while at < len(ends):
            stop = self._stop(ends, at, start)
            chunk = Chunk(data, start, ends[at:stop], stretch.first_line_no + at, stretch.first_offset, is_utf8)
            decode_chunk(chunk, self._batch, self._problems, self._decode)
            self._n_batch_bytes += ends[stop - 1] + 1 - start
            at, start = stop, ends[stop - 1] + 1
            self._flush()
        part.n_settled_rows = self._next_row() - first_row
        if settled < len(data):
            part.n_pending_bytes = self._read_last(stretch, data[settled:], stretch.first_line_no + len(ends))
        part.n_rows = self._next_row() - first_row

    def _next_row(self) -> int:
        return self._batch.first_row + len(self._batch.lines)

    def _stop(self, ends: list[int], at: int, start: int) -> int:
        """Where the next chunk stops, so that the batch is neither too long nor too large."""
        stop = min(len(ends), at + BATCH_LINES)
        room = start + BATCH_BYTES - self._n_batch_bytes
        return stop if ends[stop - 1] < room else max(bisect_right(ends, room, at, stop), at + 1)

    def _read_last(self, stretch: Stretch, last: bytes, line_no: int) -> int:
        """Decode a last line without newline; the bytes of an unfinished record in it."""
        batch, problems = self._batch, self._problems
        n_lines, n_problems = len(batch.lines), len(problems.rows)
        offset = stretch.first_offset + len(stretch.data) - len(last)
        _decode_one(last, batch, problems, line_no, offset, is_open=stretch.is_end)
        self._n_batch_bytes += len(last)
        if not stretch.is_end:
            return 0
        if len(batch.lines) > n_lines:
            # A last line that is whole counts, newline or not.
            end = batch.offsets[-1] + batch.lengths[-1] - offset
            return len(last[end:].strip(b" \t\r\0"))
        return 0 if len(problems.rows) > n_problems else len(last.strip(b" \t\r"))

    def _flush(self, *, is_end: bool = False) -> None:
        batch = self._batch
        if is_end or len(batch.lines) >= BATCH_LINES // 2 or self._n_batch_bytes >= BATCH_BYTES:
            self._columns.add(batch)
            self._batch, self._n_batch_bytes = Batch(first_row=batch.first_row + len(batch.lines)), 0
        if self._columns.n_rows >= FRAME_ROWS or (is_end and (self._columns.n_rows or not self._frames)):
            self._frames.append(self._columns.frames(self._first_row, self._problems))
            self._first_row += self._columns.n_rows
            self._columns = self._new_columns()

    def _new_columns(self) -> Columns | UsageColumns:
        return UsageColumns() if self._reading == "usage" else Columns(self._reading)

    def parsed(self) -> Parsed:
        """What all stretches hold."""
        self._flush(is_end=True)
        entries, blocks = zip(*self._frames, strict=True)
        return Parsed(_concat(entries), _concat(blocks), self._problems.frame(), self._parts)


def _newlines(data: bytes) -> list[int]:
    """Where the newlines are."""
    found: list[int] = []
    find, at = data.find, -1
    while (at := find(b"\n", at + 1)) >= 0:
        found.append(at)
    return found


def _concat(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical", rechunk=False)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a stretch: ``data`` from ``start``, cut at ``ends``."""

    data: bytes
    start: int
    ends: list[int]
    first_line_no: int
    first_offset: int
    """Where ``data`` begins in the transcript."""
    is_utf8: bool
    """All of ``data`` is known to be UTF-8."""


Decode = Callable[[bytes, list[int], list[int]], list[Line]]


def _decode_whole(data: bytes, starts: list[int], ends: list[int]) -> list[Line]:
    return decode_lines(memoryview(data)[starts[0] : ends[-1]])


def decode_chunk(chunk: Chunk, batch: Batch, problems: Problems, decode: Decode = _decode_whole) -> None:
    """Decode the lines of ``chunk`` into ``batch``; lines that fail go to ``problems``, what can be saved is."""
    data, ends = chunk.data, chunk.ends
    starts = [chunk.start, *[e + 1 for e in ends[:-1]]]
    try:
        lines = decode(data, starts, ends)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        lines = []
    # As many values as lines: each line begins one, and what follows a value on its line would have been an error.
    # Blanks around it would not have been; the object's own place is wanted.
    is_plain = len(lines) == len(ends) and {data[s] for s in starts} == {123} and {data[e - 1] for e in ends} == {125}
    if is_plain and (chunk.is_utf8 or _is_utf8(data[chunk.start : ends[-1]])):
        _take_all(batch, lines, chunk, starts, problems.part)
        return
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        _decode_one(data[start:end], batch, problems, chunk.first_line_no + i, chunk.first_offset + start)


def _is_utf8(data: bytes) -> bool:
    """Parts that are kept raw are not looked at by the decoder, so that it would let bad bytes pass."""
    if data.isascii():
        return True
    # The cast looks at sixteen bytes and more at a time, several times as fast as Python's own decoder.
    try:
        if len(data) < 1 << 30:
            pl.Series([data], dtype=pl.Binary).cast(pl.String)
        else:
            str(data, "utf-8")
    except (UnicodeDecodeError, pl.exceptions.PolarsError):
        return False
    return True


def _take_all(batch: Batch, lines: list[Line], chunk: Chunk, starts: list[int], part: int) -> None:
    n, first, offset = len(lines), len(batch.lines), chunk.first_offset
    batch.lines.extend(lines)
    batch.parts.extend([part] * n)
    batch.line_nos.extend(range(chunk.first_line_no, chunk.first_line_no + n))
    batch.offsets.extend([s + offset for s in starts] if offset else starts)
    batch.lengths.extend(map(sub, chunk.ends, starts))
    for i, line in enumerate(lines):
        if line.type in RAW_TYPES:
            batch.raws[first + i] = chunk.data[starts[i] : chunk.ends[i]]


def _decode_one(
    raw: bytes, batch: Batch, problems: Problems, line_no: int, offset: int, *, is_open: bool = False
) -> None:
    body = raw.strip(b" \t\r")
    if offset == 0 and body.startswith(b"\xef\xbb\xbf"):
        body = body[3:].strip(b" \t\r")
    if not body:
        return
    start = raw.index(body)
    try:
        if _is_utf8(body):
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
    batch.raws[len(batch.lines)] = raw
    batch.lines.append(line)
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
