"""The entries that take part in resuming, as integer arrays: what reading a file leaves, for all sessions at once.

A *row* here is a place in these arrays: file by file, by position within the file. Names (uuids, message ids, call
ids) are hashed once together with their file and become rows or dense numbers; no text is compared later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ccanalytics.graph import NONE, Mask, Rows

Rules = Literal["2.1.332", "2.1.88"]
Keys = NDArray[np.uint64]

UNKNOWN = -2
"""The parent of an entry whose ``parentUuid`` names no entry (``NONE``: it has none)."""
NO_TIME = np.iinfo(np.int64).min
USER, ASSISTANT, SYSTEM, ATTACHMENT = range(4)
KINDS = ("user", "assistant", "system", "attachment")
_MIX = np.uint64(0x9E3779B97F4A7C15)
SEED = 7
"""Of all hashes of names here, so that they can be compared."""


@dataclass(slots=True)
class Names:
    """Names that are unique within a file, and the rows they stand for."""

    keys: Keys
    rows: Rows

    def find(self, keys: Keys) -> Rows:
        """The row of each key; ``NONE`` where there is none."""
        if not len(self.keys):
            return np.full(len(keys), NONE, dtype=np.int64)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.rows[at], NONE)


@dataclass(slots=True)
class Nodes:
    """One array per fact; see the comments of the fields."""

    file_ids: Rows
    """file_id of each file, in order; files are numbered from 0 below."""
    session_ids: list[str | None]
    starts: Rows
    """Row at which each file begins, and one more for the end."""
    entry: Rows
    file: Rows
    kind: NDArray[np.int8]
    time: Rows
    parent: Rows
    parent_key: Keys
    group: Rows
    """Dense number of the API message an assistant line belongs to; ``NONE`` without a message id."""
    side: Mask
    is_result: Mask
    is_meta: Mask
    is_boundary: Mask
    is_thinking: Mask
    """Assistant lines that hold nothing but thinking."""
    is_blank: Mask
    is_error: Mask
    """Assistant lines that report an error of the API."""
    has_content: Mask
    is_snipped: Mask
    is_kept: Mask
    """Messages that the last compact boundary kept."""
    alive: Mask
    """False for entries that compaction or a snip has taken out."""
    call_row: Rows
    call_key: Rows
    """One element per tool_use block, by row; keys are dense numbers shared with ``result_key``."""
    call_block: Rows
    """Place of that block in ``blocks``."""
    result_row: Rows
    result_key: Rows
    hint: Rows
    """Row the last-prompt line of each file names; ``NONE`` if there is none."""
    fails: Mask
    """Files with a line that makes 2.1.88 fail."""
    names: Names
    n_keys: int = 0
    bridged: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Rows whose parent was found through progress lines."""
    relinked: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """1 where a kept list, 2 where a kept segment, 3 where a snip gave the row another parent; else 0."""

    @property
    def n_files(self) -> int:
        """Number of files."""
        return len(self.file_ids)

    @property
    def passive(self) -> Mask:
        """Attachments, system lines and meta lines that are no tool result."""
        return np.asarray((self.kind >= SYSTEM) | ((self.kind == USER) & self.is_meta & ~self.is_result), dtype=bool)

    def find(self, file: int, uuids: list[Any]) -> list[int]:
        """Rows of entries of one file by uuid; ``NONE`` for what is no text or no entry."""
        texts = pl.Series([u if isinstance(u, str) else None for u in uuids], dtype=pl.String)
        found = self.names.find(mixed(texts, np.full(len(texts), file)))
        return [int(r) if t is not None else NONE for r, t in zip(found, texts, strict=True)]


def mixed(texts: pl.Series, files: Rows) -> Keys:
    """A 64-bit key of each text within its file."""
    keys: Keys = texts.hash(seed=SEED).to_numpy() ^ mix(files)
    return keys


def mix(files: Rows) -> Keys:
    """What sets the keys of one file apart from those of another."""
    return files.astype(np.uint64) * _MIX


def read_nodes(
    entries: pl.DataFrame, places: Rows, blocks: pl.DataFrame, files: pl.DataFrame, *, rules: Rules
) -> Nodes:
    """The nodes of ``files``.

    Parameters
    ----------
    entries, blocks : pl.DataFrame
        The tables.
    places : array
        Places in ``entries`` of the lines that the program would have read (see ``lines_read``).
    files : pl.DataFrame
        The files that are to be resumed, sorted by file_id.
    rules : {"2.1.332", "2.1.88"}
        Where a repeated entry stands: at its last line or at its first.
    """
    file_ids = files["file_id"].cast(pl.Int64).to_numpy()
    lines = Lines(entries, places, file_ids)
    bridge_to, is_bridged = lines.bridge()
    rows, names = _unique(lines, rules)
    at = places[rows]
    file, kind = lines.file[rows], lines.kind[rows]
    n = len(rows)
    parent_key = bridge_to[rows]
    nodes = Nodes(
        file_ids=file_ids,
        session_ids=files["session_id"].to_list(),
        starts=np.searchsorted(file, np.arange(len(file_ids) + 1)),
        entry=entries["entry_id"].to_numpy()[at],
        file=file,
        kind=kind,
        time=entries["timestamp"].dt.timestamp("ms").fill_null(NO_TIME).to_numpy()[at],
        parent=_parents(lines.uuid_key[rows], parent_key, lines.has_parent[rows], names),
        parent_key=parent_key,
        group=_groups(entries["message_id"], at, file, kind),
        side=_flag(entries, "is_sidechain", at),
        is_result=(kind == USER) & (entries["n_tool_results"].to_numpy()[at] > 0),
        is_meta=_flag(entries, "is_meta", at),
        is_boundary=lines.is_boundary[rows],
        is_thinking=np.zeros(n, dtype=bool),
        is_blank=_flag(entries, "is_blank", at) & (kind == ASSISTANT),
        is_error=_flag(entries, "is_api_error_message", at) & (kind == ASSISTANT),
        has_content=entries["n_blocks"].to_numpy()[at] > 0,
        is_snipped=np.zeros(n, dtype=bool),
        is_kept=np.zeros(n, dtype=bool),
        alive=np.ones(n, dtype=bool),
        call_row=_NO_ROWS, call_key=_NO_ROWS, call_block=_NO_ROWS, result_row=_NO_ROWS, result_key=_NO_ROWS,
        hint=lines.hints(len(file_ids), names),
        fails=lines.fails(len(file_ids)),
        names=names,
        bridged=is_bridged[rows],
        relinked=np.zeros(n, dtype=np.int64),
    )  # fmt: skip
    _take_blocks(nodes, entries["n_blocks"].to_numpy()[at], blocks)
    return nodes


_NO_ROWS: Rows = np.zeros(0, dtype=np.int64)


def _flag(table: pl.DataFrame, name: str, at: Rows) -> Mask:
    return table[name].fill_null(False).to_numpy()[at]


def _named(texts: pl.Series, at: Rows) -> Mask:
    return (texts.is_not_null() & (texts != "")).fill_null(False).to_numpy()[at]


class Lines:
    """All lines of the files that may matter: entries, progress lines, last-prompt lines."""

    def __init__(self, entries: pl.DataFrame, places: Rows, file_ids: Rows) -> None:
        self.entries, self.places = entries, places
        self.file = np.searchsorted(file_ids, entries["file_id"].to_numpy()[places])
        kind = entries["type"].replace_strict(
            [*KINDS, "progress", "last-prompt"], [0, 1, 2, 3, 4, 5], default=6, return_dtype=pl.Int8
        )
        self.kind = kind.fill_null(6).to_numpy()[places]
        uuid, parent = entries["uuid"], entries["parent_uuid"]
        self.has_uuid = _named(uuid, places)
        self.has_parent = _named(parent, places)
        self.uuid_key = uuid.hash(seed=SEED).to_numpy()[places] ^ mix(self.file)
        self.parent_key = parent.hash(seed=SEED).to_numpy()[places] ^ mix(self.file)
        self.has_message = _flag(entries, "has_message", places)
        is_boundary = (entries["subtype"] == "compact_boundary").fill_null(False).to_numpy()[places]
        self.is_boundary = (self.kind == SYSTEM) & is_boundary

    @property
    def is_entry(self) -> Mask:
        """Lines that become entries."""
        speaks = (self.kind >= SYSTEM) | self.has_message
        return np.asarray((self.kind <= ATTACHMENT) & self.has_uuid & speaks, dtype=bool)

    def bridge(self) -> tuple[Keys, Mask]:
        """Key of each line's parent, progress lines passed over, and where that was done.

        A progress line only helps the lines after it: the program reads from the top, once.
        """
        target = self.parent_key
        steps = np.flatnonzero((self.kind == 4) & self.has_uuid)
        bridged = np.zeros(len(target), dtype=bool)
        if not len(steps):
            return target, bridged
        users = np.flatnonzero((self.kind <= 4) & self.has_parent)
        known = np.sort(self.uuid_key[steps])
        wanted = self.parent_key[users]
        users = users[known[np.searchsorted(known, wanted).clip(max=len(known) - 1)] == wanted]
        if not len(users):
            return target, bridged
        via = last_before(self.uuid_key[steps], steps, self.parent_key[users], users)
        through = via >= 0
        users, via = users[through], via[through]
        up = np.full(len(target), NONE, dtype=np.int64)
        up[users] = via
        # Progress lines point at earlier ones only, so the way up has no circle.
        top = via.copy()
        while True:
            nxt = up[top]
            going = nxt >= 0
            if not going.any():
                break
            top = np.where(going, nxt, top)
            up[users] = np.where(up[up[users]] >= 0, up[up[users]], up[users])
        target = target.copy()
        target[users] = self.parent_key[top]
        self.has_parent[users] = self.has_parent[top]
        bridged[users] = True
        return target, bridged

    def _hangs_on_line_before(self) -> Mask:
        """Lines whose parent is the nearest line above that is no progress line: they need no bridge."""
        rows = np.flatnonzero(self.kind <= ATTACHMENT)
        before = np.full(len(self.kind), NONE, dtype=np.int64)
        before[rows] = rows
        before = np.maximum.accumulate(before)
        above = np.insert(before[:-1], 0, NONE)
        hit = above.clip(min=0)
        return np.asarray((above >= 0) & (self.uuid_key[hit] == self.parent_key) & self.has_uuid[hit], dtype=bool)

    def hints(self, n_files: int, names: Names) -> Rows:
        """Row that each file's last-prompt line names; one before the last compact boundary does not count."""
        out = np.full(n_files, NONE, dtype=np.int64)
        leaf = self.entries["leaf_uuid"]
        prompts = np.flatnonzero(self.kind == 5)
        rows = prompts[_named(leaf, self.places[prompts])]
        if not len(rows):
            return out
        last = np.full(n_files, NONE, dtype=np.int64)
        last[self.file[rows]] = rows
        cleared = np.full(n_files, NONE, dtype=np.int64)
        ends = np.flatnonzero(self.is_boundary & self.is_entry)
        cleared[self.file[ends]] = ends
        files = np.flatnonzero(last > cleared)
        out[files] = names.find(mixed(leaf.gather(self.places[last[files]]), files))
        return out

    def fails(self, n_files: int) -> Mask:
        """Files with a line that makes 2.1.88 fail once an answer is on the chain."""
        out = np.zeros(n_files, dtype=bool)
        text = (self.entries["content_kind"] == "string").fill_null(False).to_numpy()[self.places]
        bare = self.has_uuid & ~self.has_message
        bad = (self.kind == ASSISTANT) & (bare | text) | (self.kind == USER) & bare & self.has_parent
        out[self.file[bad]] = True
        return out


def last_before(keys: Keys, at: Rows, wanted: Keys, before: Rows) -> Rows:
    """For each wanted key, the last of ``at`` that has it and is smaller than ``before``; ``NONE`` without one."""
    names, code = np.unique(keys, return_inverse=True)
    stride = np.int64(max(int(at.max()), int(before.max()) if len(before) else 0) + 2)
    ranked = np.sort(code * stride + at)
    place = np.searchsorted(names, wanted).clip(max=len(names) - 1)
    known = names[place] == wanted
    found = np.searchsorted(ranked, place * stride + before) - 1
    hit = ranked[found.clip(min=0)]
    ok = known & (found >= 0) & (hit // stride == place)
    return np.where(ok, hit % stride, NONE)


def _unique(lines: Lines, rules: Rules) -> tuple[Rows, Names]:
    """Lines that become rows, each uuid once with the content of its last line, in order of position; and the names."""
    rows = np.flatnonzero(lines.is_entry)
    keys = lines.uuid_key[rows]
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    same = ranked[1:] == ranked[:-1]
    if not same.any():
        return rows, Names(ranked, order)
    last, first = rows[order[np.append(~same, True)]], rows[order[np.insert(~same, 0, True)]]
    by_place = np.argsort(last if rules == "2.1.332" else first, kind="stable")
    row_of = np.empty(len(last), dtype=np.int64)
    row_of[by_place] = np.arange(len(last))
    return last[by_place], Names(ranked[np.append(~same, True)], row_of)


def _parents(own: Keys, wanted: Keys, has_parent: Mask, names: Names) -> Rows:
    """Row of each parent. Most entries hang on the row before, which spares the search."""
    n = len(own)
    parent = np.full(n, NONE, dtype=np.int64)
    if not n:
        return parent
    near = np.zeros(n, dtype=bool)
    near[1:] = (own[:-1] == wanted[1:]) & has_parent[1:]
    parent[near] = np.flatnonzero(near) - 1
    far = np.flatnonzero(has_parent & ~near)
    found = names.find(wanted[far])
    parent[far] = np.where(found >= 0, found, UNKNOWN)
    return parent


def _groups(ids: pl.Series, at: Rows, file: Rows, kind: NDArray[np.int8]) -> Rows:
    rows = np.flatnonzero((kind == ASSISTANT) & _named(ids, at))
    keys = ids.hash(seed=SEED).to_numpy()[at[rows]] ^ mix(file[rows])
    return _spread(len(file), rows, dense(keys))


def _spread(n: int, rows: Rows, values: Rows) -> Rows:
    out = np.full(n, NONE, dtype=np.int64)
    out[rows] = values
    return out


def dense(keys: Keys) -> Rows:
    """Numbers from 0 for keys, equal ones for equal keys."""
    if not len(keys):
        return _NO_ROWS
    # Lines of one message stand together: only the first of each stretch is sorted.
    new = np.insert(keys[1:] != keys[:-1], 0, True)
    _, code = np.unique(keys[new], return_inverse=True)
    numbers: Rows = code[np.cumsum(new) - 1].astype(np.int64)
    return numbers


def _take_blocks(nodes: Nodes, n_blocks: Rows, blocks: pl.DataFrame) -> None:
    """Calls, results and thinking from the content blocks."""
    kinds = blocks["type"].replace_strict(
        ["tool_use", "tool_result", "thinking", "redacted_thinking"], [1, 2, 3, 3], default=0, return_dtype=pl.Int8
    )
    kind = kinds.fill_null(0).to_numpy()
    places = np.flatnonzero(kind > 0)
    owner = blocks["entry_id"].to_numpy()[places]
    by_entry = np.argsort(nodes.entry, kind="stable") if (np.diff(nodes.entry) < 0).any() else None
    sorted_entry = nodes.entry if by_entry is None else nodes.entry[by_entry]
    at = np.searchsorted(sorted_entry, owner).clip(max=max(len(sorted_entry) - 1, 0))
    known = sorted_entry[at] == owner if len(sorted_entry) else np.zeros(len(owner), dtype=bool)
    row = (at if by_entry is None else by_entry[at])[known]
    places, kind = places[known], kind[places][known]
    thinking = np.bincount(row[kind == 3], minlength=len(nodes.entry))
    nodes.is_thinking = (nodes.kind == ASSISTANT) & (thinking > 0) & (thinking == n_blocks)
    calls = (kind == 1) & (nodes.kind[row] == ASSISTANT)
    results = (kind == 2) & (nodes.kind[row] == USER)
    both = np.flatnonzero(calls | results)
    ids = blocks["tool_use_id"][places[both]].fill_null("")
    key = dense(mixed(ids, nodes.file[row[both]]))
    is_call = calls[both]
    nodes.n_keys = int(key.max()) + 1 if len(key) else 0
    nodes.call_row, nodes.call_key, nodes.call_block = row[both][is_call], key[is_call], places[both][is_call]
    nodes.result_row, nodes.result_key = row[both][~is_call], key[~is_call]
    if by_entry is not None:
        order = np.argsort(nodes.call_row, kind="stable")
        nodes.call_row, nodes.call_key = nodes.call_row[order], nodes.call_key[order]
        nodes.call_block = nodes.call_block[order]
        order = np.argsort(nodes.result_row, kind="stable")
        nodes.result_row, nodes.result_key = nodes.result_row[order], nodes.result_key[order]
