"""Decoded lines → the columns of ``entries`` and ``blocks`` (with ``row`` in place of ``entry_id``).

Cells are the cost here. The fields of many lines are turned round at once, a column that no line has is never built
cell by cell, and one that few lines have is built over those lines and spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from .blocks import BlockColumns, Nulls, is_void, shown
from .decode import Line, Message, Usage, loads
from .facts import (
    any_more_of_assistants,
    any_more_of_users,
    assistant_detail,
    attachment_detail,
    dump_detail,
    progress_detail,
    small_json,
    user_facts,
)
from .metadata import DETAILED_TYPES, TEXT_VALUES, VALUE_KEYS, object_detail, system_detail
from .schema.base import ENTRIES
from .secrets import mask_secrets
from .timestamps import BAD_TIME, read_times

if TYPE_CHECKING:
    from .parse import Batch, Content, Problems

_FACTS = ("subtype", "prompt_kind", "text_hash", "value", "detail", "text")
RAW_TYPES = DETAILED_TYPES | set(VALUE_KEYS) | {"system"}
"""Entry types whose facts are taken from the whole object; their bytes must come with the batch."""


class Columns:
    """Cells of entries and their blocks as lines come; frames when all have come."""

    def __init__(self, content: Content, *, only_usage: bool = False) -> None:
        self.n_rows = 0
        self._content = content
        self._cells: dict[str, list[Any]] = {}
        self._facts: dict[str, list[Any]] = {name: [] for name in _FACTS}
        self._rescued: list[int] = []
        self._hollow: list[int] = []
        self._messages, self._usages = _Spread(), _Spread()
        self._blocks = BlockColumns(content, only_counts=only_usage)

    def add(self, batch: Batch) -> None:
        """Add the lines of a batch; what they hold can be dropped afterwards."""
        if not batch.lines:
            return
        first, cells = self.n_rows, line_cells(batch.lines)
        places = {"part": batch.parts, "line_no": batch.line_nos, "byte_offset": batch.offsets}
        _extend(self._cells, cells | places | {"byte_length": batch.lengths})
        self._rescued.extend(first + i for i in batch.rescued)
        self._add_messages(first, batch.lines)
        self._add_facts(first, cells["type"], batch)
        self.n_rows += len(batch.lines)

    def _add_messages(self, first: int, lines: Sequence[Line]) -> None:
        rows, messages, contents = [], [], []
        for row, line in enumerate(lines, first):
            m = line.message
            if m is not None:
                rows.append(row)
                messages.append(m)
                contents.append(m.content)
                if m.role is None and not m.content and m.id is None and m.usage is None:
                    self._hollow.append(row)
            elif line.data is not None and line.data.message is not None:
                # An agent_progress line repeats a line of the agent: message, usage, request id are those of the echo.
                echo = line.data.message
                self._cells["request_id"][row] = line.request_id or echo.request_id
                if echo.message is not None:
                    rows.append(row)
                    messages.append(echo.message)
                    contents.append(None)
        self._blocks.add(rows, contents)
        _extend(self._messages.at(rows), message_cells(messages, contents))
        usages = [m.usage for m in messages if m.usage is not None]
        if usages:
            used = [row for row, m in zip(rows, messages, strict=True) if m.usage is not None]
            _extend(self._usages.at(used), usage_cells(usages))

    def _add_facts(self, first: int, types: list[str | None], batch: Batch) -> None:
        for cells in self._facts.values():
            cells.extend([None] * len(batch.lines))
        if self._content != "none":
            self._add_texts(first, batch.lines)
        more_user = any_more_of_users([o for o in batch.lines if o.type == "user"])
        more_assistant = any_more_of_assistants([o for o in batch.lines if o.type == "assistant"])
        subtypes, details = self._facts["subtype"], self._facts["detail"]
        prompts, hashes = self._facts["prompt_kind"], self._facts["text_hash"]
        for i, kind in enumerate(types):
            if kind == "assistant":
                if more_assistant:
                    details[first + i] = assistant_detail(batch.lines[i])
            elif kind == "user":
                row = first + i
                prompts[row], hashes[row], details[row] = user_facts(batch.lines[i], has_more=more_user)
            elif kind == "progress":
                data = batch.lines[i].data
                if data is not None:
                    subtypes[first + i], details[first + i] = data.type, progress_detail(data)
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
            self._facts["value"][row] = shown(value, self._content) if kind in TEXT_VALUES else mask_secrets(value)

    def frames(self, first_row: int, problems: Problems) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The entries and the blocks, rows counted from ``first_row``; what is odd about them goes to ``problems``."""
        return self.entries(first_row, problems), self._blocks.frame(first_row)

    def entries(self, first_row: int, problems: Problems) -> pl.DataFrame:
        """The entries alone."""
        n, dtypes, nulls = self.n_rows, ENTRIES.polars(), Nulls(self.n_rows)
        for i in self._hollow:
            self._note(i, first_row, problems, "odd_message", "a message that has nothing of a message in it")
        cells = self._cells | self._facts
        columns = {"row": pl.Series(np.arange(first_row, first_row + n, dtype=np.int64))}
        columns["part"] = pl.Series(cells.get("part", []), dtype=pl.Int64)
        columns["is_rescued"], columns["has_usage"] = _flags(n, self._rescued), _flags(n, self._usages.rows)
        columns |= self._messages.columns(n, nulls) | self._usages.columns(n, nulls) | self._blocks.per_entry(n)
        columns["timestamp"], columns["timestamp_text"], bad = read_times(cells.get("timestamp", []))
        for i in bad:
            self._note(i, first_row, problems, *BAD_TIME)
        for name in ENTRIES.names[2:]:
            if name not in columns:
                columns[name] = nulls.column(cells.get(name, ()), dtypes[name])
        return pl.DataFrame({name: columns[name] for name in ("row", "part", *ENTRIES.names[2:])})

    def _note(self, i: int, first_row: int, problems: Problems, code: str, words: str) -> None:
        line_no, offset, part = (self._cells[k][i] for k in ("line_no", "byte_offset", "part"))
        problems.add(first_row + i, line_no, offset, code, words, part=part)


def line_cells(lines: Sequence[Line]) -> dict[str, list[Any]]:
    """The columns that are fields of the line itself."""
    forks = [o.forked_from for o in lines]
    return {
        "type": [o.type for o in lines],
        "uuid": [o.uuid for o in lines],
        "parent_uuid": [o.parent_uuid for o in lines],
        "logical_parent_uuid": [o.logical_parent_uuid for o in lines],
        "session_id": _shared([o.session_id for o in lines]),
        "agent_id": _shared([o.agent_id for o in lines]),
        "timestamp": [o.timestamp for o in lines],
        "is_sidechain": [o.is_sidechain for o in lines],
        "cwd": _shared([o.cwd for o in lines]),
        "git_branch": _shared([o.git_branch for o in lines]),
        "version": _shared([o.version for o in lines]),
        "entrypoint": _shared([o.entrypoint for o in lines]),
        "slug": _shared([o.slug for o in lines]),
        "team_name": _shared([o.team_name for o in lines]),
        "agent_name": _shared([o.agent_name for o in lines]),
        "is_meta": [o.is_meta for o in lines],
        "is_compact_summary": [o.is_compact_summary for o in lines],
        "is_visible_in_transcript_only": [o.is_visible_in_transcript_only for o in lines],
        "is_api_error_message": [o.is_api_error_message for o in lines],
        "prompt_id": [o.prompt_id for o in lines],
        "request_id": [o.request_id for o in lines],
        "requested_model": [o.requested_model for o in lines],
        "has_message": [o.message is not None for o in lines],
        "recorded_cost_usd": [o.cost_usd for o in lines],
        "source_tool_assistant_uuid": [o.source_tool_assistant_uuid for o in lines],
        "source_tool_use_id": [o.source_tool_use_id for o in lines],
        "tool_use_id": [o.tool_use_id for o in lines],
        "parent_tool_use_id": [o.parent_tool_use_id for o in lines],
        "leaf_uuid": [o.leaf_uuid for o in lines],
        "message_ref": [o.message_id for o in lines],
        "forked_from_session_id": [f.session_id if f is not None else None for f in forks],
        "forked_from_uuid": [f.message_uuid if f is not None else None for f in forks],
    }


def message_cells(messages: Sequence[Message], contents: Sequence[Any]) -> dict[str, list[Any]]:
    """The columns that are fields of the message; ``contents`` are null where it is another line's message."""
    return {
        "message_id": [m.id for m in messages],
        "model": _shared([m.model for m in messages]),
        "stop_reason": [m.stop_reason for m in messages],
        "content_kind": ["list" if type(c) is list else None if c is None else "string" for c in contents],
    }


def usage_cells(usages: Sequence[Usage]) -> dict[str, list[Any]]:
    """The columns that are fields of the usage."""
    writes = [u.cache_creation for u in usages]
    server = [u.server_tool_use for u in usages]
    spent = [u.output_tokens_details for u in usages]
    return {
        "input_tokens": [u.input_tokens for u in usages],
        "output_tokens": [u.output_tokens for u in usages],
        "cache_creation_input_tokens": [u.cache_creation_input_tokens for u in usages],
        "cache_read_input_tokens": [u.cache_read_input_tokens for u in usages],
        "ephemeral_5m_input_tokens": [w.ephemeral_5m_input_tokens if w is not None else None for w in writes],
        "ephemeral_1h_input_tokens": [w.ephemeral_1h_input_tokens if w is not None else None for w in writes],
        "web_search_requests": [s.web_search_requests if s is not None else None for s in server],
        "web_fetch_requests": [s.web_fetch_requests if s is not None else None for s in server],
        "thinking_tokens": [d.thinking_tokens if d is not None else None for d in spent],
        "service_tier": _shared([u.service_tier for u in usages]),
        "speed": _shared([u.speed for u in usages]),
        "inference_geo": _shared([u.inference_geo for u in usages]),
        "iterations": [_iterations(u.iterations) if u.iterations else None for u in usages],
    }


def _shared(cells: list[str | None]) -> list[str | None]:
    """The same cells; one object for all of them when they are equal, which is quicker to make a column of."""
    return [cells[0]] * len(cells) if cells and cells.count(cells[0]) == len(cells) else cells


def _extend(columns: dict[str, list[Any]], cells: dict[str, list[Any]]) -> None:
    for name, more in cells.items():
        have = columns.get(name)
        if have is None:
            columns[name] = list(more)
        else:
            have.extend(more)


class _Spread:
    """Cells that only some rows have."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._cells: dict[str, list[Any]] = {}

    def at(self, rows: list[int]) -> dict[str, list[Any]]:
        """The lists that take the cells of these rows."""
        self.rows.extend(rows)
        return self._cells

    def columns(self, n: int, nulls: Nulls) -> dict[str, pl.Series]:
        """The columns of ``n`` rows, null where there is no cell."""
        dtypes = ENTRIES.polars()
        columns = {name: nulls.of(dtypes[name]) for name, cells in self._cells.items() if is_void(cells)}
        held = {
            name: pl.Series([*cells, None], dtype=dtypes[name])
            for name, cells in self._cells.items()
            if name not in columns
        }
        if held:
            where = np.full(n, len(self.rows), dtype=np.uint32)
            where[self.rows] = np.arange(len(self.rows), dtype=np.uint32)
            columns |= pl.DataFrame(held)[pl.Series(where)].to_dict()
        return columns


def _flags(n: int, rows: Sequence[int]) -> pl.Series:
    mask = np.zeros(n, dtype=bool)
    if rows:
        mask[rows] = True
    return pl.Series(mask)


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
