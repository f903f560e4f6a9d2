"""The base tables of everything a lake will hold: what was just read, and what it already held of files now gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ccanalytics.assemble import Assembled
from ccanalytics.errors import ReadError
from ccanalytics.schema.base import FILES, PROBLEMS
from ccanalytics.secrets import mask_secrets
from ccanalytics.transcripts import Transcripts

from .derive import Group
from .files import scan_files
from .groups import build_groups, read_keys, team_keys
from .layout import in_order
from .manifest import FileNote, Heading, Manifest, RowPrints, note_file
from .scratch import Scratch

GROUP_ROWS = 80_000
"""Entries for which derived tables are made at once; about 150 MB of transcripts."""


@dataclass(frozen=True)
class Batch:
    """Base tables of some files, numbered within the batch from 0, files in the order of their paths."""

    files: pl.DataFrame
    entries: pl.DataFrame
    blocks: pl.DataFrame
    problems: pl.DataFrame
    headings: Mapping[str, Heading] = field(default_factory=dict)


@dataclass(frozen=True)
class _Stored:
    entries: int
    blocks: int
    file_ids: npt.NDArray[np.int32]


class Base:
    """All base rows with the lake's ids, put aside batch by batch."""

    def __init__(self, manifest: Manifest, scratch: Scratch) -> None:
        self.manifest = manifest
        self.team_members: pl.DataFrame | None = None
        self.is_as_read = True
        """Every id is the one of the single batch that was read."""
        self._old = dict(manifest.files)
        self._scratch = scratch
        self._stored: list[_Stored] = []
        self._last: tuple[_Stored, pl.DataFrame, pl.DataFrame] | None = None
        self._files: list[pl.DataFrame] = []
        self._problems: list[pl.DataFrame] = []
        self._keys: list[pl.DataFrame] = []

    def add(self, batch: Batch) -> None:
        """Take in what was read of some files, none of which was taken in before."""
        batch = self._readable(batch)
        file_ids, entry_ids = self._number(batch)
        self._note_words(batch)
        entries, files = pl.Series(entry_ids), pl.Series(file_ids)
        self.is_as_read &= not self._stored and _is_range(entry_ids) and _is_range(file_ids)
        own = batch.problems.filter(pl.col("file_id").is_not_null())
        self._take(
            batch.files.with_columns(file_id=files),
            batch.entries.with_columns(entry_id=entries, file_id=files.gather(batch.entries["file_id"])),
            batch.blocks.with_columns(entry_id=entries.gather(batch.blocks["entry_id"])),
            own.with_columns(file_id=files.gather(own["file_id"]), entry_id=entries.gather(own["entry_id"])),
        )

    def _readable(self, batch: Batch) -> Batch:
        """Without files that could not be read this time: what the lake holds of them stays."""
        failed = batch.problems.filter(pl.col("code") == "unreadable_file")["file_id"].drop_nulls()
        if failed.is_empty():
            return batch
        keep = ~(pl.col("file_id").is_in(failed.implode()) & pl.col("path").is_in(list(self._old)))
        left = Assembled(batch.files, batch.entries, batch.blocks, batch.problems).select(
            batch.files.select(keep).to_series()
        )
        paths = set(left.files["path"])
        headings = {path: heading for path, heading in batch.headings.items() if path in paths}
        return Batch(left.files, left.entries, left.blocks, left.problems, headings)

    def _number(self, batch: Batch) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        paths = batch.files["path"].to_list()
        counts = np.bincount(batch.entries["file_id"].to_numpy(), minlength=len(paths))
        prints, m, first = RowPrints(batch.entries), self.manifest, 0
        file_ids, entry_ids = np.zeros(len(paths), dtype=np.int32), [np.zeros(0, dtype=np.int64)]
        for i, (path, n) in enumerate(zip(paths, counts.tolist(), strict=True)):
            old = self._old.pop(path, None)
            if old is None:
                file_ids[i], m.next_file_id = m.next_file_id, m.next_file_id + 1
            else:
                file_ids[i] = old.file_id
            note = note_file(old, prints, first=first, n=n, file_id=int(file_ids[i]), next_id=m.next_entry_id)
            m.files[path] = note
            m.next_entry_id = max(m.next_entry_id, *(r.first_id + r.n_rows for r in note.runs), 0)
            entry_ids.append(note.ids())
            first += n
        return file_ids, np.concatenate(entry_ids)

    def _note_words(self, batch: Batch) -> None:
        for path, heading in batch.headings.items():
            self.manifest.files[path].heading = Heading(heading.summary, heading.custom_title, heading.first_prompt)
        told = batch.entries.filter((pl.col("type") == "summary") & pl.col("leaf_uuid").is_not_null())
        if told.is_empty():
            return
        t = Transcripts(batch.files, batch.entries, batch.blocks, batch.problems)
        first = batch.entries.group_by("file_id").agg(first="entry_id").with_columns(pl.col("first").list.first())
        starts = dict(first.iter_rows())
        for part in told.partition_by("file_id"):
            file_id = part["file_id"][0]
            try:
                lines = t.raw(part["entry_id"])
            except ReadError:
                continue
            texts = zip((part["entry_id"] - starts[file_id]).to_list(), (o.get("summary") for o in lines), strict=True)
            note = self.manifest.files[batch.files["path"][file_id]]
            note.summaries = {row: mask_secrets(text) for row, text in texts if isinstance(text, str)}

    def add_kept(self, where: Mapping[str, Path], places: Mapping[str, Sequence[str]]) -> None:
        """Take in what the lake holds of files that were not read this time."""
        kept = dict(self._old)
        if not kept:
            return
        self.is_as_read = False
        for notes in _chunks(kept.values()):
            ids = pl.Series("file_id", [n.file_id for n in notes], dtype=pl.Int32)
            spans = [(r.first_id, r.first_id + r.n_rows) for n in notes for r in n.runs]
            low, high = min((a for a, _ in spans), default=0), max((b for _, b in spans), default=0)
            held = {name: scan_files(name, [where[p] for p in found]) for name, found in places.items() if found}
            within = pl.col("entry_id").is_between(low, high)
            mine = pl.col("file_id").is_in(ids.implode())
            entries = held["entries"].filter(within & mine).collect()
            blocks = (
                held["blocks"]
                .filter(within)
                .collect()
                .join(entries.select("entry_id"), on="entry_id", how="semi", maintain_order="left")
            )
            files = held["files"].filter(mine).collect()
            self._take(files, entries, blocks, held["read_problems"].filter(mine).collect())

    def _take(self, files: pl.DataFrame, entries: pl.DataFrame, blocks: pl.DataFrame, problems: pl.DataFrame) -> None:
        self._files.append(files)
        self._problems.append(problems)
        self._keys.append(read_keys(files, entries, blocks))
        self._stored.append(_Stored(self._scratch.put(entries), self._scratch.put(blocks), files["file_id"].to_numpy()))

    @property
    def files(self) -> pl.DataFrame:
        """Table ``files``."""
        return in_order("files", pl.concat([FILES.empty(), *self._files]))

    @property
    def problems(self) -> pl.DataFrame:
        """Problems met while reading files."""
        return in_order("read_problems", pl.concat([PROBLEMS.empty(), *self._problems]))

    def groups(self, *, max_rows: int | None = None) -> Iterator[Group]:
        """Everything, in groups of files that have something to do with one another."""
        files, problems = self.files.sort("path"), self.problems
        teams = self.team_members
        assert teams is not None
        notes = self.manifest.files
        n_rows = np.array([notes[p].n_rows for p in files["path"]], dtype=np.int64)
        wanted = build_groups(
            files["file_id"].to_numpy(),
            n_rows,
            pl.concat(self._keys) if self._keys else pl.DataFrame(schema={"file_id": pl.Int32, "key": pl.UInt64}),
            together=team_keys(teams),
            max_rows=max_rows or GROUP_ROWS,
        )
        for ids in wanted:
            chosen = pl.col("file_id").is_in(pl.Series(ids).implode())
            own = files.filter(chosen)
            yield Group(
                own,
                *self._rows_of(ids),
                problems.filter(chosen),
                teams,
                {p: h for p in own["path"] if (h := notes[p].heading) is not None},
                {int(notes[p].ids()[row]): text for p in own["path"] for row, text in notes[p].summaries.items()},
                self.manifest.content,
            )

    def _rows_of(self, file_ids: npt.NDArray[np.int32]) -> tuple[pl.DataFrame, pl.DataFrame]:
        entries, blocks = [], []
        wanted = pl.Series(file_ids)
        for stored in self._stored:
            here = np.isin(stored.file_ids, file_ids)
            if not here.any():
                continue
            # Groups follow the order of files, and so mostly take from the batch the last one ended in.
            if self._last is None or self._last[0] is not stored:
                self._last = (stored, self._scratch.get(stored.entries), self._scratch.get(stored.blocks))
            _, lines, parts = self._last
            if not here.all():
                lines = lines.filter(pl.col("file_id").is_in(wanted.implode()))
                parts = parts.join(lines.select("entry_id"), on="entry_id", how="semi", maintain_order="left")
            entries.append(lines)
            blocks.append(parts)
        return _in_order("entries", pl.concat(entries)), _in_order("blocks", pl.concat(blocks))


def _in_order(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows by entry; blocks of one entry are never out of order."""
    return frame if frame["entry_id"].is_sorted() else in_order(name, frame)


def _chunks(notes: Iterable[FileNote]) -> Iterator[list[FileNote]]:
    chunk: list[FileNote] = []
    size = 0
    for note in sorted(notes, key=lambda n: n.file_id):
        if chunk and size + note.n_rows > GROUP_ROWS:
            yield chunk
            chunk, size = [], 0
        chunk.append(note)
        size += note.n_rows
    if chunk:
        yield chunk


def _is_range(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> bool:
    return bool((numbers == np.arange(len(numbers))).all())
