"""Transcript files → frames: find, parse over workers, put together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

import polars as pl

from ._pool import Progress
from .assemble import Assembled, read_meta
from .cache import is_wanted
from .errors import UsageError
from .find import FoundFile, PathLike, find_files
from .parse import Content
from .placing import find_folder_problems
from .projects import is_project_wanted, project_of
from .reading import read_again, read_files
from .schema.base import PROBLEMS
from .shelf import is_racy, shelf_of
from .transcripts import Transcripts
from .zones import parse_moment

Wanted = str | Iterable[str] | None


def load(
    path: PathLike | Sequence[PathLike] | None = None,
    *,
    projects: Wanted = None,
    sessions: Wanted = None,
    since: str | date | datetime | None = None,
    until: str | date | datetime | None = None,
    content: Content = "none",
    fold_worktrees: bool = True,
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
    fold_worktrees
        Whether a worktree under ``.claude/worktrees`` belongs to its project (its name is kept either way).
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
    request = Request(path, projects, sessions, since, until, content, workers, fold_worktrees)
    begun = time.time_ns()
    found, unread_places = request.find()
    read = read_files(found, content=content, workers=workers, progress=progress, cache=is_wanted(cache), begun=begun)
    files, entries, blocks, problems = request.tables(read)
    source = Source(request, found, read, begun)
    return Transcripts(files, entries, blocks, problems, content=content, unread_places=unread_places, source=source)


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    path: PathLike | Sequence[PathLike] | None
    projects: Wanted
    sessions: Wanted
    since: str | date | datetime | None
    until: str | date | datetime | None
    content: Content
    workers: int | None
    fold_worktrees: bool = True

    def find(self) -> tuple[list[FoundFile], list[tuple[str, str]]]:
        """The files there are now, and the folders that could not be listed."""
        unread: list[tuple[str, str]] = []
        found = find_files(
            self.path,
            projects=self.projects,
            sessions=self.sessions,
            on_error=lambda place, e: unread.append((place, e.strerror or type(e).__name__)),
        )
        return found, unread

    def tables(self, read: Assembled) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Files, entries, blocks and problems of the files asked for."""
        if not self.fold_worktrees:
            read = replace(read, files=_unfolded(read.files))
        kept = keep_files(read, _wanted(read.files, self.projects, self.since, self.until))
        problems = pl.concat([kept.problems, find_folder_problems(kept.files)]).sort(PROBLEMS.order, nulls_last=True)
        return kept.files, kept.entries, kept.blocks, problems


@dataclass(frozen=True)
class Source:
    """Where loaded transcripts come from: what was asked for, found and read, and when."""

    request: Request
    found: list[FoundFile]
    read: Assembled
    begun: int


def read_on(source: Source) -> Source | None:
    """What is there now, read from where each file ended; None when nothing has changed."""
    begun = time.time_ns()
    request = source.request
    found, _ = request.find()
    is_same = found == source.found and not is_racy(found, source.begun)
    if is_same and all(m == read_meta(f, m) for f, m in zip(found, source.read.metas, strict=True) if f.meta_path):
        return None
    shelf = shelf_of(source.found, source.read, begun=source.begun)
    read = read_again(found, [shelf], content=request.content, workers=request.workers)
    return Source(request, found, read, begun)


def _unfolded(files: pl.DataFrame) -> pl.DataFrame:
    """The files with every worktree a project of its own."""
    paths = {c: project_of(c, fold_worktrees=False)[0] for c in files["cwd"].drop_nulls().unique().to_list()}
    return files.with_columns(project=pl.Series([paths.get(c) for c in files["cwd"]], dtype=pl.String))


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
