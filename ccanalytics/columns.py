"""Decoded lines → the columns of ``entries`` and ``blocks`` (with ``row`` in place of ``entry_id``).

Cells are the cost here. A column that few lines have is built over those lines and spread; nothing is built twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl

from .decode import Block, Line, Message, Usage, loads
from .facts import (
    DETAILED_TYPES,
    TEXT_VALUES,
    VALUE_KEYS,
    assistant_detail,
    attachment_detail,
    block_text,
    call_facts,
    dump_detail,
    object_detail,
    progress_detail,
    prompt_kind,
    small_json,
    system_detail,
    text_hash,
    user_detail,
    user_text,
)
from .schema.base import BLOCKS, ENTRIES
from .secrets import mask_secrets

if TYPE_CHECKING:
    from .parse import Batch, Content, Problems

PREVIEW_CHARS = 200
_TS = pl.Datetime("ms", "UTC")
_MAX_MS = 253_402_300_800_000

_LINE_STRINGS = {
    "type": "type",
    "uuid": "uuid",
    "parent_uuid": "parent_uuid",
    "logical_parent_uuid": "logical_parent_uuid",
    "session_id": "session_id",
    "agent_id": "agent_id",
    "cwd": "cwd",
    "git_branch": "git_branch",
    "version": "version",
    "entrypoint": "entrypoint",
    "slug": "slug",
    "team_name": "team_name",
    "agent_name": "agent_name",
    "prompt_id": "prompt_id",
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
_USAGE_INTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_USAGE_STRINGS = ("service_tier", "speed", "inference_geo")


def entry_frame(batch: Batch, problems: Problems, content: Content) -> pl.DataFrame:
    """The entries of one batch."""
    lines = batch.lines
    n = len(lines)
    cols: dict[str, pl.Series] = {
        "row": pl.Series(np.arange(batch.first_row, batch.first_row + n, dtype=np.int64)),
        "part": pl.Series(batch.parts, dtype=pl.Int64),
        "line_no": pl.Series(batch.line_nos, dtype=pl.Int32),
        "byte_offset": pl.Series(batch.offsets, dtype=pl.Int64),
        "byte_length": pl.Series(batch.lengths, dtype=pl.Int64),
        "is_rescued": _flags(n, batch.rescued),
    }
    for name, attr in _LINE_STRINGS.items():
        cols[name] = _strings(list(map(attrgetter(attr), lines)))
    for name in _LINE_BOOLS:
        cols[name] = pl.Series([getattr(o, name) for o in lines], dtype=pl.Boolean)
    cols["timestamp"], cols["timestamp_text"] = _times(batch, problems)
    cost = [o.cost_usd for o in lines]
    cols["recorded_cost_usd"] = pl.Series(cost, dtype=pl.Float64)
    cols["forked_from_session_id"] = _strings([o.forked_from.session_id if o.forked_from else None for o in lines])
    cols["forked_from_uuid"] = _strings([o.forked_from.message_uuid if o.forked_from else None for o in lines])
    cols["request_id"] = _strings([o.request_id or _echo(o, "request_id") for o in lines])
    _message_columns(cols, batch, problems)
    _fact_columns(cols, batch, content)
    return pl.DataFrame(
        {"row": cols["row"], "part": cols["part"]} | {c: cols[c] for c in ENTRIES.names if c in cols},
        schema_overrides={"content_kind": ENTRIES.polars()["content_kind"]},
    )


def _echo(line: Line, attr: str) -> Any:
    # An agent_progress line repeats a line of the agent: its message, usage and request id are those of the echo.
    return getattr(line.data.message, attr) if line.data is not None and line.data.message is not None else None


def _strings(values: list[str | None]) -> pl.Series:
    return pl.Series(values, dtype=pl.String)


def _nulls(n: int) -> pl.Series:
    return pl.Series([None] * n, dtype=pl.String)


def _flags(n: int, rows: Sequence[int]) -> pl.Series:
    mask = np.zeros(n, dtype=bool)
    if rows:
        mask[list(rows)] = True
    return pl.Series(mask)


def _spread(n: int, rows: list[int], values: list[Any], dtype: Any) -> pl.Series:
    """A column of ``n`` rows that has ``values`` at ``rows`` and null elsewhere."""
    if len(rows) == n:
        return pl.Series(values, dtype=dtype)
    cells: list[Any] = [None] * n
    for i, v in zip(rows, values, strict=True):
        cells[i] = v
    return pl.Series(cells, dtype=dtype)


def _times(batch: Batch, problems: Problems) -> tuple[pl.Series, pl.Series]:
    text = pl.Series([o.timestamp for o in batch.lines], dtype=pl.String)
    at = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ms", time_zone="UTC", strict=False)
    plain = (text.str.len_bytes() == 24) & at.is_not_null() & (text.str.slice(0, 1) != "+")
    odd = (text.is_not_null() & ~plain.fill_null(False)).arg_true()
    if not len(odd):
        return at, _nulls(len(text))
    from .parse import parse_timestamp

    ms = at.cast(pl.Int64).to_list()
    texts: list[str | None] = [None] * len(text)
    for i in odd.to_list():
        written = text[i]
        value = parse_timestamp(written)
        ms[i] = value if value is not None and -_MAX_MS < value < _MAX_MS else None
        texts[i] = written[:80]
        if ms[i] is None:
            problems.add(
                batch.first_row + i,
                batch.line_nos[i],
                batch.offsets[i],
                "bad_timestamp",
                "a timestamp that is no ISO 8601 time",
                part=batch.parts[i],
            )
    return pl.Series(ms, dtype=pl.Int64).cast(_TS), pl.Series(texts, dtype=pl.String)


def _message_columns(cols: dict[str, pl.Series], batch: Batch, problems: Problems) -> None:
    lines = batch.lines
    n = len(lines)
    own = [o.message for o in lines]
    messages = [m if m is not None else _echo(o, "message") for m, o in zip(own, lines, strict=True)]
    rows = [i for i, m in enumerate(messages) if m is not None]
    having: list[Message] = [m for m in messages if m is not None]
    _name_empty_messages(batch, problems, own)
    for name, attr in _MESSAGE_STRINGS.items():
        cols[name] = _spread(n, rows, list(map(attrgetter(attr), having)), pl.String)
    cols["has_message"] = pl.Series([m is not None for m in own], dtype=pl.Boolean)
    used = [i for i, m in enumerate(messages) if m is not None and m.usage is not None]
    usages: list[Any] = [messages[i].usage for i in used]
    _usage_columns(cols, n, used, usages)


def _name_empty_messages(batch: Batch, problems: Problems, messages: list[Message | None]) -> None:
    # A crash once wrote messages as objects of one key per character: valid JSON, and nothing of a message in it.
    for i, m in enumerate(messages):
        if m is not None and m.role is None and not m.content and m.id is None and m.usage is None:
            place = batch.line_nos[i], batch.offsets[i]
            words = "a message object with nothing of a message in it"
            problems.add(batch.first_row + i, *place, "odd_message", words, part=batch.parts[i])


def _usage_columns(cols: dict[str, pl.Series], n: int, rows: list[int], usages: list[Usage]) -> None:
    cols["has_usage"] = _flags(n, rows)
    for name in _USAGE_INTS:
        cols[name] = _spread(n, rows, list(map(attrgetter(name), usages)), pl.Int64)
    for name in ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"):
        get = attrgetter(name)
        values = [get(u.cache_creation) if u.cache_creation is not None else None for u in usages]
        cols[name] = _spread(n, rows, values, pl.Int64)
    for name in ("web_search_requests", "web_fetch_requests"):
        get = attrgetter(name)
        values = [get(u.server_tool_use) if u.server_tool_use is not None else None for u in usages]
        cols[name] = _spread(n, rows, values, pl.Int64)
    thinking = [
        u.output_tokens_details.thinking_tokens if u.output_tokens_details is not None else None for u in usages
    ]
    cols["thinking_tokens"] = _spread(n, rows, thinking, pl.Int64)
    for name in _USAGE_STRINGS:
        cols[name] = _spread(n, rows, list(map(attrgetter(name), usages)), pl.String)
    cols["iterations"] = _spread(n, rows, [_iterations(u) for u in usages], pl.String)


def _iterations(u: Usage) -> str | None:
    # A list of one message iteration merely repeats the top level.
    if not u.iterations or (len(u.iterations) == 1 and b"advisor" not in bytes(u.iterations[0])):
        return None
    return ("[" + ",".join(bytes(r).decode("utf-8", "replace") for r in u.iterations) + "]")[: 1 << 16]


def _fact_columns(cols: dict[str, pl.Series], batch: Batch, content: Content) -> None:
    n = len(batch.lines)
    facts: dict[str, list[Any]] = {
        name: [None] * n for name in ("subtype", "content_kind", "prompt_kind", "text_hash", "value", "detail", "text")
    }
    n_blocks, n_uses, n_results, n_chars = [0] * n, [0] * n, [0] * n, [0] * n
    blank = [False] * n
    for i, line in enumerate(batch.lines):
        m = line.message
        if m is not None:
            _count(i, m, n_blocks, n_uses, n_results, n_chars, blank, facts["content_kind"])
        handler = _HANDLERS.get(line.type or "")
        if handler is not None:
            handler(i, line, batch, facts, content)
        elif line.type is not None and (line.type in DETAILED_TYPES or line.type in VALUE_KEYS):
            _metadata(i, line, batch.raws[i], facts, content)
        if m is not None and content != "none" and facts["text"][i] is None:
            facts["text"][i] = shown(_message_text(line), content)
    cols["n_blocks"] = pl.Series(n_blocks, dtype=pl.Int32)
    cols["n_tool_uses"] = pl.Series(n_uses, dtype=pl.Int32)
    cols["n_tool_results"] = pl.Series(n_results, dtype=pl.Int32)
    cols["n_chars"] = pl.Series(n_chars, dtype=pl.Int64)
    cols["is_blank"] = pl.Series(blank, dtype=pl.Boolean)
    for name, values in facts.items():
        dtype = pl.UInt64 if name == "text_hash" else ENTRIES.polars()[name]
        cols[name] = pl.Series(values, dtype=dtype)


def shown(text: str, content: Content) -> str | None:
    """What of a text stands in a frame: nothing, a masked preview, or all of it."""
    if content == "full":
        return text
    return mask_secrets(text[: PREVIEW_CHARS * 4])[:PREVIEW_CHARS] if content == "preview" else None


def _message_text(line: Line) -> str:
    m = line.message
    if m is None or m.content is None:
        return ""
    if isinstance(m.content, str):
        return m.content
    return "\n".join(b.text for b in m.content if b.type == "text" and b.text)


def _count(
    i: int,
    m: Message,
    n_blocks: list[int],
    n_uses: list[int],
    n_results: list[int],
    n_chars: list[int],
    blank: list[bool],
    kinds: list[str | None],
) -> None:
    c = m.content
    if c is None:
        return
    if isinstance(c, str):
        kinds[i] = "string"
        n_blocks[i] = 1
        n_chars[i] = len(c)
        blank[i] = not c or c.isspace()
        return
    kinds[i] = "list"
    n_blocks[i] = len(c)
    only_blank = bool(c)
    for b in c:
        kind = b.type
        if kind == "text":
            text = b.text or ""
            n_chars[i] += len(text)
            only_blank = only_blank and (not text or text.isspace())
            continue
        only_blank = False
        if kind == "tool_use":
            n_uses[i] += 1
        elif kind == "tool_result":
            n_results[i] += 1
    blank[i] = only_blank


Facts = dict[str, list[Any]]


def _user(i: int, line: Line, batch: Batch, facts: Facts, content: Content) -> None:
    text = user_text(line)
    kind = prompt_kind(line, text)
    facts["prompt_kind"][i] = kind
    if kind in ("typed", "teammate", "command", "shell_input") and text:
        facts["text_hash"][i] = text_hash(text)
    facts["detail"][i] = dump_detail(user_detail(line, text, kind))


def _assistant(i: int, line: Line, batch: Batch, facts: Facts, content: Content) -> None:
    detail = assistant_detail(line)
    if detail:
        facts["detail"][i] = dump_detail(detail)


def _attachment(i: int, line: Line, batch: Batch, facts: Facts, content: Content) -> None:
    if line.attachment is not None:
        detail, hashed = attachment_detail(line.attachment)
        facts["subtype"][i] = line.attachment.type
        facts["detail"][i], facts["text_hash"][i] = dump_detail(detail), hashed
        if content != "none" and line.attachment.type == "queued_command":
            prompt = small_json(line.attachment.prompt, limit=1 << 24)
            facts["text"][i] = shown(prompt, content) if isinstance(prompt, str) else None


def _progress(i: int, line: Line, batch: Batch, facts: Facts, content: Content) -> None:
    if line.data is not None:
        facts["subtype"][i] = line.data.type
        facts["detail"][i] = dump_detail(progress_detail(line.data))


def _system(i: int, line: Line, batch: Batch, facts: Facts, content: Content) -> None:
    facts["subtype"][i] = line.subtype
    obj = _object(batch.raws[i])
    facts["detail"][i] = dump_detail(system_detail(obj))
    if content != "none" and isinstance(obj.get("content"), str):
        facts["text"][i] = shown(obj["content"], content)


def _metadata(i: int, line: Line, raw: bytes, facts: Facts, content: Content) -> None:
    kind = line.type or ""
    facts["subtype"][i] = line.operation or line.subtype
    obj = _object(raw)
    if kind in DETAILED_TYPES:
        detail, hashed = object_detail(kind, obj)
        facts["detail"][i], facts["text_hash"][i] = dump_detail(detail), hashed
    value = obj.get(VALUE_KEYS[kind]) if kind in VALUE_KEYS else None
    if isinstance(value, str):
        if kind not in TEXT_VALUES:
            facts["value"][i] = value
        elif content != "none":
            facts["value"][i] = shown(value, content)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        obj = loads(raw)
    except ValueError:
        return {}
    return obj if isinstance(obj, dict) else {}


_HANDLERS: dict[str, Callable[[int, Line, Batch, Facts, Content], None]] = {
    "user": _user,
    "assistant": _assistant,
    "attachment": _attachment,
    "progress": _progress,
    "system": _system,
}


def block_frame(batch: Batch, content: Content) -> pl.DataFrame:
    """The content blocks of one batch; a message whose content is a string is one text block."""
    first_row = batch.first_row
    rows: list[int] = []
    numbers: list[int] = []
    blocks: list[Block] = []
    for i, line in enumerate(batch.lines):
        m = line.message
        if m is None or m.content is None:
            continue
        c = m.content
        if isinstance(c, str):
            rows.append(first_row + i)
            numbers.append(0)
            blocks.append(Block(type="text", text=c))
        else:
            rows.extend([first_row + i] * len(c))
            numbers.extend(range(len(c)))
            blocks.extend(c)
    cols: dict[str, list[Any]] = {name: [] for name in BLOCKS.names[2:]}
    for b in blocks:
        _block_cells(b, cols, content)
    plain = BLOCKS.polars()
    return pl.DataFrame(
        {"row": pl.Series(rows, dtype=pl.Int64), "block_no": pl.Series(numbers, dtype=pl.Int32)}
        | {name: pl.Series(values, dtype=plain[name]) for name, values in cols.items()}
    )


def _block_cells(b: Block, cols: dict[str, list[Any]], content: Content) -> None:
    kind = b.type
    is_result = kind == "tool_result" or (kind is not None and kind.endswith("_tool_result"))
    text = block_text(b)
    tool_id = name = error = n_bytes = hashed = detail = persisted = None
    if kind in ("tool_use", "server_tool_use"):
        tool_id, name, n_bytes = b.id, b.name, len(b.input)
        facts, hashed = call_facts(b)
        detail = dump_detail(facts) if facts else None
    elif is_result:
        tool_id, error = b.tool_use_id, bool(b.is_error)
        persisted = text.startswith("<persisted-output>")
        if persisted:
            detail = dump_detail({"persisted_path": _persisted_path(text)})
    elif kind == "fallback":
        detail = dump_detail({"from": b.from_.model if b.from_ else None, "to": b.to.model if b.to else None})
    n_images, image_bytes = _images(b)
    hidden = None
    if kind in ("thinking", "redacted_thinking"):
        hidden = kind == "redacted_thinking" or not text
    cols["type"].append(kind)
    cols["tool_use_id"].append(tool_id)
    cols["tool_name"].append(name)
    cols["is_error"].append(error)
    cols["n_chars"].append(len(text))
    cols["n_bytes"].append(n_bytes)
    cols["is_blank"].append((not text or text.isspace()) if kind == "text" else None)
    cols["is_hidden"].append(hidden)
    cols["n_images"].append(n_images)
    cols["image_bytes"].append(image_bytes)
    cols["is_persisted"].append(persisted)
    cols["text_hash"].append(hashed)
    cols["detail"].append(detail)
    if content == "none":
        cols["text"].append(None)
    else:
        cols["text"].append(shown(text or bytes(b.input).decode("utf-8", "replace"), content))


def _persisted_path(text: str) -> str | None:
    head = text[:2000]
    at = head.find("saved to: ")
    return head[at + 10 :].split("\n", 1)[0].strip()[:1000] if at >= 0 else None


def _images(b: Block) -> tuple[int, int]:
    if b.type == "image":
        return 1, _decoded_size(b.source)
    if isinstance(b.content, list):
        parts = [p for p in b.content if p.type == "image"]
        return len(parts), sum(_decoded_size(p.source) for p in parts)
    return 0, 0


def _decoded_size(source: Any) -> int:
    # Base64 without its quotes: four characters are three bytes, padding less.
    if source is None or not isinstance(source.data, msgspec.Raw) or len(source.data) < 2:
        return 0
    raw = bytes(source.data)
    return (len(raw) - 2) * 3 // 4 - raw[-3:-1].count(b"=")
