"""Parallel calls of one session: what is lost beside the chain comes back to its message."""

from __future__ import annotations

from collections.abc import Iterable

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
