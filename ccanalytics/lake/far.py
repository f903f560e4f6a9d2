"""A lake on an object store: worked on as a local copy, changed there in one step by the same journal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ccanalytics.remote import filesystem_of

from .journal import JOURNAL, MANIFEST, NEW, STAGING, Journal, read_state
from .manifest import Manifest, write_manifest

_NEW_MANIFEST = f"{STAGING}/manifest.json"


def fetch(url: str, folder: Path) -> Path:
    """A local copy of a lake, with the journal of a change that was cut off."""
    files, top = filesystem_of(url)
    top = top.rstrip("/")
    files.invalidate_cache()
    names = files.find(top) if files.exists(top) else []
    has_journal = f"{top}/{JOURNAL}" in names
    for name in names:
        place = name[len(top) + 1 :]
        if place.startswith(f"{STAGING}/") and not has_journal:
            continue
        target = folder / place
        if not target.resolve().is_relative_to(folder.resolve()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.get_file(name, str(target))
    return folder


@contextmanager
def checked_out(url: str) -> Iterator[Path]:
    """A local copy of a lake to work on; what is different afterwards is put in place at once.

    An object store has no locks: one export at a time is up to its users.
    """
    files, top = filesystem_of(url)
    top = top.rstrip("/")
    with tempfile.TemporaryDirectory(prefix="ccanalytics-lake-") as folder:
        root = Path(folder, "lake")
        root.mkdir(mode=0o700)
        _roll_forward(files, top)
        fetch(url, root)
        before = read_state(root)[0]
        yield root
        after = read_state(root)[0]
        if after is not None:
            _put(files, top, root, before, after)


def _put(files: Any, top: str, root: Path, before: Manifest | None, after: Manifest) -> None:
    held = before.parts if before is not None else {}
    moved = [p for p, part in after.parts.items() if held.get(p) != part]
    deleted = [p for p in held if p not in after.parts]
    if before == after:
        return
    for place in moved:
        files.put_file(str(root / place), f"{top}/{NEW}/{place}")
    files.pipe_file(f"{top}/{_NEW_MANIFEST}", write_manifest(after))
    # One object: from here on the new state is the one that holds.
    files.pipe_file(f"{top}/{JOURNAL}", msgspec.json.encode(Journal(moved, deleted)))
    _roll_forward(files, top)


def _roll_forward(files: Any, top: str) -> None:
    """Finish a change whose journal is there; drop what is left of one that did not come so far."""
    files.invalidate_cache()
    if files.exists(f"{top}/{JOURNAL}"):
        journal = msgspec.json.decode(files.cat_file(f"{top}/{JOURNAL}"), type=Journal)
        for place in journal.moved:
            files.cp_file(f"{top}/{NEW}/{place}", f"{top}/{place}")
        for place in journal.deleted:
            if files.exists(f"{top}/{place}"):
                files.rm_file(f"{top}/{place}")
        files.cp_file(f"{top}/{_NEW_MANIFEST}", f"{top}/{MANIFEST}")
        files.rm_file(f"{top}/{JOURNAL}")
    if files.exists(f"{top}/{STAGING}"):
        files.rm(f"{top}/{STAGING}", recursive=True)
    files.invalidate_cache()
