"""All sessions under the rules of 2.1.88, the generation the public descriptions of the algorithm speak of."""

from __future__ import annotations

import numpy as np
import polars as pl

from ccanalytics import graph
from ccanalytics.graph import NONE, Mask, Rows

from .load import load_88
from .nodes import NO_TIME, SYSTEM, Nodes
from .plan import CODE, Drops, Plan, assemble, first_steps, mark_bridged

SPEAKING_TOOLS = ("SendUserMessage", "Brief")
"""Tools whose result as last entry does not count as a turn that was cut off."""


def plan_88(nodes: Nodes, entries: pl.DataFrame, blocks: pl.DataFrame, crashed: set[int]) -> Plan:
    """What every session comes to; compaction and snips have been applied to ``nodes``."""
    refused = dict.fromkeys(crashed, "Claude Code 2.1.88 fails on a snip that takes out a whole circle")
    tip = _newest(nodes)
    for f in np.flatnonzero(tip < 0).tolist():
        refused.setdefault(f, "no entry with a readable time")
    tip[list(refused)] = NONE
    chain_file, chain_row = _walk(nodes, tip)
    step = first_steps(nodes)
    file, row = _rounds(nodes, entries, chain_file, chain_row, step)
    has_answer = np.zeros(nodes.n_files, dtype=bool)
    has_answer[file[nodes.kind[row] == 1]] = True
    for f in np.flatnonzero(nodes.fails & has_answer).tolist():
        refused[f] = "Claude Code 2.1.88 fails on a line of this file that has no message or a bare text"
    plan = _load_all(nodes, file, row, step, refused, blocks)
    mark_bridged(plan)
    return plan


def _newest(nodes: Nodes) -> Rows:
    """The main entry with the newest time in each file, a tie going to the earliest line."""
    rows = np.flatnonzero(nodes.alive & ~nodes.side & (nodes.time != NO_TIME))
    order = np.lexsort((-rows, nodes.time[rows], nodes.file[rows]))
    tip = np.full(nodes.n_files, NONE, dtype=np.int64)
    tip[nodes.file[rows[order]]] = rows[order]
    return tip


def _walk(nodes: Nodes, tip: Rows) -> tuple[Rows, Rows]:
    """The way up from each tip, root first; it ends at an unknown parent and before a row walked over already."""
    parent = np.where(nodes.alive, nodes.parent, NONE)
    backwards = np.zeros(nodes.n_files, dtype=bool)
    backwards[nodes.file[np.flatnonzero(nodes.alive & (nodes.parent >= np.arange(len(parent))))]] = True
    straight = np.where(backwards[nodes.file], NONE, parent)
    on = graph.members(straight, tip[(tip >= 0) & ~backwards])
    rows = np.flatnonzero(on)
    parts = [(nodes.file[rows], rows)]
    for f in np.flatnonzero(backwards & (tip >= 0)).tolist():
        way: dict[int, None] = {}
        x = int(tip[f])
        while x >= 0 and x not in way:
            way[x] = None
            x = int(parent[x])
        parts.append((np.full(len(way), f, dtype=np.int64), np.array(list(way)[::-1], dtype=np.int64)))
    return assemble(parts)


def _rounds(nodes: Nodes, entries: pl.DataFrame, file: Rows, row: Rows, step: Rows) -> tuple[Rows, Rows]:
    """Lost lines of a message and results below it follow its last line on the chain, by their clock as text."""
    on = np.zeros(len(nodes.entry), dtype=bool)
    on[row] = True
    n_groups = int(nodes.group.max(initial=-1)) + 1
    last = np.full(n_groups + 1, NONE, dtype=np.int64)
    lines = np.flatnonzero(nodes.group[row] >= 0)
    last[nodes.group[row[lines]]] = lines
    last[NONE] = NONE
    parent = nodes.parent
    by_parent = np.where(nodes.is_result & (parent >= 0), nodes.group[parent.clip(min=0)], NONE)
    missing_line = nodes.alive & ~on & (nodes.group >= 0) & (last[nodes.group] >= 0)
    missing_result = nodes.alive & ~on & (by_parent >= 0) & (last[by_parent] >= 0)
    more = np.flatnonzero(missing_line | missing_result)
    if not len(more):
        return file, row
    group = np.where(missing_line[more], nodes.group[more], by_parent[more])
    is_result = ~missing_line[more]
    order = np.lexsort((more, _clock_rank(entries, nodes.entry[more]), is_result, last[group]))
    more, group = more[order], group[order]
    step[more] = np.where(nodes.group[more] >= 0, CODE["line"], CODE["result"])
    at = last[group] + 1
    return np.insert(file, at, nodes.file[more]), np.insert(row, at, more)


def _clock_rank(entries: pl.DataFrame, ids: Rows) -> Rows:
    """Rank of each entry's timestamp as text, one that is missing as the text ``undefined``."""
    at = pl.Series(np.searchsorted(entries["entry_id"].to_numpy(), ids))
    times = entries.select("timestamp", "timestamp_text")[at]
    text = times.select(
        pl.coalesce(
            "timestamp_text", pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"), pl.lit("undefined")
        ).rank("dense")
    )
    return text.to_series().cast(pl.Int64).to_numpy()


def _load_all(nodes: Nodes, file: Rows, row: Rows, step: Rows, refused: dict[int, str], blocks: pl.DataFrame) -> Plan:
    drops = Drops()
    plain = _plain_files(nodes, file, row)
    parts = [(file[plain[file]], row[plain[file]])]
    bounds = np.searchsorted(file, np.arange(nodes.n_files + 1))
    absorbed: dict[int, list[int]] = {}
    is_brief = _brief_results(nodes, blocks)
    for f in np.flatnonzero(~plain).tolist():
        way = row[bounds[f] : bounds[f + 1]].tolist()
        if f in refused or not way:
            continue
        loaded, merged = load_88(nodes, way, drops, is_brief.__contains__)
        if not loaded:
            refused[f] = "nothing is left of the conversation"
            continue
        absorbed |= merged
        parts.append((np.full(len(loaded), f, dtype=np.int64), np.array(loaded, dtype=np.int64)))
    all_files, all_rows = assemble([(f[~np.isin(f, list(refused))], r[~np.isin(f, list(refused))]) for f, r in parts])
    return Plan(
        nodes, all_files, all_rows, step, refused, np.array(drops.unanswered, dtype=np.int64),
        np.array(drops.empty, dtype=np.int64), absorbed,
    )  # fmt: skip


def _plain_files(nodes: Nodes, file: Rows, row: Rows) -> Mask:
    """Files where nothing is dropped or added: every call has a result, no empty answer, an answer at the end."""
    plain = np.ones(nodes.n_files, dtype=bool)
    on = np.zeros(len(nodes.entry), dtype=bool)
    on[row] = True
    answered = np.zeros(nodes.n_keys + 1, dtype=bool)
    answered[nodes.result_key[on[nodes.result_row]]] = True
    plain[nodes.file[nodes.call_row[on[nodes.call_row] & ~answered[nodes.call_key]]]] = False
    full = np.zeros(int(nodes.group.max(initial=-1)) + 2, dtype=bool)
    full[nodes.group[row[nodes.has_content[row] & ~nodes.is_thinking[row]]]] = True
    full[NONE] = False
    plain[file[nodes.is_blank[row] | (nodes.is_thinking[row] & ~full[nodes.group[row]])]] = False
    if len(row):
        ends = np.flatnonzero(np.append(file[1:] != file[:-1], True))
        last = row[ends]
        plain[file[ends[(nodes.kind[last] != 1) | nodes.is_error[last] | (nodes.kind[last] >= SYSTEM)]]] = False
    return plain


def _brief_results(nodes: Nodes, blocks: pl.DataFrame) -> set[int]:
    """Rows whose last result answers a call of a tool that speaks to the user."""
    named = blocks["tool_name"].is_in(SPEAKING_TOOLS).fill_null(False).to_numpy()
    keys = nodes.call_key[named[nodes.call_block]]
    if not len(keys):
        return set()
    # The last result of a row is written last, so it wins.
    last = dict(zip(nodes.result_row.tolist(), nodes.result_key.tolist(), strict=True))
    wanted = set(keys.tolist())
    return {r for r, k in last.items() if k in wanted}
