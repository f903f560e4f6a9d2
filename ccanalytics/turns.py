"""Turns: what a person asked, and everything that was done until they asked again."""

from __future__ import annotations

import polars as pl

from .amounts import call_amounts, finish_amounts, sum_amounts
from .details import read_details
from .schema.work import TURNS
from .times import active_ms

RUN = ["session_id", "agent_id"]
TURN = ["session_id", "turn_no"]
_MAX_DEPTH = 32


def build_prompts(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """One row per human prompt: ``session_id, turn_no, kind, is_inherited, entry_id, pos …`` in order.

    Typed prompts of the main thread, and prompts queued while a turn ran, which stand on disk as an attachment alone.
    Tool results, notes of the program, echoes of commands, hooks and summaries are none.
    """
    by_program = pl.col("detail").str.contains('"promptSource":"system"', literal=True).fill_null(False)
    typed = (pl.col("type") == "user") & (pl.col("prompt_kind") == "typed") & ~by_program
    queued = (pl.col("type") == "attachment") & (pl.col("subtype") == "queued_command")
    found = entries.filter((typed | queued) & ~pl.col("is_sidechain").fill_null(False)).join(
        members.select("entry_id", pl.col("session_id").alias("home"), "agent_id", "pos", "is_inherited"),
        on="entry_id", how="left", validate="1:1", maintain_order="left", suffix="_home",
    )  # fmt: skip
    found = found.filter(pl.col("agent_id_home").is_null())
    facts = read_details(
        found.select(pl.when(pl.col("type") == "attachment").then("detail"))["detail"],
        {"commandMode": "str", "source_uuid": "str", "prompt_kind": "str", "origin": "str"},
    )
    found = pl.concat([found.drop("prompt_kind"), facts], how="horizontal")
    found = found.with_columns(kind=pl.when(pl.col("type") == "user").then(pl.lit("typed")).otherwise(pl.lit("queued")))
    return (
        found.filter((pl.col("kind") == "typed") | _is_human())
        # The queue hands a prompt on either as an attachment or as a user line; where both were written it is one.
        .with_columns(same=pl.coalesce("source_uuid", "uuid", pl.col("entry_id").cast(pl.String)))
        .sort("home", "pos", maintain_order=True)
        .unique(["home", "same"], keep="first", maintain_order=True)
        .with_columns(turn_no=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("home"))
        .select(
            "turn_no", "kind", "is_inherited", "entry_id", "pos", "uuid", "prompt_id", "n_chars", "text", "timestamp",
            "git_branch", "text_hash", session_id="home",
        )
    )  # fmt: skip


def _is_human() -> pl.Expr:
    """A queued command that a person typed: not a notice of a finished task, not a channel's message."""
    mode = pl.col("commandMode").fill_null("prompt").is_in(["prompt", "bash", "orphaned-permission"])
    origin = pl.col("origin").fill_null("human") == "human"
    return mode & origin & pl.col("prompt_kind").is_null()


def build_entry_turns(
    entries: pl.DataFrame, members: pl.DataFrame, prompts: pl.DataFrame, links: pl.DataFrame
) -> pl.DataFrame:
    """``entry_id, turn_no`` for every entry; 0 where no prompt accounts for it.

    On the main thread the last prompt before decides. A line of an agent belongs to the turn whose prompt id it
    carries, else to the turn of the call that started the agent, else to the turn running at the time.
    """
    lines = members.select("entry_id", *RUN, "pos").join(
        entries.select("entry_id", "timestamp", "prompt_id"), on="entry_id", how="left", validate="1:1"
    )
    main = _main_turns(lines.filter(pl.col("agent_id").is_null()), prompts)
    side = lines.filter(pl.col("agent_id").is_not_null())
    if side.is_empty():
        return main.select("entry_id", "turn_no").sort("entry_id")
    by_run = _turn_of_runs(main, links)
    by_prompt = (
        main.filter(pl.col("prompt_id").is_not_null())
        .select("session_id", "prompt_id", told="turn_no")
        .unique(["session_id", "prompt_id"], keep="first", maintain_order=True)
    )
    side = (
        side.sort("pos", maintain_order=True)
        .with_columns(pl.col("prompt_id").forward_fill().over(RUN))
        .join(by_prompt, on=["session_id", "prompt_id"], how="left", validate="m:1", maintain_order="left")
        .join(by_run, on=RUN, how="left", validate="m:1", maintain_order="left")
    )
    side = _turn_by_time(side, prompts).with_columns(
        turn_no=pl.coalesce("told", "run_turn", "clock_turn", pl.lit(0, dtype=pl.Int32))
    )
    return pl.concat([main.select("entry_id", "turn_no"), side.select("entry_id", "turn_no")]).sort("entry_id")


def _main_turns(main: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    starts = prompts.select("session_id", "pos", "turn_no").sort("pos")
    return (
        main.sort("pos")
        .join_asof(starts, on="pos", by="session_id", check_sortedness=False)
        .with_columns(pl.col("turn_no").fill_null(0))
    )


def _turn_of_runs(main: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """The turn in which each run was started, for nested ones that of the run above."""
    known = main.select("entry_id", "turn_no")
    runs = links.select(*RUN, "parent_agent_id", entry_id="tool_use_entry_id").join(
        known, on="entry_id", how="left", validate="m:1", maintain_order="left"
    )
    for _ in range(_MAX_DEPTH):
        above = runs.select("session_id", parent_agent_id="agent_id", above="turn_no").drop_nulls()
        filled = runs.join(
            above, on=["session_id", "parent_agent_id"], how="left", validate="m:1", maintain_order="left"
        )
        filled = filled.with_columns(pl.coalesce("turn_no", "above").alias("turn_no")).drop("above")
        if filled["turn_no"].null_count() == runs["turn_no"].null_count():
            break
        runs = filled
    return runs.select(*RUN, run_turn="turn_no")


def _turn_by_time(side: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    starts = prompts.filter(pl.col("timestamp").is_not_null()).select("session_id", "timestamp", clock_turn="turn_no")
    timed = side.filter(pl.col("timestamp").is_not_null()).sort("timestamp", maintain_order=True)
    timed = timed.join_asof(
        starts.sort("timestamp", maintain_order=True), on="timestamp", by="session_id", check_sortedness=False
    )
    untimed = side.filter(pl.col("timestamp").is_null()).with_columns(clock_turn=pl.lit(None, dtype=pl.Int32))
    return pl.concat([timed, untimed.select(timed.columns)])


def build_turns(
    entries: pl.DataFrame,
    members: pl.DataFrame,
    prompts: pl.DataFrame,
    *,
    placed_calls: pl.DataFrame,
    tools: pl.DataFrame,
    links: pl.DataFrame,
    entry_turns: pl.DataFrame,
) -> pl.DataFrame:
    """One row per human prompt of a session, sorted by session and number.

    Parameters
    ----------
    prompts, links, entry_turns
        What :func:`build_prompts`, :func:`~ccanalytics.links.build_links` and :func:`build_entry_turns` give.
    placed_calls
        ``calls`` with ``session_id``, ``agent_id`` and ``turn_no`` as :func:`~ccanalytics.work.place_calls` sets them.

    Notes
    -----
    A prompt copied from another session keeps its number but has a row only where something was added to it here.
    Turn 0 holds the requests that no prompt accounts for, so that the turns add up to the calls.
    """
    amounts = sum_amounts(call_amounts(placed_calls), TURN)
    models = (
        placed_calls.sort("first_at", "call_id")
        .group_by(TURN, maintain_order=True)
        .agg(pl.col("model").drop_nulls().unique(maintain_order=True).str.join(",").alias("models"))
    )
    rows = (
        prompts.rename({"n_chars": "prompt_chars", "text": "prompt", "timestamp": "started_at"})
        .drop("pos", "text_hash")
        .join(amounts, on=TURN, how="full", coalesce=True, validate="1:1")
        .filter(~pl.col("is_inherited").fill_null(False) | (pl.col("calls") > 0))
        .with_columns(pl.col("kind").fill_null("unattributed"), pl.col("is_inherited").fill_null(False))
    )
    lines = _main_lines(entries, members, entry_turns)
    for more in (models, _spans(lines, entries), _counts(tools, links, entry_turns)):
        rows = rows.join(more, on=TURN, how="left", validate="1:1")
    reply = (pl.col("first_reply_at") - pl.col("started_at")).dt.total_milliseconds()
    spent = (pl.col("ended_at") - pl.col("started_at")).dt.total_milliseconds()
    rows = (
        finish_amounts(rows)
        .with_columns(
            time_to_reply_ms=pl.when(reply >= 0).then(reply),
            duration_ms=pl.when(spent >= 0).then(spent),
            models=pl.when(pl.col("models") != "").then("models"),
            is_interrupted=pl.col("is_interrupted").fill_null(False),
            **{n: pl.col(n).fill_null(0) for n in ("n_tools", "n_tool_errors", "n_agents", "n_entries", "active_ms")},
        )
        .with_columns(active_ms=pl.min_horizontal("active_ms", "duration_ms"))
    )
    return TURNS.conform(rows.select(TURNS.names).sort(TURNS.order, maintain_order=True))


def _main_lines(entries: pl.DataFrame, members: pl.DataFrame, entry_turns: pl.DataFrame) -> pl.DataFrame:
    return (
        members.filter(pl.col("agent_id").is_null() & ~pl.col("is_inherited"))
        .select("entry_id", "session_id", "pos")
        .join(entry_turns, on="entry_id", how="left", validate="1:1", maintain_order="left")
        .join(
            entries.select(
                "entry_id", "type", "subtype", "timestamp", "prompt_kind", "model", "is_api_error_message"
            ),
            on="entry_id", how="left", validate="1:1", maintain_order="left",
        )
        .filter(pl.col("type").is_in(["user", "assistant", "system", "attachment", "progress"]))
        .sort("session_id", "pos", maintain_order=True)
    )  # fmt: skip


def _spans(lines: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    reply = (pl.col("type") == "assistant") & (pl.col("model") != "<synthetic>").fill_null(True)
    work = reply | _is_work()
    ends = lines.group_by(TURN).agg(
        pl.col("timestamp").filter(reply).min().alias("first_reply_at"),
        pl.col("timestamp").filter(work).max().alias("ended_at"),
        pl.len().cast(pl.Int64).alias("n_entries"),
        (pl.col("prompt_kind") == "interrupt").any().alias("is_interrupted"),
    )
    active = active_ms(lines.filter(work), by=TURN)
    told = lines.filter(pl.col("subtype") == "turn_duration").join(
        entries.select("entry_id", "detail"), on="entry_id", how="left", validate="1:1", maintain_order="left"
    )
    told = told.with_columns(read_details(told["detail"], {"durationMs": "i64"})["durationMs"])
    told = told.group_by(TURN).agg(pl.col("durationMs").sum().alias("reported_duration_ms"))
    return ends.join(active, on=TURN, how="left", validate="1:1").join(told, on=TURN, how="left", validate="1:1")


def _is_work() -> pl.Expr:
    """Lines of the work on a prompt; echoes of commands and notes for the next prompt can come days later."""
    asked = ["typed", "tool_result", "interrupt", "task_notification", "teammate"]
    failed = (pl.col("type") == "assistant") & pl.col("is_api_error_message").fill_null(False)
    told = pl.col("prompt_kind").is_in(asked) | pl.col("subtype").is_in(
        ["turn_duration", "queued_command", "api_error"]
    )
    return told.fill_null(False) | failed | (pl.col("type") == "progress")


def _counts(tools: pl.DataFrame, links: pl.DataFrame, entry_turns: pl.DataFrame) -> pl.DataFrame:
    used = tools.group_by(TURN).agg(
        pl.len().cast(pl.Int32).alias("n_tools"),
        (pl.col("outcome") == "error").sum().cast(pl.Int32).alias("n_tool_errors"),
    )
    started = (
        links.filter(pl.col("tool_use_entry_id").is_not_null())
        .select("session_id", entry_id="tool_use_entry_id")
        .join(entry_turns, on="entry_id", how="inner", validate="m:1")
        .group_by(TURN)
        .agg(pl.len().cast(pl.Int32).alias("n_agents"))
    )
    return used.join(started, on=TURN, how="full", coalesce=True, validate="1:1")
