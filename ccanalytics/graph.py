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
    n = len(parent)
    rows = np.arange(n, dtype=np.int64)
    cut, cycle = _cut_cycles(parent)
    root, depth = rows.copy(), np.zeros(n, dtype=np.int64)
    jump = cut.copy()
    active = np.flatnonzero(jump >= 0)
    root[active] = jump[active]
    depth[active] = 1
    while len(active):
        # Invariant: root[x] is as far up as is known, depth[x] the links to it, jump[x] = root[x] while it is no root.
        via = root[active]
        further = jump[via] >= 0
        active, via = active[further], via[further]
        depth_via, root_via = depth[via], root[via]
        depth[active] += depth_via
        root[active] = root_via
    name = np.where(cycle >= 0, cycle, rows)
    return Trace(name[root], depth, cycle)


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


def order(parent: Rows) -> Rows:
    """All rows, depth first: a row before those that hang on it, siblings by row number. ``parent`` has no cycle."""
    n = len(parent)
    size = subtree_sums(parent, np.ones(n, dtype=np.int64))
    by_parent = np.lexsort((np.arange(n), parent.clip(NONE)))
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
    """Number of the branch each row is on: that of the leaf with the largest ``newest`` below it.

    Every row is on exactly one branch; a branch is the way up from its leaf until another branch begins. Branches
    are numbered by their leaf's ``newest``, downward from 0. ``newest`` has no ties. ``parent`` has no cycle.
    """
    n = len(parent)
    leaf = leaves(parent)
    best = np.where(leaf, newest, np.iinfo(np.int64).min)
    for rows, above in _rounds(parent):
        np.maximum.at(best, above, best[rows])
    names = np.unique(best[leaf])[::-1] if n else best
    rank = len(names) - 1 - np.searchsorted(names[::-1], best)
    return rank.astype(np.int64)
