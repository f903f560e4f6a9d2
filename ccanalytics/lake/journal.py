"""Change of a lake in one step: everything is written aside, then a journal says what goes where.

Until the journal is there the old state is whole; from then on the new one is, whoever finishes moving the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ccanalytics.errors import ReadError, WriteError

from .layout import HIDDEN
from .manifest import Manifest, read_manifest, write_manifest

MANIFEST, JOURNAL, STAGING, LOCK = (f"{HIDDEN}/{n}" for n in ("manifest.json", "journal", "staging", "lock"))
NEW = f"{STAGING}/new"
_NEW_MANIFEST = f"{STAGING}/manifest.json"


class Journal(msgspec.Struct):
    """Places whose new file waits in the staging folder, and places whose file goes."""

    moved: list[str]
    deleted: list[str]


def read_state(root: Path) -> tuple[Manifest | None, dict[str, Path]]:
    """The manifest in force, and the path of each of its files: those a cut-off change left aside are read there."""
    journal = _read_journal(root)
    source = root / _NEW_MANIFEST if journal and (root / _NEW_MANIFEST).exists() else root / MANIFEST
    try:
        manifest = read_manifest(source.read_bytes(), str(source))
    except FileNotFoundError:
        return None, {}
    except OSError as e:
        raise ReadError(f"cannot read {source}: {e.strerror or e}", path=str(source)) from e
    waiting = {p for p in journal.moved if (root / NEW / p).exists()} if journal else set()
    return manifest, {p: root / NEW / p if p in waiting else root / p for p in manifest.parts}


def commit(root: Path, manifest: Manifest, *, moved: list[str], deleted: list[str]) -> None:
    """Put the staged files in place; a crash at any moment leaves the old state or one that ``recover`` completes."""
    _write_through(root / _NEW_MANIFEST, write_manifest(manifest))
    for folder in {(root / NEW / p).parent for p in moved} | {root / STAGING}:
        _sync_folder(folder)
    aside = root / STAGING / "journal"
    _write_through(aside, msgspec.json.encode(Journal(moved, deleted)))
    aside.replace(root / JOURNAL)
    _sync_folder(root / HIDDEN)
    recover(root)


def recover(root: Path) -> None:
    """Finish a change whose journal is there; drop what an export left that did not come so far. Needs the lock."""
    journal = _read_journal(root)
    if journal is not None:
        for place in journal.moved:
            waiting, target = root / NEW / place, root / place
            if waiting.exists():
                make_folder(target.parent, below=root)
                waiting.replace(target)
        for place in journal.deleted:
            (root / place).unlink(missing_ok=True)
            _remove_empty_folders((root / place).parent, root)
        for folder in {(root / p).parent for p in (*journal.moved, *journal.deleted)}:
            if folder.exists():
                _sync_folder(folder)
        if (root / _NEW_MANIFEST).exists():
            (root / _NEW_MANIFEST).replace(root / MANIFEST)
        _sync_folder(root / HIDDEN)
        (root / JOURNAL).unlink()
        _sync_folder(root / HIDDEN)
    shutil.rmtree(root / STAGING, ignore_errors=True)


def is_unfinished(root: Path) -> bool:
    """A change was cut off behind its journal."""
    return (root / JOURNAL).exists()


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """The lake for this process alone; the system lets go of the lock when its holder dies.

    Raises
    ------
    WriteError
        Another export is at work.
    """
    make_folder(root / HIDDEN, below=root)
    handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            _lock(handle)
        except OSError as e:
            raise WriteError(f"another export is writing to {root}; wait until it has finished", path=str(root)) from e
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        return
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def make_folder(folder: Path, *, below: Path) -> None:
    """The folder and those above it up to ``below``, for the owner's eyes only where they are new."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        if folder == below:
            break
        folder = folder.parent
    for one in reversed(missing):
        if one == below:
            one.parent.mkdir(parents=True, exist_ok=True)
        one.mkdir(mode=0o700, exist_ok=True)


def _read_journal(root: Path) -> Journal | None:
    try:
        return msgspec.json.decode((root / JOURNAL).read_bytes(), type=Journal)
    except FileNotFoundError:
        return None


def _write_through(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_empty_folders(folder: Path, root: Path) -> None:
    while folder != root and folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
