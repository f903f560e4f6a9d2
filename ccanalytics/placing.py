"""What is wrong with folders as a whole: a folder that several projects share, an index that names lost sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import polars as pl

from .decode import loads
from .place import stem_of
from .projects import match_slug, normalise_cwd, shared_slugs
from .schema.base import PROBLEMS
from .small_files import read_small

MAX_INDEX_BYTES = 64 << 20


class _Row(TypedDict):
    code: str
    other_uuid: str | None
    detail: str


def find_folder_problems(files: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``problems`` that belong to no one file, from the table ``files``.

    ``shared_folder``: directories whose names differ only in what becomes a dash keep their transcripts in one folder;
    they stay different projects. ``indexed_only``: ``sessions-index.json`` names a session (``other_uuid``) of which
    there is no file; it is not listed as a session. Order: code, session.
    """
    rows = [*_shared_folders(files), *_lost_sessions(files)]
    rows.sort(key=lambda r: (r["code"], r["other_uuid"] or "", r["detail"]))
    return PROBLEMS.conform(pl.DataFrame(rows, schema={n: PROBLEMS.polars()[n] for n in _Row.__annotations__}))


def _shared_folders(files: pl.DataFrame) -> list[_Row]:
    pairs = files.select("project_dir", "cwd").drop_nulls().unique().sort("project_dir", "cwd").rows()
    # A session that began in a folder of another directory is no sign that both share it.
    own = [(slug, normalise_cwd(cwd)) for slug, cwd in pairs if match_slug(cwd, [slug])]
    return [
        {"code": "shared_folder", "other_uuid": None, "detail": f"the folder {slug} holds {', '.join(projects)}"}
        for slug, projects in shared_slugs(own).items()
    ]


def _lost_sessions(files: pl.DataFrame) -> list[_Row]:
    beside = files.filter(pl.col("layout") == "session").select("path", "project_dir").rows()
    folders = sorted({(str(Path(path).parent), slug or "") for path, slug in beside})
    loaded = set(files["session_id"])
    return [
        {
            "code": "indexed_only",
            "other_uuid": session,
            "detail": f"sessions-index.json of {slug} names it, no file holds it",
        }
        for folder, slug in folders
        for session in sorted(_indexed(Path(folder)) - loaded)
    ]


def _indexed(folder: Path) -> set[str]:
    """Session ids in a folder's index that have no file in it; they are names to show, never places to look at."""
    index_file = folder / "sessions-index.json"
    try:
        index = loads(read_small(index_file, MAX_INDEX_BYTES))
        there = {stem_of(file.name) for file in folder.iterdir()}
    except (OSError, ValueError):
        return set()
    entries = index.get("entries") if isinstance(index, dict) else None
    found = [e.get("sessionId") for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    return {s for s in found if isinstance(s, str) and s} - there
