"""What was read of files before, and how much of it still holds.

A file whose place, size and times are those of before is taken as unchanged, unless it was read so soon after a write
that the clock could not have told another one. Then, and when it has grown, the bytes read before are hashed again: the
rows made of them stand when the hash does, and reading goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
import numpy as np
import polars as pl

from .assemble import Assembled
from .find import FoundFile
from .jobs import Facts, JobResult, Summary

Signature = tuple[int, int, int, int, int]
RACY_NS = 2_000_000_000
"""Times of files may be no finer than this (FAT: two seconds)."""
MAX_DIGESTS = 256
_CHUNK = 1 << 22


def signature(file: FoundFile) -> Signature:
    """What changes when a file does."""
    return (file.dev, file.inode, file.size, file.mtime_ns, file.ctime_ns)


class Record(msgspec.Struct, array_like=True):
    """One file as it was read."""

    path: str
    signature: Signature
    is_racy: bool
    facts: Facts
    summary: Summary
    row: int
    """First of its rows in the shelf's entries."""
    block: int
    n_blocks: int


@dataclass
class Shelf:
    """Files read before, in order of path, and their rows.

    ``entries`` have ``row`` and ``part`` (number of the record) in place of ids, ``blocks`` have ``row``, ``problems``
    are as ``parse.Parsed`` has them.
    """

    records: list[Record]
    entries: pl.DataFrame
    blocks: pl.DataFrame
    problems: pl.DataFrame

    def rows_of(self, first: int, last: int) -> JobResult:
        """The rows of records ``first`` to ``last``, both included."""
        a, z = self.records[first], self.records[last]
        n_rows, n_blocks = z.row + z.facts.n_rows - a.row, z.block + z.n_blocks - a.block
        taken = self.records[first : last + 1]
        found = self._cut(first, last, n_rows, n_blocks, [r.facts for r in taken])
        found.summaries = [r.summary for r in taken]
        return found

    def settled_rows_of(self, number: int) -> JobResult:
        """The rows of one record that no growth of the file can change."""
        r = self.records[number]
        f = r.facts
        n_rows = f.n_settled_rows
        blocks = self.blocks["row"].slice(r.block, r.n_blocks)
        n_blocks = int(blocks.search_sorted(r.row + n_rows)) if n_rows < f.n_rows else r.n_blocks
        lines, size = f.n_settled_lines, f.n_settled_bytes
        kept = Facts(n_rows, lines, size, n_rows, size, lines, 0, f.digests)
        found = self._cut(number, number, n_rows, n_blocks, [kept])
        assert found.problems is not None
        found.problems = found.problems.filter(pl.col("line_no") <= lines)
        return found

    def _cut(self, first: int, last: int, n_rows: int, n_blocks: int, facts: list[Facts]) -> JobResult:
        a = self.records[first]
        entries, blocks = self.entries.slice(a.row, n_rows), self.blocks.slice(a.block, n_blocks)
        problems = self.problems
        if len(problems):
            problems = problems.filter(pl.col("part").is_between(first, last))
        if first or a.row:
            entries = entries.with_columns(pl.col("row") - a.row, pl.col("part") - first)
            blocks = blocks.with_columns(pl.col("row") - a.row)
            problems = problems.with_columns(pl.col("row") - a.row, pl.col("part") - first)
        return JobResult(facts, {}, entries, blocks, problems)


@dataclass(frozen=True)
class Held:
    """Some files in a row of which all rows are on a shelf."""

    shelf: Shelf
    first: int
    last: int
    files: range


@dataclass(frozen=True)
class Grown:
    """A file of which the settled rows are on a shelf."""

    shelf: Shelf
    number: int
    file: int


@dataclass(frozen=True)
class New:
    """A file that is to be read from its beginning."""

    file: int


Step = Held | Grown | New


def shelf_of(found: Sequence[FoundFile], read: Assembled, *, begun: int, only: list[int] | None = None) -> Shelf:
    """What was read, as a shelf; ``begun`` is when, in nanoseconds, ``only`` are the files wanted.

    Left out are files that could not be read. One that changed after it was found has other times since, so that its
    bytes are hashed before its rows are used.
    """
    wanted = range(len(found)) if only is None else only
    unread = set(read.problems.filter(pl.col("code") == "unreadable_file")["file_id"])
    wanted = [i for i in wanted if i not in unread]
    if len(wanted) < len(found):
        mask = np.zeros(len(found), dtype=bool)
        mask[wanted] = True
        read = read.select(pl.Series(mask))
    rows = np.cumsum([0, *(f.n_rows for f in read.facts)])
    firsts = np.searchsorted(read.blocks["entry_id"].to_numpy(), rows)
    records = [
        Record(found[i].path, signature(found[i]), is_racy([found[i]], begun), facts, summary, row, block, end - block)
        for i, facts, summary, row, block, end in zip(
            wanted,
            read.facts,
            read.summaries,
            rows.tolist()[:-1],
            firsts.tolist()[:-1],
            firsts.tolist()[1:],
            strict=True,
        )
    ]
    problems = read.problems.filter(pl.col("file_id").is_not_null() & (pl.col("code") != "bad_meta"))
    problems = problems.select(
        pl.col("file_id").cast(pl.Int64).alias("part"),
        pl.col("entry_id").alias("row"),
        *("line_no", "byte_offset", "code", "detail"),
    )
    entries = read.entries.rename({"entry_id": "row", "file_id": "part"})
    return Shelf(records, entries, read.blocks.rename({"entry_id": "row"}), problems)


def is_racy(found: Iterable[FoundFile], begun: int) -> bool:
    """Whether one of these files was written so shortly before that a later write could have left its times alone."""
    return any(max(f.mtime_ns, f.ctime_ns) > begun - RACY_NS for f in found)


def plan(found: Sequence[FoundFile], shelves: Sequence[Shelf]) -> list[Step]:
    """For every file in order: what is held of it and what must be read; later shelves come first."""
    where = {r.path: (shelf, k) for shelf in shelves for k, r in enumerate(shelf.records)}
    steps: list[Step] = []
    for number, file in enumerate(found):
        shelf, k = where.get(file.path, (None, 0))
        if shelf is None:
            steps.append(New(number))
        elif not shelf.records[k].is_racy and shelf.records[k].signature == signature(file):
            steps.append(_joined(steps, shelf, k, number) or Held(shelf, k, k, range(number, number + 1)))
        elif _still_begins_so(file, shelf.records[k]):
            steps.append(Grown(shelf, k, number))
        else:
            steps.append(New(number))
    return steps


def _joined(steps: list[Step], shelf: Shelf, k: int, number: int) -> Held | None:
    before = steps[-1] if steps else None
    if not isinstance(before, Held) or before.shelf is not shelf or before.last != k - 1:
        return None
    steps.pop()
    return Held(shelf, before.first, k, range(before.files.start, number + 1))


def _still_begins_so(file: FoundFile, record: Record) -> bool:
    """Whether the file still begins with the settled bytes of before."""
    digests = record.facts.digests
    if not 0 < len(digests) <= MAX_DIGESTS or file.size < record.facts.n_settled_bytes:
        return False
    try:
        with open(file.path, "rb", buffering=0) as f:
            return all(_digest(f.read, n) == d for n, d in digests)
    except OSError:
        return False


def _digest(read: object, n: int) -> bytes | None:
    digest = sha256()
    while n:
        data = read(min(n, _CHUNK))  # type: ignore[operator]
        if not data:
            return None
        digest.update(data)
        n -= len(data)
    return digest.digest()[:16]


def files_of(steps: Iterable[Step]) -> Iterator[tuple[int, bool]]:
    """The number of each file and whether nothing of it must be read."""
    for step in steps:
        if isinstance(step, Held):
            yield from ((i, True) for i in step.files)
        else:
            yield step.file, False
