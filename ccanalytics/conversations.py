"""The conversations of loaded transcripts: edges, chains, and what a resume shows; computed when first asked for."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any, Literal

import polars as pl

from .chains import Tree, build_chains, build_tree, chain_problems
from .edges import Links, build_edges, read_links
from .errors import UsageError
from .jobs import Piece, read_piece
from .link_problems import link_problems
from .resume import Apply, Resumed, RulesChoice, check_choices, resume_sessions
from .resume.reading import LargeFiles
from .resume.session import (
    ContinuedSession,
    Raw,
    as_forked,
    chain_json,
    continued_session,
    session_file,
    session_frame,
    session_messages,
)
from .schema.base import PROBLEMS
from .story import build_history

View = Literal["entries", "api"]


class Conversations:
    """What is derived from the links between entries; thin: every result is made by a pure function."""

    def __init__(
        self,
        files: pl.DataFrame,
        entries: pl.DataFrame,
        blocks: pl.DataFrame,
        problems: pl.DataFrame,
        *,
        raw: Raw,
    ) -> None:
        self.files, self.entries, self.blocks, self.read_problems = files, entries, blocks, problems
        self._raw = raw
        self._resumed: dict[tuple[str, frozenset[str], str], Resumed] = {}

    def resumed(
        self, rules: RulesChoice = "2.1.332", apply: Collection[Apply] = (), large_files: LargeFiles = "rules"
    ) -> Resumed:
        """All sessions, computed once for each choice."""
        key = (rules, frozenset(apply), large_files)
        if key not in self._resumed:
            self._resumed[key] = self._compute(self.files, rules, apply, large_files)
        return self._resumed[key]

    def _compute(
        self, files: pl.DataFrame, rules: RulesChoice, apply: Collection[Apply], large_files: LargeFiles
    ) -> Resumed:
        return resume_sessions(
            self.entries,
            self.blocks,
            files,
            self.read_problems,
            rules=rules,
            apply=apply,
            large_files=large_files,
            read_bytes=lambda path: read_piece(Piece(path)),
        )

    def resume(
        self,
        session_id: str | None = None,
        *,
        rules: RulesChoice = "2.1.332",
        view: View = "entries",
        apply: Collection[Apply] = (),
        large_files: LargeFiles = "rules",
        cwd: str | None = None,
        model: str | None = None,
    ) -> pl.DataFrame | list[dict[str, Any]]:
        """See :meth:`ccanalytics.transcripts.Transcripts.resume`."""
        check_choices(rules, apply, large_files)
        if view not in ("entries", "api"):
            raise UsageError(f'view is {view!r}; allowed are "entries" and "api".', got=view)
        if session_id is None:
            if view == "api":
                raise UsageError('view="api" needs a session id.', got=view)
            return as_forked(self.resumed(rules, apply, large_files))
        file = session_file(self.files, session_id, cwd=cwd, rules=rules)
        known = self._resumed.get((rules, frozenset(apply), large_files))
        one = self.files.filter(pl.col("file_id") == file["file_id"])
        resumed = known or self._compute(one, rules, apply, large_files)
        frame = session_frame(resumed, file, session_id)
        if view == "entries":
            return as_forked(resumed).filter(pl.col("file_id") == file["file_id"]) if frame.height else frame
        generation = resumed.generation(file["file_id"])
        return session_messages(resumed, file, self.entries, self._raw, rules=generation, apply=apply, model=model)

    def continued(self, cwd: str, *, rules: str = "2.1.332") -> ContinuedSession:
        """See :meth:`ccanalytics.transcripts.Transcripts.continued`."""
        return continued_session(self.entries, self.files, cwd, rules=rules)

    def history(self, session_id: str) -> pl.DataFrame:
        """See :meth:`ccanalytics.transcripts.Transcripts.history`."""
        return build_history(session_id, self.files, self.tree, self.chains, self.edges)

    def as_json(self, session_id: str, **options: Any) -> dict[str, Any]:
        """One session as ``ccanalytics resume --format json`` prints it; raises when it would be refused."""
        frame = self.resume(session_id, **options)
        assert isinstance(frame, pl.DataFrame)
        file = session_file(self.files, session_id, cwd=options.get("cwd"), rules=options.get("rules", "2.1.332"))
        return {
            "session_id": file["session_id"],
            "refused": False,
            "chain": chain_json(frame),
            "messages": self.resume(session_id, view="api", **options),
        }

    @cached_property
    def links(self) -> Links:
        """Who hangs on whom, as written."""
        return read_links(self.entries, self.files)

    @cached_property
    def tree(self) -> Tree:
        """Who hangs on whom, repaired."""
        return build_tree(self.links, self.files, self.resumed())

    @cached_property
    def edges(self) -> pl.DataFrame:
        """Table ``edges``."""
        return build_edges(self.links, self.entries, self.blocks, self.files, self.resumed())

    @cached_property
    def chains(self) -> pl.DataFrame:
        """Table ``chains``."""
        return build_chains(self.tree, self.files)

    @cached_property
    def problems(self) -> pl.DataFrame:
        """Rows of ``problems`` that come from linking and from what the program leaves unread."""
        return pl.concat(
            [
                PROBLEMS.conform(self.resumed().problems),
                link_problems(self.links, self.files),
                chain_problems(self.tree, self.chains),
            ]
        )
