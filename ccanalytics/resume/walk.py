"""One session under the rules of 2.1.332, in plain Python on small lists.

The pass over all sessions (``current``) leaves to this module what does not go straight: lines out of order, unknown
parents, circles, hints off the way, results found by call id, passive entries beside the chain. Cost is linear in the
session but for the window search, which is one look-up per unknown parent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np

from ccanalytics.graph import NONE
from .compact import Kept
from .nodes import ASSISTANT, ATTACHMENT, NO_TIME, SYSTEM, USER, Nodes

WINDOW_MS = 5000
"""How much earlier an entry may be that stands in for a missing parent."""

Step = str


class Refused(Exception):
    """The session is not resumed; the message says why."""


class View:
    """The rows of one file as plain lists, numbered from 0; only rows that are alive have links."""

    def __init__(self, nodes: Nodes, file: int) -> None:
        a, b = int(nodes.starts[file]), int(nodes.starts[file + 1])
        self.first, self.n = a, b - a
        self.alive: list[bool] = nodes.alive[a:b].tolist()
        parent = nodes.parent[a:b]
        self.parent: list[int] = np.where(parent >= 0, parent - a, parent).tolist()
        self.kind: list[int] = nodes.kind[a:b].tolist()
        self.side: list[bool] = nodes.side[a:b].tolist()
        self.time: list[int] = nodes.time[a:b].tolist()
        self.group: list[int] = nodes.group[a:b].tolist()
        self.is_result: list[bool] = nodes.is_result[a:b].tolist()
        self.is_meta: list[bool] = nodes.is_meta[a:b].tolist()
        self.passive: list[bool] = (
            (nodes.kind[a:b] >= SYSTEM) | ((nodes.kind[a:b] == USER) & nodes.is_meta[a:b] & ~nodes.is_result[a:b])
        ).tolist()
        self.calls = _by_row(nodes.call_row, nodes.call_key, a, b)
        self.results = _by_row(nodes.result_row, nodes.result_key, a, b)
        self.children: dict[int, list[int]] = {}
        for x, p in enumerate(self.parent):
            if p >= 0 and self.alive[x]:
                self.children.setdefault(p, []).append(x)

    @property
    def rows(self) -> list[int]:
        """Rows that are alive, in order of position."""
        return [x for x in range(self.n) if self.alive[x]]

    def up(self, x: int) -> int:
        """The exact parent that is still there, else a negative number."""
        p = self.parent[x]
        return p if p < 0 or self.alive[p] else NONE

    def near(self, x: int) -> int:
        """The row or its nearest ancestor that is a user or an assistant entry; ``NONE`` without one."""
        seen = set[int]()
        while x >= 0 and x not in seen:
            if self.kind[x] <= ASSISTANT:
                return x
            seen.add(x)
            x = self.up(x)
        return NONE


def _by_row(rows: np.ndarray, keys: np.ndarray, a: int, b: int) -> dict[int, list[int]]:  # type: ignore[type-arg]
    i, j = np.searchsorted(rows, [a, b])
    out: dict[int, list[int]] = {}
    for row, key in zip((rows[i:j] - a).tolist(), keys[i:j].tolist(), strict=True):
        out.setdefault(row, []).append(key)
    return out


def walk_session(nodes: Nodes, file: int, kept: Kept | None) -> tuple[list[int], dict[int, Step]]:
    """Rows of the chain before it is made ready for a new turn, and the step that brought in each (else ``walk``)."""
    view = View(nodes, file)
    rows = view.rows
    if not rows:
        raise Refused("no entries")
    anchor, last = (kept.anchor - view.first, kept.last - view.first) if kept else (NONE, NONE)
    tip = find_tip(view, rows, anchor, last)
    hint = int(nodes.hint[file])
    if hint >= 0 and view.alive[hint - view.first]:
        tip = apply_hint(view, tip, hint - view.first)
    if view.side[tip]:
        raise Refused("the conversation would end in a sidechain")
    steps: dict[int, Step] = {}
    way = walk(view, tip, steps)
    way = Rounds(view, way, tip, steps).mend()
    way = add_behind_tip(view, way, tip, steps)
    return [x + view.first for x in way], {x + view.first: s for x, s in steps.items()}


def find_tip(view: View, rows: list[int], anchor: int, last_kept: int) -> int:
    """Where the chain ends when nothing hints at another place."""
    for x in reversed(rows):
        if view.side[x]:
            continue
        found = view.near(x)
        if any(not view.side[c] for c in view.children.get(x, ())):
            leaf = newest_leaf(view, x)
            if leaf >= 0 and view.time[leaf] != NO_TIME and view.time[leaf] >= view.time[x]:
                found = view.near(leaf)
            if found >= 0 and found == anchor:
                found = last_kept
        if found >= 0:
            return found
    main = [x for x in rows if not view.side[x]]
    return main[-1] if main else rows[-1]


def newest_leaf(view: View, top: int) -> int:
    """The leaf below a row with the newest time, a tie going to the later line; ``NONE`` when there is only a circle."""
    best, stack, seen = NONE, [top], {top}
    while stack:
        x = stack.pop()
        below = [c for c in view.children.get(x, ()) if not view.side[c]]
        if not below and (best < 0 or (view.time[x], x) > (view.time[best], best)):
            best = x
        for c in below:
            if c not in seen:
                seen.add(c)
                stack.append(c)
    return best


def apply_hint(view: View, tip: int, hint: int) -> int:
    """The tip that a last-prompt line leads to."""
    path: dict[int, int] = {}
    x, below = tip, NONE
    while x >= 0 and x not in path:
        path[x] = below
        below, x = x, view.up(x)
    if hint in path or _beside(view, hint, path):
        return tip
    if view.side[hint]:
        raise Refused("the last-prompt line names a sidechain")
    found = view.near(hint)
    return found if found >= 0 else tip


def _beside(view: View, hint: int, path: dict[int, int]) -> bool:
    """Whether the hint lies beside the path within one parallel round."""
    x, n_results, message = hint, 0, NONE
    seen = set[int]()
    while x >= 0 and x not in path and x not in seen:
        seen.add(x)
        if view.is_result[x]:
            n_results += 1
        elif view.kind[x] == ASSISTANT:
            if view.group[x] < 0 or (message >= 0 and view.group[x] != message):
                return False
            message = view.group[x]
        elif not view.passive[x]:
            return False
        x = view.up(x)
    if x not in path or not n_results or x not in view.calls or (message >= 0 and view.group[x] != message):
        return False
    out = path[x]
    if out < 0:
        return True
    return view.is_result[out] or (
        view.kind[out] == ASSISTANT and view.group[out] >= 0 and view.group[out] == view.group[x]
    )


def walk(view: View, tip: int, steps: dict[int, Step]) -> list[int]:
    """Up from the tip; a missing or repeated parent is stood in for by the entry nearest in time."""
    way, seen = [tip], {tip}
    clock: Clock | None = None
    while True:
        x = way[-1]
        up = view.parent[x]
        if up == NONE:
            break
        if up < 0 or not view.alive[up] or up in seen:
            clock = clock or Clock(view)
            up = clock.nearest(x, seen)
            if up < 0:
                break
            steps[up] = "spliced"
        way.append(up)
        seen.add(up)
    way.reverse()
    return way


class Clock:
    """Entries by time, to find the one that stands in for a missing parent."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.sorted = {
            side: sorted((view.time[x], x) for x in view.rows if view.side[x] is side and view.time[x] != NO_TIME)
            for side in (False, True)
        }

    def nearest(self, x: int, seen: set[int]) -> int:
        """The latest entry not after ``x`` and within the window, on its side and not seen; a tie: the earliest line."""
        at = self.view.time[x]
        if at == NO_TIME:
            return NONE
        entries = self.sorted[self.view.side[x]]
        low, high = bisect_left(entries, (at - WINDOW_MS, -1)), bisect_right(entries, (at, self.view.n))
        best = NONE
        for t, y in reversed(entries[low:high]):
            if best >= 0 and t < self.view.time[best]:
                break
            if y not in seen:
                best = y
        return best


class Rounds:
    """Parallel calls: what is lost beside the chain comes back, group by group in chain order."""

    def __init__(self, view: View, way: list[int], tip: int, steps: dict[int, Step]) -> None:
        self.view, self.way, self.tip, self.steps = view, way, tip, steps
        self.on = set(way)
        self.lines: dict[int, list[int]] = {}
        for x in view.rows:
            if view.group[x] >= 0:
                self.lines.setdefault(view.group[x], []).append(x)
        self.answers: dict[int, list[int]] = {}
        for x, keys in view.results.items():
            if view.alive[x]:
                for key in keys:
                    self.answers.setdefault(key, []).append(x)
        self.answered = {key for x in way for key in view.results.get(x, ())}
        self.place = {x: i for i, x in enumerate(way)}
        # Rows with a passive entry beside the chain below them: most groups have none and are done with at once.
        self.has_loose = {
            p
            for p, below in view.children.items()
            if p != tip and any(view.passive[c] and c not in self.on for c in below)
        }

    def mend(self) -> list[int]:
        """The chain with all groups mended."""
        done = set[int]()
        for x in list(self.way):
            group = self.view.group[x]
            if group >= 0 and group not in done:
                done.add(group)
                self._mend(group, x)
        return self.way

    def _mend(self, group: int, top: int) -> None:
        view, lines = self.view, self.lines[group]
        names = set(lines)
        by_parent = sorted(c for x in lines for c in view.children.get(x, ()) if view.is_result[c])
        by_call = self._by_call(lines, by_parent)
        results = {*by_parent, *by_call}
        self._move_early(top, names, results)
        zone_at, zone = self._zone(top, names, results)
        first = sorted(x for x in (*lines, *by_parent) if x not in self.on)
        then = [x for x in by_call if x not in self.on]
        if self.has_loose and (results or any(x in view.calls for x in lines)):
            starts = (*lines, *sorted(results), *(x for x in zone if view.passive[x]))
            passive = self._passive(starts)
            then += [x for x in passive if x not in then]
        if not first and not then:
            return
        merged = _merge(zone, first, 1)
        last = max(i for i, x in enumerate(merged) if x in names)
        merged = _merge(merged, sorted(then), last + 1)
        self.way[zone_at : zone_at + len(zone)] = merged
        for x in (*first, *then):
            self.on.add(x)
            self.place[x] = self.place[top]
            self.steps[x] = "line" if x in names else "result" if x in results else "passive"
            for key in view.results.get(x, ()):
                self.answered.add(key)

    def _by_call(self, lines: list[int], by_parent: list[int]) -> list[int]:
        view = self.view
        own = {key for x in by_parent for key in view.results.get(x, ())}
        found: list[int] = []
        for x in lines:
            for key in view.calls.get(x, ()):
                if key in own or key in self.answered:
                    continue
                hit = next((y for y in sorted(self.answers.get(key, ())) if not view.side[y]), NONE)
                if hit >= 0:
                    own.update(view.results[hit])
                    found.append(hit)
        return found

    def _move_early(self, top: int, names: set[int], results: set[int]) -> None:
        """Results of the group that stand before its first line, no prompt between, go behind its last line."""
        view, way, place = self.view, self.way, self.place
        if not any(x in place and place[x] < place[top] for x in results):
            return
        early: list[int] = []
        for x in reversed(way[: way.index(top)]):
            if view.kind[x] == USER and not view.is_result[x] and not view.is_meta[x]:
                break
            if x in results:
                early.append(x)
        if early:
            rest = [x for x in way if x not in early]
            last = max(i for i, x in enumerate(rest) if x in names)
            self.way = [*rest[: last + 1], *early[::-1], *rest[last + 1 :]]

    def _zone(self, top: int, names: set[int], results: set[int]) -> tuple[int, list[int]]:
        """Where the group's stretch of the chain begins, and the stretch."""
        way = self.way
        first = way.index(top)
        last, left = first, sum(x in self.on for x in names) + sum(x in self.on for x in results) - 1
        i = first
        while left > 0 and i + 1 < len(way):
            i += 1
            if way[i] in names or way[i] in results:
                last, left = i, left - 1
        while last + 1 < len(way) and self.view.passive[way[last + 1]]:
            last += 1
        return first, way[first : last + 1]

    def _passive(self, starts: Iterable[int]) -> list[int]:
        """Passive entries off the chain that hang from the round, with subtrees that are passive throughout."""
        view = self.view
        found: list[int] = []
        taken = set[int]()
        for start in starts:
            if start not in self.has_loose:
                continue
            for top in view.children.get(start, ()):
                if top in self.on or top in taken or not view.passive[top]:
                    continue
                tree = self._passive_tree(top)
                found += [x for x in tree if x not in taken]
                taken.update(tree)
        return found

    def _passive_tree(self, top: int) -> list[int]:
        view = self.view
        tree, stack, seen = list[int](), [top], {top}
        while stack:
            x = stack.pop()
            if not view.passive[x] or view.side[x] or x in self.on:
                return []
            tree.append(x)
            for c in view.children.get(x, ()):
                if c not in seen:
                    seen.add(c)
                    stack.append(c)
        return tree


def _merge(zone: list[int], more: list[int], start: int) -> list[int]:
    """``more`` put into ``zone`` by line: each before the first entry from ``start`` that stands later in the file."""
    if not more:
        return zone
    out = list(zone)
    for x in more:
        at = next((i for i in range(start, len(out)) if out[i] > x), len(out))
        out.insert(at, x)
    return out


def add_behind_tip(view: View, way: list[int], tip: int, steps: dict[int, Step]) -> list[int]:
    """Attachments and system lines that hang from the tip follow it, by time, none before what it hangs from."""
    on = set(way)
    hanging: list[int] = []
    stack, seen = [tip], {tip}
    while stack:
        for c in view.children.get(stack.pop(), ()):
            if view.kind[c] in (SYSTEM, ATTACHMENT) and c not in on and c not in seen:
                seen.add(c)
                hanging.append(c)
                stack.append(c)
    if not hanging:
        return way
    hanging.sort(key=lambda x: (view.time[x], x))
    placed = hanging if _parents_first(view, hanging, tip) else _parents_sorted(view, hanging, tip)
    for x in placed:
        steps[x] = "behind_tip"
    at = way.index(tip) + 1
    return [*way[:at], *placed, *way[at:]]


def _parents_first(view: View, rows: list[int], tip: int) -> bool:
    out = {tip}
    for x in rows:
        if view.parent[x] not in out:
            return False
        out.add(x)
    return True


def _parents_sorted(view: View, rows: list[int], tip: int) -> list[int]:
    """The rows in their order, each moved behind what it hangs from."""
    rank = {x: i for i, x in enumerate(rows)}
    ready = [rank[c] for c in view.children[tip] if c in rank]
    heapify(ready)
    placed: list[int] = []
    while ready:
        x = rows[heappop(ready)]
        placed.append(x)
        for c in view.children.get(x, ()):
            if c in rank:
                heappush(ready, rank[c])
    return placed
