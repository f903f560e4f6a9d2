"""Which entries Claude Code would load on ``--resume``, in which order, and what it would send of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from ccanalytics.errors import UsageError
from ccanalytics.graph import Rows
from ccanalytics.schema.graph import RESUME

from .collapse import COLLAPSED, collapse_spans
from .compact import keep_messages, snip
from .current import plan_332
from .nodes import KINDS, Nodes, Rules, read_nodes
from .older import plan_88
from .plan import CODE, CONTINUE, INTERRUPTED, NO_RESPONSE, STEPS, Plan
from .reading import LargeFiles, lines_read

Apply = Literal["snip", "replacement", "collapse"]
RulesChoice = Literal["2.1.332", "2.1.88", "auto"]
RULES = ("2.1.332", "2.1.88", "auto")
APPLY = ("snip", "replacement", "collapse")
GENERATION_CHANGED = (2, 1, 112)
"""First version seen to end a chain at the last line of the file; earlier ones take the newest clock."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The resume of many sessions."""

    frame: pl.DataFrame
    """Rows of the ``resume`` table."""
    problems: pl.DataFrame
    """What the program leaves unread, as rows of ``problems`` (not all columns)."""
    plans: tuple[Plan, ...]
    generations: tuple[Rules, ...]
    """The generation each plan follows."""
    refused: dict[int, str]
    """file_id of sessions that are not resumed, and why."""
    not_read: Rows
    """entry_id of entries that the program leaves unread."""

    def generation(self, file_id: int) -> Rules:
        """The generation whose rules were followed for a file."""
        return next((g for g, p in zip(self.generations, self.plans, strict=True) if p.has_file(file_id)), "2.1.332")


def resume_sessions(
    entries: pl.DataFrame,
    blocks: pl.DataFrame,
    files: pl.DataFrame,
    problems: pl.DataFrame,
    *,
    rules: RulesChoice = "2.1.332",
    apply: Collection[Apply] = (),
    large_files: LargeFiles = "rules",
    read_bytes: Callable[[str], bytes] = lambda path: Path(path).read_bytes(),
) -> Resumed:
    """The conversations of all main transcripts as Claude Code would load them.

    Parameters
    ----------
    entries, blocks, files, problems : pl.DataFrame
        The tables; of ``files`` those of kind ``session`` are resumed.
    rules : {"2.1.332", "2.1.88", "auto"}
        The generation of the program. ``auto`` takes for each file the generation of its last writer.
    apply : collection of {"snip", "replacement", "collapse"}
        What the descriptions say but the program did not show: snips (2.1.88 has them anyway), replaced tool results
        (only in the API messages), collapsed spans.
    large_files : {"rules", "whole"}
        Whether files over 5 MiB are cut as the program does.
    read_bytes : callable
        Gives the bytes of a file; 2.1.88 looks at the bytes of large files.

    Returns
    -------
    Resumed
        Frame and problems; see :class:`Resumed`.
    """
    check_choices(rules, apply, large_files)
    sessions = files.filter(pl.col("kind") == "session").sort("file_id")
    plans: list[Plan] = []
    generations: list[Rules] = []
    lost: list[pl.DataFrame] = []
    unread: list[Rows] = []
    for generation, some in _by_generation(entries, sessions, rules):
        read = lines_read(
            entries, some, problems, rules=generation, large_files=large_files, read_bytes=read_bytes
        )  # fmt: skip
        nodes = read_nodes(entries, read.places, blocks, some, rules=generation)
        generations.append(generation)
        plans.append(_plan(nodes, entries, blocks, generation, apply))
        lost.append(read.problems)
        unread.append(read.not_read)
    refused = {int(p.nodes.file_ids[f]): why for p in plans for f, why in p.refused.items()}
    frame = pl.concat([_frame(p, entries, blocks) for p in plans])
    return Resumed(
        frame.sort(RESUME.order, maintain_order=True),
        pl.concat(lost),
        tuple(plans),
        tuple(generations),
        refused,
        np.concatenate(unread),
    )


def check_choices(rules: str, apply: Collection[str], large_files: str) -> None:
    """``UsageError`` for a choice that does not exist."""
    if rules not in RULES:
        raise UsageError(f"rules is {rules!r}; allowed are {', '.join(RULES)}.", got=rules, allowed=RULES)
    if isinstance(apply, str) or not set(apply) <= set(APPLY):
        raise UsageError(
            f"apply is {apply!r}; allowed is a collection of {', '.join(APPLY)}.", got=apply, allowed=APPLY
        )
    if large_files not in ("rules", "whole"):
        raise UsageError(f'large_files is {large_files!r}; allowed are "rules" and "whole".', got=large_files)


def _by_generation(
    entries: pl.DataFrame, sessions: pl.DataFrame, rules: RulesChoice
) -> list[tuple[Rules, pl.DataFrame]]:
    if rules != "auto":
        return [(rules, sessions)]
    last = (
        entries.lazy()
        .filter(pl.col("version").is_not_null())
        .group_by("file_id")
        .agg(pl.col("version").sort_by("entry_id").last())
        .collect()
    )
    older = last.filter(
        pl.col("version")
        .str.extract_all(r"\d+")
        .list.eval(pl.element().cast(pl.Int64, strict=False))
        .list.head(3)
        .map_batches(_is_older, return_dtype=pl.Boolean)
    )["file_id"]
    is_older = pl.col("file_id").is_in(older.implode())
    return [("2.1.332", sessions.filter(~is_older)), ("2.1.88", sessions.filter(is_older))]


def _is_older(versions: pl.Series) -> pl.Series:
    return pl.Series([bool(v) and tuple(v) < GENERATION_CHANGED for v in versions.to_list()], dtype=pl.Boolean)


def _plan(nodes: Nodes, entries: pl.DataFrame, blocks: pl.DataFrame, rules: Rules, apply: Collection[Apply]) -> Plan:
    if not len(nodes.entry):
        none = np.zeros(0, dtype=np.int64)
        return Plan(nodes, none, none, none, dict.fromkeys(range(nodes.n_files), "no entries"))
    kept = keep_messages(nodes, entries, rules=rules)
    crashed = snip(nodes, entries) if rules == "2.1.88" or "snip" in apply else set[int]()
    plan = plan_332(nodes, kept) if rules == "2.1.332" else plan_88(nodes, entries, blocks, crashed)
    return collapse_spans(plan, entries) if "collapse" in apply else plan


def _frame(plan: Plan, entries: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """The plan as rows of the ``resume`` table."""
    nodes, row = plan.nodes, plan.row
    made = row < 0
    real = np.where(made, 0, row)
    ids = np.where(made, -1, nodes.entry[real] if len(nodes.entry) else row)
    starts = np.searchsorted(plan.file, np.arange(nodes.n_files + 1))
    step = np.where(made, CODE["no_response"], plan.step[real] if len(plan.step) else row)
    step[row == CONTINUE] = CODE["continue"]
    step[(row <= INTERRUPTED) & (row > COLLAPSED)] = CODE["interrupted"]
    step[row <= COLLAPSED] = CODE["collapsed"]
    is_answer = row == NO_RESPONSE
    kind = np.where(made, np.where(is_answer, 1, 0), nodes.kind[real] if len(nodes.entry) else row)
    known = np.flatnonzero(~made)
    uuids = np.searchsorted(entries["entry_id"].to_numpy(), ids[known])
    calls = np.flatnonzero((row <= INTERRUPTED) & (row > COLLAPSED))
    call_ids = blocks["tool_use_id"].gather(nodes.call_block[INTERRUPTED - row[calls]])
    n = len(row)
    return RESUME.conform(
        pl.DataFrame(
            {
                "session_id": pl.Series(nodes.session_ids, dtype=pl.String).gather(plan.file),
                "file_id": nodes.file_ids[plan.file],
                "position": np.arange(n) - starts[plan.file],
                "entry_id": pl.Series(ids).set(pl.Series(made), None),
                "uuid": _spread_text(n, known, entries["uuid"].gather(uuids)),
                "type": _choose(KINDS, kind),
                "step": _choose(STEPS, step),
                "synthetic": _choose(("user", "assistant"), np.where(made, is_answer.astype(np.int64), -1)),
                "tool_use_id": _spread_text(n, calls, call_ids),
            }
        )
    )


def _choose(names: tuple[str, ...], codes: Rows) -> pl.Series:
    index = pl.Series(codes.astype(np.int64))
    return pl.Series(names, dtype=pl.String).gather(index.set(index < 0, None))


def _spread_text(n: int, places: Rows, values: pl.Series) -> pl.Series:
    if len(values) == n:
        return values
    at = np.full(n, -1, dtype=np.int64)
    at[places] = np.arange(len(places))
    index = pl.Series(at)
    return values.gather(index.set(index < 0, None))
