"""All sessions at once under the rules of 2.1.332.

Most sessions go straight: entries after their parents, one way up from the last line, rounds whose lost lines fit in
by position. Those are done for all sessions together with arrays. A session in which anything else is found is marked
``odd`` and handed to ``walk``, which does one session in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ccanalytics import graph
from ccanalytics.graph import NONE, Mask, Rows

from .compact import Kept
from .load import answer_place, load_332
from .nodes import ASSISTANT, NO_TIME, SYSTEM, UNKNOWN, USER, Nodes
from .plan import CODE, NO_RESPONSE, Drops, Plan, assemble, first_steps, last_per_file, mark_bridged
from .walk import Refused, walk_session

CLIMB = 64
"""Rounds for climbing over passive entries in step; a session with longer stretches of them is odd."""


def plan_332(nodes: Nodes, kept: dict[int, Kept]) -> Plan:
    """What every session comes to; compaction has been applied to ``nodes``."""
    straight = Straight(nodes)
    straight.find_tips()
    straight.walk()
    straight.find_rounds()
    straight.find_behind()
    step = first_steps(nodes)
    file, row = straight.order(step)
    refused: dict[int, str] = {}
    ways: dict[int, list[int]] = {}
    spliced: list[tuple[int, int]] = []
    for f in np.flatnonzero(straight.odd).tolist():
        try:
            walked = walk_session(nodes, f, kept.get(f))
        except Refused as e:
            refused[f] = str(e)
            continue
        ways[f] = walked.way
        for r, name in walked.steps.items():
            step[r] = CODE[name]
        spliced += walked.spliced
    plan = _load_all(nodes, file, row, ways, step, refused)
    plan.spliced = spliced
    mark_bridged(plan)
    return plan


@dataclass(slots=True)
class Places:
    """Where each group's stretch of the chain begins and ends (positions among rows on a chain)."""

    start: Rows
    end: Rows


class Straight:
    """The arrays of the pass over all sessions; ``odd`` grows as the steps find what does not go straight."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        n = len(nodes.entry)
        self.odd = np.zeros(nodes.n_files, dtype=bool)
        self.parent = nodes.parent
        self._mark(np.flatnonzero(nodes.parent >= np.arange(n)))
        self.passive = nodes.passive
        self.tip = np.full(nodes.n_files, NONE, dtype=np.int64)
        self.on = np.zeros(n, dtype=bool)
        self.more: list[tuple[Rows, Rows]] = []
        self.behind: Rows = np.zeros(0, dtype=np.int64)

    def _mark(self, rows: Rows) -> None:
        rows = rows[self.nodes.alive[rows]]
        self.odd[self.nodes.file[rows]] = True

    @property
    def fair(self) -> Mask:
        """Rows of sessions that have gone straight so far."""
        return self.nodes.alive & ~self.odd[self.nodes.file]

    def find_tips(self) -> None:
        """The last main line of each file, if it is a leaf, or the message it hangs from."""
        nodes = self.nodes
        main = np.flatnonzero(nodes.alive & ~nodes.side)
        tip = last_per_file(main, nodes)
        up = nodes.parent[main]
        inner = np.zeros(len(nodes.entry), dtype=bool)
        inner[up[up >= 0]] = True
        self.odd |= (tip < 0) | inner[tip]
        at = tip.clip(min=0)
        for _ in range(CLIMB):
            going = np.flatnonzero(~self.odd & (nodes.kind[at] >= SYSTEM))
            if not len(going):
                break
            above = nodes.parent[at[going]]
            at[going] = np.where(above >= 0, above, at[going])
            self.odd[going[above < 0]] = True
        self.odd |= (nodes.kind[at] >= SYSTEM) | nodes.side[at]
        self.tip = np.where(self.odd, NONE, at)

    def walk(self) -> None:
        """The rows on the way up from the tips."""
        nodes = self.nodes
        fair = self.fair
        parent = np.where(fair, nodes.parent, NONE)
        self.on = graph.members(parent, self.tip[self.tip >= 0])
        ends = np.flatnonzero(self.on & (nodes.parent == UNKNOWN))
        self._mark(ends)
        hints = np.flatnonzero((nodes.hint >= 0) & ~self.odd)
        hinted = nodes.hint[hints]
        off = nodes.alive[hinted] & ~self.on[hinted]
        self.odd[hints[off]] = True

    def find_rounds(self) -> None:
        """Lost lines, results and passive entries of the groups on the chain."""
        nodes, on = self.nodes, self.on
        fair = self.fair
        parent = nodes.parent
        up = parent.clip(min=0)
        by_parent = np.where(nodes.is_result & (parent >= 0), nodes.group[up], NONE)
        member = np.where(nodes.group >= 0, nodes.group, by_parent)
        n_groups = int(nodes.group.max(initial=-1)) + 1
        on_group = np.zeros(n_groups + 1, dtype=bool)
        on_group[nodes.group[on & (nodes.group >= 0)]] = True
        on_group[NONE] = False
        self._find_by_call(by_parent, on_group)
        missing = np.flatnonzero(fair & ~on & on_group[member])
        loose = self._find_loose(member, on_group, fair)
        if len(missing) or len(loose):
            self._place(missing, loose, member, n_groups)

    def _find_by_call(self, by_parent: Rows, on_group: Mask) -> None:
        """A call that no result on the chain or below its message answers, but another one somewhere: odd."""
        nodes = self.nodes
        answered = np.zeros(nodes.n_keys + 1, dtype=bool)
        answered[nodes.result_key[self.on[nodes.result_row]]] = True
        call_group = nodes.group[nodes.call_row]
        open_ = np.flatnonzero(nodes.alive[nodes.call_row] & on_group[call_group] & ~answered[nodes.call_key])
        if not len(open_):
            return
        usable = nodes.alive[nodes.result_row]
        own = by_parent[nodes.result_row] * nodes.n_keys + nodes.result_key
        theirs = call_group[open_] * nodes.n_keys + nodes.call_key[open_]
        open_ = open_[~np.isin(theirs, own[usable & (by_parent[nodes.result_row] >= 0)])]
        elsewhere = np.zeros(nodes.n_keys + 1, dtype=bool)
        elsewhere[nodes.result_key[usable & ~nodes.side[nodes.result_row]]] = True
        self._mark(nodes.call_row[open_[elsewhere[nodes.call_key[open_]]]])

    def _find_loose(self, member: Rows, on_group: Mask, fair: Mask) -> Rows:
        """Passive entries beside the chain that hang from a round, where they are single; else the session is odd."""
        nodes = self.nodes
        rows = np.flatnonzero(fair & ~self.on & self.passive & (nodes.parent >= 0))
        up = nodes.parent[rows]
        rows, up = rows[up != self.tip[nodes.file[rows]]], up[up != self.tip[nodes.file[rows]]]
        of_chain = self.on[up] & self.passive[up]
        self._mark(rows[of_chain])
        round_ = np.zeros(len(on_group), dtype=bool)
        round_[nodes.group[nodes.call_row]] = True
        results = np.flatnonzero(nodes.is_result)
        round_[member[results]] = True
        round_[NONE] = False
        group = member[up]
        hanging = ~of_chain & (group >= 0) & on_group[group] & round_[group]
        rows, group = rows[hanging], group[hanging]
        if not len(rows):
            return np.asarray(rows, dtype=np.int64)
        has_child = np.zeros(len(nodes.entry), dtype=bool)
        has_child[nodes.parent[nodes.alive & (nodes.parent >= 0)]] = True
        last_line = np.full(len(on_group), NONE, dtype=np.int64)
        lines = np.flatnonzero(nodes.alive & (nodes.group >= 0))
        last_line[nodes.group[lines]] = lines
        plain = ~has_child[rows] & ~nodes.side[rows] & (rows > last_line[group])
        self._mark(rows[~plain])
        singles: Rows = rows[plain]
        return singles

    def _place(self, missing: Rows, loose: Rows, member: Rows, n_groups: int) -> None:
        """The stretch of the chain each missing entry belongs in; sessions whose stretches overlap are odd."""
        nodes = self.nodes
        rows = np.concatenate([missing, loose])
        group = np.concatenate([member[missing], member[nodes.parent[loose]]])
        chain = np.flatnonzero(self.on)
        start = np.full(n_groups, NONE, dtype=np.int64)
        end = np.full(n_groups, NONE, dtype=np.int64)
        place = np.arange(len(chain))
        is_line = nodes.group[chain] >= 0
        start[nodes.group[chain[is_line]][::-1]] = place[is_line][::-1]
        is_member = member[chain] >= 0
        end[member[chain[is_member]]] = place[is_member]
        needed = np.unique(group)
        first, last = start[needed], self._over_passive(chain, end[needed])
        order = np.argsort(first, kind="stable")
        first, last = first[order], last[order]
        self._mark(chain[first[1:][first[1:] <= last[:-1]]])
        zone_start = start[group]
        self._mark(rows[rows < chain[zone_start]])
        self.more = [(rows, zone_start)]
        self.zones = Places(first, last)

    def _over_passive(self, chain: Rows, end: Rows) -> Rows:
        nodes = self.nodes
        end = end.copy()
        going = np.arange(len(end))
        for _ in range(CLIMB):
            nxt = (end[going] + 1).clip(max=len(chain) - 1)
            further = (
                (nxt > end[going])
                & self.passive[chain[nxt]]
                & (nodes.file[chain[nxt]] == nodes.file[chain[end[going]]])
            )
            going = going[further]
            if not len(going):
                return end
            end[going] += 1
        self._mark(chain[end[going]])
        return end

    def find_behind(self) -> None:
        """Attachments and system lines that hang from the tip, through their like."""
        nodes = self.nodes
        taken = np.zeros(len(nodes.entry), dtype=bool)
        for rows, _ in self.more:
            taken[rows] = True
        free = self.fair & ~self.on & ~taken & (nodes.kind >= SYSTEM)
        rows = np.flatnonzero(free & (nodes.parent >= 0))
        top = nodes.parent[rows]
        going = np.flatnonzero(free[top])
        for _ in range(CLIMB):
            if not len(going):
                break
            above = nodes.parent[top[going]]
            top[going] = np.where(above >= 0, above, top[going])
            going = going[(above >= 0) & free[top[going]]]
        self._mark(rows[going])
        rows = rows[top == self.tip[nodes.file[rows]]]
        up = nodes.parent[rows]
        deeper = up != self.tip[nodes.file[rows]]
        late = deeper & ((nodes.time[up] > nodes.time[rows]) | (nodes.time[rows] == NO_TIME))
        self._mark(rows[late])
        self.behind = rows[np.lexsort((rows, nodes.time[rows], nodes.file[rows]))]

    def order(self, step: Rows) -> tuple[Rows, Rows]:
        """File and row of all places of the sessions that went straight; enters the steps in ``step``."""
        nodes = self.nodes
        chain = np.flatnonzero(self.on)
        key = np.arange(len(chain))
        rows = chain
        if self.more:
            zone = np.searchsorted(self.zones.start, key, "right") - 1
            inside = (zone >= 0) & (key <= self.zones.end[zone.clip(min=0)])
            key = np.where(inside, self.zones.start[zone.clip(min=0)], key)
            more, starts = self.more[0]
            rows, key = np.concatenate([chain, more]), np.concatenate([key, starts])
            order = np.argsort(key * np.int64(len(nodes.entry) + 1) + rows, kind="stable")
            rows = rows[order]
            step[more] = np.where(
                nodes.group[more] >= 0, CODE["line"], np.where(nodes.is_result[more], CODE["result"], CODE["passive"])
            )
        rows = rows[~self.odd[nodes.file[rows]]]
        behind = self.behind[~self.odd[nodes.file[self.behind]]]
        if len(behind):
            at = np.full(len(nodes.entry), NONE, dtype=np.int64)
            at[rows] = np.arange(len(rows))
            rows = np.insert(rows, at[self.tip[nodes.file[behind]]] + 1, behind)
            step[behind] = CODE["behind_tip"]
        return nodes.file[rows], rows


def _load_all(
    nodes: Nodes, file: Rows, row: Rows, ways: dict[int, list[int]], step: Rows, refused: dict[int, str]
) -> Plan:
    """Part 8 of the rules for every session: in step where every call has its result, else one by one."""
    drops = Drops()
    on = np.zeros(len(nodes.entry), dtype=bool)
    on[row] = True
    answered = np.zeros(nodes.n_keys + 1, dtype=bool)
    answered[nodes.result_key[on[nodes.result_row]]] = True
    lacking = nodes.call_row[on[nodes.call_row] & ~answered[nodes.call_key]]
    single = np.zeros(nodes.n_files, dtype=bool)
    single[nodes.file[lacking]] = True
    bounds = np.searchsorted(file, np.arange(nodes.n_files + 1))
    for f in np.flatnonzero(single).tolist():
        ways[f] = row[bounds[f] : bounds[f + 1]].tolist()
    parts = [_load_straight(nodes, row[~single[file]], drops)]
    for f, way in ways.items():
        loaded = np.array(load_332(nodes, way, drops), dtype=np.int64)
        parts.append((np.full(len(loaded), f, dtype=np.int64), loaded))
    all_files, all_rows = assemble(parts)
    return Plan(
        nodes, all_files, all_rows, step, refused,
        unanswered=np.array(drops.unanswered, dtype=np.int64), empty=np.array(drops.empty, dtype=np.int64),
    )  # fmt: skip


def _load_straight(nodes: Nodes, row: Rows, drops: Drops) -> tuple[Rows, Rows]:
    """Sessions with no call left open: drop empty answers, and answer what ends on the user's side."""
    group = nodes.group[row]
    full = np.zeros(int(nodes.group.max(initial=-1)) + 2, dtype=bool)
    full[group[nodes.has_content[row] & ~nodes.is_thinking[row]]] = True
    full[NONE] = False
    empty = nodes.is_blank[row] | (nodes.is_thinking[row] & ~full[group])
    drops.empty += row[empty].tolist()
    row = row[~empty]
    file = nodes.file[row]
    ends = np.flatnonzero(np.append(file[1:] != file[:-1], True)) if len(row) else np.zeros(0, dtype=np.int64)
    # An answer or a tool result as last entry decides at once; only what is passive there asks for a look back.
    plain = nodes.kind[row[ends]] == ASSISTANT
    places = (ends[nodes.kind[row[ends]] == USER] + 1).tolist()
    starts = np.insert(ends[:-1] + 1, 0, 0) if len(ends) else ends
    for a, b in zip(starts[~plain].tolist(), ends[~plain].tolist(), strict=True):
        if nodes.kind[row[b]] == USER:
            continue
        rows = row[a : b + 1]
        at = answer_place(nodes.kind[rows].tolist(), nodes.is_error[rows].tolist())
        if at >= 0:
            places.append(a + at)
    places_at = np.array(places, dtype=np.int64)
    owner = file[places_at - 1]
    return np.insert(file, places_at, owner), np.insert(row, places_at, NO_RESPONSE)
