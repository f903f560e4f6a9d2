"""What can still be read from a line that is not one JSON object.

Two records glued together, a record behind half a line, a record among NUL bytes: every whole object is found and
says whether Claude Code itself would have read it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from .decode import loads

BLANK = b" \t\r"
MAX_EFFORT = 8
"""How many times the length of a damaged line is read in search of records; bounds the work on hostile lines."""
MIN_EFFORT = 1 << 20
LEAST_EFFORT, DEEP_EFFORT = 1 << 9, 1 << 16
"""What any object, and one nested too deep, is counted as, in bytes."""

Code = Literal[
    "nul_bytes", "bad_json", "torn_line", "not_an_object", "glued_records", "record_behind_damage", "bad_utf8"
]


@dataclass(frozen=True, slots=True)
class Piece:
    """One object found in a damaged line: where it is in the line and whether Claude Code sees it."""

    start: int
    end: int
    value: dict[str, Any]
    is_rescued: bool


@dataclass(frozen=True, slots=True)
class Rescue:
    """What a damaged line holds: objects, the problem codes, and how many bytes at its end are unfinished."""

    pieces: list[Piece]
    problems: list[tuple[Code, str]]
    n_unfinished: int = 0


def rescue_line(line: bytes, *, is_open: bool = False) -> Rescue:
    """The objects in a line that the decoder refused.

    ``is_open`` says that the line has no newline yet: an unfinished end is then pending and no problem.
    """
    start, end = _bounds(line)
    if start == end:
        return Rescue([], [("nul_bytes", f"{line.count(0)} NUL bytes and no record")]) if 0 in line else Rescue([], [])
    body = line[start:end]
    had_front = line[:start].strip(BLANK) != b""
    problems: list[tuple[Code, str]] = []
    if 0 in line[:start] or 0 in line[end:]:
        problems.append(("nul_bytes", f"{line[:start].count(0) + line[end:].count(0)} NUL bytes around a record"))
    try:
        value = loads(body)
    except ValueError:
        return _search(line, start, end, problems, is_open=is_open)
    if not isinstance(value, dict):
        return Rescue([], [*problems, ("not_an_object", f"a JSON {_kind(value)} in place of an object")])
    if not _is_utf8(body):
        problems.append(("bad_utf8", "bytes that are not UTF-8, read as U+FFFD"))
    return Rescue([Piece(start, end, value, had_front)], problems)


def _bounds(line: bytes) -> tuple[int, int]:
    start = len(line) - len(line.lstrip(BLANK + b"\0"))
    end = len(line.rstrip(BLANK + b"\0"))
    return (start, end) if start < end else (0, 0)


def _search(line: bytes, start: int, end: int, problems: list[tuple[Code, str]], *, is_open: bool) -> Rescue:
    # Latin-1 keeps one character per byte, so that positions found in the text are positions in the line.
    text = line[:end].decode("latin-1")
    pieces, damaged = list[Piece](), line[:start].strip(BLANK) != b""
    at = behind = start
    effort = MIN_EFFORT + MAX_EFFORT * (end - start)
    while 0 <= at < end and effort > 0:
        found = _object_at(text, line, at)
        if found.value is None or not (at == start or _is_record(line, at, found, end)):
            effort -= found.effort
            damaged = True
            near = _junction(text, at, found)
            beyond = _object_at(text, line, near) if near > at else NOTHING
            effort -= 0 if beyond.value is not None else beyond.effort
            if not _is_record(line, near, beyond, end):
                # Nothing inside a whole object is a record of its own.
                at = text.find('{"', found.stop if found.is_whole else at + 1, end)
                continue
            at, found = near, beyond
        assert found.value is not None
        pieces.append(Piece(at, found.stop, found.value, damaged or bool(pieces)))
        at = behind = _skip(line, found.stop, end)
    return _verdict(line, pieces, behind, end, problems, is_open=is_open)


def _junction(text: str, at: int, found: _Found) -> int:
    """Where a record probably begins that a torn object runs into; -1 when there is no telling.

    The beginning of a record in the middle of a text, a number or a key is an error right there. Behind a whole value
    it is one too, but then that value may be a record itself, and is to be looked at first.
    """
    near = text.rfind('{"', at + 1, found.stop + 8) if not found.is_whole else -1
    return near if near > at and text[at:near].rstrip()[-1:] != "}" else -1


def _verdict(
    line: bytes, pieces: list[Piece], behind: int, end: int, problems: list[tuple[Code, str]], *, is_open: bool
) -> Rescue:
    left = end - behind
    if not pieces:
        if is_open:
            return Rescue([], problems, end)
        torn = line[:end].lstrip(BLANK + b"\0").startswith(b"{")
        code: Code = "torn_line" if torn else "bad_json"
        words = "an object that is cut off" if torn else "neither a JSON object nor a part of one"
        return Rescue([], [*problems, (code, words)])
    if len(pieces) > 1 or (left and not pieces[0].is_rescued):
        problems.append(("glued_records", f"{len(pieces)} whole records on one line"))
    if pieces[0].start and pieces[0].is_rescued and line[: pieces[0].start].strip(BLANK + b"\0"):
        problems.append(("record_behind_damage", f"a whole record behind {pieces[0].start} damaged bytes"))
    if left and not is_open:
        problems.append(("torn_line", f"{left} bytes that are no whole record behind a record"))
    return Rescue(pieces, problems, left if is_open else 0)


@dataclass(frozen=True, slots=True)
class _Found:
    """What reading an object came to: where it ended or failed, the object if it is one, and what it took in bytes."""

    stop: int
    value: dict[str, Any] | None
    effort: int
    is_whole: bool = False


NOTHING = _Found(0, None, 0)


def _object_at(text: str, line: bytes, at: int) -> _Found:
    if text[at : at + 1] != "{":
        return _Found(at, None, 1)
    # In windows: a decoder that fails counts the lines of all that it was given.
    for size in (1 << 12, 1 << 16, 1 << 20, len(text)):
        window = text[at : at + size]
        is_whole = at + len(window) == len(text)
        try:
            stop = at + _SCANNER.raw_decode(window)[1]
        except json.JSONDecodeError as e:
            # A text without an end is looked for up to the end of the window.
            is_open = e.msg.startswith("Unterminated")
            if is_whole or not (is_open or e.pos > len(window) - 16):
                return _Found(at + e.pos, None, max(len(window) if is_open else e.pos, LEAST_EFFORT))
        except RecursionError:
            return _Found(at, None, DEEP_EFFORT)
        else:
            break
    try:
        value = loads(line[at:stop])
    except ValueError:
        value = None
    return _Found(stop, value if isinstance(value, dict) else None, stop - at, is_whole=True)


_SCANNER = json.JSONDecoder(strict=False)


def _is_record(line: bytes, at: int, found: _Found, end: int) -> bool:
    """Whether an object found behind damage is a record, and no object from inside the damaged one."""
    value = found.value
    if value is None or not isinstance(value.get("type"), str):
        return False
    if not ("uuid" in value or "sessionId" in value or "message" in value):
        return False
    behind = _skip(line, found.stop, end)
    if behind < end and line[behind] != 123:
        return False
    # An echoed message inside a torn progress line looks like a record too, but names no session.
    return line[at - 1 : at] not in (b":", b",", b"[") or "sessionId" in value


def _skip(line: bytes, at: int, end: int) -> int:
    while at < end and line[at] in b" \t\r\0":
        at += 1
    return at


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}.get(type(value), "value")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
