"""An export from end to end: base tables taken in, derived tables made group by group, changed files written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import polars as pl

from ccanalytics.errors import UsageError, WriteError
from ccanalytics.parse import Content
from ccanalytics.placing import find_folder_problems
from ccanalytics.sessions import count_concurrent
from ccanalytics.teams import read_teams

from .base import Base, Batch
from .derive import Group, derive
from .files import to_stored, write_file
from .journal import NEW, STAGING, commit, locked, make_folder, read_state, recover
from .layout import EXPORTED, empty_place, in_order, split_rows, table_of, whole_place
from .manifest import Manifest, Part, print_of_rows
from .scratch import Scratch

CONTENTS: tuple[Content, ...] = ("none", "preview", "full")
Derive = Callable[[Iterable[Group]], Iterator[tuple[Group, dict[str, pl.DataFrame]]]]
Teams = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass
class Summary:
    """What an export did."""

    rows: dict[str, int] = field(default_factory=dict)
    files_written: int = 0
    files_unchanged: int = 0
    files_deleted: int = 0


def derive_here(groups: Iterable[Group]) -> Iterator[tuple[Group, dict[str, pl.DataFrame]]]:
    """Derived tables made in this process, one group at a time."""
    for group in groups:
        yield group, derive(group)
        del group


def teams_of(files: pl.DataFrame) -> pl.DataFrame:
    """Members of teams as the folders beside these files say."""
    return read_teams(files["root"].drop_nulls().unique(maintain_order=True))


def export(
    root: Path,
    batches: Iterable[Batch],
    *,
    content: Content,
    on_disk: bool = False,
    ready: Callable[[], dict[str, pl.DataFrame]] | None = None,
    derive_all: Derive = derive_here,
    read_team_members: Teams = teams_of,
    folder_problems: Teams = find_folder_problems,
) -> Summary:
    """Bring the lake at ``root`` up to what ``batches`` hold; what it holds of other files stays.

    Parameters
    ----------
    content
        How much text the batches have; a lake with more of it is not overwritten with less.
    on_disk
        Put rows aside on disk, so that memory holds a group and a partition at most.
    ready
        Gives derived tables that were made already, for use where no id differs from the batch's own.
    derive_all
        Makes the derived tables of groups, in their order.
    read_team_members, folder_problems
        Tell from ``files`` what the folders around them say.

    Raises
    ------
    WriteError
        Another export is at work, or the folder cannot be written.
    """
    try:
        with locked(root):
            recover(root)
            old, where = read_state(root)
            manifest = _begin(old, content, root)
            make_folder(root / STAGING, below=root)
            base = Base(manifest, Scratch(root / STAGING / "base", on_disk=on_disk))
            for batch in batches:
                base.add(batch)
            if old is not None:
                base.add_kept(where, {n: old.places_of(n) for n in ("entries", "blocks", "files", "read_problems")})
            base.team_members = _with_old_teams(read_team_members(base.files), old, where)
            parts = _Parts(Scratch(root / STAGING / "parts", on_disk=on_disk))
            for group, tables in _made(base, ready, derive_all):
                parts.add_all(group, tables)
                # The names would keep a group in memory while the next one is made.
                del group, tables
            folders = folder_problems(base.files.sort("path"))
            parts.put("files", base.files)
            parts.put("team_members", base.team_members)
            parts.put("problems", folders)
            parts.put("read_problems", pl.concat([base.problems, folders]))
            return _write(root, manifest, old, where, parts)
    except OSError as e:
        if isinstance(e, WriteError) or type(e).__module__.startswith("ccanalytics"):
            raise
        raise WriteError(f"cannot write the export to {root}: {e.strerror or e}", path=str(root)) from e


def _begin(old: Manifest | None, content: Content, root: Path) -> Manifest:
    if old is None:
        return Manifest(content=content)
    if CONTENTS.index(content) < CONTENTS.index(old.content):
        raise UsageError(
            f"{root} holds text (content={old.content!r}) and this export has less of it (content={content!r}); "
            f"use content={old.content!r} or another folder",
            got=content,
            allowed=CONTENTS[CONTENTS.index(old.content) :],
        )
    fresh = msgspec.json.decode(msgspec.json.encode(old), type=Manifest)
    fresh.content, fresh.parts = content, {}
    fresh.schema_version = Manifest().schema_version
    return fresh


def _made(
    base: Base, ready: Callable[[], dict[str, pl.DataFrame]] | None, derive_all: Derive
) -> Iterator[tuple[Group, dict[str, pl.DataFrame]]]:
    if ready is None or not base.is_as_read:
        yield from derive_all(base.groups())
        return
    for group in base.groups(max_rows=1 << 62):
        yield group, ready()


def _with_old_teams(found: pl.DataFrame, old: Manifest | None, where: dict[str, Path]) -> pl.DataFrame:
    places = old.places_of("team_members") if old is not None else []
    if not places:
        return found
    from .files import scan_files

    held = scan_files("team_members", [where[p] for p in places]).collect()
    key = list(table_of("team_members").key)
    gone = held.join(found.select(key), on=key, how="anti", nulls_equal=True, maintain_order="left")
    return in_order("team_members", pl.concat([found, gone]))


class _Parts:
    """Rows of all tables by the place of the file they belong in."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self.by_place: dict[tuple[str, str], list[int]] = {}

    def add_all(self, group: Group, tables: dict[str, pl.DataFrame]) -> None:
        """The rows of one group; ``tables`` is emptied."""
        tables |= {"entries": group.entries, "blocks": group.blocks}
        while tables:
            name, frame = tables.popitem()
            for place, rows in split_rows(name, frame, group.entries, group.files):
                self.by_place.setdefault((name, place), []).append(self._scratch.put(rows))

    def put(self, name: str, frame: pl.DataFrame) -> None:
        """Rows of a table that is not partitioned."""
        self.by_place.setdefault((name, whole_place(name)), []).append(self._scratch.put(frame))

    def take(self, name: str, place: str) -> pl.DataFrame:
        """All rows of one place, in order; they are forgotten here."""
        numbers = self.by_place[name, place]
        frame = pl.concat([self._scratch.get(n) for n in numbers])
        for n in numbers:
            self._scratch.drop(n)
        if len(numbers) == 1:
            return frame
        if name == "sessions":
            # Sessions alive at the same time need have nothing else to do with one another.
            frame = in_order(name, frame)
            frame = frame.with_columns(count_concurrent(frame).cast(frame.schema["n_concurrent"]))
        return in_order(name, frame)


def _write(root: Path, manifest: Manifest, old: Manifest | None, where: dict[str, Path], parts: _Parts) -> Summary:
    done = Summary(dict.fromkeys(EXPORTED, 0))
    have = {name for name, _ in parts.by_place}
    wanted = sorted([*parts.by_place, *((n, empty_place(n)) for n in (*EXPORTED, "read_problems") if n not in have)])

    def put(name_and_place: tuple[str, str]) -> tuple[str, str, Part, bool]:
        name, place = name_and_place
        frame = parts.take(name, place) if name in have else table_of(name).empty()
        part = Part(len(frame), print_of_rows(to_stored(name, frame)))
        is_new = old is None or old.parts.get(place) != part or not where[place].exists()
        if is_new:
            write_file(name, frame, root / NEW / place)
        return name, place, part, is_new

    moved: list[str] = []
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 4)) as threads:
        for name, place, part, is_new in threads.map(put, wanted):
            manifest.parts[place] = part
            done.rows[name] = done.rows.get(name, 0) + part.n_rows
            if is_new:
                moved.append(place)
    del done.rows["read_problems"]
    deleted = [p for p in (old.parts if old is not None else ()) if p not in manifest.parts]
    done.files_written, done.files_deleted = len(moved), len(deleted)
    done.files_unchanged = len(wanted) - len(moved)
    if old is None or moved or deleted or old != manifest:
        commit(root, manifest, moved=moved, deleted=deleted)
    else:
        recover(root)
    return done
