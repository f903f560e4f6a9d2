"""One session under the rules of 2.1.332, in plain Python on small lists.

The pass over all sessions (``current``) leaves to this module what does not go straight: lines out of order, unknown
parents, circles, hints off the way, results found by call id, passive entries beside the chain. Cost is linear in the
session but for the window search, which is one look-up per unknown parent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from ccanalytics.graph import NONE

from .compact import Kept
from .nodes import ASSISTANT, ATTACHMENT, NO_TIME, SYSTEM, Nodes
from .rounds import Rounds
from .view import View

WINDOW_MS = 5000
"""How much earlier an entry may be that stands in for a missing parent."""

Step = str


class Refused(Exception):
    """The session is not resumed; the message says why."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What walking one session gives, as rows of ``Nodes``."""

    way: list[int]
    steps: dict[int, Step]
    """The step that brought in a row, where it is not the walk itself."""
    spliced: list[tuple[int, int]]
    """Pairs (child, the entry that stands in for its missing parent)."""


def walk_session(nodes: Nodes, file: int, kept: Kept | None) -> Walked:
    """The chain of one session before it is made ready for a new turn."""
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
    return Walked(
        [x + view.first for x in way],
        {x + view.first: s for x, s in steps.items()},
        [(x + view.first, y + view.first) for x, y in view.spliced],
    )


def find_tip(view: View, rows: list[int], anchor: int, last_kept: int) -> int:
    """Where the chain ends when nothing hints at another place."""
    speakers = [x for x in rows if view.kind[x] <= ASSISTANT]
    reached = _reachable(view, speakers)
    for x in reversed(rows):
        if view.side[x] or not reached[x]:
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


def _reachable(view: View, speakers: list[int]) -> list[bool]:
    """Rows that can lead to a user or assistant entry, up or down; from others the search need not begin."""
    reached = [False] * view.n
    for x in speakers:
        reached[x] = True
    stack = list(speakers)
    while stack:
        for c in view.children.get(stack.pop(), ()):
            if not reached[c]:
                reached[c] = True
                stack.append(c)
    stack = list(speakers)
    while stack:
        p = view.up(stack.pop())
        if p >= 0 and not reached[p]:
            reached[p] = True
            stack.append(p)
    return reached


def newest_leaf(view: View, top: int) -> int:
    """The leaf below a row with the newest time, a tie going to the later line; ``NONE`` in a mere circle."""
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
            clock.pass_over(way)
            up = clock.nearest(x)
            if up < 0:
                break
            steps[up] = "spliced"
            view.spliced.append((x, up))
        way.append(up)
        seen.add(up)
    way.reverse()
    return way


class Clock:
    """Entries by time, to find the one that stands in for a missing parent.

    Entries that were walked over are skipped in leaps, so that many of the same moment cost no more than others.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        rows = [x for x in view.rows if view.time[x] != NO_TIME]
        self.sides = {
            side: Line(sorted((view.time[x], x) for x in rows if view.side[x] is side)) for side in (False, True)
        }
        self.n_passed = 0

    def pass_over(self, way: list[int]) -> None:
        """Take out what was walked over since the last time."""
        for x in way[self.n_passed :]:
            if self.view.time[x] != NO_TIME:
                self.sides[self.view.side[x]].take_out((self.view.time[x], x))
        self.n_passed = len(way)

    def nearest(self, x: int) -> int:
        """The latest entry not after ``x``, in the window, on its side, not seen; of equal ones the earliest line."""
        at = self.view.time[x]
        if at == NO_TIME:
            return NONE
        line = self.sides[self.view.side[x]]
        last = line.before(bisect_right(line.moments, (at, self.view.n)) - 1)
        if last < 0 or line.moments[last][0] < at - WINDOW_MS:
            return NONE
        return line.moments[line.after(bisect_left(line.moments, (line.moments[last][0], -1)))][1]


class Line:
    """Sorted moments of which some are taken out; the nearest that is left is found in leaps."""

    def __init__(self, moments: list[tuple[int, int]]) -> None:
        self.moments = moments
        self.down = list(range(len(moments)))
        self.up = list(range(len(moments) + 1))

    def take_out(self, moment: tuple[int, int]) -> None:
        """Leave this moment out from now on."""
        i = bisect_left(self.moments, moment)
        self.down[i], self.up[i] = i - 1, i + 1

    def before(self, i: int) -> int:
        """The last place that is left, at or before ``i``; negative without one."""
        way: list[int] = []
        while i >= 0 and self.down[i] != i:
            way.append(i)
            i = self.down[i]
        for j in way:
            self.down[j] = i
        return i

    def after(self, i: int) -> int:
        """The first place that is left, at or after ``i``."""
        way: list[int] = []
        while self.up[i] != i:
            way.append(i)
            i = self.up[i]
        for j in way:
            self.up[j] = i
        return i


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
