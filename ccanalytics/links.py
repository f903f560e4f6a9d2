"""Who started whom: every agent run with the call that started it, by the best evidence there is."""

from __future__ import annotations

import polars as pl

from .details import read_details
from .facts import text_hash

RUN = ["session_id", "agent_id"]
AGENT_TOOLS = ("Task", "Agent", "Workflow", "TeamCreate", "Teammate")
MESSAGE_TOOLS = ("SendMessage",)
INTERNAL = ("acompact", "aprompt_suggestion", "aside_question", "asession_memory", "aextract_memories", "aaway_summary")
"""What the ids of runs begin with that Claude Code starts for itself."""
_TRUST = ("meta", "result", "result_text", "progress", "notification")
_META = {
    "toolUseId": "str",
    "parentAgentId": "str",
    "spawnDepth": "i64",
    "agentType": "str",
    "description": "str",
    "name": "str",
    "worktreePath": "str",
    "finished": "bool",
}
# An agent that runs elsewhere has the id of its task.
_STARTED = pl.coalesce("result.agentId", pl.when(pl.col("result.status") == "remote_launched").then("result.taskId"))


def build_runs(
    entries: pl.DataFrame,
    files: pl.DataFrame,
    members: pl.DataFrame,
    *,
    pairs: pl.DataFrame,
    placed_calls: pl.DataFrame,
) -> pl.DataFrame:
    """One row per run, the main threads left out: where it lies, when it began, what its meta says.

    A run whose lines are gone, but that an agent call's result or a progress line names, is one too (layout ``none``).
    """
    runs = _runs_with_lines(entries, files, members)
    named = pl.concat(
        [
            pairs.filter(pl.col("name").is_in(AGENT_TOOLS)).select("session_id", agent_id=_STARTED),
            placed_calls.select(RUN),
        ]
    )
    # A fork's file repeats the call, while the agent's lines stay with the session it was forked from.
    gone = named.drop_nulls().unique(maintain_order=True).join(runs, on="agent_id", how="anti", maintain_order="left")
    gone = gone.with_columns(
        layout=pl.lit("none"), n_files=pl.lit(0, dtype=pl.Int32), n_prompts=pl.lit(0, dtype=pl.Int32)
    )
    return pl.concat([runs, gone], how="diagonal").with_columns(_internal_kind().alias("internal_kind"))


def _runs_with_lines(entries: pl.DataFrame, files: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    lines = members.filter(pl.col("agent_id").is_not_null()).join(
        entries.select(
            "entry_id", "timestamp", "type", "prompt_kind", "text_hash", "team_name", "agent_name", "n_tool_results"
        ),
        on="entry_id", how="left", validate="1:1", maintain_order="left",
    )  # fmt: skip
    own = ~pl.col("is_inherited")
    asked = own & (pl.col("type") == "user") & pl.col("prompt_kind").is_in(["typed", "teammate", "meta", "command"])
    runs = (
        lines.sort("pos", maintain_order=True)
        .group_by(RUN, maintain_order=True)
        .agg(
            pl.col("layout").first(),
            pl.col("file_id").first(),
            pl.col("file_id").n_unique().cast(pl.Int32).alias("n_files"),
            pl.col("timestamp").filter(own).min().alias("started_at"),
            pl.col("entry_id").filter(asked).first().alias("prompt_entry_id"),
            pl.col("text_hash").filter(asked).first().alias("prompt_hash"),
            pl.col("timestamp").filter(asked).max().alias("last_asked_at"),
            asked.sum().cast(pl.Int32).alias("n_prompts"),
            pl.col("team_name").drop_nulls().first(),
            pl.col("agent_name").drop_nulls().first(),
            (pl.col("is_inherited") | (pl.col("type") == "fork-context-ref")).any().alias("is_fork"),
            pl.col("is_inherited").all().alias("is_copy"),
        )
        # A fork of a session of the inline era repeats its sidechains too.
        .filter(~pl.col("is_copy"))
        .drop("is_copy")
    )
    about = files.filter(pl.col("meta").is_not_null()).select("file_id", "meta", "workflow_id")
    about = pl.concat([about.select("file_id"), _meta_facts(about["meta"])], how="horizontal")
    homes = files.select("file_id", "workflow_id")
    return (
        runs.join(homes, on="file_id", how="left", validate="m:1", maintain_order="left")
        .join(about, on="file_id", how="left", validate="m:1", maintain_order="left")
        .with_columns(pl.coalesce("meta.name", "agent_name").alias("name"))
    )


def _meta_facts(meta: pl.Series) -> pl.DataFrame:
    facts = read_details(meta, _META)  # type: ignore[arg-type]
    return facts.rename({n: f"meta.{n}" for n in facts.columns})


def _internal_kind() -> pl.Expr:
    named = pl.col("agent_id").str.extract(rf"^({'|'.join(INTERNAL)})-", 1).str.slice(1)
    # 2.0.76 warms up its agents at the start of every session.
    warm = pl.col("prompt_hash") == pl.lit(text_hash("Warmup"), dtype=pl.UInt64)
    return pl.coalesce(named, pl.when(warm).then(pl.lit("warmup")))


def build_links(runs: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """One row per run: ``link_rule``, the call, its owner, and the later calls that woke the run again.

    Parameters
    ----------
    runs
        What :func:`build_runs` gives; ``pairs`` what :func:`~ccanalytics.tools.pair_results` gives.

    Returns
    -------
    pl.DataFrame
        ``session_id, agent_id, link_rule, tool_use_id, tool_use_entry_id, parent_agent_id, parent_session_id,
        resumed_by, n_resumes``. ``parent_session_id`` is null where the call is in the run's own session.
        A run nobody is known to have started stays, as ``unlinked``.
    """
    asked = pairs.filter(pl.col("name").is_in([*AGENT_TOOLS, *MESSAGE_TOOLS]))
    told = pl.concat([_by_meta(runs), _by_result(asked), _by_progress(entries, members), _by_notice(entries, members)])
    told = told.join(runs.select(*RUN, "started_at"), on=RUN, how="inner", validate="m:1", maintain_order="left")
    linked = _launches(told, pairs)
    linked = pl.concat([linked, _by_name(runs, linked, asked)])
    linked = pl.concat([linked, _by_prompt(runs, linked, asked)])
    linked = pl.concat([linked, _by_workflow(runs, linked, pairs)])
    linked = pl.concat([linked, _by_team(runs, linked, asked)], how="diagonal")
    woken = pl.concat([told.select(*RUN, "tool_use_id"), _wakes(runs, asked)])
    return (
        runs.select(*RUN, "internal_kind", pl.col("meta.parentAgentId").alias("told_parent"), "layout", "team_name")
        .join(linked, on=RUN, how="left", validate="1:1", maintain_order="left")
        .join(_resumes(woken, linked, pairs), on=RUN, how="left", validate="1:1", maintain_order="left")
        .with_columns(
            pl.coalesce(
                "link_rule",
                pl.when(pl.col("internal_kind").is_not_null()).then(pl.lit("internal")),
                pl.when(pl.col("team_name").is_not_null() & (pl.col("layout") == "flat")).then(pl.lit("team")),
                pl.when(pl.col("told_parent").is_not_null()).then(pl.lit("meta")),
                pl.lit("unlinked"),
            ).alias("link_rule"),
            pl.when(pl.col("tool_use_entry_id").is_null())
            .then("told_parent")
            .otherwise("parent_agent_id")
            .alias("parent_agent_id"),
            pl.col("n_resumes").fill_null(0),
        )
        .drop("internal_kind", "told_parent", "layout", "team_name")
    )


def _evidence(frame: pl.DataFrame, rule: str, session: str, agent: str, call: str) -> pl.DataFrame:
    return (
        frame.select(session_id=session, agent_id=agent, tool_use_id=call)
        .drop_nulls()
        .unique(maintain_order=True)
        .with_columns(trust=pl.lit(_TRUST.index(rule), dtype=pl.Int32))
    )


def _by_meta(runs: pl.DataFrame) -> pl.DataFrame:
    return _evidence(runs, "meta", "session_id", "agent_id", "meta.toolUseId")


def _by_result(asked: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(
        [
            _evidence(asked.with_columns(started=_STARTED), "result", "session_id", "started", "tool_use_id"),
            _evidence(asked, "result", "session_id", "result.resumedAgentId", "tool_use_id"),
            _evidence(asked, "result_text", "session_id", "text_agent_id", "tool_use_id"),
        ]
    )


def _by_progress(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    lines = entries.filter((pl.col("subtype") == "agent_progress") & pl.col("parent_tool_use_id").is_not_null())
    lines = lines.select(
        "entry_id", "parent_tool_use_id", pl.col("detail").str.extract(r'"agentId":"([^"\\]+)"', 1).alias("told")
    ).join(members.select("entry_id", "session_id"), on="entry_id", how="left", validate="1:1")
    return _evidence(lines, "progress", "session_id", "told", "parent_tool_use_id")


def read_notices(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Lines that tell how a task went: ``entry_id, session_id, task_id, tool_use_id, status, timestamp``."""
    told = pl.col("detail").str.contains('"task_id"', literal=True).fill_null(False)
    kinds = (pl.col("type") == "queue-operation") | (pl.col("prompt_kind") == "task_notification")
    queued = (pl.col("type") == "attachment") & (pl.col("subtype") == "queued_command")
    lines = entries.filter((kinds | queued) & told).select("entry_id", "timestamp", "detail")
    facts = read_details(lines["detail"], {"task_id": "str", "tool_use_id": "str", "status": "str"})
    return pl.concat([lines.drop("detail"), facts], how="horizontal").join(
        members.select("entry_id", "session_id", "pos"),
        on="entry_id",
        how="left",
        validate="1:1",
        maintain_order="left",
    )


def _by_notice(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    return _evidence(read_notices(entries, members), "notification", "session_id", "task_id", "tool_use_id")


def _launches(told: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Of all calls told of a run, the first that can have started it; its rule is the best that names this call."""
    calls = pairs.select(
        "session_id", "tool_use_id", "pos", call_entry="entry_id", owner="agent_id", asked_at="started_at",
        is_message=pl.col("name").is_in(MESSAGE_TOOLS),
    )  # fmt: skip
    elsewhere = calls.filter(pl.len().over("tool_use_id") == 1)
    here = told.join(calls, on=["session_id", "tool_use_id"], how="semi", maintain_order="left")
    away = told.join(calls, on=["session_id", "tool_use_id"], how="anti", maintain_order="left")
    found = pl.concat(
        [
            here.join(calls, on=["session_id", "tool_use_id"], how="inner", maintain_order="left"),
            # The call may have its home in a fork of the session.
            away.join(
                elsewhere.drop("session_id"), on="tool_use_id", how="left", validate="m:1", maintain_order="left"
            ),
        ]
    )
    return (
        found
        # A restarted id names several calls: the run was started by the last before its first line.
        .with_columns(
            is_late=(pl.col("asked_at") > pl.col("started_at")).fill_null(False),
            is_missing=pl.col("call_entry").is_null(),
            is_message=pl.col("is_message").fill_null(False),
        )
        .with_columns(back=pl.when("is_late").then(pl.col("pos")).otherwise(-pl.col("pos")))
        .sort(*RUN, "tool_use_id", "is_late", "back", "trust", nulls_last=True, maintain_order=True)
        .unique([*RUN, "tool_use_id"], keep="first", maintain_order=True)
        .sort(*RUN, "is_missing", "is_message", "is_late", "pos", "trust", nulls_last=True, maintain_order=True)
        .unique(RUN, keep="first", maintain_order=True)
        .select(
            *RUN, "tool_use_id",
            pl.col("trust").replace_strict(dict(enumerate(_TRUST)), return_dtype=pl.String).alias("link_rule"),
            tool_use_entry_id="call_entry", parent_agent_id="owner",
        )
    )  # fmt: skip


def _unlinked(runs: pl.DataFrame, linked: pl.DataFrame) -> pl.DataFrame:
    free = runs.filter(pl.col("internal_kind").is_null())
    return free.join(linked, on=RUN, how="anti", maintain_order="left")


def _unused(asked: pl.DataFrame, linked: pl.DataFrame) -> pl.DataFrame:
    used = linked.filter(pl.col("tool_use_entry_id").is_not_null()).select("tool_use_id", entry_id="tool_use_entry_id")
    return asked.filter(pl.col("name").is_in(AGENT_TOOLS)).join(
        used, on=["entry_id", "tool_use_id"], how="anti", maintain_order="left"
    )


def _linked(frame: pl.DataFrame, rule: pl.Expr) -> pl.DataFrame:
    return frame.select(
        *RUN, "tool_use_id", rule.alias("link_rule"), tool_use_entry_id="call_entry", parent_agent_id="owner"
    )


def _by_name(runs: pl.DataFrame, linked: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """A name given once in the session, to one call and to one run; two launches of one name stay apart."""
    key = ["session_id", "name"]
    once = pl.len().over(key) == 1
    free = runs.filter(pl.col("name").is_not_null()).filter(once)
    free = _unlinked(free, linked)
    calls = asked.filter(pl.col("name").is_in(AGENT_TOOLS) & pl.col("call.name").is_not_null())
    calls = calls.select("session_id", "tool_use_id", call_entry="entry_id", owner="agent_id", name="call.name")
    used = linked.select("tool_use_id", call_entry="tool_use_entry_id")
    calls = calls.filter(once).join(used, on=["tool_use_id", "call_entry"], how="anti", maintain_order="left")
    found = free.select(*RUN, "name").join(calls, on=key, how="inner", validate="1:1", maintain_order="left")
    return _linked(found, pl.lit("name"))


def _by_prompt(runs: pl.DataFrame, linked: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """Equal words: the first run with these words to the first call with them, the second to the second …"""
    key = ["session_id", "hash"]
    # A named run whose name does not decide is ambiguous, and stays so.
    free = _unlinked(runs, linked).filter(pl.col("prompt_hash").is_not_null() & pl.col("name").is_null())
    free = (
        free.sort("started_at", nulls_last=True, maintain_order=True)
        .select(*RUN, "layout", "started_at", hash="prompt_hash")
        .with_columns(nth=pl.int_range(pl.len()).over(key))
    )
    calls = (
        _unused(asked, linked)
        .filter(pl.col("text_hash").is_not_null())
        .sort("pos", maintain_order=True)
        .select(
            "session_id",
            "tool_use_id",
            call_entry="entry_id",
            owner="agent_id",
            hash="text_hash",
            asked_at="started_at",
        )
        .with_columns(nth=pl.int_range(pl.len()).over(key))
    )
    found = free.join(calls, on=[*key, "nth"], how="inner", validate="1:1", maintain_order="left")
    found = found.filter((pl.col("asked_at") <= pl.col("started_at")).fill_null(True))
    return _linked(found, pl.when(pl.col("layout") == "inline").then(pl.lit("inline")).otherwise(pl.lit("prompt")))


def _by_workflow(runs: pl.DataFrame, linked: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    calls = (
        pairs.filter(pl.col("result.runId").is_not_null())
        .select("session_id", "tool_use_id", call_entry="entry_id", owner="agent_id", workflow_id="result.runId")
        .unique(["session_id", "workflow_id"], keep="first", maintain_order=True)
    )
    free = _unlinked(runs, linked).filter(pl.col("workflow_id").is_not_null())
    found = free.select(*RUN, "workflow_id").join(
        calls, on=["session_id", "workflow_id"], how="inner", validate="m:1", maintain_order="left"
    )
    return _linked(found, pl.lit("workflow"))


def _by_team(runs: pl.DataFrame, linked: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """A team member that is a session of its own: the call with its name and team, in the session that leads."""
    key = ["team_name", "name"]
    once = pl.len().over(key) == 1
    free = _unlinked(runs, linked).drop_nulls(key).filter(once)
    calls = _unused(asked, linked).select(
        "tool_use_id", call_entry="entry_id", owner="agent_id", parent_session_id="session_id", name="call.name",
        team_name="call.team_name",
    )  # fmt: skip
    calls = calls.drop_nulls(key).filter(once)
    found = free.select(*RUN, *key).join(calls, on=key, how="inner", validate="1:1", maintain_order="left")
    return _linked(found, pl.lit("team")).with_columns(found["parent_session_id"])


def _wakes(runs: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """Calls that name a run they go on with: the agent tool's ``resume``, or a message that a prompt followed."""
    named = pl.concat(
        [
            asked.select("session_id", "tool_use_id", "started_at", agent_id="call.resume", is_sure=pl.lit(True)),
            asked.select("session_id", "tool_use_id", "started_at", agent_id="call.to", is_sure=pl.lit(False)),
        ]
    ).drop_nulls("agent_id")
    return (
        named.join(runs.select(*RUN, "last_asked_at"), on=RUN, how="inner", validate="m:1", maintain_order="left")
        .filter(pl.col("is_sure") | (pl.col("last_asked_at") >= pl.col("started_at")))
        .select(*RUN, "tool_use_id")
    )


def _resumes(woken: pl.DataFrame, linked: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Calls told of a run other than the one that started it, in their order."""
    calls = pairs.select("session_id", "tool_use_id", "pos").unique(
        ["session_id", "tool_use_id"], keep="last", maintain_order=True
    )
    launch = linked.select(*RUN, "tool_use_id")
    return (
        woken.unique(maintain_order=True)
        .join(launch, on=[*RUN, "tool_use_id"], how="anti", maintain_order="left")
        .join(calls, on=["session_id", "tool_use_id"], how="inner", validate="m:1", maintain_order="left")
        .sort(*RUN, "pos", maintain_order=True)
        .group_by(RUN, maintain_order=True)
        .agg(pl.col("tool_use_id").str.join(",").alias("resumed_by"), pl.len().cast(pl.Int32).alias("n_resumes"))
    )
