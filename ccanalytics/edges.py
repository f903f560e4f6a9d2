"""Who continues whom: every link between two entries, as written or repaired, and the links that lead nowhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from .graph import NONE, Mask, Rows
from .resume import Resumed
from .resume.compact import LIST, SEGMENT, SNIP
from .resume.nodes import SEED, Keys, dense, last_before, mix, mixed
from .resume.plan import CODE
from .schema.graph import EDGE_KINDS, EDGES
from .spawns import build_spawns


@dataclass(slots=True)
class Links:
    """The row each entry hangs on as written. A row is a place in ``entries``, which is its entry_id."""

    entries: pl.DataFrame
    file: Rows
    time: Rows
    """Milliseconds; ``NO_TIME`` where unreadable."""
    parent: Rows
    """Row of the parent in the same file (its last line, if repeated); ``NONE`` for none."""
    elsewhere: Rows
    """Row of the parent in another file, where it is in none of the entry's own."""
    is_missing: Mask
    """A parent is named and is in no file."""
    name: Keys
    """Key of the uuid alone, the same in every file."""
    key: Keys
    """Key of the uuid within its file."""
    by_key: Rows
    """Rows with a uuid, sorted by key, then by row."""

    def find(self, keys: Keys) -> Rows:
        """The last row with each key; ``NONE`` where there is none."""
        if not len(self.by_key):
            return np.full(len(keys), NONE, dtype=np.int64)
        ranked = self.key[self.by_key]
        at = np.searchsorted(ranked, keys, "right") - 1
        hit = self.by_key[at.clip(min=0)]
        return np.where((at >= 0) & (self.key[hit] == keys), hit, NONE)


NO_TIME = np.iinfo(np.int64).min


def is_named(texts: pl.Series) -> Mask:
    """Where a text is there and not empty."""
    mask: Mask = (texts.is_not_null() & (texts != "")).fill_null(False).to_numpy()
    return mask


def read_links(entries: pl.DataFrame, files: pl.DataFrame) -> Links:
    """The links as they are written."""
    file = entries["file_id"].cast(pl.Int64).to_numpy()
    named = entries["parent_uuid"]
    has_parent, has_uuid = is_named(named), is_named(entries["uuid"])
    name = entries["uuid"].hash(seed=SEED).to_numpy()
    files_mixed = mix(file)
    key = name ^ files_mixed
    with_uuid = np.flatnonzero(has_uuid)
    by_key = with_uuid[np.argsort(key[with_uuid], kind="stable")]
    n = len(file)
    parent, nothing = np.full(n, NONE, dtype=np.int64), np.full(n, NONE, dtype=np.int64)
    links = Links(
        entries, file, entries["timestamp"].dt.timestamp("ms").fill_null(NO_TIME).to_numpy(), parent, nothing,
        np.zeros(n, dtype=bool), name, key, by_key,
    )  # fmt: skip
    wanted = named.hash(seed=SEED).to_numpy()
    near = np.zeros(n, dtype=bool)
    near[1:] = (key[:-1] == wanted[1:] ^ files_mixed[1:]) & has_parent[1:] & has_uuid[:-1]
    parent[near] = np.flatnonzero(near) - 1
    far = np.flatnonzero(has_parent & ~near)
    parent[far] = links.find(wanted[far] ^ files_mixed[far])
    lost = far[parent[far] < 0]
    if len(lost):
        links.elsewhere[lost] = _find_anywhere(name, with_uuid, wanted[lost], file_ranks(files)[file])
        links.is_missing[lost] = links.elsewhere[lost] < 0
    return links


def _find_anywhere(name: Keys, with_uuid: Rows, wanted: Keys, rank: Rows) -> Rows:
    """The row with a name in the oldest file that has it."""
    rows = with_uuid[np.isin(name[with_uuid], wanted)]
    if not len(rows):
        return np.full(len(wanted), NONE, dtype=np.int64)
    rows = rows[np.lexsort((rows, rank[rows], name[rows]))]
    hit = rows[np.searchsorted(name[rows], wanted).clip(max=len(rows) - 1)]
    return np.where(name[hit] == wanted, hit, NONE)


def file_ranks(files: pl.DataFrame) -> Rows:
    """Rank of each file by age, by file_id: the file of an original goes before the files of its copies."""
    order = files.sort("first_at", "last_at", "session_id", "file_id", nulls_last=True)["file_id"].to_numpy()
    rank = np.zeros(int(order.max(initial=-1)) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def build_edges(
    links: Links,
    entries: pl.DataFrame,
    blocks: pl.DataFrame,
    files: pl.DataFrame,
    resumed: Resumed,
) -> pl.DataFrame:
    """Table ``edges``: one row per link between two entries.

    Parameters
    ----------
    links : Links
        See :func:`read_links`.
    entries, blocks, files : pl.DataFrame
        The tables.
    resumed : Resumed
        Where the repaired links come from: relinked, spliced, recovered.

    Returns
    -------
    pl.DataFrame
        Sorted by child, parent, kind. A missing parent is no edge but a row of ``problems``.
    """
    parts = [
        *_written(links),
        *_logical(links),
        *_of_resumes(resumed),
        _answers(entries, blocks),
        _copies(links, files),
    ]
    spawns = build_spawns(entries, blocks, files)
    if spawns.height:
        child, call = spawns["child_id"].to_numpy(), spawns["call_id"].to_numpy()
        parts.append(Part("spawn", child, call, spawns["rule"], spawns["tool_use_id"]))
    return _finish([p for p in parts if len(p.child)], entries, files)


@dataclass(slots=True)
class Part:
    """Edges of one kind, as entry ids."""

    kind: str
    child: Rows
    parent: Rows
    rule: str | pl.Series
    call: pl.Series | None = None


def _written(links: Links) -> list[Part]:
    rows = np.flatnonzero(links.parent >= 0)
    away = np.flatnonzero(links.elsewhere >= 0)
    return [
        Part("parent", rows, links.parent[rows], "parent_uuid"),
        Part("parent", away, links.elsewhere[away], "other_file"),
    ]


def logical_parents(links: Links) -> tuple[Rows, Rows]:
    """Rows with a logical parent and the row it is in the same file."""
    named = links.entries["logical_parent_uuid"]
    rows = np.flatnonzero(is_named(named))
    hit = links.find(mixed(named[rows], links.file[rows]))
    return rows[hit >= 0], hit[hit >= 0]


def _logical(links: Links) -> list[Part]:
    rows, up = logical_parents(links)
    return [Part("logical", rows, up, "logical_parent_uuid")]


def _of_resumes(resumed: Resumed) -> list[Part]:
    parts: list[Part] = []
    for plan in resumed.plans:
        nodes = plan.nodes
        linked = nodes.alive & (nodes.parent >= 0)
        rows = np.flatnonzero(linked & nodes.bridged & (nodes.relinked == 0))
        parts.append(Part("bridged", nodes.entry[rows], nodes.entry[nodes.parent[rows]], "progress"))
        for code, rule in ((LIST, "preserved_messages"), (SEGMENT, "preserved_segment"), (SNIP, "snip")):
            rows = np.flatnonzero(linked & (nodes.relinked == code))
            parts.append(Part("relinked", nodes.entry[rows], nodes.entry[nodes.parent[rows]], rule))
        if plan.spliced:
            pairs = nodes.entry[np.array(plan.spliced, dtype=np.int64)]
            parts.append(Part("spliced", pairs[:, 0], pairs[:, 1], "time_window"))
        real = np.flatnonzero(plan.row >= 0)
        row, file = plan.row[real], plan.file[real]
        step = plan.step[row]
        by_parent = (nodes.parent[row] >= 0) & (nodes.group[nodes.parent[row].clip(min=0)] >= 0)
        after = np.zeros(len(row), dtype=bool)
        after[1:] = file[1:] == file[:-1]
        for name, rule, which in (
            ("line", "same_message", np.ones(len(row), dtype=bool)),
            ("result", "result_of_message", by_parent),
            ("result", "result_by_call", ~by_parent),
            ("passive", "passive", np.ones(len(row), dtype=bool)),
        ):
            at = np.flatnonzero(after & (step == CODE[name]) & which)
            parts.append(Part("recovered", nodes.entry[row[at]], nodes.entry[row[at - 1]], rule))
    return parts


def _answers(entries: pl.DataFrame, blocks: pl.DataFrame) -> Part:
    """Each result with the last call of its id before it in the file; with the first after it, if none is before."""
    pairs = blocks.lazy().filter(
        pl.col("type").is_in(["tool_use", "tool_result"]) & pl.col("tool_use_id").is_not_null()
    )
    table = pairs.select("entry_id", "type", "tool_use_id").collect()
    entry = table["entry_id"].to_numpy()
    file = entries["file_id"].cast(pl.Int64).to_numpy()[entry]
    is_call = (table["type"] == "tool_use").to_numpy()
    key = mixed(table["tool_use_id"], file)
    calls, results = np.flatnonzero(is_call), np.flatnonzero(~is_call)
    if not len(calls) or not len(results):
        return Part("answer", entry[:0], entry[:0], "tool_use_id")
    at = last_before(key[calls], calls, key[results], results)
    late = np.flatnonzero(at < 0)
    if len(late):
        first_key, first = np.unique(key[calls], return_index=True)
        found = np.searchsorted(first_key, key[results[late]]).clip(max=len(first_key) - 1)
        at[late] = np.where(first_key[found] == key[results[late]], calls[first[found]], NONE)
    ok = at >= 0
    return Part("answer", entry[results[ok]], entry[at[ok]], "tool_use_id", table["tool_use_id"][results[ok]])


def copied_from(links: Links, files: pl.DataFrame) -> tuple[Rows, Rows]:
    """For each row the one it is a copy of (``NONE`` if it is none), and a number for the rule that says so.

    1: the uuid is an older line's (in this file or an older one), 2: ``forkedFrom`` names it, 3: it is a line of an
    answer that an older file has too.
    """
    n = len(links.file)
    original, rule = np.full(n, NONE, dtype=np.int64), np.zeros(n, dtype=np.int64)
    if not n:
        return original, rule
    rank = file_ranks(files)[links.file]
    with_uuid = links.by_key
    by_name = with_uuid[np.argsort(links.name[with_uuid], kind="stable")]
    names = links.name[by_name]
    again = np.insert(names[1:] == names[:-1], 0, False)[: len(names)]
    grouped = again | np.append(again[1:], False)
    rows = by_name[grouped]
    rows = rows[np.lexsort((rows, rank[rows], links.name[rows]))]
    new = np.insert(links.name[rows][1:] != links.name[rows][:-1], 0, True)[: len(rows)]
    head = rows[since(new)]
    original[rows[~new]], rule[rows[~new]] = head[~new], 1
    forked = links.entries["forked_from_uuid"]
    copies = np.flatnonzero(is_named(forked) & (original < 0))
    if len(copies):
        hit = _find_anywhere(links.name, with_uuid, forked[copies].hash(seed=SEED).to_numpy(), rank)
        known = (hit >= 0) & (hit != copies)
        original[copies[known]], rule[copies[known]] = hit[known], 2
    _copied_messages(links, rank, original, rule)
    return original, rule


def since(new: Mask) -> Rows:
    """For each place the last place at which something new began."""
    return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0)) if len(new) else np.zeros(0, dtype=np.int64)


def _copied_messages(links: Links, rank: Rows, original: Rows, rule: Rows) -> None:
    """An answer whose message id is in an older file too: its lines pair up with that file's, in order."""
    ids = links.entries["message_id"]
    rows = np.flatnonzero(is_named(ids) & (links.entries["type"] == "assistant").fill_null(False).to_numpy())
    message = dense(ids.hash(seed=SEED).to_numpy()[rows])
    oldest = np.full(int(message.max(initial=-1)) + 1, len(rank), dtype=np.int64)
    np.minimum.at(oldest, message, rank[rows])
    away = rank[rows] > oldest[message]
    shared = np.zeros(len(oldest), dtype=bool)
    shared[message[away & (original[rows] < 0)]] = True
    some = shared[message]
    rows, message, away = rows[some], message[some], away[some]
    order = np.lexsort((rows, rank[rows], message))
    rows, message, away = rows[order], message[order], away[order]
    new_message = np.insert(message[1:] != message[:-1], 0, True)[: len(rows)]
    new_file = new_message | np.insert(rank[rows][1:] != rank[rows][:-1], 0, True)[: len(rows)]
    place = np.arange(len(rows))
    at = (since(new_message) + place - since(new_file)).clip(max=max(len(rows) - 1, 0))
    fits = away & (original[rows] < 0) & (message[at] == message) & ~away[at]
    original[rows[fits]], rule[rows[fits]] = rows[at[fits]], 3


def _copies(links: Links, files: pl.DataFrame) -> Part:
    original, rule = copied_from(links, files)
    rows = np.flatnonzero(original >= 0)
    words = pl.Series(["", "same_uuid", "forked_from", "message_id"]).gather(rule[rows])
    return Part("copy", rows, original[rows], words)


def _finish(parts: list[Part], entries: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    if not parts:
        return EDGES.empty()
    child = np.concatenate([p.child for p in parts])
    parent = np.concatenate([p.parent for p in parts])
    kind = pl.Enum(EDGES.column("kind").values)
    kinds = pl.concat([pl.repeat(p.kind, len(p.child), dtype=kind, eager=True) for p in parts])
    rule = pl.Enum(EDGES.column("rule").values)
    rules = pl.concat(
        [
            p.rule.cast(rule)
            if isinstance(p.rule, pl.Series)
            else pl.repeat(p.rule, len(p.child), dtype=rule, eager=True)
            for p in parts
        ]
    )
    calls = pl.concat(
        [p.call if p.call is not None else pl.repeat(None, len(p.child), dtype=pl.String, eager=True) for p in parts]
    )
    # The codes of the kinds are their order, so that one integer sorts a child's edges.
    rank = kinds.to_physical().to_numpy().astype(np.int64)
    place = (child * np.int64(len(entries) + 1) + parent) * len(EDGE_KINDS) + rank
    order = np.argsort(place, kind="stable")
    place = place[order]
    child, parent = child[order], parent[order]
    again = np.insert(place[1:] == place[:-1], 0, False)
    if again.any():
        order, child, parent = order[~again], child[~again], parent[~again]
    a, b = pl.Series(child), pl.Series(parent)
    file = entries["file_id"].gather(a)
    sessions = pl.Series(files["session_id"]).gather(np.searchsorted(files["file_id"].to_numpy(), file.to_numpy()))
    times = entries["timestamp"]
    return EDGES.conform(
        pl.DataFrame(
            {
                "child_id": child,
                "parent_id": parent,
                "kind": kinds.gather(order),
                "rule": rules.gather(order),
                "file_id": file,
                "session_id": sessions,
                "child_uuid": entries["uuid"].gather(a),
                "parent_uuid": entries["uuid"].gather(b),
                "tool_use_id": calls.gather(order),
                "gap_ms": (times.gather(a) - times.gather(b)).dt.total_milliseconds(),
            }
        )
    )
