"""The export over many machines: Dask workers parse files and make derived tables, this process puts them in order.

Workers run the same pure functions as the local export. What is read is cut into jobs by size; files that share an id
(session, message, entry, tool call …) form groups, and each group's conversations, calls and the rest are made by one
worker. So requests are deduplicated over all files without any worker seeing them all.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from .assemble import assemble
from .errors import MissingExtraError, WriteError
from .find import FoundFile, PathLike, find_files
from .jobs import Job, JobResult, run_job
from .lake.base import Batch
from .lake.derive import Group, derive
from .lake.export import Summary, export, teams_of
from .lake.far import checked_out
from .lake.manifest import Heading
from .load import Wanted
from .parquet import batch_of, by_size, checked, content_of
from .parse import Content
from .placing import find_folder_problems
from .reading import JOB_BYTES, cut_pieces
from .remote import Mirror, copy_of_ends, is_remote, local_places
from .sessions import read_heading

if TYPE_CHECKING:
    from distributed import Client, Future

Work: TypeAlias = Callable[[Group], dict[str, pl.DataFrame]]
RETRIES = 3
"""How often a task is tried again; a worker that is lost costs its tasks alone."""


def export_distributed(
    out: str | Path,
    sources: Sequence[PathLike] | None = None,
    *,
    scheduler: str | None = None,
    client: Client | None = None,
    projects: Wanted = None,
    sessions: Wanted = None,
    content: Content | None = None,
    workers: int | None = None,
) -> Summary:
    """Export as :func:`ccanalytics.parquet.export_files` does, on a Dask cluster; the same tables byte for byte.

    Parameters
    ----------
    out
        Folder or address (``s3://…``) of the lake.
    sources
        Folders and addresses; folders must be reachable from every worker under the same path.
    scheduler
        Address of a scheduler; without it (and ``client``) a cluster is started on this machine.
    client
        A client in use already.
    projects, sessions, content
        As for :func:`ccanalytics.parquet.export_files`.
    workers
        Processes of a cluster on this machine.

    Raises
    ------
    MissingExtraError
        Dask, or what an address needs, is not installed.
    """
    with (
        _connected(client, scheduler, workers) as cluster,
        local_places(sources) as (local, mirrors),
        _lake(out) as root,
    ):
        found = _find(local, mirrors, projects=projects, sessions=sessions)
        content = content_of(root, content)
        n_ahead = 2 * max(1, sum(cluster.nthreads().values()))
        return export(
            root,
            _batches(cluster, found, content=content, projects=projects),
            content=content,
            on_disk=True,
            derive_all=lambda groups: _spread(cluster, derive, groups, ahead=n_ahead),
            read_team_members=lambda files: teams_of(_seen_from_here(files, mirrors)),
            folder_problems=lambda files: find_folder_problems(_seen_from_here(files, mirrors)),
        )


@contextmanager
def _connected(client: Client | None, scheduler: str | None, workers: int | None) -> Iterator[Client]:
    if client is not None:
        yield client
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as e:
        raise MissingExtraError("--engine dask needs Dask; pip install 'ccanalytics[dask]'") from e
    if scheduler is not None:
        try:
            connected = Client(scheduler, timeout="30s", set_as_default=False)
        except OSError as e:
            raise WriteError(f"no Dask scheduler answers at {scheduler}: {e}", scheduler=scheduler) from e
        with connected:
            yield connected
        return
    n = workers or min(os.cpu_count() or 1, 8)
    # One core each: polars would otherwise start as many threads as there are cores in every worker.
    with (
        LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None, env={"POLARS_MAX_THREADS": "1"}
        ) as local,
        Client(local, set_as_default=False) as connected,
    ):
        yield connected


@contextmanager
def _lake(out: str | Path) -> Iterator[Path]:
    if is_remote(out):
        with checked_out(str(out)) as root:
            yield root
    else:
        yield checked(out)


def _find(local: list[PathLike] | None, mirrors: Sequence[Mirror], **options: Any) -> list[FoundFile]:
    found = find_files(local, **options) if local is None or local else []
    for mirror in mirrors:
        found += mirror.find(**options)
    return sorted(found, key=lambda f: f.path)


def _seen_from_here(files: pl.DataFrame, mirrors: Sequence[Mirror]) -> pl.DataFrame:
    """``files`` with places in the mirrors instead of addresses."""
    for mirror in mirrors:
        places = {c: [mirror.local(p) for p in files[c]] for c in ("path", "root")}
        files = files.with_columns(pl.Series(c, v, dtype=pl.String) for c, v in places.items())
    return files


def _batches(client: Client, found: Sequence[FoundFile], *, content: Content, projects: Wanted) -> Iterator[Batch]:
    waiting: deque[tuple[list[FoundFile], list[list[int]], list[Future]]] = deque()

    def finished() -> Batch:
        files, owners, futures = waiting.popleft()
        done: list[tuple[JobResult, dict[str, Heading]]] = client.gather(futures)
        parsed = assemble(files, owners, [result for result, _ in done])
        return batch_of(parsed, projects, {k: v for _, headings in done for k, v in headings.items()})

    for part in by_size(found):
        jobs, owners = _jobs(part, content)
        futures = [client.submit(parse_job, job, retries=RETRIES, pure=False) for job in jobs]
        waiting.append((part, owners, futures))
        if len(waiting) > 2:
            yield finished()
    while waiting:
        yield finished()


def _jobs(files: Sequence[FoundFile], content: Content) -> tuple[list[Job], list[list[int]]]:
    jobs: list[Job] = []
    owners: list[list[int]] = []
    size = JOB_BYTES
    for number, file in enumerate(files):
        for piece in cut_pieces(file):
            n = piece.length if piece.length >= 0 else file.size - piece.offset
            if not jobs or size + n > JOB_BYTES or len(jobs[-1].pieces) >= 500:
                jobs.append(Job([], content))
                owners.append([])
                size = 0
            jobs[-1].pieces.append(piece)
            owners[-1].append(number)
            size += n
    return jobs, owners


def parse_job(job: Job) -> tuple[JobResult, dict[str, Heading]]:
    """Parse the pieces of a job, and read what the list of sessions shows of their files; runs on a worker."""
    result = run_job(job)
    headings: dict[str, Heading] = {}
    with tempfile.TemporaryDirectory() as folder:
        for piece in job.pieces:
            if piece.offset or piece.path.rpartition("/")[2].startswith("agent-"):
                continue
            try:
                local = str(copy_of_ends(piece.path, Path(folder))) if is_remote(piece.path) else piece.path
            except OSError:
                # The piece itself could not be read either, which is a row of problems.
                continue
            if (found := read_heading(local)) is not None:
                headings[piece.path] = Heading(found.summary, found.custom_title, found.first_prompt)
    return result, headings


def _spread(
    client: Client, work: Work, groups: Iterable[Group], *, ahead: int
) -> Iterator[tuple[Group, dict[str, pl.DataFrame]]]:
    """The results of ``work``, in order; no more than ``ahead`` groups are on their way."""
    waiting: deque[_Sent] = deque()
    for group in groups:
        waiting.append(_Sent(client, work, group))
        if len(waiting) >= ahead:
            sent = waiting.popleft()
            yield sent.group, sent.result()
    while waiting:
        sent = waiting.popleft()
        yield sent.group, sent.result()


class _Sent:
    """A group on its way: it goes to a worker directly, not with the task through the scheduler."""

    def __init__(self, client: Client, work: Work, group: Group) -> None:
        self.group = group
        self._client, self._work = client, work
        self._send()

    def _send(self) -> None:
        try:
            self._data = self._client.scatter(self.group, hash=False)
        except OSError:
            # The worker chosen is gone and the scheduler has not noticed yet: go with the task, through the scheduler.
            self._data = self.group
        self._future = self._client.submit(self._work, self._data, retries=RETRIES, pure=False)

    def result(self) -> dict[str, pl.DataFrame]:
        """The tables; what was lost with a worker is sent again."""
        from distributed import CancelledError, KilledWorker

        for _ in range(RETRIES):
            try:
                return self._future.result()  # type: ignore[no-any-return]
            except (CancelledError, KilledWorker, OSError):
                self._send()
        return self._future.result()  # type: ignore[no-any-return]
