"""Mending the bytes of a transcript: every whole record on a line of its own, nothing else on any line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import orjson

from ccanalytics.rescue import rescue_line

from .files import split_lines
from .lines import Json, objects_in

_BLANK = b" \t\r\n"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was mended: what, where, why, and the values before and after where there are any."""

    name: str
    line_no: int
    reason: str
    uuid: str | None = None
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its number in the file, its bytes, the object it holds if it is whole, and how it ends."""

    no: int
    raw: bytes
    value: Json | None
    end: bytes = b"\n"


def read_lines(data: bytes) -> list[Line]:
    """The lines of a file; a byte order mark at its start belongs to no line."""
    data = data.removeprefix(BOM)
    return [_line(no, raw) for no, raw in enumerate(split_lines(data), 1)]


def _line(no: int, whole: bytes) -> Line:
    raw = whole.rstrip(b"\r\n")
    try:
        value = orjson.loads(raw) if raw.strip(_BLANK) else None
    except orjson.JSONDecodeError:
        value = None
    return Line(no, raw, value if isinstance(value, dict) else None, whole[len(raw) :])


def join_lines(lines: list[Line]) -> bytes:
    """The bytes of a file with these lines; only the last may lack its line end."""
    whole = [line.raw + (line.end or b"\n") for line in lines[:-1]]
    return b"".join([*whole, *(line.raw + line.end for line in lines[-1:])])


def mend_lines(lines: list[Line]) -> tuple[list[Line], list[Step]]:
    """Lines that are one whole record each; what cannot be one is left out."""
    mended, steps = list[Line](), list[Step]()
    for line in lines:
        if line.value is not None or not line.raw.strip(_BLANK):
            mended.append(line)
        else:
            whole, why = _whole_records(line)
            mended += whole
            steps += why
    return mended, steps


def _whole_records(line: Line) -> tuple[list[Line], list[Step]]:
    found = objects_in(line.raw)
    pieces = [_piece(line, found_at.start, found_at.end, found_at.value) for found_at in found]
    steps = [_step(line.no, code, words, len(pieces)) for code, words in rescue_line(line.raw).problems]
    if not pieces and 0 not in line.raw and not steps:
        steps = [_step(line.no, "bad_json", "no whole record", 0)]
    return pieces, steps


def _piece(line: Line, start: int, end: int, value: Json) -> Line:
    raw = line.raw[start:end]
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        raw = raw.decode("utf-8", "replace").encode()
    return Line(line.no, raw, value)


_NAMES = {
    "nul_bytes": ("strip_nul", "NUL bytes are what a crash leaves in place of text; no reader can use them"),
    "glued_records": ("split_glued", "each record is whole, only the line end between them is missing"),
    "record_behind_damage": ("cut_damage", "the record is whole, the bytes before it are not a part of it"),
    "bad_utf8": ("mark_bad_utf8", "every reader shows these bytes as U+FFFD"),
    "torn_line": ("drop_unreadable", "the record is cut off; no reader can use it"),
    "bad_json": ("drop_unreadable", "it is no record"),
    "not_an_object": ("drop_unreadable", "a JSON value that is no record; some versions stop reading here"),
}


def _step(line_no: int, code: str, words: str, n_whole: int) -> Step:
    name, reason = _NAMES[code]
    return Step(name, line_no, f"{words}: {reason}", before=code, after=f"{n_whole} whole records")


def drop_copies(lines: list[Line]) -> tuple[list[Line], list[Step]]:
    """Lines without earlier copies of the same entry; the last one stays, as it is the one that counts on a resume."""
    ids = [line.value.get("uuid") if line.value is not None else None for line in lines]
    left = Counter((uuid, line.raw) for uuid, line in zip(ids, lines, strict=True) if isinstance(uuid, str))
    latest = {uuid: line.raw for uuid, line in zip(ids, lines, strict=True) if isinstance(uuid, str)}
    kept, steps = list[Line](), list[Step]()
    for uuid, line in zip(ids, lines, strict=True):
        left[(str(uuid), line.raw)] -= 1
        # A copy that was overwritten by other content in between is not the same as its last one; leave such alone.
        if isinstance(uuid, str) and left[(uuid, line.raw)] > 0 and latest[uuid] == line.raw:
            reason = "the same line, byte for byte, stands further below"
            steps.append(Step("drop_copy", line.no, reason, uuid))
        else:
            kept.append(line)
    return kept, steps


def replaced(lines: list[Line]) -> list[tuple[int, str]]:
    """Lines whose uuid stands further below with other content: their number and uuid."""
    found, later = list[tuple[int, str]](), set[str]()
    for line in reversed(lines):
        uuid = line.value.get("uuid") if line.value is not None else None
        if isinstance(uuid, str) and uuid in later:
            found.append((line.no, uuid))
        elif isinstance(uuid, str):
            later.add(uuid)
    return found[::-1]


def drop_empty(lines: list[Line]) -> tuple[list[Line], list[Step]]:
    """Lines without those of users and assistants that hold no message: nothing is shown of them."""
    kept, steps = list[Line](), list[Step]()
    for line in lines:
        value = line.value or {}
        if value.get("type") in ("user", "assistant") and value.get("message") is None:
            reason = "it holds no message: no version shows it, and some fail on it"
            steps.append(Step("drop_empty", line.no, reason, str(value.get("uuid"))))
        else:
            kept.append(line)
    return kept, steps


def with_raw(line: Line, raw: bytes) -> Line:
    """The line with other bytes."""
    return replace(line, raw=raw, value=orjson.loads(raw))
