"""Decoded lines → the columns of ``entries`` and ``blocks`` (with ``row`` in place of ``entry_id``).

Cells are the cost here. The fields of many lines are turned round at once, a column that no line has is never built
cell by cell, and one that few lines have is built over those lines and spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from msgspec.structs import astuple

from .blocks import BlockColumns, nulls, shown
from .decode import NO_RAW, Line, Message, Usage, loads
from .facts import (
    DETAILED_TYPES,
    MORE_ASSISTANT,
    MORE_USER,
    TEXT_VALUES,
    VALUE_KEYS,
    assistant_detail,
    attachment_detail,
    dump_detail,
    object_detail,
    progress_detail,
    small_json,
    system_detail,
    user_facts,
)
from .schema.base import ENTRIES

if TYPE_CHECKING:
    from .parse import Batch, Content, Problems

_TS = pl.Datetime("ms", "UTC")
_MAX_MS = 253_402_300_800_000

_AT = {name: k for k, name in enumerate(Line.__struct_fields__)}
_LINE_STRINGS = {
    "type": "type",
    "uuid": "uuid",
    "parent_uuid": "parent_uuid",
    "logical_parent_uuid": "logical_parent_uuid",
    "session_id": "session_id",
    "agent_id": "agent_id",
    "timestamp": "timestamp",
    "cwd": "cwd",
    "git_branch": "git_branch",
    "version": "version",
    "entrypoint": "entrypoint",
    "slug": "slug",
    "team_name": "team_name",
    "agent_name": "agent_name",
    "prompt_id": "prompt_id",
    "request_id": "request_id",
    "requested_model": "requested_model",
    "source_tool_assistant_uuid": "source_tool_assistant_uuid",
    "source_tool_use_id": "source_tool_use_id",
    "tool_use_id": "tool_use_id",
    "parent_tool_use_id": "parent_tool_use_id",
    "leaf_uuid": "leaf_uuid",
    "message_ref": "message_id",
}
_LINE_BOOLS = (
    "is_sidechain",
    "is_meta",
    "is_compact_summary",
    "is_visible_in_transcript_only",
    "is_api_error_message",
)
_MESSAGE_STRINGS = {"message_id": "id", "model": "model", "stop_reason": "stop_reason"}
_MESSAGE_AT = {name: k for k, name in enumerate(Message.__struct_fields__)}
_USAGE_AT = {name: k for k, name in enumerate(Usage.__struct_fields__)}
_USAGE_INTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_USAGE_PARTS = {
    "ephemeral_5m_input_tokens": "cache_creation",
    "ephemeral_1h_input_tokens": "cache_creation",
    "web_search_requests": "server_tool_use",
    "web_fetch_requests": "server_tool_use",
    "thinking_tokens": "output_tokens_details",
}
_USAGE_STRINGS = ("service_tier", "speed", "inference_geo")
_FACTS = ("subtype", "prompt_kind", "text_hash", "value", "detail", "text")
RAW_TYPES = DETAILED_TYPES | set(VALUE_KEYS) | {"system"}
"""Entry types whose facts are taken from the whole object; their bytes must come with the batch."""


class Columns:
    """Cells of entries and their blocks as lines come; frames when all have come."""

    def __init__(self, content: Content) -> None:
        self.n_rows = 0
        self._content = content
        self._cells: dict[str, list[Any]] = {n: [] for n in (*_LINE_STRINGS, *_LINE_BOOLS, *_LINE_MORE)}
        self._facts: dict[str, list[Any]] = {name: [] for name in _FACTS}
        self._places: dict[str, list[int]] = {n: [] for n in ("part", "line_no", "byte_offset", "byte_length")}
        self._rescued: list[int] = []
        self._messages = _Spread((*_MESSAGE_STRINGS, "content_kind"))
        self._usages = _Spread((*_USAGE_INTS, *_USAGE_PARTS, *_USAGE_STRINGS, "iterations"))
        self._blocks = BlockColumns(content)

    def add(self, batch: Batch) -> None:
        """Add the lines of a batch; what they hold can be dropped afterwards."""
        if not batch.lines:
            return
        first = self.n_rows
        fields: Sequence[tuple[Any, ...]] = tuple(zip(*map(astuple, batch.lines), strict=True))
        for name, field in _LINE_STRINGS.items():
            self._cells[name].extend(fields[_AT[field]])
        for name in _LINE_BOOLS:
            self._cells[name].extend(fields[_AT[name]])
        self._cells["recorded_cost_usd"].extend(fields[_AT["cost_usd"]])
        forks = fields[_AT["forked_from"]]
        self._cells["forked_from_session_id"].extend([f.session_id if f is not None else None for f in forks])
        self._cells["forked_from_uuid"].extend([f.message_uuid if f is not None else None for f in forks])
        for name, places in zip(self._places, (batch.parts, batch.line_nos, batch.offsets, batch.lengths), strict=True):
            self._places[name].extend(places)
        self._rescued.extend(first + i for i in batch.rescued)
        self._add_messages(first, fields)
        self._add_facts(first, fields, batch)
        self.n_rows += len(batch.lines)

    def _add_messages(self, first: int, fields: Sequence[tuple[Any, ...]]) -> None:
        own = fields[_AT["message"]]
        self._cells["has_message"].extend([m is not None for m in own])
        messages: Sequence[Message | None] = own
        echoes = [i for i, d in enumerate(fields[_AT["data"]]) if d is not None and d.message is not None]
        if echoes:
            messages = self._with_echoes(first, fields, echoes)
        rows = [i for i, m in enumerate(own, first) if m is not None]
        contents = [m.content for m in own if m is not None]
        self._blocks.add(rows, contents)
        if echoes:
            rows = [i for i, m in enumerate(messages, first) if m is not None]
            contents = [own[i - first].content if own[i - first] is not None else None for i in rows]
        if rows:
            self._add_message_cells(rows, [m for m in messages if m is not None], contents)

    def _with_echoes(
        self, first: int, fields: Sequence[tuple[Any, ...]], echoes: list[int]
    ) -> Sequence[Message | None]:
        # An agent_progress line repeats a line of the agent: its message, usage and request id are those of the echo.
        messages = list(fields[_AT["message"]])
        for i in echoes:
            echo = fields[_AT["data"]][i].message
            self._cells["request_id"][first + i] = fields[_AT["request_id"]][i] or echo.request_id
            if messages[i] is None:
                messages[i] = echo.message
        return messages

    def _add_message_cells(self, rows: list[int], messages: list[Message], contents: list[Any]) -> None:
        table = tuple(zip(*map(astuple, messages), strict=True))
        cells = self._messages.at(rows)
        for name, field in _MESSAGE_STRINGS.items():
            cells[name].extend(table[_MESSAGE_AT[field]])
        kinds = ["list" if type(c) is list else None if c is None else "string" for c in contents]
        cells["content_kind"].extend(kinds)
        usages = table[_MESSAGE_AT["usage"]]
        used = [i for i, u in zip(rows, usages, strict=True) if u is not None]
        if used:
            self._add_usage_cells(used, [u for u in usages if u is not None])

    def _add_usage_cells(self, rows: list[int], usages: list[Usage]) -> None:
        table = tuple(zip(*map(astuple, usages), strict=True))
        cells = self._usages.at(rows)
        for name in (*_USAGE_INTS, *_USAGE_STRINGS):
            cells[name].extend(table[_USAGE_AT[name]])
        for name, part in _USAGE_PARTS.items():
            get = attrgetter(name)
            cells[name].extend([get(p) if p is not None else None for p in table[_USAGE_AT[part]]])
        cells["iterations"].extend([_iterations(i) if i else None for i in table[_USAGE_AT["iterations"]]])

    def _add_facts(self, first: int, fields: Sequence[tuple[Any, ...]], batch: Batch) -> None:
        for cells in self._facts.values():
            cells.extend([None] * len(batch.lines))
        if self._content != "none":
            self._add_texts(first, batch.lines)
        more_user = _has_any(fields, MORE_USER)
        more_assistant = _has_any(fields, MORE_ASSISTANT)
        for i, kind in enumerate(fields[_AT["type"]]):
            if kind == "assistant":
                if more_assistant:
                    self._facts["detail"][first + i] = assistant_detail(batch.lines[i])
            elif kind == "user":
                found = user_facts(batch.lines[i], has_more=more_user)
                self._put(first + i, ("prompt_kind", "text_hash", "detail"), found)
            elif kind == "progress":
                data = batch.lines[i].data
                if data is not None:
                    self._put(first + i, ("subtype", "detail"), (data.type, progress_detail(data)))
            elif kind == "attachment":
                self._attachment(first + i, batch.lines[i])
            elif kind in RAW_TYPES:
                self._from_object(first + i, batch.lines[i], batch.raws[i])

    def _put(self, row: int, names: tuple[str, ...], cells: tuple[Any, ...]) -> None:
        for name, cell in zip(names, cells, strict=True):
            self._facts[name][row] = cell

    def _add_texts(self, first: int, lines: Sequence[Line]) -> None:
        for row, line in enumerate(lines, first):
            if line.message is not None:
                self._facts["text"][row] = shown(_message_text(line.message), self._content)

    def _attachment(self, row: int, line: Line) -> None:
        a = line.attachment
        if a is None:
            return
        if self._content != "none" and a.type == "queued_command":
            prompt = small_json(a.prompt, limit=1 << 24)
            self._facts["text"][row] = shown(prompt, self._content) if isinstance(prompt, str) else None
        self._put(row, ("subtype", "detail", "text_hash"), (a.type, *attachment_detail(a)))

    def _from_object(self, row: int, line: Line, raw: bytes) -> None:
        kind = line.type or ""
        obj = _object(raw)
        if kind == "system":
            self._put(row, ("subtype", "detail"), (line.subtype, dump_detail(system_detail(obj))))
            if self._content != "none" and isinstance(obj.get("content"), str):
                self._facts["text"][row] = shown(obj["content"], self._content)
            return
        self._facts["subtype"][row] = line.operation or line.subtype
        if kind in DETAILED_TYPES:
            detail, hashed = object_detail(kind, obj)
            self._put(row, ("detail", "text_hash"), (dump_detail(detail), hashed))
        value = obj.get(VALUE_KEYS[kind]) if kind in VALUE_KEYS else None
        if isinstance(value, str):
            self._facts["value"][row] = shown(value, self._content) if kind in TEXT_VALUES else value

    def frames(self, first_row: int, problems: Problems) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The entries and the blocks, rows counted from ``first_row``; times that are none go to ``problems``."""
        n, cells, dtypes = self.n_rows, self._cells, ENTRIES.polars()
        columns: dict[str, pl.Series] = {
            "row": pl.Series(np.arange(first_row, first_row + n, dtype=np.int64)),
            "part": pl.Series(self._places["part"], dtype=pl.Int64),
            "is_rescued": _flags(n, self._rescued),
            "has_usage": _flags(n, self._usages.rows),
        }
        for name in ("line_no", "byte_offset", "byte_length"):
            columns[name] = pl.Series(self._places[name], dtype=dtypes[name])
        for name in (*_LINE_STRINGS, *_LINE_BOOLS, *_LINE_MORE):
            columns[name] = _column(cells[name], dtypes[name] if name != "timestamp" else pl.String())
        columns["timestamp"], columns["timestamp_text"] = self._times(columns["timestamp"], first_row, problems)
        for name, fact in self._facts.items():
            columns[name] = _column(fact, dtypes[name])
        columns |= self._messages.columns(n) | self._usages.columns(n) | self._blocks.per_entry(n)
        entries = pl.DataFrame({name: columns[name] for name in ("row", "part", *ENTRIES.names) if name in columns})
        return entries, self._blocks.frame(first_row)

    def _times(self, text: pl.Series, first_row: int, problems: Problems) -> tuple[pl.Series, pl.Series]:
        at = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ms", time_zone="UTC", strict=False)
        plain = (text.str.len_bytes() == 24) & at.is_not_null() & (text.str.slice(0, 1) != "+")
        odd = (text.is_not_null() & ~plain.fill_null(False)).arg_true()
        if not len(odd):
            return at, nulls(len(text), pl.String)
        from .parse import parse_timestamp

        ms = at.cast(pl.Int64).to_list()
        texts: list[str | None] = [None] * len(text)
        for i in odd.to_list():
            written = text[i]
            value = parse_timestamp(written)
            ms[i] = value if value is not None and -_MAX_MS < value < _MAX_MS else None
            texts[i] = written[:80]
            if ms[i] is None:
                line_no, offset, part = (self._places[k][i] for k in ("line_no", "byte_offset", "part"))
                words = "a timestamp that is no ISO 8601 time"
                problems.add(first_row + i, line_no, offset, "bad_timestamp", words, part=part)
        return pl.Series(ms, dtype=pl.Int64).cast(_TS), pl.Series(texts, dtype=pl.String)


_LINE_MORE = ("recorded_cost_usd", "forked_from_session_id", "forked_from_uuid", "has_message")


class _Spread:
    """Cells that only some rows have."""

    def __init__(self, names: Sequence[str]) -> None:
        self.rows: list[int] = []
        self._cells: dict[str, list[Any]] = {name: [] for name in names}

    def at(self, rows: list[int]) -> dict[str, list[Any]]:
        """The lists that take the cells of these rows."""
        self.rows.extend(rows)
        return self._cells

    def columns(self, n: int) -> dict[str, pl.Series]:
        """The columns of ``n`` rows, null where there is no cell."""
        where = np.full(n, len(self.rows), dtype=np.uint32)
        where[self.rows] = np.arange(len(self.rows), dtype=np.uint32)
        index = pl.Series(where)
        columns = {}
        for name, cells in self._cells.items():
            dtype = ENTRIES.polars()[name]
            if cells.count(None) == len(cells):
                columns[name] = nulls(n, dtype)
            else:
                columns[name] = pl.Series([*cells, None], dtype=dtype).gather(index)
        return columns


def _column(cells: list[Any], dtype: Any) -> pl.Series:
    return nulls(len(cells), dtype) if cells.count(None) == len(cells) else pl.Series(cells, dtype=dtype)


def _flags(n: int, rows: Sequence[int]) -> pl.Series:
    mask = np.zeros(n, dtype=bool)
    if rows:
        mask[rows] = True
    return pl.Series(mask)


def _has_any(fields: Sequence[tuple[Any, ...]], names: Sequence[str]) -> bool:
    """True when any line has any of these fields."""
    n = len(fields[0])
    return any(fields[_AT[f]].count(None) != n and fields[_AT[f]].count(NO_RAW) != n for f in names)


def _iterations(raws: list[Any]) -> str | None:
    # A list of one message iteration merely repeats the top level.
    if len(raws) == 1 and b"advisor" not in bytes(raws[0]):
        return None
    return ("[" + ",".join(bytes(r).decode("utf-8", "replace") for r in raws) + "]")[: 1 << 16]


def _message_text(m: Message) -> str:
    if m.content is None:
        return ""
    if isinstance(m.content, str):
        return m.content
    return "\n".join(b.text for b in m.content if b.type == "text" and b.text)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        obj = loads(raw)
    except ValueError:
        return {}
    return obj if isinstance(obj, dict) else {}
