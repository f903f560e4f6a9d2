"""One line of bytes → one typed line, whatever state it is in.

The typed decoder is quick but refuses a line with one field of an odd type. Such a line is decoded again without
types and cleaned field by field, so that only the odd field is lost (as null, and named) and never the line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta, Raw, Struct

Count = Annotated[int, Meta(ge=0, le=2**53)]
Scalar = str | int | float | bool | None
NO_RAW = Raw(b"")
"""What a raw field holds when the line does not have it."""


class CacheCreation(Struct, gc=False):
    """usage.cache_creation: cache writes by their time to live."""

    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class ServerToolUse(Struct, gc=False):
    """usage.server_tool_use: requests made on the server."""

    web_search_requests: Count | None = None
    web_fetch_requests: Count | None = None


class OutputDetails(Struct, gc=False):
    """usage.output_tokens_details: what the output is made of."""

    thinking_tokens: Count | None = None


class Usage(Struct, gc=False):
    """message.usage: the tokens of one API answer."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUse | None = None
    output_tokens_details: OutputDetails | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: list[Raw] | None = None


class Source(Struct, gc=False):
    """source of an image or document block."""

    type: str | None = None
    data: Raw = NO_RAW


class Part(Struct, gc=False):
    """One part of a tool_result whose content is a list."""

    type: str | None = None
    text: str | None = None
    source: Source | None = None


class Side(Struct, gc=False):
    """One side of a fallback block."""

    model: str | None = None


class Block(Struct, gc=False):
    """One content block of a message."""

    tool_use_id: str | None = None
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NO_RAW
    content: str | list[Part] | None = None
    is_error: bool | None = None
    source: Source | None = None
    from_: Side | None = msgspec.field(default=None, name="from")
    to: Side | None = None


class Message(Struct, gc=False):
    """message: an API message or the part of it that this line holds."""

    id: str | None = None
    role: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: Usage | None = None


class Hunk(Struct, gc=False):
    """One hunk of a structuredPatch."""

    lines: list[str] | None = None


class Result(Struct, gc=False, rename="camel", omit_defaults=True):
    """toolUseResult, the fields that are facts and not text; flags that are mostly false are false when absent."""

    status: Scalar = None
    is_async: Scalar = False
    agent_id: Scalar = None
    agent_type: Scalar = None
    resolved_model: Scalar = None
    resumed_agent_id: Scalar = None
    total_duration_ms: Scalar = None
    total_tokens: Scalar = None
    total_tool_use_count: Scalar = None
    duration_ms: Scalar = None
    duration_seconds: Scalar = None
    interrupted: Scalar = False
    background_task_id: Scalar = None
    task_id: Scalar = None
    run_id: Scalar = None
    workflow_name: Scalar = None
    transcript_dir: Scalar = None
    persisted_output_path: Scalar = None
    persisted_output_size: Scalar = None
    timed_out_after_ms: Scalar = None
    type: Scalar = None
    file_path: Scalar = None
    num_files: Scalar = None
    num_matches: Scalar = None
    num_lines: Scalar = None
    bytes: Scalar = None
    code: Scalar = None
    search_count: Scalar = None
    success: Scalar = False
    command_name: Scalar = None
    user_modified: Scalar = False
    output_file: Scalar = None
    worktree_path: Scalar = None
    worktree_branch: Scalar = None
    structured_patch: list[Hunk] | None = None
    content: Raw = NO_RAW


class Attachment(Struct, gc=False, omit_defaults=True):
    """attachment, the fields that are facts and not text."""

    type: str | None = None
    hookName: Scalar = None  # noqa: N815
    hookEvent: Scalar = None  # noqa: N815
    toolUseID: Scalar = None  # noqa: N815
    exitCode: Scalar = None  # noqa: N815
    durationMs: Scalar = None  # noqa: N815
    commandMode: Scalar = None  # noqa: N815
    source_uuid: Scalar = None
    decision: Scalar = None
    taskId: Scalar = None  # noqa: N815
    taskType: Scalar = None  # noqa: N815
    status: Scalar = None
    itemCount: Scalar = None  # noqa: N815
    prompt: Raw = NO_RAW
    origin: Raw = NO_RAW


class EchoedLine(Struct, gc=False, rename="camel"):
    """data.message of agent progress: a line of the agent's transcript, repeated."""

    message: Message | None = None
    request_id: str | None = None


class Progress(Struct, gc=False, omit_defaults=True):
    """data of a progress line, the fields that are facts and not text."""

    type: str | None = None
    hookEvent: Scalar = None  # noqa: N815
    hookName: Scalar = None  # noqa: N815
    agentId: Scalar = None  # noqa: N815
    elapsedTimeSeconds: Scalar = None  # noqa: N815
    elapsedTimeMs: Scalar = None  # noqa: N815
    status: Scalar = None
    serverName: Scalar = None  # noqa: N815
    toolName: Scalar = None  # noqa: N815
    taskType: Scalar = None  # noqa: N815
    taskId: Scalar = None  # noqa: N815
    resultCount: Scalar = None  # noqa: N815
    message: EchoedLine | None = None


class Forked(Struct, gc=False, rename="camel"):
    """forkedFrom: where a copied line comes from."""

    session_id: str | None = None
    message_uuid: str | None = None


class Line(Struct, gc=False, rename="camel"):
    """One transcript line: the envelope and the parts that become columns.

    The order is that of the keys on disk: the decoder looks for the next field first.
    """

    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool | None = None
    team_name: str | None = None
    agent_name: str | None = None
    prompt_id: str | None = None
    agent_id: str | None = None
    message: Message | None = None
    attachment: Attachment | None = None
    data: Progress | None = None
    request_id: str | None = None
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    tool_use_result: Result | str | list[Raw] | None = None
    source_tool_assistant_uuid: str | None = msgspec.field(default=None, name="sourceToolAssistantUUID")
    tool_use_id: str | None = msgspec.field(default=None, name="toolUseID")
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")
    entrypoint: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    git_branch: str | None = None
    slug: str | None = None
    message_id: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    is_api_error_message: bool | None = None
    requested_model: str | None = None
    origin: Raw = NO_RAW
    content: Raw = NO_RAW
    operation: str | None = None
    cost_usd: float | None = msgspec.field(default=None, name="costUSD")
    source_tool_use_id: str | None = msgspec.field(default=None, name="sourceToolUseID")
    leaf_uuid: str | None = None
    forked_from: Forked | None = None
    permission_mode: Scalar = None
    prompt_source: Scalar = None
    tool_denial_kind: Scalar = None
    permission_decision: Raw = NO_RAW
    interrupted_message_id: Scalar = None
    turn_origin: Scalar = None
    stream_cut_cause: Scalar = None
    api_error_status: Scalar = None
    error: Raw = NO_RAW
    effort: Scalar = None
    advisor_model: Scalar = None
    is_aborted_mid_stream: Scalar = None
    supersedes: Raw = NO_RAW
    attribution_agent: Scalar = None
    attribution_skill: Scalar = None
    attribution_plugin: Scalar = None
    attribution_mcp_server: Scalar = None
    attribution_mcp_tool: Scalar = None
    duration_ms: Scalar = None


class Input(Struct, gc=False):
    """tool_use.input, the fields that are facts."""

    subagent_type: Scalar = None
    name: Scalar = None
    description: Scalar = None
    prompt: Scalar = None
    run_in_background: Scalar = None
    model: Scalar = None
    file_path: Scalar = None
    notebook_path: Scalar = None
    path: Scalar = None
    url: Scalar = None
    resume: Scalar = None
    to: Scalar = None
    team_name: Scalar = None
    command: Scalar = None
    todos: list[Raw] | None = None


_DECODER = msgspec.json.Decoder(Line)
decode_line: Callable[[bytes | memoryview], Line] = _DECODER.decode
decode_lines: Callable[[bytes | memoryview], list[Line]] = _DECODER.decode_lines
decode_input: Callable[[bytes | Raw], Input] = msgspec.json.Decoder(Input).decode


def loads(data: bytes) -> Any:
    """The value of one JSON text; lone surrogates and bytes that are no UTF-8 become U+FFFD.

    Raises ``ValueError`` when it is not JSON (NaN and Infinity are not), ``RecursionError`` never.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        pass
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_constant=_no_constant)
        return _without_surrogates(value) if "\\u" in text else value
    except RecursionError as e:
        raise ValueError("nested too deep") from e


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_surrogates(v) for v in value]
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return value
