"""Parsed pieces → the four base tables over all files, with ids that do not depend on who parsed what when."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from .blocks import Nulls
from .decode import loads
from .find import FoundFile
from .jobs import Facts, JobResult, Meta, Summary
from .projects import project_of
from .schema.base import BLOCKS, ENTRIES, FILES, PROBLEMS
from .small_files import read_small

MAX_META_BYTES = 1 << 16
RACY_NS = 2_000_000_000
"""Times of files may be no finer than this (FAT: two seconds)."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """The base tables, and what is needed to go on reading where each file ended."""

    files: pl.DataFrame
    entries: pl.DataFrame
    blocks: pl.DataFrame
    problems: pl.DataFrame
    facts: tuple[Facts, ...] = ()
    """Per file, the pieces added up."""
    summaries: tuple[Summary, ...] = ()
    metas: tuple[Meta | None, ...] = ()

    def is_same(self, other: Assembled) -> bool:
        """Whether all tables are equal."""
        return all(
            getattr(self, name).equals(getattr(other, name)) for name in ("files", "problems", "entries", "blocks")
        )

    def select(self, mask: pl.Series) -> Assembled:
        """Only the files where ``mask`` holds; file and entry ids are numbered anew."""
        keep = mask.arg_true().to_numpy()
        new_file = np.full(len(mask), -1, dtype=np.int32)
        new_file[keep] = np.arange(len(keep), dtype=np.int32)
        entry_mask = new_file[self.entries["file_id"].to_numpy()] >= 0
        new_entry = np.cumsum(entry_mask) - 1
        files = self.files.filter(mask).with_columns(file_id=pl.int_range(pl.len(), dtype=pl.Int32))
        entries = self.entries.filter(pl.Series(entry_mask))
        entries = entries.with_columns(
            entry_id=pl.Series(np.arange(len(entries), dtype=np.int64)),
            file_id=pl.Series(new_file[entries["file_id"].to_numpy()]),
        )
        ids = self.blocks["entry_id"].to_numpy()
        blocks = self.blocks.filter(pl.Series(entry_mask[ids]))
        blocks = blocks.with_columns(entry_id=pl.Series(new_entry[blocks["entry_id"].to_numpy()]))
        problems = _renumber(self.problems, new_file, new_entry)
        facts = tuple(self.facts[i] for i in keep) if self.facts else ()
        summaries = tuple(self.summaries[i] for i in keep) if self.summaries else ()
        metas = tuple(self.metas[i] for i in keep) if self.metas else ()
        return Assembled(files, entries, blocks, problems, facts, summaries, metas)


def _renumber(problems: pl.DataFrame, new_file: np.ndarray, new_entry: np.ndarray) -> pl.DataFrame:
    rows = []
    for row in problems.iter_rows(named=True):
        file_id = row["file_id"]
        if file_id is not None:
            if new_file[file_id] < 0:
                continue
            row["file_id"] = int(new_file[file_id])
        if row["entry_id"] is not None:
            row["entry_id"] = int(new_entry[row["entry_id"]])
        rows.append(row)
    return pl.DataFrame(rows, schema=PROBLEMS.polars())


def assemble(found: Sequence[FoundFile], owners: Sequence[Sequence[int]], results: Sequence[JobResult]) -> Assembled:
    """The base tables of ``found``.

    Parameters
    ----------
    found
        The files, in order of ``file_id``.
    owners
        For each job, the file number of each of its pieces; pieces are in file order over all jobs.
    results
        What became of each job.
    """
    facts = [_NOTHING] * len(found)
    entries, blocks, problems = [], [], []
    known: dict[int, Summary] = {}
    known_metas: dict[int, Meta | None] = {}
    n_rows, first_rows = 0, list[int]()
    for files, result in zip(owners, results, strict=True):
        assert result.entries is not None
        assert result.blocks is not None
        assert result.problems is not None
        lines_before = np.array([facts[f].n_settled_lines for f in files], dtype=np.int32)
        for k, (file_no, part) in enumerate(zip(files, result.parts, strict=True)):
            if k and files[k - 1] == file_no:
                lines_before[k] = facts[file_no].n_settled_lines
            facts[file_no] = part if facts[file_no] is _NOTHING else _added(facts[file_no], part)
        if result.summaries:
            known.update(zip(files, result.summaries, strict=True))
            known_metas.update(zip(files, result.metas, strict=True))
        file_of = np.array(files, dtype=np.int32)
        entries.append(_place(result.entries, file_of, lines_before))
        blocks.append(result.blocks)
        first_rows.append(n_rows)
        if len(result.problems) or result.unreadable:
            problems.extend(_problem_rows(result, file_of, lines_before, n_rows))
        n_rows += len(result.entries)
        result.entries = result.blocks = None
    all_entries = _stack(entries, first_rows, ENTRIES.polars())
    all_blocks = _stack(blocks, first_rows, BLOCKS.polars())
    metas = [read_meta(f, known_metas.get(i)) if f.meta_path is not None else None for i, f in enumerate(found)]
    problems.extend(_meta_problem(i) for i, meta in enumerate(metas) if meta is not None and not meta.text)
    all_problems = pl.DataFrame(problems, schema=PROBLEMS.polars(), orient="row").sort(PROBLEMS.order, nulls_last=True)
    whole = [known.get(i) or Summary() for i in range(len(found))]
    new = [i for i in range(len(found)) if i not in known]
    for i, summary in zip(new, _summaries(all_entries, new, len(found)), strict=True):
        whole[i] = summary
    files_frame = _file_rows(found, facts, whole, all_problems, metas)
    return Assembled(files_frame, all_entries, all_blocks, all_problems, tuple(facts), tuple(whole), tuple(metas))


def _summaries(entries: pl.DataFrame, files: Sequence[int], n_files: int) -> list[Summary]:
    """What the lines of these files say of their file."""
    has_envelope = pl.col("is_sidechain").is_not_null() | (pl.col("uuid").is_not_null() & pl.col("has_message"))
    lines = entries.lazy().select(
        "file_id", "cwd", "session_id", "agent_id", "timestamp", "is_sidechain", "team_name", "uuid", "has_message"
    )
    if len(files) < n_files:
        lines = lines.filter(pl.col("file_id").is_in(list(files)))
    found = (
        lines.group_by("file_id")
        .agg(
            pl.col("cwd", "session_id", "agent_id").drop_nulls().first(),
            pl.col("timestamp").min().dt.epoch("ms").alias("first_ms"),
            pl.col("timestamp").max().dt.epoch("ms").alias("last_ms"),
            # An agent's transcript can be named like a session: then all its lines are an agent's, or a team member's.
            (
                pl.col("is_sidechain").filter(has_envelope).fill_null(False).all()
                | pl.col("agent_id").filter(has_envelope).is_not_null().all()
                | pl.col("team_name").filter(has_envelope).is_not_null().all()
            )
            .and_(has_envelope.any())
            .alias("holds_agent"),
        )
        .collect()
    )
    by_file = {row[0]: Summary(*row[1:]) for row in found.iter_rows()}
    return [by_file.get(i) or Summary() for i in files]


_NOTHING = Facts(0, 0, 0, 0, 0, 0, 0)


def _added(a: Facts, b: Facts) -> Facts:
    """Two pieces of a file as one; all but the last end at a newline, so that adding up is right."""
    return Facts(
        a.n_rows + b.n_rows,
        a.n_lines + b.n_lines,
        a.n_bytes + b.n_bytes,
        a.n_settled_rows + b.n_settled_rows,
        a.n_settled_bytes + b.n_settled_bytes,
        a.n_settled_lines + b.n_settled_lines,
        a.n_pending_bytes + b.n_pending_bytes,
        # A file of which one piece has no hash cannot be known again.
        [*a.digests, *b.digests] if a.digests and b.digests else [],
    )


def _place(frame: pl.DataFrame, file_of: Any, lines_before: Any) -> pl.DataFrame:
    part = frame["part"].to_numpy()
    frame = frame.drop("part").insert_column(1, pl.Series("file_id", file_of[part], dtype=pl.Int32))
    if lines_before.any():
        line_no = pl.Series("line_no", frame["line_no"].to_numpy() + lines_before[part])
        frame = frame.replace_column(frame.get_column_index("line_no"), line_no)
    return frame


def _stack(frames: list[pl.DataFrame], first_rows: Sequence[int], schema: pl.Schema) -> pl.DataFrame:
    """All frames one below the other, ``row`` turned into ``entry_id``."""
    if not frames:
        return pl.DataFrame(schema=schema)
    nulls = Nulls(sum(map(len, frames)))
    is_copied = max(map(len, frames)) * 2 < sum(map(len, frames)) or len(frames) > 64
    ids = [f["row"].to_numpy() + first for f, first in zip(frames, first_rows, strict=True)]
    columns = {"entry_id": pl.Series(np.concatenate(ids))}
    for name, dtype in list(schema.items())[1:]:
        # Taken out of the frames, so that no more than one column is there twice.
        parts = [f.drop_in_place(name) for f in frames]
        is_void = all(p.null_count() == len(p) for p in parts)
        # Many small chunks make all that follows slow; to copy a large frame for a few new rows would be slow too.
        columns[name] = nulls.of(dtype) if is_void else pl.concat(parts, rechunk=is_copied)
    return pl.DataFrame(columns)


ProblemRow = tuple[int | None, int | None, int | None, str, int | None, str | None, str | None, int | None, str]


def _problem_rows(result: JobResult, file_of: np.ndarray, lines_before: np.ndarray, n_rows: int) -> list[ProblemRow]:
    assert result.problems is not None
    assert result.entries is not None
    uuids = result.entries["uuid"]
    rows: list[ProblemRow] = []
    for part, row, line_no, offset, code, detail in result.problems.iter_rows():
        rows.append(
            (
                int(file_of[part]),
                line_no + int(lines_before[part]),
                offset,
                code,
                None if row is None else row + n_rows,
                None if row is None else uuids[row],
                None,
                None,
                detail,
            )
        )
    for part, why in result.unreadable.items():
        rows.append((int(file_of[part]), None, None, "unreadable_file", None, None, None, None, why))
    return rows


def read_meta(file: FoundFile, known: Meta | None = None) -> Meta | None:
    """The .meta.json of a file; what is known of it when it is unchanged, None when it is gone."""
    assert file.meta_path is not None
    begun = time.time_ns()
    try:
        stat = os.stat(file.meta_path)
        signature = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if known is not None and known.signature == signature:
            return known
        data = read_small(file.meta_path, MAX_META_BYTES)
        value = loads(data)
    except (OSError, ValueError):
        return Meta((0, 0, 0, 0), "")
    # Written so shortly before that the times could stay the same with the next write: to be read again.
    is_racy = max(stat.st_mtime_ns, stat.st_ctime_ns) > begun - RACY_NS
    text = data.decode("utf-8", "replace").strip() if isinstance(value, dict) else ""
    return Meta((0, 0, 0, 0) if is_racy else signature, text)


def _meta_problem(file_id: int) -> ProblemRow:
    return (file_id, None, None, "bad_meta", None, None, None, None, "the .meta.json beside the file cannot be read")


def _file_rows(
    found: Sequence[FoundFile],
    facts: Sequence[Facts],
    summaries: Sequence[Summary],
    problems: pl.DataFrame,
    metas: Sequence[Meta | None],
) -> pl.DataFrame:
    counts = problems.group_by("file_id").agg(pl.len().cast(pl.Int64).alias("n_problems"))
    base = pl.DataFrame(
        {
            "file_id": range(len(found)),
            "path": [f.path for f in found],
            "root": [f.root for f in found],
            "project_dir": [f.project_dir for f in found],
            "kind": [f.kind for f in found],
            "layout": [f.layout for f in found],
            "session_id": [f.session_id for f in found],
            "agent_id": [f.agent_id for f in found],
            "workflow_id": [f.workflow_id for f in found],
            "size_bytes": [p.n_bytes for p in facts],
            "modified_at": [f.mtime_ns // 1_000_000 for f in found],
            "n_lines": [p.n_lines for p in facts],
            "n_entries": [p.n_rows for p in facts],
            "n_pending_bytes": [p.n_pending_bytes for p in facts],
            "meta": [m.text or None if m is not None else None for m in metas],
            "cwd": [s.cwd for s in summaries],
            "first_at": [s.first_ms for s in summaries],
            "last_at": [s.last_ms for s in summaries],
        },
        schema={
            n: (pl.Int64 if d.is_temporal() else d)
            for n, d in FILES.polars().items()
            if n not in ("project", "worktree", "n_problems")
        },
        strict=False,
    )
    joined = base.join(counts, on="file_id", how="left", validate="1:1", maintain_order="left")
    cwds = joined["cwd"].unique().drop_nulls().sort().to_list()
    projects = {c: project_of(c) for c in cwds}
    pairs = [projects.get(c, (None, None)) for c in joined["cwd"].to_list()]
    holds_agent = pl.Series([s.holds_agent for s in summaries], dtype=pl.Boolean)
    joined = joined.with_columns(kind=pl.when(holds_agent).then(pl.lit("agent")).otherwise(pl.col("kind")))
    joined = joined.with_columns(
        pl.coalesce("session_id", pl.Series([s.session_id for s in summaries], dtype=pl.String)).alias("session_id"),
        pl.when(pl.col("kind") == "agent")
        .then(pl.coalesce("agent_id", pl.Series([s.agent_id for s in summaries], dtype=pl.String)))
        .alias("agent_id"),
        pl.col("n_problems").fill_null(0),
        pl.col("modified_at", "first_at", "last_at").cast(pl.Datetime("ms", "UTC")),
        project=pl.Series([p for p, _ in pairs], dtype=pl.String),
        worktree=pl.Series([w for _, w in pairs], dtype=pl.String),
    )
    return FILES.conform(joined)
