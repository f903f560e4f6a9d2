"""Transcript files → frames: find, parse over workers, put together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import date, datetime

import polars as pl

from ._pool import Progress, run_jobs
from .assemble import Assembled, assemble
from .errors import UsageError
from .find import FoundFile, PathLike, find_files
from .jobs import Job, Piece
from .parse import Content, Reading
from .placing import find_folder_problems
from .projects import is_project_wanted
from .schema.base import PROBLEMS
from .transcripts import Transcripts
from .zones import parse_moment

JOB_BYTES = 12 << 20
"""Aim for the bytes of one job: enough of them to share out evenly, few enough to build columns in bulk."""
SPLIT_BYTES = 32 << 20
"""A file larger than this is cut at line ends, so that one large session does not hold up the rest."""
WORKER_BYTES = 40 << 20
"""Below this a worker would not have started before the work is done."""

Wanted = str | Iterable[str] | None


def load(
    path: PathLike | Sequence[PathLike] | None = None,
    *,
    projects: Wanted = None,
    sessions: Wanted = None,
    since: str | date | datetime | None = None,
    until: str | date | datetime | None = None,
    content: Content = "none",
    cache: bool | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Transcripts:
    """Claude Code transcripts as frames.

    Parameters
    ----------
    path
        A configuration folder, a project's folder, a ``.jsonl`` (also ``.gz``, ``.zst``), a glob, or several of these.
        Default: ``$CLAUDE_CONFIG_DIR`` (several by comma), else ``~/.config/claude`` and ``~/.claude``.
    projects, sessions
        Only these projects (directory, folder name, or last part of the path) and sessions (id or its beginning).
    since, until
        Only files that have an entry in this span: a date, a time, or text like ``"2026-03-01"`` or ``"7d"``. Files
        are kept whole, so that conversations stay whole; ``t.cost(since=…)`` cuts exactly.
    content : {"none", "preview", "full"}
        Whether ``text`` columns are filled: not, with 200 characters (secrets masked), or whole.
    cache
        Whether parsed files are kept for the next load; default on, ``CCANALYTICS_CACHE=0`` switches it off.
    workers
        Processes to parse with, this one included; default by size and cores.
    progress
        Called with how many pieces are done and how many there are.

    Returns
    -------
    Transcripts
        With no rows when there is nothing to read.

    Raises
    ------
    NotFoundError
        A path given does not exist.
    UsageError
        A parameter has a value that is not allowed.
    """
    if content not in ("none", "preview", "full"):
        raise UsageError(f"content is {content!r}; allowed are 'none', 'preview', 'full'", got=content)
    if workers is not None and workers < 1:
        raise UsageError(f"workers is {workers}; it must be 1 or more", got=workers)
    unreadable: list[tuple[str, str]] = []
    found = find_files(
        path,
        projects=projects,
        sessions=sessions,
        on_error=lambda place, e: unreadable.append((place, e.strerror or type(e).__name__)),
    )
    parsed = read_files(found, content=content, workers=workers, progress=progress)
    parsed = keep_files(parsed, _wanted(parsed.files, projects, since, until))
    problems = pl.concat([parsed.problems, find_folder_problems(parsed.files)]).sort(PROBLEMS.order, nulls_last=True)
    return Transcripts(
        parsed.files,
        parsed.entries,
        parsed.blocks,
        problems,
        content=content,
        unread_places=unreadable,
    )


def read_files(
    found: Sequence[FoundFile],
    *,
    content: Reading = "none",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Assembled:
    """The frames of these files, cold: every byte is read."""
    pieces, owners = cut_pieces(found)
    jobs, groups = _group(pieces, owners, found, content)
    total = sum(f.size for f in found)
    n = workers or (1 if total < WORKER_BYTES else min(os.cpu_count() or 1, 8))
    results = run_jobs(jobs, workers=n, progress=progress)
    return assemble(found, groups, results)


def cut_pieces(found: Sequence[FoundFile]) -> tuple[list[Piece], list[int]]:
    """The pieces that the files are read in, in order, and the number of the file each belongs to."""
    pieces: list[Piece] = []
    owners: list[int] = []
    for number, file in enumerate(found):
        cut = _line_ends(file) if file.size > SPLIT_BYTES and file.path.endswith(".jsonl") else [0]
        for start, stop in zip(cut, [*cut[1:], -1], strict=True):
            pieces.append(Piece(file.path, start, stop - start if stop >= 0 else -1, 1, stop < 0))
            owners.append(number)
    return pieces, owners


def _line_ends(file: FoundFile) -> list[int]:
    """Offsets at which a large file can be cut: 0 and places right behind a newline, about ``SPLIT_BYTES`` apart."""
    cuts = [0]
    try:
        with open(file.path, "rb") as f:
            while (at := cuts[-1] + SPLIT_BYTES) < file.size:
                f.seek(at)
                place = at
                while chunk := f.read(1 << 20):
                    end = chunk.find(b"\n")
                    if end >= 0:
                        place += end + 1
                        break
                    place += len(chunk)
                if not chunk or place >= file.size:
                    break
                cuts.append(place)
    except OSError:
        # The same failure comes again when the piece is read, and is reported there.
        return [0]
    return cuts


def _group(
    pieces: list[Piece], owners: list[int], found: Sequence[FoundFile], content: Reading
) -> tuple[list[Job], list[list[int]]]:
    jobs: list[Job] = []
    groups: list[list[int]] = []
    size = JOB_BYTES
    for piece, owner in zip(pieces, owners, strict=True):
        n = piece.length if piece.length >= 0 else found[owner].size - piece.offset
        if not jobs or size + n > JOB_BYTES or len(jobs[-1].pieces) >= 2000:
            jobs.append(Job([], content))
            groups.append([])
            size = 0
        jobs[-1].pieces.append(piece)
        groups[-1].append(owner)
        size += n
    return jobs, groups


def _wanted(
    files: pl.DataFrame, projects: Wanted, since: str | date | datetime | None, until: str | date | datetime | None
) -> pl.Series | None:
    """Which files are to be kept; None for all."""
    keep: pl.Expr | None = None
    if since is not None:
        keep = pl.col("last_at") >= parse_moment(since)
    if until is not None:
        before = pl.col("first_at") < parse_moment(until, is_end=True)
        keep = before if keep is None else keep & before
    mask = files.select(keep.fill_null(False)).to_series() if keep is not None else None
    if projects is not None:
        wanted = [projects] if isinstance(projects, str) else list(projects)
        rows = files.select("project", "project_dir").iter_rows()
        hits = [any(is_project_wanted(w, project=p, slug=d) for w in wanted) for p, d in rows]
        hit = pl.Series(hits, dtype=pl.Boolean)
        mask = hit if mask is None else mask & hit
    return mask


def keep_files(parsed: Assembled, mask: pl.Series | None) -> Assembled:
    """Only these files, with all ids numbered anew."""
    if mask is None or mask.all():
        return parsed
    return parsed.select(mask)
