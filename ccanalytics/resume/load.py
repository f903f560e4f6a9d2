"""Making a chain ready for a new turn: unresolved calls, empty answers, what the program adds at the end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ccanalytics.graph import Rows

from .nodes import ASSISTANT, ATTACHMENT, SYSTEM, USER, Nodes
from .plan import CONTINUE, INTERRUPTED, NO_RESPONSE, Drops


class Facts:
    """The facts of the rows of one chain as lists, by place."""

    def __init__(self, nodes: Nodes, way: list[int]) -> None:
        rows = np.array(way, dtype=np.int64)
        self.rows = way
        self.kind: list[int] = nodes.kind[rows].tolist()
        self.group: list[int] = nodes.group[rows].tolist()
        self.is_result: list[bool] = nodes.is_result[rows].tolist()
        self.is_error: list[bool] = nodes.is_error[rows].tolist()
        self.is_thinking: list[bool] = nodes.is_thinking[rows].tolist()
        self.is_blank: list[bool] = nodes.is_blank[rows].tolist()
        self.has_content: list[bool] = nodes.has_content[rows].tolist()
        self.calls = _spans(nodes.call_row, rows)
        self.call_key = nodes.call_key
        answered = set[int]()
        for a, b in _spans(nodes.result_row, rows):
            answered.update(nodes.result_key[a:b].tolist())
        self.answered = answered
        self.is_open = [a < b and not any(k in answered for k in nodes.call_key[a:b].tolist()) for a, b in self.calls]

    def __len__(self) -> int:
        return len(self.rows)


def _spans(owner: Rows, rows: Rows) -> list[tuple[int, int]]:
    return list(zip(np.searchsorted(owner, rows).tolist(), np.searchsorted(owner, rows, "right").tolist(), strict=True))


def load_332(nodes: Nodes, way: list[int], drops: Drops) -> list[int]:
    """Rows and made-up entries (negative) of a chain under 2.1.332."""
    facts = Facts(nodes, way)
    empty = _empty(facts, [True] * len(way))
    start, last = _last_turn(facts, empty)
    group = facts.group[last] if last >= 0 else -1
    closed = [i for i in range(len(way)) if not facts.is_open[i] and not empty[i]]
    all_stay = _ends_on_result(facts, closed)

    def is_last_message(i: int) -> bool:
        return i == last or (group >= 0 and facts.group[i] == group)

    out: list[int] = []
    for i, row in enumerate(way):
        if empty[i]:
            drops.empty.append(row)
        elif facts.is_open[i] and not (i >= start and (all_stay or is_last_message(i))):
            drops.unanswered.append(row)
        else:
            out.append(i)
    made: list[int] = []
    if last >= 0:
        for i in out:
            if facts.kind[i] == ASSISTANT and is_last_message(i):
                a, b = facts.calls[i]
                made += [INTERRUPTED - c for c in range(a, b) if int(nodes.call_key[c]) not in facts.answered]
    rows = [way[i] for i in out]
    if made:
        return [*rows, *made, NO_RESPONSE]
    at = answer_place([facts.kind[i] for i in out], [facts.is_error[i] for i in out])
    return rows if at < 0 else [*rows[:at], NO_RESPONSE, *rows[at:]]


def _empty(facts: Facts, left: list[bool]) -> list[bool]:
    """Answers that hold only blanks, or only thinking while no other line of their message (of ``left``) holds more."""
    full = {
        g for i, g in enumerate(facts.group) if left[i] and g >= 0 and facts.has_content[i] and not facts.is_thinking[i]
    }
    return [facts.is_blank[i] or (facts.is_thinking[i] and facts.group[i] not in full) for i in range(len(facts.rows))]


def _last_turn(facts: Facts, empty: list[bool]) -> tuple[int, int]:
    """Place at which the last turn begins, and that of its last answer (-1 without one)."""
    start, last = 0, -1
    for i in range(len(facts) - 1, -1, -1):
        if facts.kind[i] == USER and not facts.is_result[i]:
            start = i + 1
            break
        if last < 0 and facts.kind[i] == ASSISTANT and not empty[i]:
            last = i
    return start, last


def _ends_on_result(facts: Facts, places: list[int]) -> bool:
    passed_attachment = False
    for i in reversed(places):
        if facts.kind[i] == SYSTEM:
            continue
        if facts.kind[i] == ATTACHMENT:
            passed_attachment = True
            continue
        return facts.kind[i] == USER if passed_attachment else facts.is_result[i]
    return False


def answer_place(kind: list[int], is_error: list[bool]) -> int:
    """Where ``no-response`` goes when a conversation ends on the user's side; -1 when it does not."""
    end = len(kind) - 1
    while end >= 0 and kind[end] == SYSTEM:
        end -= 1
    if end < 0:
        return -1
    if kind[end] == USER:
        return end + 1
    if kind[end] != ATTACHMENT:
        return -1
    before = end
    while before >= 0 and (kind[before] in (SYSTEM, ATTACHMENT) or is_error[before]):
        before -= 1
    return end + 1 if before < 0 or kind[before] == USER else -1


def load_88(
    nodes: Nodes, way: list[int], drops: Drops, is_brief: Callable[[int], bool]
) -> tuple[list[int], dict[int, list[int]]]:
    """The same under 2.1.88, and the rows that were absorbed by the user entry before them.

    ``is_brief`` says whether the result in a row answers a call of a tool that speaks to the user.
    """
    facts = Facts(nodes, way)
    left = [not o for o in facts.is_open]
    drops.unanswered += [row for row, keep in zip(way, left, strict=True) if not keep]
    empty = _empty(facts, left)
    places = [i for i in range(len(way)) if left[i] and not empty[i]]
    drops.empty += [way[i] for i in range(len(way)) if left[i] and empty[i]]
    absorbed: dict[int, list[int]] = {}
    if any(left[i] and facts.is_blank[i] for i in range(len(way))):
        places = _merge_users(facts, places, absorbed)
    continued = _is_cut_off(facts, places, absorbed, is_brief)
    rows = [way[i] for i in places]
    if continued:
        return [*rows, CONTINUE, NO_RESPONSE], absorbed
    end = len(places) - 1
    while end >= 0 and facts.kind[places[end]] == SYSTEM:
        end -= 1
    if end >= 0 and facts.kind[places[end]] == USER:
        rows.insert(end + 1, NO_RESPONSE)
    return rows, absorbed


def _merge_users(facts: Facts, places: list[int], absorbed: dict[int, list[int]]) -> list[int]:
    out: list[int] = []
    for i in places:
        if out and facts.kind[i] == USER and facts.kind[out[-1]] == USER:
            absorbed.setdefault(facts.rows[out[-1]], []).append(facts.rows[i])
        else:
            out.append(i)
    return out


def _is_cut_off(
    facts: Facts, places: list[int], absorbed: dict[int, list[int]], is_brief: Callable[[int], bool]
) -> bool:
    for i in reversed(places):
        if facts.kind[i] == SYSTEM or facts.is_error[i]:
            continue
        if facts.kind[i] == ATTACHMENT:
            return True
        rows = [facts.rows[i], *absorbed.get(facts.rows[i], ())]
        is_result = facts.is_result[i] or any(row_is_result(facts, r) for r in rows[1:])
        return is_result and not is_brief(rows[-1])
    return False


def row_is_result(facts: Facts, row: int) -> bool:
    """Whether a row of the chain is a tool result."""
    return facts.is_result[facts.rows.index(row)]
