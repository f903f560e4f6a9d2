"""Which transcript files there are: configuration folders, sessions, agents in every layout.

Places come from the user and from directory listings, never from ids inside a transcript.
"""

# Paths stay text here: there are many, and each is looked at once.
from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG

from .errors import NotFoundError, ReadError, UsageError
from .place import (
    SUFFIXES,
    Head,
    Kind,
    Layout,
    classify,
    content_kind,
    is_transcript_name,
    place_of,
    read_head,
    stem_of,
)
from .projects import is_project_wanted, match_slug, project_of, project_slug

__all__ = [
    "FoundFile",
    "Head",
    "config_dirs",
    "content_kind",
    "find_files",
    "is_session_wanted",
    "match_slug",
    "project_of",
    "project_slug",
    "read_head",
]

PathLike = str | os.PathLike[str]
OnError = Callable[[str, OSError], None]

# Folders beside transcripts that can be large and hold none.
_NOTHING_BELOW = {"tool-results", "memory", "remote-agents"}
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One transcript file, with what its place tells; ``None`` where only its lines could tell."""

    path: str
    root: str | None
    project_dir: str | None
    kind: Kind
    layout: Layout
    session_id: str | None
    agent_id: str | None
    workflow_id: str | None
    meta_path: str | None
    size: int
    mtime_ns: int
    ctime_ns: int
    dev: int
    inode: int


def find_files(
    paths: PathLike | Sequence[PathLike] | None = None,
    *,
    projects: str | Iterable[str] | None = None,
    sessions: str | Iterable[str] | None = None,
    on_error: OnError | None = None,
) -> list[FoundFile]:
    """Transcript files, each physical file once, sorted by path.

    Parameters
    ----------
    paths
        A configuration folder, its ``projects`` folder, a project's folder, a single ``.jsonl``, ``.jsonl.gz`` or
        ``.jsonl.zst``, a glob, or several of these. Default: :func:`config_dirs`.
    projects
        Only these projects: directories, folder names, or the last part of a path. Only folder names are known here,
        and many directories can share one, so whoever reads the files must look at ``cwd`` again.
    sessions
        Only these session ids; the beginning of an id will do.
    on_error
        Called with path and error for a place below the given ones that cannot be read.

    Raises
    ------
    NotFoundError
        A given path does not exist, or a glob matches nothing. (Default folders may be missing.)
    """
    places: Iterable[PathLike]
    if paths is None:
        places = config_dirs()
    else:
        places = [paths] if isinstance(paths, str | os.PathLike) else paths
    walk = _Walk(on_error)
    for place in places:
        for path in _expand(place):
            walk.visit(path)
    found = walk.found
    if projects is not None:
        wanted = _listed(projects)
        found = [f for f in found if any(is_project_wanted(p, project=None, slug=f.project_dir) for p in wanted)]
    if sessions is not None:
        wanted = _listed(sessions)
        found = [f for f in found if is_session_wanted(f.session_id or _session_inside(f), wanted)]
    return sorted(found, key=lambda f: f.path)


def config_dirs() -> list[Path]:
    """Existing configuration folders: ``$CLAUDE_CONFIG_DIR`` (several with commas), else the two default places."""
    named = [part.strip() for part in os.environ.get("CLAUDE_CONFIG_DIR", "").split(",") if part.strip()]
    below = [os.environ.get("XDG_CONFIG_HOME", ""), "~/.config"]
    candidates = named or [*(f"{folder}/claude" for folder in below if folder), "~/.claude"]
    folders = dict.fromkeys(Path(_absolute(c)) for c in candidates)
    return [folder for folder in folders if folder.is_dir()]


def is_session_wanted(session_id: str | None, wanted: Iterable[str]) -> bool:
    """True when the id begins with one of those wanted."""
    return session_id is not None and any(session_id.startswith(w) for w in wanted if w)


@dataclass(frozen=True, slots=True)
class _Spot:
    """A folder on the way: as reached, as it really lies, and where below ``projects`` that is."""

    path: str
    real: str
    root: str | None
    trail: tuple[str, ...]

    def below(self, name: str) -> _Spot:
        return _Spot(_below(self.path, name), _below(self.real, name), self.root, (*self.trail, name))


class _Walk:
    """One pass over the places given: remembers folders and files already seen, collects what it finds."""

    def __init__(self, on_error: OnError | None) -> None:
        self.found: list[FoundFile] = []
        self._folders: set[str] = set()
        self._files: set[tuple[int, int] | str] = set()
        self._links: list[tuple[_Spot, os.DirEntry[str]]] = []
        self._on_error = on_error

    def visit(self, path: str) -> None:
        """Add a file, or all transcripts below a folder, that the user named."""
        if not os.path.isdir(path):
            self._visit_file(path)
            return
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            raise ReadError(f"Cannot read the folder {path}: {error.strerror}.", path=path) from error
        root, trail = place_of(path, names)
        if root == path:
            path = os.path.join(path, "projects")
        self._visit_folder(_Spot(path, os.path.realpath(path), root, trail))

    def _visit_file(self, path: str) -> None:
        folder, name = os.path.split(path)
        if not is_transcript_name(name) and name.endswith(SUFFIXES):
            raise UsageError(f"{path} is not a transcript (for history.jsonl there is read_history()).", path=path)
        root, trail = place_of(folder)
        if not trail and re.match(r"-|[A-Za-z]--", os.path.basename(folder)):
            trail = (os.path.basename(folder),)
        spot = _Spot(folder, os.path.realpath(folder), root, trail)
        meta = stem_of(name) + ".meta.json"
        try:
            stat = os.stat(path)
        except OSError as error:
            raise ReadError(f"Cannot read {path}: {error.strerror}.", path=path) from error
        names = {meta} if os.path.isfile(os.path.join(folder, meta)) else set()
        self._add(spot, name, os.path.realpath(path), stat, names)

    def _visit_folder(self, start: _Spot) -> None:
        waiting = [start]
        while waiting or self._links:
            if waiting:
                waiting += self._visit_entries(waiting.pop())
                continue
            # What links point at is mostly found on its own as well, and then belongs where it really lies.
            spot, entry = self._links.pop(0)
            target = os.path.realpath(entry.path)
            if _is_dir(entry):
                waiting.append(changed(spot.below(entry.name), real=target))
            else:
                self._add_entry(spot, entry, target, set())

    def _visit_entries(self, spot: _Spot) -> list[_Spot]:
        """Add the files of a folder, keep its links for later, and return the folders in it."""
        if spot.real in self._folders or len(spot.trail) > _MAX_DEPTH:
            return []
        self._folders.add(spot.real)
        entries = self._entries(spot.path)
        names = {e.name for e in entries}
        below = []
        for entry in entries:
            if _is_dir(entry):
                if entry.is_symlink():
                    self._links.append((spot, entry))
                elif not (spot.trail and entry.name in _NOTHING_BELOW):
                    below.append(spot.below(entry.name))
            elif is_transcript_name(entry.name) and not _has_plain_twin(entry.name, names):
                if entry.is_symlink():
                    self._links.append((spot, entry))
                else:
                    self._add_entry(spot, entry, _below(spot.real, entry.name), names)
        return below[::-1]

    def _entries(self, path: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda e: e.name)
        except OSError as error:
            self._report(path, error)
            return []

    def _add_entry(self, spot: _Spot, entry: os.DirEntry[str], real: str, names: set[str]) -> None:
        try:
            # On Windows a listing lacks the numbers that identify a file.
            stat = entry.stat() if os.name != "nt" else os.stat(real)
        except FileNotFoundError:
            return
        except OSError as error:
            self._report(entry.path, error)
            return
        if not S_ISREG(stat.st_mode):
            # A pipe would be waited for without end.
            self._report(entry.path, OSError(EINVAL, "not a regular file", entry.path))
            return
        self._add(spot, entry.name, real, stat, names)

    def _add(self, spot: _Spot, name: str, real: str, stat: os.stat_result, names: set[str]) -> None:
        key = (stat.st_dev, stat.st_ino) if stat.st_ino else real
        if key in self._files:
            return
        self._files.add(key)
        facts = classify(real, name, spot.trail)
        if facts is None:
            return
        meta = stem_of(name) + ".meta.json"
        self.found.append(
            FoundFile(
                path=real,
                root=spot.root,
                project_dir=spot.trail[0] if spot.trail else None,
                kind=facts.kind,
                layout=facts.layout,
                session_id=facts.session_id,
                agent_id=facts.agent_id,
                workflow_id=facts.workflow_id,
                meta_path=_below(spot.real, meta) if meta in names else None,
                size=stat.st_size,
                mtime_ns=stat.st_mtime_ns,
                ctime_ns=stat.st_ctime_ns,
                dev=stat.st_dev,
                inode=stat.st_ino,
            )
        )

    def _report(self, path: str, error: OSError) -> None:
        if self._on_error is not None:
            self._on_error(path, error)


def _expand(place: PathLike) -> Iterator[str]:
    """Absolute paths a given place stands for."""
    given = os.fspath(place)
    if "\0" in given:
        raise UsageError(f"A path cannot hold a NUL character: {given!r}.", path=given)
    path = _absolute(given)
    if os.path.exists(path):
        yield path
        return
    matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(given) else []
    matches = [m for m in matches if os.path.isdir(m) or is_transcript_name(os.path.basename(m))]
    if not matches:
        raise NotFoundError(
            f"There is no transcript at {given}. Give a Claude Code configuration folder (it has a folder projects), "
            "a project's folder, a .jsonl file, or a glob in quotes.",
            path=given,
        )
    yield from matches


def _session_inside(file: FoundFile) -> str | None:
    head = read_head(file.path)
    return None if head is None else head.session_id


def _below(folder: str, name: str) -> str:
    """As ``os.path.join`` of a folder and one name, of which there are thousands."""
    return folder + name if folder.endswith(os.sep) else folder + os.sep + name


def _has_plain_twin(name: str, names: set[str]) -> bool:
    return not name.endswith(".jsonl") and stem_of(name) + ".jsonl" in names


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself.
        return False


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _listed(value: str | Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
