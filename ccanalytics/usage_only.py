"""Transcripts read for their usage alone: what a report by day, model, session … needs and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property

import polars as pl

from ._pool import Progress
from .cache import is_wanted
from .errors import UsageError
from .find import PathLike
from .load import Request, Wanted
from .reading import read_files

WHOLE_BYTES = 32 << 20
"""Less than this is read whole: it takes no time, and every damaged field is noticed."""
_NEED_MORE = {"turn", "agent", "agent_type", "tool"}


def is_enough(by: str | Sequence[str] | None) -> bool:
    """Whether a cost by these keys can be computed from usage alone."""
    from .cost_keys import key_names

    return not _NEED_MORE & {*key_names(by)}


class UsageTranscripts:
    """Files, problems and calls as ``load`` has them, of lines that carry usage; no other tables."""

    def __init__(self, files: pl.DataFrame, entries: pl.DataFrame, read_problems: pl.DataFrame) -> None:
        self.files = files
        self.entries = entries
        """All entries; those without usage have their place and what says whose they are, else null."""
        self.read_problems = read_problems
        """Lines that are damaged; fields of an odd type only where usage is read."""

    @cached_property
    def calls(self) -> pl.DataFrame:
        """One row per API request (table ``calls``)."""
        from .calls import build_calls

        return build_calls(self.entries, self.files)

    def cost_tables(self, by: str | Sequence[str] | None) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
        """``calls``, and no further tables; keys that need some are an error."""
        from .cost_keys import key_names, with_folders

        if not is_enough(by):
            raise UsageError(f"a report by {by} needs transcripts that are loaded whole", got=by)
        return with_folders(self.calls, self.files) if "project" in key_names(by) else self.calls, {}


def load_usage(
    path: PathLike | Sequence[PathLike] | None = None,
    *,
    projects: Wanted = None,
    sessions: Wanted = None,
    cache: bool | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> UsageTranscripts:
    """Usage of transcripts; parameters as for :func:`ccanalytics.load`."""
    request = Request(path, projects, sessions, None, None, "none", workers)
    begun = time.time_ns()
    found, _ = request.find()
    is_small = sum(f.size for f in found) < WHOLE_BYTES
    read = read_files(
        found,
        content="none" if is_small else "usage",
        workers=workers,
        progress=progress,
        cache=is_wanted(cache),
        begun=begun,
    )
    files, entries, _, problems = request.tables(read)
    return UsageTranscripts(files, entries, problems)
