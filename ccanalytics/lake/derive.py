"""The derived tables of a group of files, as a pure function that a worker anywhere can run."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from ccanalytics.beside import Beside
from ccanalytics.transcripts import Transcripts

from .ids import numbering_of
from .layout import DERIVED
from .manifest import Heading


@dataclass(frozen=True)
class Group:
    """Base tables of files that belong together, with the lake's ids, and what stands beside them."""

    files: pl.DataFrame
    entries: pl.DataFrame
    blocks: pl.DataFrame
    problems: pl.DataFrame
    """Those of reading."""
    team_members: pl.DataFrame
    headings: dict[str, Heading]
    summaries: dict[int, str]
    """Texts of summary lines, by entry."""
    content: Any = "none"


def derive(group: Group) -> dict[str, pl.DataFrame]:
    """Derived tables of a group and its ``problems``, with the lake's ids, each in its order."""
    numbers = numbering_of(group.files, group.entries)
    t = _Remembered(
        numbers.to_plain("files", group.files),
        numbers.to_plain("entries", group.entries),
        numbers.to_plain("blocks", group.blocks),
        numbers.to_plain("problems", group.problems),
        content=group.content,
        beside=Beside(group.team_members, group.headings),
    )
    told = pl.Series("entry_id", list(group.summaries), dtype=pl.Int64)
    t.summaries = dict(zip(numbers.plain_entry_ids(told).to_list(), group.summaries.values(), strict=True))
    made = tables_of(t)
    # Transcripts and what they are asked through hold each other; left to itself, the collector comes late.
    del t
    gc.collect()
    return {name: numbers.to_lake(name, frame) for name, frame in made.items()}


def tables_of(t: Transcripts) -> dict[str, pl.DataFrame]:
    """The derived tables and the problems of loaded transcripts."""
    found = {name: getattr(t, name) for name in (*DERIVED, "problems") if name != "resume"}
    return found | {"resume": t.resume()}


class _Remembered(Transcripts):
    """Transcripts whose files may be gone: of words, only the summaries noted when they were read are asked for."""

    summaries: dict[int, str]

    def raw(self, entry_ids: int | Iterable[int]) -> list[dict[str, Any]]:
        ids = [entry_ids] if isinstance(entry_ids, int) else entry_ids
        return [{"summary": self.summaries.get(int(i))} for i in ids]
