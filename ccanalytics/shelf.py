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

from .assemble import RACY_NS, Assembled
from .find import FoundFile
from .jobs import Facts, JobResult, Meta, Summary

Signature = tuple[int, int, int, int, int]
MAX_DIGESTS = 256
_CHUNK = 1 << 22


def signature(file: FoundFile) -> Signature:
    """What changes when a file does."""
    return (file.dev, file.inode, file.size, file.mtime_ns, file.ctime_ns)


class Records(msgspec.Struct, array_like=True):
    """Files as they were read, one by one: columns, because there are many and few are looked at."""

    paths: list[str]
    signatures: list[Signature]
    is_racy: list[bool]
    facts: list[Facts]
    summaries: list[Summary]
    metas: list[Meta | None]
    rows: list[int]
    """Where the rows of each begin in the shelf's entries, and where those of the last end."""
    blocks: list[int]


@dataclass
class Shelf:
    """Files read before, in order of path, and their rows.

    ``entries`` have ``row`` and ``part`` (number of the file) in place of ids, ``blocks`` have ``row``, ``problems``
    are as ``parse.Parsed`` has them.
    """

    records: Records
    entries: pl.DataFrame
    blocks: pl.DataFrame
    problems: pl.DataFrame

    def rows_of(self, first: int, last: int) -> JobResult:
        """The rows of files ``first`` to ``last``, both included."""
        r = self.records
        n_rows, n_blocks = r.rows[last + 1] - r.rows[first], r.blocks[last + 1] - r.blocks[first]
        found = self._cut(first, last, n_rows, n_blocks, r.facts[first : last + 1])
        found.summaries, found.metas = r.summaries[first : last + 1], r.metas[first : last + 1]
        return found

    def settled_rows_of(self, number: int) -> JobResult:
        """The rows of one file that no growth of it can change."""
        r, f = self.records, self.records.facts[number]
        first, n_blocks, n_rows = r.blocks[number], r.blocks[number + 1] - r.blocks[number], f.n_settled_rows
        if n_rows < f.n_rows:
            n_blocks = int(self.blocks["row"].slice(first, n_blocks).search_sorted(r.rows[number] + n_rows))
        lines, size = f.n_settled_lines, f.n_settled_bytes
        kept = Facts(n_rows, lines, size, n_rows, size, lines, 0, f.digests)
        found = self._cut(number, number, n_rows, n_blocks, [kept])
        assert found.problems is not None
        found.problems = found.problems.filter(pl.col("line_no") <= lines)
        return found

    def _cut(self, first: int, last: int, n_rows: int, n_blocks: int, facts: list[Facts]) -> JobResult:
        row, block = self.records.rows[first], self.records.blocks[first]
        entries, blocks = self.entries.slice(row, n_rows), self.blocks.slice(block, n_blocks)
        problems = self.problems
        if len(problems):
            problems = problems.filter(pl.col("part").is_between(first, last))
        if first or row:
            entries = entries.with_columns(pl.col("row") - row, pl.col("part") - first)
            blocks = blocks.with_columns(pl.col("row") - row)
            problems = problems.with_columns(pl.col("row") - row, pl.col("part") - first)
        return JobResult(facts, {}, entries, blocks, problems)


@dataclass(slots=True)
class Held:
    """Some files in a row of which all rows are on a shelf."""

    shelf: Shelf
    first: int
    last: int
    first_file: int
    last_file: int

    @property
    def files(self) -> range:
        """Their numbers."""
        return range(self.first_file, self.last_file + 1)


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
    unread = set(read.problems.filter(pl.col("code") == "unreadable_file")["file_id"])
    wanted = [i for i in (range(len(found)) if only is None else only) if i not in unread]
    if len(wanted) < len(found):
        mask = np.zeros(len(found), dtype=bool)
        mask[wanted] = True
        read = read.select(pl.Series(mask))
        found = [found[i] for i in wanted]
    rows = np.cumsum([0, *[f.n_rows for f in read.facts]])
    latest = begun - RACY_NS
    records = Records(
        [f.path for f in found],
        [signature(f) for f in found],
        [f.mtime_ns > latest or f.ctime_ns > latest for f in found],
        list(read.facts),
        list(read.summaries),
        list(read.metas),
        rows.tolist(),
        np.searchsorted(read.blocks["entry_id"].to_numpy(), rows).tolist(),
    )
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
    where: dict[str, tuple[Shelf, int]] = {}
    for shelf in shelves:
        where.update((path, (shelf, k)) for k, path in enumerate(shelf.records.paths))
    steps: list[Step] = []
    held: Held | None = None
    for number, file in enumerate(found):
        place = where.get(file.path)
        if place is None:
            steps.append(New(number))
            continue
        shelf, k = place
        if not shelf.records.is_racy[k] and shelf.records.signatures[k] == signature(file):
            if held is None or held is not steps[-1] or held.shelf is not shelf or held.last != k - 1:
                held = Held(shelf, k, k, number, number)
                steps.append(held)
            held.last, held.last_file = k, number
        elif _still_begins_so(file, shelf.records.facts[k]):
            steps.append(Grown(shelf, k, number))
        else:
            steps.append(New(number))
    return steps


def _still_begins_so(file: FoundFile, facts: Facts) -> bool:
    """Whether the file still begins with the settled bytes of before."""
    digests = facts.digests
    if not 0 < len(digests) <= MAX_DIGESTS or file.size < facts.n_settled_bytes:
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
