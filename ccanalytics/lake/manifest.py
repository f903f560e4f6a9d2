"""What a lake holds: its source files with the ids of their rows, its parts with a print of their content."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from ccanalytics.errors import ReadError
from ccanalytics.parse import Content
from ccanalytics.schema import SCHEMA_VERSION

FORMAT = 1
Ints = npt.NDArray[np.int64]


class Run(msgspec.Struct, array_like=True, frozen=True):
    """Rows of a file, one behind the other, that have ids one behind the other."""

    first_row: int
    n_rows: int
    first_id: int


class Heading(msgspec.Struct, array_like=True, frozen=True):
    """What the list of sessions shows of a file, which is gone when the file is."""

    summary: str
    custom_title: str | None
    first_prompt: str | None


class FileNote(msgspec.Struct, omit_defaults=True):
    """A source file as it was when it was exported last."""

    file_id: int
    runs: tuple[Run, ...]
    rows_print: str
    heading: Heading | None = None
    summaries: dict[int, str] = {}
    """Summaries of other sessions in this file, by row."""

    @property
    def n_rows(self) -> int:
        """Rows of the table ``entries`` that come from it."""
        return sum(r.n_rows for r in self.runs)

    def ids(self) -> Ints:
        """Entry ids of its rows, in order."""
        return np.concatenate([_EMPTY, *(np.arange(r.first_id, r.first_id + r.n_rows) for r in self.runs)])


_EMPTY = np.zeros(0, dtype=np.int64)


class Part(msgspec.Struct, array_like=True, frozen=True):
    """One Parquet file: rows and a print of their content."""

    n_rows: int
    print: str


class Manifest(msgspec.Struct):
    """The whole of it."""

    format: int = FORMAT
    schema_version: int = SCHEMA_VERSION
    content: Content = "none"
    next_file_id: int = 0
    next_entry_id: int = 0
    files: dict[str, FileNote] = {}
    parts: dict[str, Part] = {}

    @property
    def is_plain(self) -> bool:
        """Ids are those of a load: files by path, rows one behind the other."""
        at = 0
        for number, path in enumerate(sorted(self.files)):
            note = self.files[path]
            first = note.runs[0].first_id if note.runs else at
            if note.file_id != number or len(note.runs) > 1 or first != at:
                return False
            at += note.n_rows
        return True

    def places_of(self, name: str) -> list[str]:
        """Places of the files of a table."""
        return [p for p in self.parts if p.startswith(f"{name}/") or p == f"_ccanalytics/{name}.parquet"]


def read_manifest(data: bytes, path: str) -> Manifest:
    """The manifest in these bytes; ``ReadError`` when it is none or one of a later version."""
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as e:
        raise ReadError(f"{path} is damaged ({e}); export to a new folder", path=path) from e
    if found.format != FORMAT or found.schema_version > SCHEMA_VERSION:
        raise ReadError(
            f"{path} was written by a later version of ccanalytics (schema {found.schema_version}, this one reads "
            f"{SCHEMA_VERSION}); update ccanalytics",
            path=path,
        )
    return found


def write_manifest(manifest: Manifest) -> bytes:
    """The manifest as bytes."""
    return msgspec.json.encode(manifest)


def print_of_rows(frame: pl.DataFrame) -> str:
    """A print of what is in these rows, in whatever order: equal for equal content, version by version of polars."""
    if frame.is_empty():
        return f"{pl.__version__}:0"
    hashes = frame.hash_rows(11).to_numpy()
    total = int(hashes.sum(dtype=np.uint64))
    mixed = int(((hashes * np.uint64(0x9E3779B97F4A7C15)) ^ (hashes >> np.uint64(29))).sum(dtype=np.uint64))
    return f"{pl.__version__}:{len(frame)}:{total:016x}{mixed:016x}"


class RowPrints:
    """Prints of the beginnings of files, from where and when their lines are and which uuids they have.

    They tell a file that grew from one that was written anew; of content they know no more than that.
    """

    def __init__(self, entries: pl.DataFrame) -> None:
        places = entries.select(
            pl.col("line_no").cast(pl.Int64),
            "byte_offset",
            "byte_length",
            pl.col("timestamp").dt.epoch("ms").fill_null(-1),
        )
        self._places = np.ascontiguousarray(places.to_numpy())
        uuids = entries["uuid"].fill_null("")
        self._ends = np.concatenate([[0], np.cumsum(uuids.str.len_bytes().to_numpy(), dtype=np.int64)])
        self._uuids = "".join(uuids).encode("utf-8", "surrogatepass")

    def of(self, first: int, n: int) -> str:
        """The print of ``n`` rows from ``first`` on."""
        digest = hashlib.blake2b(self._places[first : first + n].tobytes(), digest_size=16)
        digest.update(self._uuids[self._ends[first] : self._ends[first + n]])
        return digest.hexdigest()


def note_file(old: FileNote | None, prints: RowPrints, *, first: int, n: int, file_id: int, next_id: int) -> FileNote:
    """The note of a file that now has ``n`` rows: what is known of it keeps its ids, what is new gets the next."""
    print_now = prints.of(first, n)
    if old is not None and old.n_rows <= n and prints.of(first, old.n_rows) == old.rows_print:
        added = n - old.n_rows
        runs = (*old.runs, Run(old.n_rows, added, next_id)) if added else old.runs
        return FileNote(file_id, _joined(runs), print_now)
    return FileNote(file_id, (Run(0, n, next_id),) if n else (), print_now)


def _joined(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Runs that follow on one another as one."""
    breaks = [i + 1 for i, (a, b) in enumerate(pairwise(runs)) if a.first_id + a.n_rows != b.first_id]
    groups = [runs[i:j] for i, j in pairwise([0, *breaks, len(runs)]) if j > i]
    return tuple(Run(g[0].first_row, sum(r.n_rows for r in g), g[0].first_id) for g in groups)
