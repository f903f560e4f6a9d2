"""Reading files: what is known of them from before is taken, the rest is cut into jobs and parsed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from ._pool import Progress, run_jobs
from .assemble import Assembled, assemble
from .cache import Store, open_store
from .find import FoundFile
from .jobs import Job, JobResult, Piece
from .parse import Reading
from .shelf import Grown, Held, Shelf, Step, files_of, plan, shelf_of

JOB_BYTES = 12 << 20
"""Aim for the bytes of one job: enough of them to share out evenly, few enough to build columns in bulk."""
SPLIT_BYTES = 32 << 20
"""A file larger than this is cut at line ends, so that one large session does not hold up the rest."""
WORKER_BYTES = 64 << 20
"""Below this a worker would not have started before the work is done."""


def read_files(
    found: Sequence[FoundFile],
    *,
    content: Reading = "none",
    workers: int | None = None,
    progress: Progress | None = None,
    cache: bool = False,
    begun: int | None = None,
) -> Assembled:
    """The frames of these files; what the cache holds of them is not read again. ``begun``: when they were found."""
    store = open_store(found, content) if cache else None
    if store is None:
        return read_again(found, [], content=content, workers=workers, progress=progress)
    begun = begun or time.time_ns()
    shelves = store.shelves()
    steps = plan(found, shelves)
    read = read_steps(
        found, steps, content=content, workers=workers, progress=progress, hashed_since=begun - _RECENT_NS
    )
    keep(store, shelves, steps, found, read, begun)
    return read


def read_again(
    found: Sequence[FoundFile],
    shelves: Sequence[Shelf],
    *,
    content: Reading = "none",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Assembled:
    """The frames of these files, with what ``shelves`` hold of them taken from there."""
    since = time.time_ns() - _LIVE_NS
    return read_steps(
        found, plan(found, shelves), content=content, workers=workers, progress=progress, hashed_since=since
    )


_RECENT_NS = 3600 * 10**9
_LIVE_NS = 60 * 10**9
"""Files changed within this time are likely to grow: they are hashed, so that they are known again when they have."""


def read_steps(
    found: Sequence[FoundFile],
    steps: Sequence[Step],
    *,
    content: Reading,
    workers: int | None,
    progress: Progress | None,
    hashed_since: int,
) -> Assembled:
    """Read what must be read, in worker processes when it is much, and put all together."""
    results: list[JobResult | None] = []
    owners: list[list[int]] = []
    jobs: list[Job] = []
    places: list[int] = []
    n_bytes = size = 0
    for step in steps:
        if isinstance(step, Held):
            results.append(step.shelf.rows_of(step.first, step.last))
            owners.append(list(step.files))
            continue
        file = found[step.file]
        start = 0
        if isinstance(step, Grown):
            results.append(step.shelf.settled_rows_of(step.number))
            owners.append([step.file])
            start = step.shelf.records.facts[step.number].n_settled_bytes
        is_hashed = start > 0 or max(file.mtime_ns, file.ctime_ns) > hashed_since
        for piece in cut_pieces(file, start, is_hashed=is_hashed):
            n = piece.length if piece.length >= 0 else file.size - piece.offset
            n_bytes += n
            if not places or places[-1] != len(results) - 1 or size + n > JOB_BYTES or len(jobs[-1].pieces) >= 2000:
                jobs.append(Job([], content))
                places.append(len(results))
                results.append(None)
                owners.append([])
                size = 0
            jobs[-1].pieces.append(piece)
            owners[-1].append(step.file)
            size += n
    n = workers or (1 if n_bytes < WORKER_BYTES else min(os.cpu_count() or 1, 8))
    for place, result in zip(places, run_jobs(jobs, workers=n, progress=progress), strict=True):
        results[place] = result
    return assemble(found, owners, [r for r in results if r is not None])


def keep(
    store: Store,
    shelves: Sequence[Shelf],
    steps: Sequence[Step],
    found: Sequence[FoundFile],
    read: Assembled,
    begun: int,
) -> None:
    """Put into the store what was read; all anew when that is most of it or there are many shelves."""
    held = dict(files_of(steps))
    if all(held.values()):
        return
    known = {path for shelf in shelves for path in shelf.records.paths}
    n_new = sum(f.size for i, f in enumerate(found) if not held[i])
    is_all = known <= {f.path for f in found} and (2 * n_new > sum(f.size for f in found) or len(shelves) >= 8)
    shelf = shelf_of(found, read, begun=begun, only=None if is_all else [i for i in held if not held[i]])
    if shelf.records.paths:
        store.save(shelf, is_all=is_all)


def cut_pieces(file: FoundFile, start: int = 0, *, is_hashed: bool = False) -> Iterator[Piece]:
    """The pieces that a file is read in from ``start``, in order."""
    cuts = [start]
    if file.size - start > SPLIT_BYTES and file.path.endswith(".jsonl"):
        cuts = _line_ends(file, start)
    for at, stop in zip(cuts, [*cuts[1:], -1], strict=True):
        yield Piece(file.path, at, stop - at if stop >= 0 else -1, 1, stop < 0, is_hashed)


def _line_ends(file: FoundFile, start: int) -> list[int]:
    """Offsets at which a large file can be cut: ``start`` and places right behind a newline, ``SPLIT_BYTES`` apart."""
    cuts = [start]
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
        return [start]
    return cuts
