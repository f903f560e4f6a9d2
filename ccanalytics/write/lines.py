"""One JSONL line: encode, find the objects in it, change one value without touching the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from ccanalytics import decode
from ccanalytics.rescue import rescue_line

Json = dict[str, Any]

_SPACE = b" \t\r\n"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def encode(entry: Mapping[str, object]) -> bytes:
    """The entry as one line with its line end, keys in the order given."""
    try:
        return orjson.dumps(entry) + b"\n"
    except TypeError:
        # Lone surrogates and integers over 64 bits are legal in a transcript, but not for orjson.
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace") + b"\n"


class Found(NamedTuple):
    """An object found in a line: where it begins and ends, and what it is."""

    start: int
    end: int
    value: Json


def objects_in(line: bytes) -> list[Found]:
    """The JSON objects in a line, also behind NUL bytes or glued one behind the other.

    A torn object is not one; bytes between objects are passed over. The plain case (the line is one object)
    costs one parse.
    """
    body = line.strip(_SPACE)
    if not body:
        return []
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return [Found(p.start, p.end, p.value) for p in rescue_line(line.rstrip(b"\r\n")).pieces]
    start = len(line) - len(line.lstrip(_SPACE))
    return [Found(start, start + len(body), value)] if isinstance(value, dict) else []


def loads(data: bytes) -> Any:
    """The value of a JSON text, None when it is none."""
    try:
        return decode.loads(data)
    except ValueError:
        return None


def set_value(line: bytes, key: str, value: object) -> bytes:
    """``line`` with the value of one top-level key replaced; every other byte stays as it is.

    A key that is absent is put in front.
    """
    span = value_span(line, key)
    text = orjson.dumps(value)
    if span is None:
        brace = line.index(b"{") + 1
        comma = b"" if line[brace:].lstrip(_SPACE).startswith(b"}") else b","
        return line[:brace] + orjson.dumps(key) + b":" + text + comma + line[brace:]
    return line[: span[0]] + text + line[span[1] :]


def value_span(line: bytes, key: str) -> tuple[int, int] | None:
    """Where the value of a top-level key stands in the line; the last one when the key is repeated."""
    wanted, depth, start, is_wanted = orjson.dumps(key), 0, -1, False
    previous, previous_end, found = b"", 0, None
    for match in _TOKEN.finditer(line):
        token = match[0]
        if depth == 1 and token in (b",", b"}") and is_wanted:
            found, is_wanted = (start, previous_end), False
        elif depth == 1 and token == b":" and not is_wanted and previous[:1] == b'"':
            is_wanted, start = previous == wanted, -1
        if is_wanted and start < 0 and token != b":":
            start = match.start()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                break
        previous, previous_end = token, match.end()
    return found
