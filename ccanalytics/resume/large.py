"""What Claude Code 2.1.88 reads of a file over 5 MiB: it looks at the bytes of lines before it parses any."""

from __future__ import annotations

import re

import orjson

LARGE_BYTES = 5 * 1024 * 1024
"""A file of more bytes than this is not read whole (5 242 880 is, 5 242 881 is not)."""
_NOTICED = 256
"""A boundary is noticed only if its subtype begins within so many bytes of its line."""
_MARK = b'"compact_boundary"'
_FORM = re.compile(rb'\{"parentUuid":(?:null|"([^"]*)")')
_UUID = re.compile(rb'"uuid":"([^"]*)"')


def lines_of_large_file(data: bytes) -> list[int] | None:
    """Numbers (from 1) of the lines that are read; None when all are."""
    lines = data.split(b"\n")
    start, has_segment = _noticed_boundary(lines)
    rest = lines[start:]
    size = sum(map(len, rest)) + len(rest) - 1
    dead = set() if has_segment or size <= LARGE_BYTES else _dead_lines(rest, size)
    if not start and not dead:
        return None
    return [start + i + 1 for i in range(len(rest)) if i not in dead]


def _noticed_boundary(lines: list[bytes]) -> tuple[int, bool]:
    """Where the last noticed plain boundary stands, and whether one with a kept segment follows."""
    start, has_segment = 0, False
    for i, line in enumerate(lines):
        at = line.find(_MARK, 0, _NOTICED + len(_MARK) - 1)
        if at < 0:
            continue
        try:
            value = orjson.loads(line)
        except ValueError:
            continue
        if not isinstance(value, dict) or value.get("type") != "system" or value.get("subtype") != "compact_boundary":
            continue
        meta = value.get("compactMetadata")
        if isinstance(meta, dict) and is_there(meta.get("preservedSegment")):
            has_segment = True
        else:
            start, has_segment = i, False
    return start, has_segment


def _dead_lines(lines: list[bytes], size: int) -> set[int]:
    """Lines of the tool's own form that are not on the way of the last one, if they weigh more than half."""
    parents: dict[int, bytes | None] = {}
    by_uuid: dict[bytes, int] = {}
    tip = None
    for i, line in enumerate(lines):
        form = _FORM.match(line)
        uuid = _own_uuid(line) if form else None
        if form is None or uuid is None:
            continue
        parents[i] = form.group(1)
        by_uuid[uuid] = i
        if b'"isSidechain":true' not in line:
            tip = i
    if tip is None:
        return set()
    way: set[int] = set()
    at: int | None = tip
    while at is not None and at not in way:
        way.add(at)
        parent = parents[at]
        at = by_uuid.get(parent) if parent else None
    dead = {i for i in parents if i not in way}
    return dead if 2 * sum(len(lines[i]) + 1 for i in dead) > size else set()


def _own_uuid(line: bytes) -> bytes | None:
    """The uuid of the line itself; a tool's input or result may name others."""
    found = _UUID.findall(line)
    if len(found) > 1:
        try:
            value = orjson.loads(line)
        except ValueError:
            return bytes(found[-1])
        own = value.get("uuid") if isinstance(value, dict) else None
        return own.encode() if isinstance(own, str) else None
    return bytes(found[0]) if found else None


def is_there(value: object) -> bool:
    """Whether the program, written in JavaScript, takes a value for something: {} is something, "" is not."""
    return isinstance(value, (dict, list)) or bool(value)
