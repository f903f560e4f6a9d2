"""One session as plain lists, for what does not go straight."""

from __future__ import annotations

import numpy as np

from ccanalytics.graph import NONE, Rows

from .nodes import ASSISTANT, SYSTEM, USER, Nodes


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
        self.spliced: list[tuple[int, int]] = []
        """Pairs (child, the row that stands in for its missing parent), as walking finds them."""
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


def _by_row(rows: Rows, keys: Rows, a: int, b: int) -> dict[int, list[int]]:
    i, j = np.searchsorted(rows, [a, b])
    out: dict[int, list[int]] = {}
    for row, key in zip((rows[i:j] - a).tolist(), keys[i:j].tolist(), strict=True):
        out.setdefault(row, []).append(key)
    return out
