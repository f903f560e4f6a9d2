"""Parsed files kept on disk, so that the next load reads only what is new.

A store belongs to the places that were loaded. It has a few shelves, each some Arrow files that are mapped into memory
and an index; none is ever changed in place. A shelf that is not exactly as it was written is not used. Nothing here
raises: without a cache a load is merely slower.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from . import __version__
from .blocks import Nulls
from .find import FoundFile
from .parse import BLOCK_ROWS, ENTRY_ROWS, PROBLEM_ROWS, Reading
from .schema import SCHEMA_VERSION
from .shelf import Records, Shelf

MAX_BYTES = 4 << 30
"""All stores together; the one not used for longest goes first. ``CCANALYTICS_CACHE_MB`` changes it."""
MAX_SHELVES = 12
_FORMAT = 1
_TABLES = ("entries", "blocks", "problems")
_SCHEMAS: dict[str, dict[str, pl.DataType]] = {
    "entries": ENTRY_ROWS | {"part": pl.Int32()},
    "blocks": BLOCK_ROWS,
    "problems": PROBLEM_ROWS,
}
# What a row is made of: when one of these changes, rows of before are of no use.
_MAKERS = (
    *(
        "parse",
        "columns",
        "blocks",
        "facts",
        "metadata",
        "decode",
        "lenient",
        "rescue",
        "lean",
        "timestamps",
        "secrets",
    ),
    *("jobs", "shelf", "assemble", "schema/base"),
)


class Index(msgspec.Struct, array_like=True):
    """What a shelf holds: its records, and size and sums of each file of it."""

    records: Records
    files: dict[str, tuple[int, int, int]]


def is_wanted(cache: bool | None) -> bool:
    """Whether to use the cache: as asked, else unless ``CCANALYTICS_CACHE`` says no."""
    if cache is not None:
        return cache
    return os.environ.get("CCANALYTICS_CACHE", "1").strip().lower() not in ("0", "no", "off", "false")


def cache_dir() -> Path:
    """Where the cache is: ``CCANALYTICS_CACHE_DIR``, else the platform's place for caches."""
    named = os.environ.get("CCANALYTICS_CACHE_DIR")
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("ccanalytics", appauthor=False)


@dataclass(frozen=True)
class Store:
    """The shelves of some places, read one way."""

    path: Path

    def shelves(self) -> list[Shelf]:
        """All shelves that are whole, oldest first."""
        with suppress(OSError):
            os.utime(self.path)
        found = []
        for name in self._names():
            shelf = _read_shelf(self.path / name)
            if shelf is not None:
                found.append(shelf)
        return found

    def save(self, shelf: Shelf, *, is_all: bool) -> None:
        """Put a shelf into the store, in place of all others when it holds all there is. Without effect on failure."""
        with suppress(OSError, pl.exceptions.PolarsError), self._locked() as is_ours:
            if is_ours:
                self._save(shelf, is_all=is_all)
                _bound(self.path.parent.parent, keep=self.path)

    def _save(self, shelf: Shelf, *, is_all: bool) -> None:
        for old in self.path.glob("tmp-*"):
            shutil.rmtree(old, ignore_errors=True)
        old_names = self._names()
        folder = Path(tempfile.mkdtemp(prefix="tmp-", dir=self.path))
        _write_shelf(shelf, folder)
        name = "shelf-" + folder.name[4:]
        folder.rename(self.path / name)
        names = [name] if is_all or len(old_names) >= MAX_SHELVES else [*old_names, name]
        _write_whole(self.path / "shelves", msgspec.msgpack.encode(names))
        for other in self.path.glob("shelf-*"):
            if other.name not in names:
                shutil.rmtree(other, ignore_errors=True)

    def _names(self) -> list[str]:
        try:
            names = msgspec.msgpack.decode((self.path / "shelves").read_bytes(), type=list[str])
        except (OSError, msgspec.MsgspecError, ValueError):
            return []
        return [n for n in names if n.startswith("shelf-") and os.sep not in n and "/" not in n]

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """True for one process at a time; another one does without, rather than wait."""
        try:
            from fcntl import LOCK_EX, LOCK_NB, flock
        except ImportError:
            yield True
            return
        with open(os.open(self.path / "lock", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            try:
                flock(f, LOCK_EX | LOCK_NB)
            except OSError:
                yield False
                return
            yield True


def open_store(found: Sequence[FoundFile], reading: Reading) -> Store | None:
    """The store of the places these files are in; None when it cannot be made, or is not this user's own."""
    places = sorted({f.root or os.path.dirname(f.path) for f in found})
    if not places:
        return None
    key = sha256("\0".join(places).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    top = cache_dir()
    path = top / _version() / f"{key}-{reading}"
    try:
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (path.parent, path):
            folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_own(folder):
                return None
    except OSError:
        return None
    return Store(path)


def _is_own(folder: Path) -> bool:
    if os.name != "posix":
        return True
    status = folder.lstat()
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        return False
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    return True


def _version() -> str:
    """A name that changes with everything that rows depend on."""
    here = Path(__file__).parent
    stats = [(here / f"{name}.py").stat() for name in _MAKERS if (here / f"{name}.py").exists()]
    parts = [__version__, SCHEMA_VERSION, _FORMAT, pl.__version__, [(s.st_size, s.st_mtime_ns) for s in stats]]
    return "v" + sha256(repr(parts).encode()).hexdigest()[:16]


def _write_shelf(shelf: Shelf, folder: Path) -> None:
    sums = {}
    for name in _TABLES:
        frame: pl.DataFrame = getattr(shelf, name)
        held = [c for c in frame.columns if c == "row" or frame[c].null_count() < len(frame)]
        path = folder / f"{name}.arrow"
        # One batch, so that every column can be used as it lies in the file.
        frame.select(held).rechunk().write_ipc(path, compression="uncompressed", record_batch_size=max(1, len(frame)))
        path.chmod(0o600)
        sums[name] = _sums(path)
    body = msgspec.msgpack.encode(Index(shelf.records, sums))
    _write_whole(folder / "index", sha256(body).digest() + body)


def _write_whole(path: Path, data: bytes) -> None:
    aside = path.with_name(path.name + ".new")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
        f.write(data)
    aside.replace(path)


def _read_shelf(folder: Path) -> Shelf | None:
    try:
        data = (folder / "index").read_bytes()
        if sha256(data[32:]).digest() != data[:32]:
            return None
        index = msgspec.msgpack.decode(memoryview(data)[32:], type=Index)
        frames = {name: _read_table(folder, name, index.files[name]) for name in _TABLES}
    except (OSError, ValueError, KeyError, msgspec.MsgspecError, pl.exceptions.PolarsError):
        return None
    return Shelf(index.records, frames["entries"], frames["blocks"], frames["problems"])


def _read_table(folder: Path, name: str, sums: tuple[int, int, int]) -> pl.DataFrame:
    import pyarrow as pa

    path = folder / f"{name}.arrow"
    if _sums(path) != sums:
        raise ValueError(f"{path} is not as it was written")
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    held = pl.from_arrow(table, rechunk=False)
    assert isinstance(held, pl.DataFrame)
    nulls = Nulls(len(held))
    have = set(held.columns)
    schema = _SCHEMAS[name]
    return pl.DataFrame([held[c] if c in have else nulls.of(d).alias(c) for c, d in schema.items()])


def _sums(path: Path) -> tuple[int, int, int]:
    """Size and two sums over the file; several times as fast as a hash, and there is no one to outwit."""
    size = path.stat().st_size
    if not size:
        return (0, 0, 0)
    data = np.memmap(path, np.uint8, "r")
    words = data[: size // 8 * 8].view(np.uint64)
    rest = int.from_bytes(data[size // 8 * 8 :].tobytes(), "little")
    return (size, int(np.bitwise_xor.reduce(words)) ^ rest, int(words.sum(dtype=np.uint64)))


def _bound(top: Path, *, keep: Path) -> None:
    """Remove stores of other versions, then those not used for longest, until all together are small enough."""
    limit = int(float(os.environ.get("CCANALYTICS_CACHE_MB") or MAX_BYTES / 1e6) * 1e6)
    for version in top.glob("v*"):
        if version != keep.parent:
            shutil.rmtree(version, ignore_errors=True)
    stores = sorted((s for s in keep.parent.iterdir() if s.is_dir()), key=lambda s: s.stat().st_mtime, reverse=True)
    stores.sort(key=lambda s: s != keep)
    total = 0
    for store in stores:
        total += sum(f.stat().st_size for f in store.rglob("*") if f.is_file())
        if total > limit:
            shutil.rmtree(store, ignore_errors=True)
