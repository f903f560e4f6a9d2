"""Parallel calls of one session: what is lost beside the chain comes back to its message."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from ccanalytics.graph import NONE

from .nodes import USER
from .view import View


class Rounds:
    """Parallel calls: what is lost beside the chain comes back, group by group in chain order."""

    def __init__(self, view: View, way: list[int], tip: int, steps: dict[int, str]) -> None:
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

        self.at = 0
        """Where the last group began: groups come in chain order, so that the next one is looked for from there."""
        self.loose_on_way = any(x in self.on and view.passive[x] for x in self.has_loose)

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
        first = sorted(x for x in (*lines, *by_parent) if x not in self.on)
        then = [x for x in by_call if x not in self.on]
        loose = self.loose_on_way or any(x in self.has_loose for x in (*names, *results))
        if not first and not then and not loose:
            return
        zone_at, zone = self._zone(top, names, results)
        if loose and (results or any(x in view.calls for x in lines)):
            starts = (*lines, *sorted(results), *(x for x in zone if view.passive[x]))
            known = set(then)
            then += [x for x in self._passive(starts) if x not in known]
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
            self.at = 0

    def _zone(self, top: int, names: set[int], results: set[int]) -> tuple[int, list[int]]:
        """Where the group's stretch of the chain begins, and the stretch."""
        way = self.way
        first = self.at = way.index(top, self.at)
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
    """``more`` (ascending) put into ``zone``, each before the first entry from ``start`` that stands later."""
    if not more:
        return zone
    highest = list(accumulate(zone[start:], max))
    out, done = zone[:start], 0
    for x in more:
        at = bisect_right(highest, x)
        out += zone[start + done : start + at]
        out.append(x)
        done = at
    return out + zone[start + done :]
