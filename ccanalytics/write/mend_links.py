"""Mending the links of a transcript: parents that are not there, and loops."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .lines import Json, set_value
from .mend_lines import Line, Step, with_raw

WINDOW_MS = 5000
"""How far back Claude Code looks for a parent that is not there, from 2.1.100 on."""

ENTRY_TYPES = ("user", "assistant", "system", "attachment")
_TORN = re.compile(rb'^\s*\{"parentUuid":(?:null|"([^"\\]*)").*?"uuid":"([^"\\]*)"', re.DOTALL)


@dataclass(slots=True)
class Node:
    """An entry of the conversation and where it hangs."""

    at: int
    line_no: int
    value: Json
    uuid: str
    parent: str | None
    time: int | None
    side: tuple[bool, str]
    """Whether it is a sidechain entry, and of which agent: links stay within one such thread."""


@dataclass(slots=True)
class Links:
    """What hangs on what in one file, and the ways by which a lost link can be found again."""

    nodes: dict[str, Node] = field(default_factory=dict)
    passages: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """Lines that are no entries but stand between two: uuid to parent, and what they are."""
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def read(cls, lines: list[Line], damaged: list[Line]) -> Links:
        """The links of whole lines; of damaged ones, what their beginnings still say."""
        links = cls()
        for line in damaged:
            if torn := _TORN.match(line.raw):
                links.passages[torn[2].decode("utf-8", "replace")] = (_text(torn[1]), "torn line")
        bridged: dict[str, str | None] = {}
        for at, line in enumerate(lines):
            value = line.value or {}
            uuid, parent = value.get("uuid"), _text_or_none(value.get("parentUuid"))
            if not isinstance(uuid, str) or not uuid:
                continue
            # Claude Code passes over progress lines in one go from the top: only those read so far are known.
            parent = bridged.get(parent, parent) if parent is not None else None
            if _is_entry(value):
                side = (value.get("isSidechain") is True, str(value.get("agentId") or ""))
                links.nodes.pop(uuid, None)
                links.nodes[uuid] = Node(at, line.no, value, uuid, parent, moment(value.get("timestamp")), side)
            else:
                links.passages[uuid] = (parent, f"{value.get('type')} line")
                if value.get("type") == "progress":
                    bridged[uuid] = parent
        return links

    def mend(self, elsewhere: frozenset[str] = frozenset(), *, cut_loops: bool = True) -> Links:
        """Find a parent for every entry whose parent is not there, and cut the loops.

        ``elsewhere`` has the uuids of the session's other files: a link to one of those is not broken.
        """
        clock = _Clock(self.nodes)
        for node in list(self.nodes.values()):
            if node.parent is not None and node.parent not in self.nodes and node.parent not in elsewhere:
                self._find_parent(node, clock, why=f"its parent {node.parent} is not in the file")
        for node in list(self._loop_ends()) if cut_loops else ():
            self._find_parent(node, clock, why=f"its parent {node.parent} hangs on it in turn", is_loop=True)
        return self

    def broken(self, elsewhere: frozenset[str] = frozenset()) -> list[Node]:
        """Entries whose parent is still not there."""
        return [n for n in self.nodes.values() if n.parent and n.parent not in self.nodes and n.parent not in elsewhere]

    def looping(self) -> list[str]:
        """Entries that still hang on themselves."""
        return [uuid for loop in self._loops() for uuid in loop]

    def _through(self, uuid: str | None) -> tuple[str | None, str]:
        """Where a chain of passages leads: an entry, null, or a uuid that is not there; and what it leads through."""
        kind, seen = "", set[str]()
        while uuid is not None and uuid in self.passages and uuid not in self.nodes and uuid not in seen:
            seen.add(uuid)
            uuid, kind = self.passages[uuid]
        return uuid, kind

    def _find_parent(self, node: Node, clock: _Clock, *, why: str, is_loop: bool = False) -> None:
        for name, found, evidence in self._candidates(node, clock, is_loop=is_loop):
            if found is None or not self._leads_to(found, node.uuid):
                self.steps.append(Step(name, node.line_no, f"{why}; {evidence}", node.uuid, node.parent, found))
                node.parent = found
                return

    def _candidates(self, node: Node, clock: _Clock, *, is_loop: bool) -> Iterator[tuple[str, str | None, str]]:
        """Possible parents, the best evidence first; a name for the rule, the parent, and the evidence in words."""
        for uuid, gap in clock.before(node):
            yield "time_window", uuid, f"this is the latest entry before it, by {gap} ms, where Claude Code looks on"
        end, kind = self._through(node.parent)
        if kind and (end is None or end in self.nodes):
            yield "bridge_line", end, f"that uuid is a {kind}, which hangs on this entry"
        yield from self._by_ids(node)
        last = clock.last_written(node)
        if last is not None:
            yield "last_written", last, "this is the last entry before it, both in the file and by its time"
        elif is_loop and clock.is_first(node):
            yield "first_written", None, "it is the first entry of the file"

    def _by_ids(self, node: Node) -> Iterator[tuple[str, str, str]]:
        calls = {b.get("tool_use_id") for b in _blocks(node.value) if b.get("type") == "tool_result"}
        message = _message_id(node.value)
        for other in self.nodes.values():
            if other.side != node.side or other.uuid == node.uuid:
                continue
            if calls & {b.get("id") for b in _blocks(other.value) if b.get("type") == "tool_use"}:
                yield "result_to_call", other.uuid, "it answers a call that this entry made"
            elif message and other.at < node.at and _message_id(other.value) == message:
                yield "same_message", other.uuid, "both are parts of one API message"

    def _leads_to(self, start: str | None, target: str) -> bool:
        seen = set[str]()
        while start is not None and start in self.nodes and start not in seen:
            if start == target:
                return True
            seen.add(start)
            start = self.nodes[start].parent
        return False

    def _loop_ends(self) -> Iterator[Node]:
        """Of every loop the one entry whose parent stands further below in the file, if there is just one."""
        for loop in self._loops():
            members = [self.nodes[uuid] for uuid in loop]
            forward = [n for n in members if self.nodes[n.parent or ""].at >= n.at]
            later = [n for n in forward if _is_later(self.nodes[n.parent or ""], n)]
            if len(forward) == 1:
                yield forward[0]
            elif len(later) == 1:
                yield later[0]

    def _loops(self) -> Iterator[list[str]]:
        done: dict[str, int] = {}
        for number, start in enumerate(self.nodes):
            path, at = list[str](), start
            while at in self.nodes and at not in done:
                done[at] = number
                path.append(at)
                at = self.nodes[at].parent or ""
            if done.get(at) == number and at in path:
                yield path[path.index(at) :]

    def apply(self, lines: list[Line]) -> list[Line]:
        """The lines with the new parents written in; no other byte changes."""
        changed = {step.uuid for step in self.steps}
        mended = list(lines)
        for uuid in changed:
            node = self.nodes[str(uuid)]
            line = mended[node.at]
            mended[node.at] = with_raw(line, set_value(line.raw, "parentUuid", node.parent))
        return mended


class _Clock:
    """Entries of each thread by time and by place."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self._by_time: dict[tuple[bool, str], list[tuple[int, int, str]]] = {}
        self._by_place: dict[tuple[bool, str], list[Node]] = {}
        for node in sorted(nodes.values(), key=lambda n: n.at):
            self._by_place.setdefault(node.side, []).append(node)
            if node.time is not None:
                # Of two at the same moment the earlier line wins, so it must sort last.
                self._by_time.setdefault(node.side, []).append((node.time, -node.at, node.uuid))
        for known in self._by_time.values():
            known.sort()

    def before(self, node: Node) -> Iterator[tuple[str, int]]:
        """Entries in Claude Code's window before this one, the latest first, each with the gap in ms."""
        if node.time is None:
            return
        known = self._by_time[node.side]
        end = bisect.bisect_right(known, (node.time, 1, ""))
        for time, _, uuid in reversed(known[:end]):
            if node.time - time > WINDOW_MS:
                return
            if uuid != node.uuid:
                yield uuid, node.time - time

    def last_written(self, node: Node) -> str | None:
        """The entry written last before this one, if place and time agree and nothing else was hung on it before."""
        place = self._by_place[node.side]
        index = bisect.bisect_left(place, node.at, key=lambda other: other.at)
        if index == 0 or node.time is None:
            return None
        last, earlier = place[index - 1], place[:index]
        if last.time is None or last.time > node.time:
            return None
        agrees = last.time == max(other.time for other in earlier if other.time is not None and other.time <= node.time)
        has_child = any(other.parent == last.uuid for other in earlier)
        return last.uuid if agrees and not has_child else None

    def is_first(self, node: Node) -> bool:
        """Whether nothing of its thread stands before it."""
        return self._by_place[node.side][0].uuid == node.uuid


def moment(text: object) -> int | None:
    """A timestamp in milliseconds since 1970, None when unreadable."""
    if not isinstance(text, str):
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    whole = read if read.tzinfo else read.replace(tzinfo=UTC)
    return round(whole.timestamp() * 1000)


def _is_entry(value: Json) -> bool:
    kind = value.get("type")
    if kind in ("user", "assistant"):
        return isinstance(value.get("message"), dict)
    return kind in ENTRY_TYPES


def _is_later(one: Node, other: Node) -> bool:
    return one.time is not None and other.time is not None and one.time > other.time


def _blocks(value: Json) -> list[dict[str, Any]]:
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _message_id(value: Json) -> str | None:
    message = value.get("message")
    found = message.get("id") if value.get("type") == "assistant" and isinstance(message, dict) else None
    return found if isinstance(found, str) and found else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")
