"""The lake: every table as Parquet in a folder, added to by each export, read lazily.

The parts are in :mod:`ccanalytics.lake`: ``layout`` (folders, partitions), ``files`` (one Parquet file), ``manifest``
(what the lake holds), ``journal`` (change in one step), ``ids`` (numbers that stay), ``groups`` and ``derive`` (derived
tables, of files that belong together), ``export`` (all of it), ``scan`` (reading).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from .assemble import Assembled
from .errors import UsageError
from .find import FoundFile, PathLike, find_files
from .lake.base import Batch
from .lake.derive import tables_of
from .lake.export import CONTENTS, Summary, export
from .lake.journal import read_state
from .lake.manifest import Heading
from .lake.scan import Lake
from .load import Wanted, keep_files
from .parse import Content
from .projects import is_project_wanted
from .reading import read_files
from .remote import is_remote
from .sessions import read_heading
from .transcripts import Transcripts

__all__ = ["Lake", "Summary", "export_command", "export_files", "scan_parquet", "write_parquet"]

BATCH_BYTES = 224 << 20
"""Transcripts read at once by a streaming export."""


def write_parquet(t: Transcripts, out: str | Path) -> Summary:
    """Write every table of loaded transcripts to a folder of Parquet files, or add to one.

    What is unchanged is not written again; what the folder holds of files that are not loaded stays. Ids of entries
    and files that are in the folder already stay as they are; new ones follow on the largest.

    Parameters
    ----------
    t
        Loaded transcripts.
    out
        The folder; it is made where it does not exist.

    Raises
    ------
    UsageError
        The folder holds more text than was loaded, or is no export.
    WriteError
        Another export is at work, or the folder cannot be written; it is as it was before.
    """
    root = checked(out)
    batch = Batch(t.files, t.entries, t.blocks, t.read_problems, _headings(t.files, t))
    return export(root, [batch], content=t.content, ready=lambda: tables_of(t))


def scan_parquet(out: str | Path) -> Lake:
    """An export: the tables of loaded transcripts as lazy frames, and the same methods.

    One at an address (``s3://…``) is copied to a temporary folder first, which lives as long as what is returned.

    Raises
    ------
    NotFoundError
        There is no export in that folder.
    ReadError
        It was written by a later version.
    """
    if not is_remote(out):
        return Lake(out)
    from .lake.far import fetch

    folder = TemporaryDirectory(prefix="ccanalytics-lake-")
    lake = Lake(fetch(str(out), Path(folder.name)))
    lake.copied_to = folder
    return lake


def export_files(
    out: str | Path,
    path: PathLike | Sequence[PathLike] | None = None,
    *,
    projects: Wanted = None,
    sessions: Wanted = None,
    content: Content | None = None,
    workers: int | None = None,
) -> Summary:
    """Export transcripts without ever holding all of them: read in batches, tables made group by group.

    Parameters
    ----------
    out
        The folder to write to.
    path, projects, sessions, workers
        As for :func:`ccanalytics.load`.
    content
        How much text; default: as much as the folder has, else none.

    Returns
    -------
    What was written.
    """
    root = checked(out)
    found = find_files(path, projects=projects, sessions=sessions)
    content = content_of(root, content)
    batches = _read_batches(found, projects=projects, content=content, workers=workers)
    return export(root, batches, content=content, on_disk=sum(f.size for f in found) > BATCH_BYTES)


def export_command(args: argparse.Namespace) -> int:
    """``ccanalytics export [IN …] OUT``."""
    from .show import json_text, note, write_out

    *sources, out = args.paths
    sources = [*(args.config_dir or []), *sources] or None
    options = {"projects": args.project, "sessions": args.session, "workers": args.workers}
    content = args.content if args.content != "none" else None
    if args.engine == "dask":
        from .distribute import export_distributed

        done = export_distributed(out, sources, scheduler=args.scheduler, content=content, **options)
    else:
        if any(is_remote(p) for p in (out, *(sources or ()))):
            raise UsageError("addresses such as s3://… need --engine dask", got=args.paths)
        if args.scheduler:
            raise UsageError("--scheduler needs --engine dask", got=args.scheduler)
        done = export_files(out, sources, content=content, **options)
    if args.format == "json":
        write_out(json_text({"out": str(out), **{k: getattr(done, k) for k in Summary.__dataclass_fields__}}))
    else:
        total = sum(done.rows.values())
        note(
            f"{total:,} rows in {len(done.rows)} tables in {out}: {done.files_written} files written, "
            f"{done.files_unchanged} unchanged, {done.files_deleted} deleted"
            if done.rows.get("files")
            else f"no transcripts were found; {out} holds empty tables"
        )
    return 0


def _read_batches(
    found: Sequence[FoundFile], *, projects: Wanted, content: Content, workers: int | None
) -> Iterator[Batch]:
    for part in by_size(found):
        parsed = read_files(part, content=content, workers=workers)
        yield batch_of(parsed, projects, _headings(parsed.files))


def batch_of(parsed: Assembled, projects: Wanted, headings: Mapping[str, Heading]) -> Batch:
    """What was read of the wanted projects; folder names alone did not tell."""
    if projects is not None:
        wanted = [projects] if isinstance(projects, str) else list(projects)
        rows = parsed.files.select("project", "project_dir").iter_rows()
        hits = [any(is_project_wanted(w, project=p, slug=d) for w in wanted) for p, d in rows]
        parsed = keep_files(parsed, pl.Series(hits, dtype=pl.Boolean))
    sessions = set(parsed.files.filter(pl.col("kind") == "session")["path"])
    shown = {path: heading for path, heading in headings.items() if path in sessions}
    return Batch(parsed.files, parsed.entries, parsed.blocks, parsed.problems, shown)


def by_size(found: Sequence[FoundFile]) -> Iterator[list[FoundFile]]:
    """The files in parts of about ``BATCH_BYTES``, in their order."""
    part: list[FoundFile] = []
    size = 0
    for file in found:
        if part and size + file.size > BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(file)
        size += file.size
    if part:
        yield part


def _headings(files: pl.DataFrame, t: Transcripts | None = None) -> dict[str, Heading]:
    """What the list of sessions shows of these files."""
    known = t.beside.headings if t is not None and t.beside is not None else None
    found = {}
    for path in files.filter(pl.col("kind") == "session")["path"]:
        heading = known.get(path) if known is not None else read_heading(path)
        if heading is not None:
            found[path] = Heading(heading.summary, heading.custom_title, heading.first_prompt)
    return found


def content_of(root: Path, asked: Content | None) -> Content:
    """How much text an export has: what is asked for, and no less than the folder holds."""
    held = read_state(root)[0]
    least = CONTENTS.index(held.content if held is not None else "none")
    return CONTENTS[max(least, CONTENTS.index(asked or "none"))]


def checked(out: str | Path) -> Path:
    """The folder to write to: new, empty, or an export."""
    root = Path(out).expanduser().absolute()
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file; an export needs a folder", path=str(root))
    if root.is_dir() and not (root / "_ccanalytics").is_dir() and any(root.iterdir()):
        raise UsageError(f"{root} holds something else than an export; name an empty folder", path=str(root))
    return root
