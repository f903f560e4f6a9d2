"""Every entry's place in its conversation: root, depth, branch, and whether a resume shows it, or why not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from . import graph
from .edges import NO_TIME, Links, is_named, logical_parents
from .graph import NONE, Mask, Rows
from .link_problems import MAX_NAMED
from .resume import Resumed
from .resume.compact import SNIP
from .resume.nodes import SEED, mix
from .resume.plan import Plan
from .schema.base import PROBLEMS
from .schema.graph import CHAINS, OFF_REASONS

KINDS = ("user", "assistant", "system", "attachment", "progress")
USER, ASSISTANT, SYSTEM, ATTACHMENT, PROGRESS = range(5)
_CODE = {name: i for i, name in enumerate(OFF_REASONS)}
_OF_STORY = ("before_boundary", "beside", "unanswered", "empty")
"""Reasons for which an entry is off the resume and yet on no branch of its own."""


@dataclass(slots=True)
class Tree:
    """The entries of all conversations and the one each hangs on once links are repaired."""

    links: Links
    entry: Rows
    """entry_id of each row; the arrays below are by place in this list, as are parents."""
    kind: NDArray[np.int8]
    parent: Rows
    written: Rows
    """As ``parent``, but kept messages stay where they were written, before their compact boundary."""
    file: Rows
    position: Rows
    """Place in the resumed conversation, counted over all files; ``NONE`` off it."""
    is_boundary: Mask
    is_broken: Mask
    """Rows whose parent is named but could not be found or stood in for."""
    off: Rows
    """Code of the reason, where the line says it by itself; else ``NONE``."""

    @property
    def on_resume(self) -> Mask:
        """Rows that a resume shows."""
        on: Mask = self.position >= 0
        return on

    def has_up(self, of: Mask) -> Mask:
        """Rows whose parent has the property."""
        return np.asarray((self.parent >= 0) & of[self.parent.clip(min=0)], dtype=bool)


def build_tree(links: Links, files: pl.DataFrame, resumed: Resumed) -> Tree:
    """The repaired tree of all files; circles are cut at their first line."""
    types = links.entries["type"].replace_strict(KINDS, range(5), default=-1, return_dtype=pl.Int8)
    kind = types.fill_null(-1).to_numpy()
    entry = np.flatnonzero(kind >= 0)
    kind = kind[entry]
    # The spare last element is what NONE leads to.
    place = np.full(len(links.file) + 1, NONE, dtype=np.int64)
    place[entry] = np.arange(len(entry))
    parent = place[links.parent[entry]]
    as_written = parent.copy()
    broken = links.is_missing[entry] | (links.elsewhere[entry] >= 0)
    position = np.full(len(entry), NONE, dtype=np.int64)
    base = 0
    for plan in resumed.plans:
        _apply_plan(plan, place, parent, as_written, broken)
        real = np.flatnonzero(plan.row >= 0)
        position[place[plan.nodes.entry[plan.row[real]]]] = base + real
        base += len(plan.row)
    boundary = (links.entries["subtype"] == "compact_boundary").fill_null(False).to_numpy()[entry]
    tree = Tree(
        links, entry, kind, graph.without_cycles(parent), graph.without_cycles(as_written), links.file[entry], position,
        (kind == SYSTEM) & boundary, broken, np.full(len(entry), NONE, dtype=np.int64),
    )  # fmt: skip
    _mark_lines(tree, place, files, resumed)
    return tree


def _apply_plan(plan: Plan, place: Rows, parent: Rows, as_written: Rows, broken: Mask) -> None:
    """Links as the program sees them: bridged, relinked, spliced."""
    nodes = plan.nodes
    own = place[nodes.entry]
    linked = np.flatnonzero(nodes.alive & ((nodes.parent >= 0) | nodes.bridged))
    up = nodes.parent[linked]
    parent[own[linked]] = np.where(up >= 0, own[up.clip(min=0)], NONE)
    stays = linked[(nodes.relinked[linked] == 0) | (nodes.relinked[linked] == SNIP)]
    as_written[own[stays]] = parent[own[stays]]
    broken[own[linked]] &= up < 0
    for child, stand_in in plan.spliced:
        parent[own[child]], broken[own[child]] = own[stand_in], False
        as_written[own[child]] = own[stand_in]


def _mark_lines(tree: Tree, place: Rows, files: pl.DataFrame, resumed: Resumed) -> None:
    """Reasons that a line has by itself; what is set later goes before what is set earlier."""
    entries, off = tree.links.entries, tree.off
    at = np.searchsorted(files["file_id"].to_numpy(), tree.file)
    is_main = (files["kind"].cast(pl.String) == "session").to_numpy()[at]
    is_entry = tree.kind < PROGRESS
    off[entries["is_sidechain"].fill_null(False).to_numpy()[tree.entry]] = _CODE["sidechain"]
    taken = np.zeros(len(tree.entry), dtype=bool)
    for plan in resumed.plans:
        own = place[plan.nodes.entry]
        taken[own] = True
        off[own[plan.nodes.is_snipped]] = _CODE["snipped"]
        off[own[plan.unanswered]] = _CODE["unanswered"]
        off[own[plan.empty]] = _CODE["empty"]
        off[own[[r for more in plan.absorbed.values() for r in more]]] = _CODE["replaced"]
    off[is_entry & is_main & ~taken] = _CODE["replaced"]
    unread = place[resumed.not_read]
    off[unread[unread >= 0]] = _CODE["not_read"]
    off[is_main & np.isin(tree.file, list(resumed.refused))] = _CODE["refused"]
    off[~is_entry] = _CODE["progress"]
    off[~is_main] = _CODE["agent"]
    off[entries["is_rescued"].fill_null(False).to_numpy()[tree.entry]] = _CODE["rescued"]


def build_chains(tree: Tree, files: pl.DataFrame) -> pl.DataFrame:
    """Table ``chains``: one row per entry of a conversation.

    Parameters
    ----------
    tree : Tree
        See :func:`build_tree`.
    files : pl.DataFrame
        The table.

    Returns
    -------
    pl.DataFrame
        Sorted by entry_id. The reasons in ``off_reason`` are disjoint; what a person threw away by going back is
        ``abandoned``, with one ``dropped_id`` per dropped branch.
    """
    found = graph.trace(tree.parent)
    story = full_path(tree)
    off = reasons(tree, found.root, story)
    dropped = _tops(tree.parent, off == _CODE["abandoned"])
    sessions = files["session_id"].gather(np.searchsorted(files["file_id"].to_numpy(), tree.file))
    children = graph.child_counts(tree.parent)
    return CHAINS.conform(
        pl.DataFrame(
            {
                "entry_id": tree.entry,
                "file_id": tree.file,
                "session_id": sessions,
                "parent_id": _ids(tree.entry, tree.parent),
                "root_id": tree.entry[found.root],
                "depth": found.depth,
                "n_children": children,
                "branch_no": _branch_numbers(tree, off, story),
                "is_leaf": children == 0,
                "on_resume": tree.on_resume,
                "off_reason": pl.Series(OFF_REASONS, dtype=pl.Enum(OFF_REASONS)).gather(_index(off)),
                "dropped_id": _ids(tree.entry, dropped),
                "segment": _segments(tree),
            }
        )
    )


def _index(codes: Rows) -> pl.Series:
    index = pl.Series(codes)
    return index.set(index < 0, None)


def _ids(entry: Rows, rows: Rows) -> pl.Series:
    if not len(entry):
        return pl.Series([], dtype=pl.Int64)
    return pl.Series(entry[rows]).set(pl.Series(rows < 0), None)


def _segments(tree: Tree) -> Rows:
    """Compact boundaries up to each row in its file."""
    total = np.cumsum(tree.is_boundary)
    starts = np.flatnonzero(np.insert(tree.file[1:] != tree.file[:-1], 0, True)[: len(tree.file)])
    before: Rows = total[starts] - tree.is_boundary[starts]
    return total - np.repeat(before, np.diff(np.append(starts, len(total))))


def _tops(parent: Rows, inside: Mask) -> Rows:
    """For rows inside, the topmost row of the stretch of inside rows above; ``NONE`` for others."""
    rows = np.flatnonzero(inside)
    if not len(rows):
        return np.full(len(parent), NONE, dtype=np.int64)
    cut = np.where((parent >= 0) & inside[parent.clip(min=0)] & inside, parent, NONE)
    return np.where(inside, graph.trace(cut).root, NONE)


def _branch_numbers(tree: Tree, off: Rows, story: Mask) -> Rows:
    """0 for the conversation that goes on, then one number per leaf of each file beside it, the last line first."""
    n = len(tree.entry)
    if not n:
        return tree.entry
    rows = np.arange(n, dtype=np.int64)
    progress = tree.kind == PROGRESS
    main = (off < 0) | story | np.isin(off, [_CODE[name] for name in _OF_STORY])
    apart = ~main & ~progress
    cut = np.where(apart & tree.has_up(apart), tree.parent, NONE)
    leaf = graph.newest_leaves(cut, rows)
    is_leaf = apart & (leaf == rows)
    later = np.append(np.cumsum(is_leaf[::-1])[::-1], 0)
    ends = _file_ends(tree.file)
    has_main = np.zeros(int(tree.file.max()) + 1, dtype=np.int64)
    has_main[tree.file[main]] = 1
    number = np.where(apart, later[leaf] - 1 - later[ends] + has_main[tree.file], 0)
    # A progress line is on the branch of what it hangs from.
    above = tree.parent[_tops(tree.parent, progress)]
    number[progress] = np.where(above[progress] >= 0, number[above[progress]], 0)
    return number


def _file_ends(file: Rows) -> Rows:
    """For each row, the row behind the last one of its file."""
    starts = np.flatnonzero(np.insert(file[1:] != file[:-1], 0, True))
    ends = np.append(starts[1:], len(file))
    return np.repeat(ends, ends - starts)


def reasons(tree: Tree, root: Rows, story: Mask) -> Rows:
    """Why each row is not on the resume (``NONE`` for rows that are); ``story`` is the :func:`full_path`."""
    off = tree.off.copy()
    on = tree.on_resume
    off[on] = NONE
    open_ = ~on & (off < 0)
    if not open_.any():
        return off
    earlier = open_ & story
    off[open_] = _CODE["abandoned"]
    off[open_ & _is_orphan(tree, root)] = _CODE["orphan"]
    off[open_ & _beside(tree)] = _CODE["beside"]
    off[earlier] = _CODE["before_boundary"]
    return off


def _is_orphan(tree: Tree, root: Rows) -> Mask:
    """Rows that a missing parent cuts off: those below it, and the trees that it cuts off from a conversation."""
    lost = tree.is_broken & (tree.parent < 0)
    heads = np.unique(root[tree.on_resume])
    resumed = np.zeros(len(root), dtype=bool)
    resumed[heads] = True
    cut_off = np.zeros(int(tree.file.max(initial=-1)) + 1, dtype=bool)
    cut_off[tree.file[heads[lost[heads]]]] = True
    return ~resumed[root] & (lost[root] | cut_off[tree.file])


def _beside(tree: Tree) -> Mask:
    """Attachments and system lines that hang from the resumed conversation and lead to nothing else."""
    passive = (tree.kind == SYSTEM) | (tree.kind == ATTACHMENT)
    light = ~tree.on_resume & ~graph.members(tree.parent, np.flatnonzero(~passive & (tree.kind != PROGRESS)))
    return _hangs_from(tree, light, tree.on_resume)


def _hangs_from(tree: Tree, rows: Mask, hooks: Mask) -> Mask:
    """Those of ``rows`` that hang, by way of each other, from a row of ``hooks``."""
    top = _tops(tree.parent, rows)
    hook = np.where(rows, tree.parent[top], NONE)
    return np.asarray((hook >= 0) & hooks[hook], dtype=bool)


def full_path(tree: Tree) -> Mask:
    """Rows on the way of each file's conversation through all compactions, with the rest of their rounds.

    The conversation is the resumed one; where there is none (an agent's file), that of the last message.
    """
    on = graph.members(logical_tree(tree), np.append(np.flatnonzero(tree.on_resume), _last_messages(tree)))
    before = on & ~tree.on_resume
    if not before.any():
        return on
    entries = tree.links.entries
    answers = tree.kind == ASSISTANT
    ids = entries["message_id"]
    message = ids.hash(seed=SEED).to_numpy()[tree.entry] ^ mix(tree.file)
    same = answers & is_named(ids)[tree.entry] & np.isin(message, message[before & answers])
    result = (tree.kind == USER) & (entries["n_tool_results"].to_numpy()[tree.entry] > 0)
    meta = entries["is_meta"].fill_null(False).to_numpy()[tree.entry]
    speaks = (answers & ~same) | ((tree.kind == USER) & ~result & ~meta)
    # What leads to no other prompt or answer is the rest of a round, not a branch.
    light = ~on & ~graph.members(tree.parent, np.flatnonzero(speaks))
    lines = same & ~on
    return np.asarray(on | lines | _hangs_from(tree, light, before | lines), dtype=bool)


def _last_messages(tree: Tree) -> Rows:
    """The last message of each file that has no resumed conversation."""
    last = np.full(int(tree.file.max(initial=-1)) + 1, NONE, dtype=np.int64)
    rows = np.flatnonzero(tree.kind <= ASSISTANT)
    last[tree.file[rows]] = rows
    last[tree.file[tree.on_resume]] = NONE
    return last[last >= 0]


def logical_tree(tree: Tree) -> Rows:
    """Written parents, with compact boundaries hung on what came before them where that makes no circle."""
    rows, up = logical_parents(tree.links)
    place = np.full(len(tree.links.file) + 1, NONE, dtype=np.int64)
    place[tree.entry] = np.arange(len(tree.entry))
    child, above = place[rows], place[up]
    ok = (child >= 0) & (above >= 0)
    child, above = child[ok], above[ok]
    free = tree.written[child] < 0
    parent = tree.written.copy()
    parent[child[free]] = above[free]
    return graph.without_cycles(parent)


def chain_problems(tree: Tree, chains: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``problems``: a resumed conversation that jumps over a compaction leaves out what stands between.

    Code ``skips_compaction``: the entry that hangs before the boundary, what it hangs on, and the rows left out.
    """
    segment = chains["segment"].to_numpy()
    up = tree.parent.clip(min=0)
    jumps = tree.on_resume & tree.has_up(tree.on_resume) & ~tree.is_boundary
    rows = np.flatnonzero(jumps & (segment > segment[up])) if len(segment) else up
    found: list[dict[str, object]] = []
    links, uuids = tree.links, tree.links.entries["uuid"]
    for row in rows.tolist():
        between = np.arange(up[row] + 1, row)
        between = between[~tree.on_resume[between] & (tree.off[between] < 0)]
        if not tree.is_boundary[between].any():
            continue
        a, b = int(tree.entry[row]), int(tree.entry[up[row]])
        names = ", ".join(uuids.gather(tree.entry[between[:MAX_NAMED]]).to_list())
        more = f" and {len(between) - MAX_NAMED} more" if len(between) > MAX_NAMED else ""
        line = links.entries.select("file_id", "line_no", "byte_offset", "entry_id", "uuid").row(a, named=True)
        timed = NO_TIME not in (links.time[a], links.time[b])
        words = f"{len(between)} entries between the two are not resumed: {names}{more}"
        gap = int(links.time[a] - links.time[b]) if timed else None
        found.append(line | {"code": "skips_compaction", "other_uuid": uuids[b], "gap_ms": gap, "detail": words})
    return PROBLEMS.conform(pl.DataFrame(found, schema_overrides={"gap_ms": pl.Int64}) if found else PROBLEMS.empty())
