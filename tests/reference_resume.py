"""A slow, plain reading of the rules by which Claude Code resumes a session: dictionaries and walks, nothing else.

It is the oracle the fast implementation is compared with. It shares no code with the package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, Literal, NoReturn

Rules = Literal["2.1.332", "2.1.88"]
LARGE = 5 * 1024 * 1024
WINDOW_MS = 5000
ENTRY_TYPES = ("user", "assistant", "system", "attachment")


class RefusedError(Exception):
    """The program would say that there is nothing to resume, or would fail."""


@dataclass
class Entry:
    """An entry of the map, or one the program makes up (then ``made`` is its type)."""

    uuid: str | None
    parent: str | None
    type: str
    line: int
    raw: dict[str, Any]
    made: str | None = None
    answers: str | None = None
    side: bool = False
    time: int | None = None

    @property
    def message_id(self) -> str | None:
        found = self.message.get("id")
        return found if self.type == "assistant" and isinstance(found, str) and found else None

    @property
    def message(self) -> dict[str, Any]:
        found = self.raw.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def blocks(self) -> list[dict[str, Any]]:
        content = self.message.get("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []

    @property
    def calls(self) -> list[str]:
        return [b.get("id", "") for b in self.blocks if b.get("type") == "tool_use"] if self.type == "assistant" else []

    @property
    def results(self) -> list[str]:
        if self.type != "user":
            return []
        return [b.get("tool_use_id", "") for b in self.blocks if b.get("type") == "tool_result"]

    @property
    def is_result(self) -> bool:
        return bool(self.results)

    @property
    def is_meta(self) -> bool:
        return self.raw.get("isMeta") is True

    @property
    def is_boundary(self) -> bool:
        return self.type == "system" and self.raw.get("subtype") == "compact_boundary"

    @property
    def is_api_error(self) -> bool:
        return self.type == "assistant" and self.raw.get("isApiErrorMessage") is True

    @property
    def is_passive(self) -> bool:
        return self.type in ("attachment", "system") or (self.type == "user" and self.is_meta and not self.is_result)

    @property
    def is_thinking_only(self) -> bool:
        kinds = [b.get("type") for b in self.blocks]
        return self.type == "assistant" and bool(kinds) and set(kinds) <= {"thinking", "redacted_thinking"}

    @property
    def is_blank(self) -> bool:
        kinds = self.blocks
        return (
            self.type == "assistant"
            and bool(kinds)
            and all(b.get("type") == "text" and not str(b.get("text") or "").strip() for b in kinds)
        )


@dataclass
class Session:
    """What reading one file gives: entries by uuid in order of their position, and the hint."""

    entries: dict[str, Entry] = field(default_factory=dict)
    hint: str | None = None
    fails: bool = False

    @property
    def ordered(self) -> list[Entry]:
        return sorted(self.entries.values(), key=lambda e: e.line)


def parse_time(value: object) -> int | None:
    """Milliseconds since 1970 of an ISO time, None where it is unreadable."""
    if not isinstance(value, str):
        return None
    found = re.fullmatch(
        r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d\d:?\d\d)?)?",
        value.strip(),
    )
    if not found:
        return None
    y, mo, d, h, mi, s, frac, zone = found.groups()
    tz: timezone = UTC
    if zone and zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        tz = timezone(sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])))
    try:
        at = datetime(int(y), int(mo), int(d), int(h or 0), int(mi or 0), int(s or 0), tzinfo=tz)
    except ValueError:
        return None
    ms = int((frac or "0").ljust(3, "0")[:3])
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)) * 1000 + ms


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def first_object(line: bytes, *, alone: bool) -> object:
    """The JSON value a line begins with; ``ValueError`` when there is none (or not it alone)."""
    text = line.decode("utf-8", "replace").strip(" \t\r\n")
    value, end = _DECODER.raw_decode(text)
    if alone and end != len(text):
        raise ValueError("something behind the object")
    return value


def read(data: bytes, rules: Rules) -> Session:
    """Bytes of a file → entries and hint (part (a) 1)."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = data.split(b"\n")
    if len(data) > LARGE:
        lines = large_lines_88(lines) if rules == "2.1.88" else large_lines_332(lines)
    session = Session()
    bridge: dict[str, str | None] = {}
    for no, line in enumerate(lines):
        if not line.strip(b" \t\r"):
            continue
        try:
            value = first_object(line, alone=rules == "2.1.88")
        except ValueError:
            continue
        if rules == "2.1.88" and (
            value is None
            or (
                isinstance(value, dict)
                and value.get("type") == "content-replacement"
                and not isinstance(value.get("replacements"), list)
            )
        ):
            break
        if isinstance(value, dict):
            take_line(session, bridge, value, no, rules)
    return session


def take_line(session: Session, bridge: dict[str, str | None], raw: dict[str, Any], no: int, rules: Rules) -> None:
    kind, uuid = raw.get("type"), raw.get("uuid")
    if kind == "last-prompt" and rules == "2.1.332":
        if isinstance(raw.get("leafUuid"), str) and raw["leafUuid"]:
            session.hint = raw["leafUuid"]
        return
    parent = raw.get("parentUuid")
    parent = parent if isinstance(parent, str) and parent else None
    if kind == "progress" and isinstance(uuid, str):
        bridge[uuid] = bridge.get(parent, parent) if parent else None
        return
    if kind not in ENTRY_TYPES or not isinstance(uuid, str) or not uuid:
        return
    if kind in ("user", "assistant") and not isinstance(raw.get("message"), dict):
        session.fails |= kind == "assistant" or parent is not None
        return
    if kind == "assistant" and isinstance(raw["message"].get("content"), str):
        session.fails = True
    parent = bridge.get(parent, parent) if parent else None
    old = session.entries.get(uuid)
    line = old.line if old and rules == "2.1.88" else no
    entry = Entry(uuid, parent, kind, line, raw)
    entry.side = raw.get("isSidechain") is True
    entry.time = parse_time(raw.get("timestamp"))
    session.entries[uuid] = entry
    if entry.is_boundary:
        session.hint = None


def is_there(value: object) -> bool:
    """Truth as JavaScript has it: an empty object is something."""
    return isinstance(value, (dict, list)) or bool(value)


def _is_boundary_line(line: bytes) -> dict[str, Any] | None:
    if b"compact_boundary" not in line:
        return None
    try:
        value = first_object(line, alone=False)
    except ValueError:
        return None
    if isinstance(value, dict) and value.get("type") == "system" and value.get("subtype") == "compact_boundary":
        return value
    return None


def large_lines_332(lines: list[bytes]) -> list[bytes]:
    """What is read of a file over 5 MiB: nothing before the last plain boundary."""
    start = 0
    for no, line in enumerate(lines):
        found = _is_boundary_line(line)
        if found is None:
            continue
        meta = found.get("compactMetadata")
        meta = meta if isinstance(meta, dict) else {}
        if not is_there(meta.get("preservedSegment")) and not is_there(meta.get("preservedMessages")):
            start = no
    return lines[start:]


def large_lines_88(lines: list[bytes]) -> list[bytes]:
    """The same in 2.1.88, which looks at the bytes, and leaves out dead branches when they weigh more than half."""
    start, segment = 0, False
    for no, line in enumerate(lines):
        if b'"compact_boundary"' not in line[: 256 + 18] or line.find(b'"compact_boundary"') >= 256:
            continue
        found = _is_boundary_line(line)
        if found is None:
            continue
        meta = found.get("compactMetadata")
        if isinstance(meta, dict) and is_there(meta.get("preservedSegment")):
            segment = True
        else:
            start, segment = no, False
    rest = lines[start:]
    size = sum(len(line) + 1 for line in rest)
    if segment or size - 1 <= LARGE:
        return rest
    return _without_dead_branches(rest, size)


_FORM = re.compile(rb'\{"parentUuid":(?:null|"([^"]*)")')
_UUID = re.compile(rb'"uuid":"([^"]*)"')


def _without_dead_branches(lines: list[bytes], size: int) -> list[bytes]:
    formed: dict[int, tuple[str, str | None]] = {}
    by_uuid: dict[str, int] = {}
    for no, line in enumerate(lines):
        form = _FORM.match(line)
        name = _own_uuid(line)
        if form and name:
            formed[no] = (name, form.group(1).decode("utf-8", "replace") if form.group(1) is not None else None)
            by_uuid[name] = no
    tip = max((no for no in formed if b'"isSidechain":true' not in lines[no]), default=None)
    if tip is None:
        return lines
    way: set[int] = set()
    at: int | None = tip
    while at is not None and at not in way:
        way.add(at)
        parent = formed[at][1]
        at = by_uuid.get(parent) if parent else None
    dead = sum(len(lines[no]) + 1 for no in formed if no not in way)
    if dead * 2 <= size:
        return lines
    return [line for no, line in enumerate(lines) if no in way or no not in formed]


def _own_uuid(line: bytes) -> str | None:
    try:
        value = json.loads(line)
    except ValueError:
        found = _UUID.findall(line)
        return found[-1].decode("utf-8", "replace") if found else None
    own = value.get("uuid") if isinstance(value, dict) else None
    return own if isinstance(own, str) else None


def chain(session: Session, rules: Rules) -> list[Entry]:
    """The entries of a resume, root to leaf, made-up ones in place (part (a))."""
    return chain_332(session) if rules == "2.1.332" else chain_88(session)


def chain_332(session: Session) -> list[Entry]:
    if not session.entries:
        raise RefusedError("no entries")
    kept, anchor = compact_332(session)
    tip = find_tip(session, kept, anchor)
    if tip is None:
        raise RefusedError("no entries")
    tip = apply_hint(session, tip)
    if tip.side:
        raise RefusedError("sidechain")
    way = walk_332(session, tip)
    way = rounds_332(session, way, tip)
    way = behind_tip(session, way, tip)
    return load_332(way)


def compact_332(session: Session) -> tuple[list[str], str | None]:
    """Part (a) 2; changes parents and removes entries; gives the kept list and the anchor."""
    entries = session.entries
    boundary = next((e for e in reversed(session.ordered) if e.is_boundary), None)
    if boundary is None:
        return [], None
    meta = boundary.raw.get("compactMetadata")
    meta = meta if isinstance(meta, dict) else {}
    messages, segment = meta.get("preservedMessages"), meta.get("preservedSegment")
    if isinstance(messages, dict) and isinstance(messages.get("uuids"), list):
        kept = messages["uuids"]
        anchor = messages.get("anchorUuid")
        if any(u not in entries for u in kept):
            return [], None
    elif isinstance(segment, dict):
        found = walk_segment(entries, segment)
        if found is None:
            return [], None
        kept, anchor = found, segment.get("anchorUuid")
    else:
        return [], None
    if kept:
        relink(entries, kept, anchor)
    prune(entries, kept, boundary)
    return kept, anchor


def walk_segment(entries: dict[str, Entry], segment: dict[str, Any]) -> list[str] | None:
    head, at = segment.get("headUuid"), segment.get("tailUuid")
    found: list[str] = []
    while isinstance(at, str) and at in entries and at not in found:
        found.append(at)
        if at == head:
            return found[::-1]
        at = entries[at].parent
    return None


def relink(entries: dict[str, Entry], kept: list[str], anchor: str | None) -> None:
    inside = set(kept)
    for e in entries.values():
        if e.uuid not in inside and e.parent is not None and e.parent == anchor:
            e.parent = kept[-1]
    entries[kept[0]].parent = anchor
    for a, b in pairwise(kept):
        entries[b].parent = a


def prune(entries: dict[str, Entry], kept: list[str], boundary: Entry) -> None:
    inside = set(kept)
    gone = {u for u, e in entries.items() if e.line < boundary.line and u not in inside}
    for u in gone:
        del entries[u]
    for u, e in entries.items():
        if kept and e.parent in gone and u != kept[0]:
            e.parent = kept[-1]


def near(entries: dict[str, Entry], e: Entry) -> Entry | None:
    seen: set[str | None] = set()
    at: Entry | None = e
    while at is not None and at.uuid not in seen:
        if at.type in ("user", "assistant"):
            return at
        seen.add(at.uuid)
        at = entries.get(at.parent) if at.parent else None
    return None


def find_tip(session: Session, kept: list[str], anchor: str | None) -> Entry | None:
    entries, ordered = session.entries, session.ordered
    children: dict[str, list[Entry]] = {}
    for e in ordered:
        if not e.side and e.parent:
            children.setdefault(e.parent, []).append(e)
    for e in reversed(ordered):
        if e.side:
            continue
        found = near(entries, e)
        if e.uuid in children:
            leaf = newest_leaf(e, children)
            if leaf is not None and leaf.time is not None and (e.time is None or leaf.time >= e.time):
                found = near(entries, leaf)
            if found is not None and kept and found.uuid == anchor:
                found = entries[kept[-1]]
        if found is not None:
            return found
    main = [e for e in ordered if not e.side]
    return main[-1] if main else (ordered[-1] if ordered else None)


def newest_leaf(top: Entry, children: dict[str, list[Entry]]) -> Entry | None:
    best: Entry | None = None
    stack, seen = [top], set()
    while stack:
        e = stack.pop()
        if e.uuid in seen:
            continue
        seen.add(e.uuid)
        below = children.get(e.uuid or "", [])
        if not below and (best is None or (_clock(e), e.line) > (_clock(best), best.line)):
            best = e
        stack.extend(below)
    return best


def _clock(e: Entry) -> float:
    return float("-inf") if e.time is None else e.time


def apply_hint(session: Session, tip: Entry) -> Entry:
    """Part (a) 3, the hint."""
    entries = session.entries
    hint = entries.get(session.hint) if session.hint else None
    if hint is None:
        return tip
    path: list[str | None] = []
    at: Entry | None = tip
    while at is not None and at.uuid not in path:
        path.append(at.uuid)
        at = entries.get(at.parent) if at.parent else None
    if hint.uuid in path or beside(entries, hint, path):
        return tip
    if hint.side:
        raise RefusedError("the hint names a sidechain")
    return near(entries, hint) or tip


def beside(entries: dict[str, Entry], hint: Entry, path: list[str | None]) -> bool:
    at: Entry | None = hint
    results, message = 0, None
    seen: set[str | None] = set()
    while at is not None and at.uuid not in seen and at.uuid not in path:
        seen.add(at.uuid)
        if at.is_result:
            results += 1
        elif at.type == "assistant":
            if message is not None and at.message_id != message:
                return False
            message = at.message_id
            if message is None:
                return False
        elif not at.is_passive:
            return False
        at = entries.get(at.parent) if at.parent else None
    if at is None or at.uuid not in path or not results or not at.calls:
        return False
    if message is not None and at.message_id != message:
        return False
    i = path.index(at.uuid)
    if i == 0:
        return True
    out = entries[path[i - 1] or ""]
    return out.is_result or (out.type == "assistant" and out.message_id is not None and out.message_id == at.message_id)


def walk_332(session: Session, tip: Entry) -> list[Entry]:
    entries, ordered = session.entries, session.ordered
    way: list[Entry] = []
    seen: set[str | None] = set()
    at: Entry | None = tip
    while at is not None:
        way.append(at)
        seen.add(at.uuid)
        if at.parent is None:
            break
        up = entries.get(at.parent)
        if up is None or up.uuid in seen:
            up = nearest_in_time(ordered, at, seen)
        at = up
    return way[::-1]


def nearest_in_time(ordered: list[Entry], e: Entry, seen: set[str | None]) -> Entry | None:
    best: Entry | None = None
    if e.time is None:
        return None
    for c in ordered:
        if c.uuid in seen or c.side != e.side or c.time is None or not 0 <= e.time - c.time <= WINDOW_MS:
            continue
        if best is None or best.time is None or c.time > best.time:
            best = c
    return best


def rounds_332(session: Session, way: list[Entry], tip: Entry) -> list[Entry]:
    """Part (a) 6: one group after the other, in chain order."""
    done: set[str] = set()
    for e in list(way):
        if e.message_id and e.message_id not in done:
            done.add(e.message_id)
            way = mend_group(session, way, tip, e.message_id)
    return way


def mend_group(session: Session, way: list[Entry], tip: Entry, message_id: str) -> list[Entry]:
    ordered = session.ordered
    lines = [e for e in ordered if e.message_id == message_id]
    names = {e.uuid for e in lines}
    on = {e.uuid for e in way}
    by_parent = [e for e in ordered if e.is_result and e.parent in names]
    by_call = results_by_call(ordered, lines, by_parent, [e for e in way if e.is_result])
    results = by_parent + by_call
    way = move_early_results(way, lines, {e.uuid for e in results})
    has_round = bool(results) or any(e.calls for e in lines)
    passive: list[Entry] = []
    zone = find_zone(way, names, {e.uuid for e in results})
    if has_round:
        start = names | {e.uuid for e in results} | {e.uuid for e in zone if e.is_passive}
        passive = passive_subtrees(ordered, start, on, tip)
    first = [e for e in lines if e.uuid not in on] + [e for e in by_parent if e.uuid not in on]
    then = [e for e in by_call if e.uuid not in on] + passive
    if not first and not then:
        return way
    at = next(i for i, e in enumerate(way) if e.uuid == zone[0].uuid)
    merged = merge_zone(zone, sorted(first, key=lambda e: e.line), 1)
    last = max(i for i, e in enumerate(merged) if e.uuid in names)
    merged = merge_zone(merged, sorted(then, key=lambda e: e.line), last + 1)
    return way[:at] + merged + way[at + len(zone) :]


def results_by_call(
    ordered: list[Entry], lines: list[Entry], by_parent: list[Entry], on_way: list[Entry]
) -> list[Entry]:
    answered = {r for e in (*by_parent, *on_way) for r in e.results}
    found: list[Entry] = []
    for call in (c for e in lines for c in e.calls):
        if call in answered:
            continue
        hit = next((e for e in ordered if not e.side and call in e.results), None)
        if hit is not None:
            answered.update(hit.results)
            found.append(hit)
    return found


def move_early_results(way: list[Entry], lines: list[Entry], results: set[str | None]) -> list[Entry]:
    """Results that stand on the chain before the group's first line go behind its last one."""
    names = {e.uuid for e in lines}
    first = next(i for i, e in enumerate(way) if e.uuid in names)
    early: list[Entry] = []
    for e in reversed(way[:first]):
        if e.type == "user" and not e.is_result and not e.is_meta:
            break
        if e.uuid in results:
            early.append(e)
    if not early:
        return way
    moved = {e.uuid for e in early}
    rest = [e for e in way if e.uuid not in moved]
    last = max(i for i, e in enumerate(rest) if e.uuid in names)
    return rest[: last + 1] + early[::-1] + rest[last + 1 :]


def find_zone(way: list[Entry], names: set[str | None], results: set[str | None]) -> list[Entry]:
    first = next(i for i, e in enumerate(way) if e.uuid in names)
    last = max(i for i, e in enumerate(way) if e.uuid in names or (e.uuid in results and i > first))
    while last + 1 < len(way) and way[last + 1].is_passive:
        last += 1
    return way[first : last + 1]


def passive_subtrees(ordered: list[Entry], start: set[str | None], on: set[str | None], tip: Entry) -> list[Entry]:
    children: dict[str, list[Entry]] = {}
    for e in ordered:
        if e.parent:
            children.setdefault(e.parent, []).append(e)
    found: list[Entry] = []
    for top in ordered:
        if top.parent not in start or top.parent == tip.uuid or top.uuid in on or not top.is_passive:
            continue
        tree, stack, good = [], [top], True
        seen: set[str | None] = set()
        while stack and good:
            e = stack.pop()
            if e.uuid in seen:
                continue
            seen.add(e.uuid)
            good = e.is_passive and not e.side and e.uuid not in on
            tree.append(e)
            stack.extend(children.get(e.uuid or "", []))
        if good:
            found.extend(e for e in tree if e not in found)
    return found


def merge_zone(zone: list[Entry], more: list[Entry], start: int) -> list[Entry]:
    out = list(zone)
    for e in more:
        at = next((i for i in range(start, len(out)) if out[i].line > e.line), len(out))
        out.insert(at, e)
    return out


def behind_tip(session: Session, way: list[Entry], tip: Entry) -> list[Entry]:
    """Part (a) 7."""
    on = {e.uuid for e in way}
    hanging: list[Entry] = []
    reach: set[str | None] = {tip.uuid}
    grown = True
    while grown:
        grown = False
        for e in session.ordered:
            if e.type in ("attachment", "system") and e.uuid not in on and e.uuid not in reach and e.parent in reach:
                reach.add(e.uuid)
                hanging.append(e)
                grown = True
    hanging.sort(key=lambda e: (_clock(e), e.line))
    placed: list[Entry] = []
    out: set[str | None] = {tip.uuid}
    while hanging:
        e = next(h for h in hanging if h.parent in out)
        hanging.remove(e)
        placed.append(e)
        out.add(e.uuid)
    at = next(i for i, e in enumerate(way) if e.uuid == tip.uuid)
    return way[: at + 1] + placed + way[at + 1 :]


def load_332(way: list[Entry]) -> list[Entry]:
    """Part (a) 8."""
    answered = {r for e in way for r in e.results}
    is_open = [bool(e.calls) and not any(c in answered for c in e.calls) for e in way]
    empty = dropped_as_empty(way)
    closed = [e for e, o, x in zip(way, is_open, empty, strict=True) if not o and not x]
    start = max((i for i, e in enumerate(way) if e.type == "user" and not e.is_result), default=-1) + 1
    last = next(
        (way[i] for i in range(len(way) - 1, start - 1, -1) if way[i].type == "assistant" and not empty[i]), None
    )

    def is_last_message(e: Entry) -> bool:
        return last is not None and (e is last or (last.message_id is not None and e.message_id == last.message_id))

    all_stay = ends_on_result(closed)
    out = []
    for i, e in enumerate(way):
        if empty[i]:
            continue
        if is_open[i] and not (i >= start and (all_stay or is_last_message(e))):
            continue
        out.append(e)
    if last is not None:
        for e in list(out):
            if e.type == "assistant" and is_last_message(e):
                out.extend(
                    Entry(None, None, "user", -1, {}, made="user", answers=c) for c in e.calls if c not in answered
                )
    if ends_on_user(out):
        at = max((i for i, e in enumerate(out) if e.type != "system"), default=-1) + 1
        out.insert(at, Entry(None, None, "assistant", -1, {}, made="assistant"))
    return out


def dropped_as_empty(way: list[Entry]) -> list[bool]:
    full = {e.message_id for e in way if e.message_id and e.blocks and not e.is_thinking_only}
    return [e.is_blank or (e.is_thinking_only and e.message_id not in full) for e in way]


def ends_on_result(closed: list[Entry]) -> bool:
    rest = [e for e in closed if e.type != "system"]
    if not rest:
        return False
    if rest[-1].is_result:
        return True
    if rest[-1].type != "attachment":
        return False
    before = next((e for e in reversed(rest) if e.type != "attachment"), None)
    return before is not None and before.type == "user"


def ends_on_user(out: list[Entry]) -> bool:
    rest = [e for e in out if e.type != "system"]
    if not rest:
        return False
    if rest[-1].type == "user":
        return True
    if rest[-1].type != "attachment":
        return False
    before = next((e for e in reversed(rest) if e.type != "attachment" and not e.is_api_error), None)
    return before is None or before.type == "user"


def chain_88(session: Session) -> list[Entry]:
    compact_88(session)
    snip_88(session)
    timed = [e for e in session.entries.values() if not e.side and e.time is not None]
    if not timed:
        raise RefusedError("no entry with a readable time")
    tip = max(timed, key=lambda e: e.time or 0)
    way: list[Entry] = []
    seen: set[str | None] = set()
    at: Entry | None = tip
    while at is not None and at.uuid not in seen:
        way.append(at)
        seen.add(at.uuid)
        at = session.entries.get(at.parent) if at.parent else None
    way = rounds_88(session, way[::-1])
    if session.fails and any(e.type == "assistant" for e in way):
        raise RefusedError("crash")
    return load_88(way)


def compact_88(session: Session) -> None:
    entries = session.entries
    boundaries = [e for e in session.ordered if e.is_boundary]

    def segment_of(e: Entry) -> dict[str, Any] | None:
        meta = e.raw.get("compactMetadata")
        found = meta.get("preservedSegment") if isinstance(meta, dict) else None
        return found if isinstance(found, dict) else None

    if all(segment_of(e) is None for e in boundaries):
        return
    last = boundaries[-1]
    segment = segment_of(last)
    kept: list[str] = []
    if segment is not None:
        found = walk_segment(entries, segment)
        if found is None:
            return
        kept = found
        anchor = segment.get("anchorUuid")
        entries[kept[0]].parent = anchor
        for e in entries.values():
            if e.parent is not None and e.parent == anchor and e.uuid != kept[0]:
                e.parent = kept[-1]
    inside = set(kept)
    for u in [u for u, e in entries.items() if e.line < last.line and u not in inside]:
        del entries[u]


def snip_88(session: Session) -> None:
    entries = session.entries
    gone: dict[str, Entry] = {}
    for e in session.ordered:
        meta = e.raw.get("snipMetadata")
        names = meta.get("removedUuids") if isinstance(meta, dict) else None
        for name in names if isinstance(names, list) else []:
            if name in entries:
                gone[name] = entries[name]
    for name in gone:
        del entries[name]
    for e in entries.values():
        seen: set[str | None] = set()
        while e.parent in gone:
            if e.parent in seen:
                raise RefusedError("crash")
            seen.add(e.parent)
            e.parent = gone[e.parent].parent


def rounds_88(session: Session, way: list[Entry]) -> list[Entry]:
    ordered = session.ordered
    on = {e.uuid for e in way}
    behind: dict[str | None, list[Entry]] = {}
    last_line = {e.message_id: e.uuid for e in way if e.message_id}
    for message_id, anchor in last_line.items():
        lines = [e for e in ordered if e.message_id == message_id]
        names = {e.uuid for e in lines}
        off = sorted((e for e in lines if e.uuid not in on), key=_clock_text)
        results = sorted(
            (e for e in ordered if e.is_result and e.uuid not in on and e.parent in names), key=_clock_text
        )
        behind[anchor] = off + results
    return [x for e in way for x in (e, *behind.get(e.uuid, ()))]


def _clock_text(e: Entry) -> str:
    value = e.raw.get("timestamp")
    return value if isinstance(value, str) else "undefined"


def load_88(way: list[Entry]) -> list[Entry]:
    answered = {r for e in way for r in e.results}
    out = [e for e in way if not e.calls or any(c in answered for c in e.calls)]
    full = {e.message_id for e in out if e.message_id and e.blocks and not e.is_thinking_only}
    out = [e for e in out if not (e.is_thinking_only and e.message_id not in full)]
    if any(e.is_blank for e in out):
        out = merge_users(e for e in out if not e.is_blank)
    rest = [e for e in out if e.type != "system" and not e.is_api_error]
    continued = bool(rest) and (rest[-1].type == "attachment" or (rest[-1].is_result and not is_brief(rest[-1], out)))
    if continued:
        out.append(Entry(None, None, "user", -1, {}, made="user"))
    if not out:
        raise RefusedError("nothing is left")
    rest = [e for e in out if e.type != "system"]
    if rest and rest[-1].type == "user":
        out.insert(out.index(rest[-1]) + 1, Entry(None, None, "assistant", -1, {}, made="assistant"))
    return out


def is_brief(result: Entry, way: list[Entry]) -> bool:
    names = {b.get("id"): b.get("name") for e in way for b in e.blocks if b.get("type") == "tool_use"}
    return names.get(result.results[-1]) in ("SendUserMessage", "Brief")


def merge_users(way: Iterable[Entry]) -> list[Entry]:
    out: list[Entry] = []
    for e in way:
        if out and e.type == "user" and out[-1].type == "user":
            old = out[-1]
            raw = {**old.raw, "message": {**old.message, "content": old.blocks + e.blocks}}
            out[-1] = Entry(old.uuid, old.parent, "user", old.line, raw, side=old.side, time=old.time)
        else:
            out.append(e)
    return out
