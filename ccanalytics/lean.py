"""Lines for a report on usage alone: those that carry usage are decoded whole, of the others a few fields.

What a line says of the file it is in (time, directory, session, agent) is read from all of them, so that files, entry
ids and calls are those of a whole load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import polars as pl
from msgspec import Raw, Struct

from .blocks import Nulls
from .columns import Columns
from .decode import NO_RAW, Line, decode_line
from .schema.base import BLOCKS
from .timestamps import BAD_TIME, read_times
from .usage_lines import CALL_COLUMNS

if TYPE_CHECKING:
    from .parse import Batch, Problems

_SIGN = b'"usage"'
_PLACES = ("part", "line_no", "byte_offset", "byte_length")
_SHARED = ("session_id", "agent_id", "cwd", "is_sidechain", "team_name", "uuid")


class LeanLine(Struct, gc=False, rename="camel"):
    """What is read of a line without usage."""

    type = None
    is_sidechain: bool | None = None
    team_name: str | None = None
    agent_id: str | None = None
    message: Raw = NO_RAW
    uuid: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    session_id: str | None = None


_decode_lean: Callable[[memoryview], LeanLine] = msgspec.json.Decoder(LeanLine).decode


def decode_for_usage(data: bytes, starts: list[int], ends: list[int]) -> list[Line]:
    """The lines of ``data`` between ``starts`` and ``ends``; raises as the decoder does when one is damaged.

    The key is looked for as the bytes of its name: a line where it stands in a text or is something else's is merely
    decoded for nothing. No writer of JSON escapes letters.
    """
    lines: list[Line | LeanLine] = []
    view, find = memoryview(data), data.find
    last = ends[-1]
    at = find(_SIGN, starts[0], last)
    for start, end in zip(starts, ends, strict=True):
        if 0 <= at < end:
            lines.append(decode_line(view[start:end]))
            at = find(_SIGN, end, last)
        else:
            lines.append(_decode_lean(view[start:end]))
    return cast(list[Line], lines)


class UsageColumns:
    """As ``Columns``, in place of which it stands: entries without usage have null in most columns, and no blocks."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._whole = Columns("none", only_usage=True)
        self._rows: list[int] = []
        self._cells: dict[str, list[Any]] = {n: [] for n in (*_PLACES, *_SHARED, "timestamp", "has_message")}
        self._rescued: list[int] = []

    def add(self, batch: Batch) -> None:
        """Add the lines of a batch; what they hold can be dropped afterwards."""
        lines, first = batch.lines, self.n_rows
        for name, places in zip(_PLACES, (batch.parts, batch.line_nos, batch.offsets, batch.lengths), strict=True):
            self._cells[name].extend(places)
        self._cells["session_id"].extend([o.session_id for o in lines])
        self._cells["agent_id"].extend([o.agent_id for o in lines])
        self._cells["cwd"].extend([o.cwd for o in lines])
        self._cells["is_sidechain"].extend([o.is_sidechain for o in lines])
        self._cells["team_name"].extend([o.team_name for o in lines])
        self._cells["uuid"].extend([o.uuid for o in lines])
        self._cells["has_message"].extend([bool(o.message) for o in lines])
        self._cells["timestamp"].extend([o.timestamp for o in lines])
        whole = [i for i, o in enumerate(lines) if type(o) is Line]
        self._rows.extend([first + i for i in whole])
        self._rescued.extend(first + i for i in batch.rescued)
        self._whole.add(batch.only(whole))
        self.n_rows += len(lines)

    def frames(self, first_row: int, problems: Problems) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The entries and no blocks, rows counted from ``first_row``."""
        n = self.n_rows
        where = np.full(n, len(self._rows), dtype=np.uint32)
        where[self._rows] = np.arange(len(self._rows), dtype=np.uint32)
        whole = self._whole_lines(first_row, problems)
        void = {name for name in whole.columns if name not in _KEPT or whole[name].null_count() == len(whole)}
        held = whole.select([name for name in whole.columns if name not in void])
        nulls = Nulls(n)
        columns = pl.concat([held, held.clear(1)])[pl.Series(where)].to_dict() if held.columns else {}
        columns |= {name: nulls.of(whole.schema[name]) for name in void}
        columns["row"] = pl.Series(np.arange(first_row, first_row + n, dtype=np.int64))
        for name in (*_PLACES, *_SHARED, "has_message"):
            columns[name] = pl.Series(self._cells[name], dtype=whole.schema[name])
        columns["timestamp"], columns["timestamp_text"], bad = read_times(self._cells["timestamp"])
        for i in bad:
            part, line_no, offset, _ = (self._cells[name][i] for name in _PLACES)
            problems.add(first_row + i, line_no, offset, *BAD_TIME, part=part)
        is_rescued = np.zeros(n, dtype=bool)
        is_rescued[self._rescued] = True
        columns["is_rescued"] = pl.Series(is_rescued)
        columns["has_usage"] = columns["has_usage"].fill_null(False)
        return pl.DataFrame({name: columns[name] for name in whole.columns}), pl.DataFrame(schema=_NO_BLOCKS)

    def _whole_lines(self, first_row: int, problems: Problems) -> pl.DataFrame:
        found = type(problems)()
        entries = self._whole.entries(0, found)
        for part, row, line_no, offset, code, words in found.rows:
            if row is not None and code != BAD_TIME[0]:
                problems.add(first_row + self._rows[row], line_no, offset, code, words, part=part)
        return entries


_KEPT = {"part", *CALL_COLUMNS} - {*_PLACES, *_SHARED}
_NO_BLOCKS: dict[str, Any] = {"row": pl.Int64} | {n: d for n, d in BLOCKS.polars().items() if n != "entry_id"}
