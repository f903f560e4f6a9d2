"""What happened around the conversation: hooks, permissions, the prompt queue, API errors, interrupts, fallbacks."""

from __future__ import annotations

import polars as pl

from .details import read_details
from .links import RUN
from .schema.work import EVENTS

_HOOKS = {
    "hook_success": "success",
    "hook_non_blocking_error": "non_blocking_error",
    "hook_blocking_error": "blocking_error",
    "hook_cancelled": "cancelled",
    "hook_error_during_execution": "error",
    "hook_stopped_continuation": "stopped",
    "hook_additional_context": "context",
    "hook_system_message": "message",
    "hook_deferred_tool": "deferred",
    "async_hook_response": "response",
}


def build_events(
    entries: pl.DataFrame, blocks: pl.DataFrame, members: pl.DataFrame, entry_turns: pl.DataFrame
) -> pl.DataFrame:
    """One row per hook run, permission decision, queue operation, API error, interrupt or model fallback.

    Sorted by entry. What was copied from another session is left out.
    """
    place = members.filter(~pl.col("is_inherited")).select("entry_id", *RUN)
    lines = entries.select(
        "entry_id", "type", "subtype", "timestamp", "prompt_kind", "tool_use_id", "is_api_error_message", "detail"
    ).join(place, on="entry_id", how="inner", validate="1:1", maintain_order="left")
    found = [
        _hook_attachments(lines),
        _begun_hooks(lines),
        _stop_hooks(lines),
        _permissions(lines, blocks),
        _decided_by_hook(lines),
        _queue(lines),
        _api_errors(lines),
        _last_errors(lines),
        _interrupts(lines),
        _fallbacks(lines, blocks),
    ]
    rows = (
        pl.concat(found, how="diagonal_relaxed")
        .join(entry_turns, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .sort("entry_id", "kind", maintain_order=True)
        .with_columns(event_no=pl.int_range(pl.len(), dtype=pl.Int32).over("entry_id"))
    )
    return EVENTS.conform(rows.select(n for n in EVENTS.names if n in rows.columns).sort(EVENTS.order))


def _with(lines: pl.DataFrame, facts: dict[str, str]) -> pl.DataFrame:
    told = read_details(lines["detail"], facts)  # type: ignore[arg-type]
    return pl.concat([lines, told.rename({n: f"told.{n}" for n in told.columns})], how="horizontal")


_BASE = ("entry_id", *RUN, "timestamp")


def _hook_attachments(lines: pl.DataFrame) -> pl.DataFrame:
    """One hook run each; versions before attachments have the summary of stop hooks alone."""
    hooks = _with(
        lines.filter((pl.col("type") == "attachment") & pl.col("subtype").is_in(list(_HOOKS))),
        {"hookName": "str", "hookEvent": "str", "toolUseID": "str", "exitCode": "i64", "durationMs": "f64"},
    )
    outcome = pl.col("subtype").replace_strict(_HOOKS, default=None, return_dtype=pl.String)
    return hooks.select(
        *_BASE,
        kind=pl.lit("hook"),
        name="told.hookName",
        event="told.hookEvent",
        outcome=outcome,
        tool_use_id=pl.coalesce("tool_use_id", "told.toolUseID"),
        duration_ms=pl.col("told.durationMs").round().cast(pl.Int64),
        exit_code=pl.col("told.exitCode").cast(pl.Int32, strict=False),
        is_blocking=outcome.is_in(["blocking_error", "stopped"]),
        n_errors=outcome.is_in(["blocking_error", "non_blocking_error", "error"]).cast(pl.Int64),
    )


def _begun_hooks(lines: pl.DataFrame) -> pl.DataFrame:
    """Versions that wrote progress lines say that a hook began, and nothing of how it ended."""
    hooks = _with(lines.filter(pl.col("subtype") == "hook_progress"), {"hookName": "str", "hookEvent": "str"})
    return hooks.select(
        *_BASE,
        kind=pl.lit("hook"),
        name="told.hookName",
        event="told.hookEvent",
        outcome=pl.lit("started"),
        tool_use_id="tool_use_id",
    )


def _stop_hooks(lines: pl.DataFrame) -> pl.DataFrame:
    hooks = _with(
        lines.filter(pl.col("subtype") == "stop_hook_summary"),
        {
            "hookCount": "i64", "n_hook_errors": "i64", "hook_duration_ms": "f64", "preventedContinuation": "bool",
            "toolUseID": "str",
        },
    )  # fmt: skip
    blocked = pl.col("told.preventedContinuation").fill_null(False)
    failed = pl.col("told.n_hook_errors").fill_null(0) > 0
    return hooks.select(
        *_BASE,
        kind=pl.lit("hook"),
        name=pl.lit("stop_hook_summary"),
        event=pl.lit("Stop"),
        outcome=pl.when(blocked).then(pl.lit("blocking_error"))
        .when(failed).then(pl.lit("non_blocking_error"))
        .otherwise(pl.lit("success")),
        tool_use_id=pl.coalesce("tool_use_id", "told.toolUseID"),
        duration_ms=pl.col("told.hook_duration_ms").round().cast(pl.Int64),
        count="told.hookCount",
        n_errors="told.n_hook_errors",
        is_blocking=blocked,
    )  # fmt: skip


def _permissions(lines: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Decisions written beside a tool's result; old versions leave only the words of a refusal."""
    told = pl.col("detail").str.contains('"permissionDecision"|"toolDenialKind"|"result_kind":"rejected"')
    users = _with(
        lines.filter((pl.col("type") == "user") & told.fill_null(False)),
        {
            "permissionDecision": "str", "permissionDecision.decision": "str", "permissionDecision.behavior": "str",
            "permissionDecision.source": "str", "toolDenialKind": "str", "result_kind": "str",
        },
    )  # fmt: skip
    asked = blocks.filter(pl.col("type") == "tool_result").select("entry_id", result_for="tool_use_id")
    asked = asked.unique("entry_id", keep="first", maintain_order=True)
    refused = pl.when((pl.col("told.result_kind") == "rejected") | pl.col("told.toolDenialKind").is_not_null())
    said = ("told.permissionDecision.decision", "told.permissionDecision.behavior", "told.permissionDecision")
    return users.join(asked, on="entry_id", how="left", validate="1:1", maintain_order="left").select(
        *_BASE,
        kind=pl.lit("permission"),
        outcome=pl.coalesce(*said, refused.then(pl.lit("reject"))),
        source=pl.coalesce("told.permissionDecision.source", "told.toolDenialKind"),
        tool_use_id="result_for",
        is_blocking=refused.then(True).otherwise(pl.coalesce(*said).str.contains("^(?:reject|den)")).fill_null(False),
    )


def _decided_by_hook(lines: pl.DataFrame) -> pl.DataFrame:
    hooks = _with(
        lines.filter((pl.col("type") == "attachment") & (pl.col("subtype") == "hook_permission_decision")),
        {"decision": "str", "hookEvent": "str", "hookName": "str", "toolUseID": "str"},
    )
    return hooks.select(
        *_BASE,
        kind=pl.lit("permission"),
        name="told.hookName",
        event="told.hookEvent",
        outcome="told.decision",
        source=pl.lit("hook"),
        tool_use_id=pl.coalesce("tool_use_id", "told.toolUseID"),
        is_blocking=pl.col("told.decision").str.contains("(?i)^(?:reject|den|block)").fill_null(False),
    )


def _queue(lines: pl.DataFrame) -> pl.DataFrame:
    queue = _with(lines.filter(pl.col("type") == "queue-operation"), {"tool_use_id": "str", "task_id": "str"})
    is_notice = pl.col("told.task_id").is_not_null()
    return queue.select(
        *_BASE,
        kind=pl.lit("queue"),
        name=pl.when(is_notice).then(pl.lit("task_notification")),
        outcome="subtype",
        tool_use_id="told.tool_use_id",
    )


def _api_errors(lines: pl.DataFrame) -> pl.DataFrame:
    errors = _with(
        lines.filter(pl.col("subtype") == "api_error"),
        {
            "retryAttempt": "i64", "maxRetries": "i64", "retryInMs": "f64", "errorStatus": "i64", "errorCode": "str",
            "source": "str",
        },
    )  # fmt: skip
    return errors.select(
        *_BASE,
        kind=pl.lit("api_error"),
        name=pl.lit("api_error"),
        outcome=pl.lit("retry"),
        source="told.source",
        attempt=pl.col("told.retryAttempt").cast(pl.Int32, strict=False),
        max_attempts=pl.col("told.maxRetries").cast(pl.Int32, strict=False),
        wait_ms=pl.col("told.retryInMs").round().cast(pl.Int64),
        http_status=pl.col("told.errorStatus").cast(pl.Int32, strict=False),
        message="told.errorCode",
    )


def _last_errors(lines: pl.DataFrame) -> pl.DataFrame:
    """The error shown in place of an answer: no attempt went through."""
    errors = _with(
        lines.filter(pl.col("is_api_error_message").fill_null(False)),
        {"apiErrorStatus": "i64", "error": "str", "streamCutCause": "str"},
    )
    return errors.select(
        *_BASE,
        kind=pl.lit("api_error"),
        name=pl.lit("api_error_message"),
        outcome=pl.lit("failed"),
        http_status=pl.col("told.apiErrorStatus").cast(pl.Int32, strict=False),
        message=pl.coalesce("told.error", "told.streamCutCause"),
        is_blocking=pl.lit(True),
    )


def _interrupts(lines: pl.DataFrame) -> pl.DataFrame:
    return lines.filter(pl.col("prompt_kind") == "interrupt").select(
        *_BASE, kind=pl.lit("interrupt"), outcome=pl.lit("interrupted"), source=pl.lit("user"), is_blocking=pl.lit(True)
    )


def _fallbacks(lines: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Another model took over: a block of the answer, or a line of the program, says so."""
    told = blocks.filter(pl.col("type") == "fallback").select("entry_id", told="detail")
    told = told.unique("entry_id", keep="first", maintain_order=True)
    answers = lines.join(told, on="entry_id", how="inner", validate="1:1", maintain_order="left")
    models = read_details(answers["told"], {"from": "str", "to": "str"})
    by_block = pl.concat([answers.select(*_BASE), models], how="horizontal").select(
        *_BASE,
        kind=pl.lit("fallback"),
        name=pl.lit("fallback"),
        message=pl.col("from").fill_null("?") + " to " + pl.col("to").fill_null("?"),
    )
    by_line = lines.filter(pl.col("subtype").str.starts_with("model_refusal")).select(
        *_BASE, kind=pl.lit("fallback"), name="subtype"
    )
    return pl.concat([by_block, by_line], how="diagonal")
