"""Forest operations on integer arrays: roots, depth, cycles, leaves, members, order, sums. Knows no transcripts.

A forest is one array ``parent``: the row each row hangs on; a negative number at a root. Rows may stand in any order
and a chain may be as long as there are rows, so nothing here recurses or walks row by row: each operation squares the
"go up 2^k steps" map once per round (pointer jumping) and ends after ceil(log2(depth)) rounds. Links that run in a
circle are not followed for ever and not silently dropped: :func:`trace` names every cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

NONE = -1
"""No row: the parent of a root, the cycle of a row that is on none, the nearest that does not exist."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Where every row of a forest leads."""

    root: Rows
    """The root above (or the row itself); for rows that lead into a cycle, the smallest row of that cycle."""
    depth: Rows
    """Links to the root; for rows that lead into a cycle, links to the cycle (0 on it)."""
    cycle: Rows
    """For rows that are on a cycle, its smallest row; ``NONE`` elsewhere."""

    @property
    def leads_to_cycle(self) -> Mask:
        """Rows that have no root because their way up runs into a cycle (or is on one)."""
        return self._circular

    @property
    def _circular(self) -> Mask:
        on = self.cycle >= 0
        names = np.zeros(len(self.root), dtype=bool)
        names[self.cycle[on]] = True
        return names[self.root]


def trace(parent: Rows) -> Trace:
    """Root, depth and cycle of every row.

    Parameters
    ----------
    parent : array of int64
        The row each row hangs on; negative at a root.

    Examples
    --------
    >>> t = trace(np.array([-1, 0, 1, 4, 3]))
    >>> t.root.tolist(), t.depth.tolist(), t.cycle.tolist()
    ([0, 0, 0, 3, 3], [0, 1, 2, 0, 0], [-1, -1, -1, 3, 3])
    """
    runs = _runs(parent)
    if runs is not None:
        return runs.trace()
    return _trace(parent)


def _trace(parent: Rows) -> Trace:
    n = len(parent)
    rows = np.arange(n, dtype=np.int64)
    cut, cycle = _cut_cycles(parent)
    root, depth = rows.copy(), np.zeros(n, dtype=np.int64)
    active = np.flatnonzero(cut >= 0)
    root[active] = cut[active]
    depth[active] = 1
    while len(active):
        # Invariant: root[x] is as far up as is known and depth[x] the links to it; done when that is a root.
        via = root[active]
        further = cut[via] >= 0
        active, via = active[further], via[further]
        depth_via, root_via = depth[via], root[via]
        depth[active] += depth_via
        root[active] = root_via
    name = np.where(cycle >= 0, cycle, rows)
    return Trace(name[root], depth, cycle)


@dataclass(frozen=True, slots=True)
class _Runs:
    """A forest in which every row stands after its parent, as runs of rows that hang on the row before.

    Transcripts are mostly such runs; jumping from run to run instead of from row to row saves most of the work.
    """

    start: Rows
    run: Rows
    """Run of each row."""
    up: Rows
    """Row that each run hangs on; ``NONE`` for none."""
    up_run: Rows

    def trace(self) -> Trace:
        """As :func:`trace`."""
        top = _trace(self.up_run)
        links = np.where(self.up >= 0, self.up - self.start[self.up_run] + 1, 0)
        head_depth = _path_sums(self.up_run, links)
        rows = np.arange(len(self.run), dtype=np.int64)
        depth = head_depth[self.run] + rows - self.start[self.run]
        return Trace(self.start[top.root[self.run]], depth, np.full(len(rows), NONE, dtype=np.int64))

    def members(self, starts: Rows) -> Mask:
        """As :func:`members`."""
        limit = np.full(len(self.start), NONE, dtype=np.int64)
        np.maximum.at(limit, self.run[starts], starts)
        reached = np.flatnonzero(_members(self.up_run, np.flatnonzero(limit >= 0)))
        up = self.up[reached]
        up = up[up >= 0]
        np.maximum.at(limit, self.run[up], up)
        return np.arange(len(self.run)) <= limit[self.run]

    def newest_below(self, newest: NDArray[np.int64], leaf: Mask) -> NDArray[np.int64]:
        """The largest ``newest`` of the leaves at or below each row; values from 0."""
        end = np.append(self.start[1:], len(self.run)) - 1
        best = np.where(leaf[end], newest[end], NONE)
        for rows, above in _rounds(self.up_run):
            np.maximum.at(best, above, best[rows])
        own = np.where(leaf, newest, NONE)
        hung = np.flatnonzero(self.up >= 0)
        np.maximum.at(own, self.up[hung], best[hung])
        # Runs counted from the end, so that the running maximum begins anew where a run does.
        base = (len(self.start) - 1 - self.run) * (np.int64(newest.max(initial=0)) + 2)
        best_below: Rows = np.maximum.accumulate((own + base)[::-1])[::-1] - base
        return best_below


def _runs(parent: Rows) -> _Runs | None:
    """The runs of a forest; None when a row stands before its parent."""
    n = len(parent)
    rows = np.arange(n, dtype=np.int64)
    if not n or not (parent < rows).all():
        return None
    head = (parent != rows - 1) | (parent < 0)
    start = np.flatnonzero(head)
    run = np.cumsum(head) - 1
    up = np.where(parent[start] >= 0, parent[start], NONE)
    return _Runs(start, run, up, np.where(up >= 0, run[up.clip(min=0)], NONE))


def _cut_cycles(parent: Rows) -> tuple[Rows, Rows]:
    """``parent`` with every row on a cycle made a root, and the smallest row of the cycle each row is on."""
    n = len(parent)
    cycle = np.full(n, NONE, dtype=np.int64)
    jump = np.where(parent >= 0, parent, NONE)
    active = np.flatnonzero(jump >= 0)
    steps = 1
    while len(active) and steps <= n:
        up = jump[jump[active]]
        jump[active] = up
        active = active[up >= 0]
        steps *= 2
    if not len(active):
        return parent, cycle
    # After n steps or more every row that has not arrived at a root stands on a cycle, and each row of a cycle is hit.
    on = np.unique(jump[active])
    smallest, step = np.full(n, NONE, dtype=np.int64), np.full(n, NONE, dtype=np.int64)
    smallest[on], step[on] = on, parent[on]
    for _ in range(len(on).bit_length()):
        smallest[on] = np.minimum(smallest[on], smallest[step[on]])
        step[on] = step[step[on]]
    cut = parent.copy()
    cut[on] = NONE
    return cut, smallest


def without_cycles(parent: Rows) -> Rows:
    """``parent`` with the link of each cycle's smallest row taken away, so that it is a forest."""
    if (parent < np.arange(len(parent))).all():
        return parent
    _, cycle = _cut_cycles(parent)
    heads = np.flatnonzero(cycle == np.arange(len(parent)))
    if not len(heads):
        return parent
    cut = parent.copy()
    cut[heads] = NONE
    return cut


def _rounds(parent: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Pairs (rows, the row 2^k above each), k = 0, 1, …, for the rows that have one. ``parent`` has no cycle."""
    jump = np.where(parent >= 0, parent, NONE)
    active = np.flatnonzero(jump >= 0)
    bound = len(parent).bit_length() + 1
    for _ in range(bound):
        if not len(active):
            return
        above = jump[active]
        yield active, above
        up = jump[above]
        jump[active] = up
        active = active[up >= 0]
    raise ValueError("the links run in a circle; use without_cycles first")


def child_counts(parent: Rows) -> Rows:
    """How many rows hang on each row."""
    return np.bincount(parent[parent >= 0], minlength=len(parent)).astype(np.int64)


def leaves(parent: Rows) -> Mask:
    """Rows that nothing hangs on."""
    out = np.ones(len(parent), dtype=bool)
    out[parent[parent >= 0]] = False
    return out


def members(parent: Rows, starts: Rows) -> Mask:
    """Rows on the way up from any of ``starts``, these included. ``parent`` has no cycle."""
    runs = _runs(parent)
    return _members(parent, starts) if runs is None else runs.members(starts)


def _members(parent: Rows, starts: Rows) -> Mask:
    on = np.zeros(len(parent), dtype=bool)
    on[starts] = True
    for rows, above in _rounds(parent):
        on[above[on[rows]]] = True
    return on


def nearest(parent: Rows, has: Mask) -> Rows:
    """The nearest row on the way up (the row itself included) for which ``has`` is true; ``NONE`` if there is none.

    Works with cycles: a way that comes back without having met one ends there.
    """
    n = len(parent)
    rows = np.arange(n, dtype=np.int64)
    # A row that has the property is its own end of the way, so only the stretches between such rows are walked.
    trimmed = np.where(has, NONE, parent)
    found = trace(trimmed)
    root = np.where(found.leads_to_cycle, NONE, found.root) if (found.cycle >= 0).any() else found.root
    root = np.where(has, rows, root)
    return np.where((root >= 0) & has[root], root, NONE)


def path_sums(parent: Rows, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of ``values`` over each row and all rows above it. ``parent`` has no cycle."""
    return _path_sums(parent, values)


def _path_sums(parent: Rows, values: NDArray[np.int64]) -> NDArray[np.int64]:
    total = values.astype(np.int64, copy=True)
    for rows, above in _rounds(parent):
        total[rows] = total[rows] + total[above]
    return total


def subtree_sums(parent: Rows, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of ``values`` over each row and all rows below it. ``parent`` has no cycle."""
    total = values.astype(np.int64, copy=True)
    for rows, above in _rounds(parent):
        # What hangs exactly 2^k below brings with it what hangs up to 2^k - 1 below that.
        more = total[rows]
        np.add.at(total, above, more)
    return total


def order(parent: Rows, rank: NDArray[np.int64] | None = None) -> Rows:
    """All rows, depth first: a row before those that hang on it. ``parent`` has no cycle.

    Siblings (and roots) stand by ``rank``, those of equal rank by row number.
    """
    n = len(parent)
    size = subtree_sums(parent, np.ones(n, dtype=np.int64))
    by_rank = np.zeros(n, dtype=np.int64) if rank is None else rank
    by_parent = np.lexsort((np.arange(n), by_rank, parent.clip(NONE)))
    before = np.cumsum(size[by_parent]) - size[by_parent]
    group = parent.clip(NONE)[by_parent]
    first = np.flatnonzero(np.diff(group, prepend=group[:1] - 1)) if n else np.zeros(0, dtype=np.int64)
    start = np.repeat(before[first], np.diff(np.append(first, n)))
    own = np.empty(n, dtype=np.int64)
    own[by_parent] = before - start
    place = path_sums(parent, own + (parent >= 0))
    out = np.empty(n, dtype=np.int64)
    out[place] = np.arange(n)
    return out


def branches(parent: Rows, newest: NDArray[np.int64]) -> Rows:
    """Number of the branch each row is on: that of the leaf with the largest ``newest`` at or below it.

    Every row is on exactly one branch; a branch is the way up from its leaf until another branch begins. Branches
    are numbered by their leaf's ``newest``, downward from 0. ``newest`` has no ties and no negative values. ``parent``
    has no cycle.
    """
    leaf = leaves(parent)
    best = newest_leaves(parent, newest)
    is_name = np.zeros(int(newest.max(initial=NONE)) + 2, dtype=bool)
    is_name[newest[leaf]] = True
    above_it = np.cumsum(is_name[::-1])[::-1]
    return above_it[best] - 1


def newest_leaves(parent: Rows, newest: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest ``newest`` (from 0) among the leaves at or below each row. ``parent`` has no cycle."""
    leaf = leaves(parent)
    runs = _runs(parent)
    if runs is not None:
        return runs.newest_below(newest, leaf)
    best = np.where(leaf, newest, NONE)
    for rows, above in _rounds(parent):
        np.maximum.at(best, above, best[rows])
    return best
