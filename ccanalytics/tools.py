"""Tool calls with their results: paired once each, whatever the ids do."""

from __future__ import annotations

import polars as pl

from .details import Kind, read_details
from .schema.base import PROBLEMS
from .schema.work import TOOLS

THREAD = ["session_id", "agent_id", "tool_use_id"]
_RESULT_FACTS: dict[str, Kind] = {
    "result_kind": "str",
    "toolDenialKind": "str",
    "permissionDecision.decision": "str",
    "permissionDecision.behavior": "str",
    "result.interrupted": "bool",
    "result.durationMs": "f64",
    "result.totalDurationMs": "f64",
    "result.durationSeconds": "f64",
    "result.persistedOutputPath": "str",
    "result.persistedOutputSize": "i64",
    "result.filePath": "str",
    "result.linesAdded": "i64",
    "result.linesRemoved": "i64",
    "result.searchCount": "i64",
    "result.numFiles": "i64",
    "result.numMatches": "i64",
    "result.agentId": "str",
    "result.resumedAgentId": "str",
    "result.status": "str",
    "result.isAsync": "bool",
    "result.agentType": "str",
    "result.resolvedModel": "str",
    "result.totalTokens": "i64",
    "result.totalToolUseCount": "i64",
    "result.runId": "str",
    "result.taskId": "str",
    "result.worktreePath": "str",
    "agent_id": "str",
}
_CALL_FACTS: dict[str, Kind] = {
    "file_path": "str",
    "command_head": "str",
    "url_host": "str",
    "subagent_type": "str",
    "name": "str",
    "description": "str",
    "model": "str",
    "resume": "str",
    "to": "str",
    "team_name": "str",
    "run_in_background": "bool",
}
_ANSWER = (
    "call_row", "tool_use_id", "result_entry_id", "ended_at", "is_error", "result_chars", "n_result_images",
    "result_image_bytes", "is_persisted", "block_detail", "result_detail", "is_stopped", "n_tool_results",
)  # fmt: skip


def build_tools(
    pairs: pl.DataFrame, entry_turns: pl.DataFrame, spawns: pl.DataFrame, *, with_commands: bool = False
) -> pl.DataFrame:
    """One row per tool call, counted once over all files; sorted by session, agent, id and entry.

    Parameters
    ----------
    pairs
        What :func:`pair_results` gives.
    entry_turns
        ``entry_id, turn_no``.
    spawns
        ``entry_id, tool_use_id, spawned_agent_id``: which call started which agent.
    with_commands
        Whether the first words of shell commands are shown; they are left out unless words were asked for.

    Notes
    -----
    The last of several results counts. A result without a call is a row of ``problems``, not of this table.
    A duration is null where there is no result or where the clock stepped back.
    """
    mcp = pl.col("name").str.extract_groups(r"^mcp__(.+?)__(.+)$")
    spent = (pl.col("ended_at") - pl.col("started_at")).dt.total_milliseconds()
    frame = (
        pairs.join(entry_turns, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .join(spawns, on=["entry_id", "tool_use_id"], how="left", validate="m:1", maintain_order="left")
        .with_columns(
            pl.coalesce("call_id", "message_id").alias("call_id"),
            mcp.struct[0].alias("mcp_server"),
            mcp.struct[1].alias("mcp_tool"),
            pl.when(spent >= 0).then(spent).alias("duration_ms"),
            pl.coalesce("result.durationMs", "result.totalDurationMs", pl.col("result.durationSeconds") * 1000)
            .round()
            .cast(pl.Int64)
            .alias("reported_duration_ms"),
            pl.col("outcome_told").alias("outcome"),
            pl.coalesce("persisted_path", "result.persistedOutputPath").alias("persisted_path"),
            pl.col("result.persistedOutputSize").alias("persisted_bytes"),
            pl.coalesce("call.file_path", "result.filePath").alias("file_path"),
            pl.col("result.linesAdded").alias("lines_added"),
            pl.col("result.linesRemoved").alias("lines_removed"),
            pl.col("result.searchCount").alias("search_count"),
            pl.col("result.numFiles").alias("n_files"),
            pl.col("result.numMatches").alias("n_matches"),
            pl.col("call.run_in_background").fill_null(False).alias("is_background"),
            (pl.col("is_persisted").fill_null(False) | pl.col("result.persistedOutputPath").is_not_null()).alias(
                "is_persisted"
            ),
            pl.when(pl.lit(with_commands)).then(pl.col("call.command_head")).alias("command_head"),
            *(pl.col(f"call.{n}").alias(n) for n in ("url_host", "subagent_type")),
        )
    )
    known = [name for name in TOOLS.names if name in frame.columns]
    return TOOLS.conform(frame.select(known).sort(TOOLS.order, maintain_order=True))


def _outcome() -> pl.Expr:
    decision = pl.coalesce("permissionDecision.decision", "permissionDecision.behavior").str.to_lowercase()
    denied = (
        (pl.col("result_kind") == "rejected")
        | pl.col("toolDenialKind").is_not_null()
        | decision.str.contains("^(?:reject|den)")
    ).fill_null(False)
    failed = pl.col("is_error").fill_null(False)
    stopped = (pl.col("result.interrupted") | (failed & pl.col("is_stopped"))).fill_null(False)
    return (
        pl.when(pl.col("n_results") == 0)
        .then(pl.lit("unanswered"))
        .when(denied & failed)
        .then(pl.lit("denied"))
        .when(stopped)
        .then(pl.lit("interrupted"))
        .when(failed)
        .then(pl.lit("error"))
        .otherwise(pl.lit("ok"))
    )


def pair_results(
    entries: pl.DataFrame, blocks: pl.DataFrame, members: pl.DataFrame, entry_calls: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every tool call with the facts of the result that counts, and the ``problems`` of results without a call."""
    written = _written_calls(entries, blocks, members, entry_calls)
    calls = _counted_once(written)
    results = _results(entries, blocks, members)
    answered, lost = _answers(calls, results)
    answered = pl.concat([answered, _adopted(lost, written, calls, answered)])
    orphans = lost.join(written, on=["session_id", "tool_use_id"], how="anti", maintain_order="left")
    per_call = answered.group_by("call_row", maintain_order=True).agg(
        pl.len().cast(pl.Int32).alias("n_results"), pl.all().exclude("n_results").last()
    )
    frame = calls.join(
        per_call.drop("tool_use_id"),
        left_on="row",
        right_on="call_row",
        how="left",
        validate="1:1",
        maintain_order="left",
    ).with_columns(pl.col("n_results").fill_null(0))
    frame = pl.concat([frame, _result_facts(frame)], how="horizontal")
    facts = read_details(frame["call_detail"], _CALL_FACTS)
    frame = pl.concat([frame, facts.rename({n: f"call.{n}" for n in facts.columns})], how="horizontal")
    frame = frame.with_columns(
        is_async=(pl.col("result.isAsync") | pl.col("result.status").str.ends_with("_launched")).fill_null(False),
        outcome_told=_outcome(),
    )
    return frame.drop("row", "asked_in", "result_detail", "call_detail"), _orphan_problems(orphans, entries)


def _written_calls(
    entries: pl.DataFrame, blocks: pl.DataFrame, members: pl.DataFrame, entry_calls: pl.DataFrame
) -> pl.DataFrame:
    """Every tool_use block, copies included, with the answer it was asked in."""
    return (
        blocks.filter(pl.col("type") == "tool_use")
        .select(
            "entry_id", "block_no", "tool_use_id", "text_hash",
            pl.col("tool_name").alias("name"),
            pl.col("n_bytes").alias("input_bytes"),
            pl.col("detail").alias("call_detail"),
        )
        .join(
            # Recorded API requests (api-request-blob) hold the same blocks again.
            _assistant(entries).select("entry_id", "uuid", "message_id", started_at="timestamp"),
            on="entry_id", how="inner", validate="m:1", maintain_order="left",
        )
        .join(members, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .join(entry_calls, on="entry_id", how="left", validate="m:1", maintain_order="left")
        # An id alone does not name a call: gateways restart them every turn. The answer it was asked in does.
        .with_columns(asked_in=pl.coalesce("call_id", "message_id", "uuid", pl.col("entry_id").cast(pl.String)))
        .sort("is_inherited", "pos", "block_no", maintain_order=True)
    )  # fmt: skip


def _assistant(entries: pl.DataFrame) -> pl.DataFrame:
    return entries.filter(pl.col("type") == "assistant")


def _counted_once(found: pl.DataFrame) -> pl.DataFrame:
    """Written twice in a file is one call, copied into another file is one call."""
    key = ["asked_in", "tool_use_id"]
    copies = found.group_by(key).agg(
        (pl.col("file_id").n_unique() - 1).cast(pl.Int32).alias("n_copies"),
        pl.col("session_id").unique(maintain_order=True).slice(1).str.join(",").alias("copied_to"),
    )
    return (
        found.unique(key, keep="first", maintain_order=True)
        .join(copies, on=key, how="left", validate="1:1", nulls_equal=True, maintain_order="left")
        .with_columns(pl.when(pl.col("copied_to") != "").then("copied_to").alias("copied_to"))
        .sort("pos", "block_no", maintain_order=True)
        .with_row_index("row")
    )


def _results(entries: pl.DataFrame, blocks: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Results, each written line once, copies in other files left out where the original is there too."""
    asked = entries.filter(pl.col("type").is_in(["user", "assistant"])).select(
        "entry_id", "source_tool_assistant_uuid", "n_tool_results",
        result_uuid="uuid", ended_at="timestamp", result_detail="detail",
    )  # fmt: skip
    stops = _stopped_lines(entries)
    return (
        blocks.filter((pl.col("type") == "tool_result") & pl.col("tool_use_id").is_not_null())
        .select(
            "entry_id", pl.col("block_no").alias("result_block_no"), "tool_use_id", "is_error",
            pl.col("n_chars").alias("result_chars"), pl.col("n_images").alias("n_result_images"),
            pl.col("image_bytes").alias("result_image_bytes"), "is_persisted", pl.col("detail").alias("block_detail"),
        )
        .join(asked, on="entry_id", how="inner", validate="m:1", maintain_order="left")
        .join(
            members.select("entry_id", "file_id", "session_id", "agent_id", "pos", "is_inherited"),
            on="entry_id", how="left", validate="m:1", maintain_order="left",
        )
        .with_columns(
            pl.col("result_uuid").is_in(stops.implode()).fill_null(False).alias("is_stopped"),
            pl.coalesce("result_uuid", pl.col("entry_id").cast(pl.String)).alias("line_key"),
        )
        .unique(["file_id", "line_key", "result_block_no"], keep="first", maintain_order=True)
        .rename({"entry_id": "result_entry_id", "pos": "result_pos"})
        .drop("line_key", "result_uuid", "file_id")
    )  # fmt: skip


def _stopped_lines(entries: pl.DataFrame) -> pl.Series:
    """Lines right before the note that the user stopped the request."""
    return entries.filter(pl.col("prompt_kind") == "interrupt")["parent_uuid"].drop_nulls().unique()


def _answers(calls: pl.DataFrame, results: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Results with the row of the call they answer; and results that no call of their thread can have asked for."""
    place = calls.select(*THREAD, "pos", "row", pl.col("uuid").alias("source_tool_assistant_uuid"))
    results = results.with_row_index("result_row")
    asked = [*THREAD, "source_tool_assistant_uuid"]
    named = (
        results.filter(pl.col("source_tool_assistant_uuid").is_not_null())
        .join(place.unique(asked, keep="first", maintain_order=True), on=asked, how="inner", nulls_equal=True)
        .select("result_row", named="row")
    )
    thread = pl.concat([place.select(THREAD), results.select(THREAD)]).unique().with_row_index("thread")
    place = place.join(thread, on=THREAD, how="left", validate="m:1", nulls_equal=True).sort("pos")
    left = results.join(thread, on=THREAD, how="left", validate="m:1", nulls_equal=True).sort("result_pos")
    before = place.select("thread", "pos", pl.col("row").alias("before"))
    after = place.select("thread", "pos", pl.col("row").alias("after"))
    found = (
        left.join_asof(before, left_on="result_pos", right_on="pos", by="thread", check_sortedness=False)
        .join_asof(after, left_on="result_pos", right_on="pos", by="thread", strategy="forward", check_sortedness=False)
        .join(named, on="result_row", how="left", validate="1:1")
        .with_columns(pl.coalesce("named", "before", "after").alias("call_row"))
        .sort("result_pos", "result_block_no", maintain_order=True)
    )
    lost = found.filter(pl.col("call_row").is_null() & ~pl.col("is_inherited").fill_null(False))
    return found.filter(pl.col("call_row").is_not_null()).select(_ANSWER), lost.select(*THREAD, *_ANSWER[2:])


def _adopted(lost: pl.DataFrame, written: pl.DataFrame, calls: pl.DataFrame, answered: pl.DataFrame) -> pl.DataFrame:
    """Results that stand beside a copy of a call whose home has none: a fork may have been cut off before it."""
    key = ["asked_in", "tool_use_id"]
    copies = written.select(*THREAD, "asked_in").unique(THREAD, keep="last", maintain_order=True)
    free = calls.join(answered, left_on="row", right_on="call_row", how="anti", maintain_order="left")
    return (
        lost.join(copies, on=THREAD, how="inner", validate="m:1", nulls_equal=True, maintain_order="left")
        .join(free.select(*key, call_row="row"), on=key, how="inner", validate="m:1", maintain_order="left")
        .select(_ANSWER)
    )


def _result_facts(frame: pl.DataFrame) -> pl.DataFrame:
    """Facts of ``toolUseResult``: they speak of a call only where the line answers no other."""
    alone = (pl.col("n_tool_results") == 1).fill_null(False)
    facts = read_details(frame["result_detail"], _RESULT_FACTS)
    mixed = frame.select(alone.alias("alone"))["alone"]
    facts = facts.select(
        pl.when(mixed).then(pl.col(n)).alias(n) if n.startswith("result") else pl.col(n) for n in facts.columns
    )
    block = read_details(frame["block_detail"], {"persisted_path": "str", "agent_id": "str"})
    return facts.with_columns(
        block["persisted_path"], pl.coalesce(block["agent_id"], pl.col("agent_id")).alias("text_agent_id")
    ).drop("agent_id")


def _orphan_problems(orphans: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    places = entries.select("entry_id", "file_id", "line_no", "byte_offset", "uuid")
    return PROBLEMS.conform(
        orphans.rename({"result_entry_id": "entry_id"})
        .unique(["entry_id", "tool_use_id"], maintain_order=True)
        .join(places, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .select(
            "file_id",
            "line_no",
            "byte_offset",
            pl.lit("result_without_call").alias("code"),
            "entry_id",
            "uuid",
            ("no call has the id " + pl.col("tool_use_id").str.slice(0, 100)).alias("detail"),
        )
    )
