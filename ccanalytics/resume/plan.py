"""What a resume of every session comes to, before it is written out as a frame."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ccanalytics.graph import NONE, Mask, Rows

from .nodes import Nodes

STEPS = (
    "walk", "bridged", "relinked", "spliced", "line", "result", "passive", "behind_tip", "interrupted", "no_response",
    "continue", "collapsed",
)  # fmt: skip
CODE = {name: i for i, name in enumerate(STEPS)}

NO_RESPONSE, CONTINUE = -1, -2
INTERRUPTED = -10
"""In place of a row: a made-up entry. ``INTERRUPTED - i`` is the answer to call ``i`` of ``Nodes.call_row``."""


@dataclass(slots=True)
class Plan:
    """Rows of every session in order, with made-up entries in place (negative numbers)."""

    nodes: Nodes
    file: Rows
    row: Rows
    step: Rows
    """For each node (not each place): which step brings it in."""
    refused: dict[int, str]
    """Files that are not resumed, and why."""
    unanswered: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows of the chain left out because their calls have no result."""
    empty: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows of the chain left out because they hold nothing but thinking or blanks."""
    absorbed: dict[int, list[int]] = field(default_factory=dict)
    """2.1.88: rows whose blocks went into the entry before them, by that entry's row."""
    spliced: list[tuple[int, int]] = field(default_factory=list)
    """Pairs (child, the entry that stands in for its missing parent)."""

    def has_file(self, file_id: int) -> bool:
        """Whether this file is one of those planned here."""
        return bool(np.isin(file_id, self.nodes.file_ids))

    def file_number(self, file_id: int) -> int:
        """Number of a file within the plan."""
        return int(np.searchsorted(self.nodes.file_ids, file_id))

    @property
    def is_made(self) -> Mask:
        """Places taken by entries the program makes up."""
        return np.asarray(self.row < 0, dtype=bool)


class Drops:
    """Rows that the last step leaves out, as they are found."""

    def __init__(self) -> None:
        self.unanswered: list[int] = []
        self.empty: list[int] = []


def assemble(parts: list[tuple[Rows, Rows]]) -> tuple[Rows, Rows]:
    """Stretches of (file, row), each in order and with every file in only one of them → all, by file."""
    if not parts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    file = np.concatenate([f for f, _ in parts])
    row = np.concatenate([r for _, r in parts])
    order = np.argsort(file, kind="stable")
    return file[order], row[order]


def last_per_file(rows: Rows, nodes: Nodes) -> Rows:
    """The last of ``rows`` (ascending) in each file; ``NONE`` for files with none."""
    out = np.full(nodes.n_files, NONE, dtype=np.int64)
    out[nodes.file[rows]] = rows
    return out


def first_steps(nodes: Nodes) -> Rows:
    """The step of each row before anything is recovered: kept messages are there because they were relinked."""
    return np.where(nodes.is_kept, CODE["relinked"], CODE["walk"]).astype(np.int64)


def mark_bridged(plan: Plan) -> None:
    """Rows that the walk reached through progress lines say so."""
    nodes, step = plan.nodes, plan.step
    walked = plan.row[plan.row >= 0]
    walked = walked[np.isin(step[walked], (CODE["walk"], CODE["relinked"]))]
    child = walked[nodes.bridged[walked] & (nodes.relinked[walked] == 0) & (nodes.parent[walked] >= 0)]
    above = nodes.parent[child]
    step[above[step[above] == CODE["walk"]]] = CODE["bridged"]
