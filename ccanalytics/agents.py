"""Agent runs: who started whom, how it ended, what each cost alone and with all it started."""

from __future__ import annotations

import numpy as np
import polars as pl

from .amounts import call_amounts, finish_amounts, prefixed, sum_amounts
from .links import RUN
from .schema.work import AGENTS
from .times import active_ms, longest_gap_ms

_MAX_DEPTH = 64
_NODES = ["user", "assistant", "system", "attachment", "progress"]


def build_agents(
    entries: pl.DataFrame,
    members: pl.DataFrame,
    *,
    runs: pl.DataFrame,
    links: pl.DataFrame,
    pairs: pl.DataFrame,
    notices: pl.DataFrame,
    prompts: pl.DataFrame,
    placed_calls: pl.DataFrame,
    tools: pl.DataFrame,
    teams: pl.DataFrame,
) -> pl.DataFrame:
    """One row per agent run, the main thread of every session included; sorted by session and agent.

    Parameters
    ----------
    runs, links, notices
        What :mod:`ccanalytics.links` gives; ``pairs`` what :func:`~ccanalytics.tools.pair_results` gives.
    placed_calls
        ``calls`` with ``session_id`` and ``agent_id`` as :func:`~ccanalytics.work.place_calls` sets them.
    teams
        Members of teams, as :func:`~ccanalytics.teams.read_teams` gives them.

    Notes
    -----
    ``own_*`` are of the run's own requests, ``incl_*`` of those and of all runs under it. The main thread's ``incl_*``
    are those of the whole session: a run nobody is known to have started counts under the main thread too.
    What the parent was told (``reported_total_tokens``) is the size of the last request, never a sum.
    """
    rows = _rows(members, runs, links, pairs, placed_calls, teams)
    for more in (
        _lines(entries, members),
        _last_lines(entries, members),
        _statuses(notices),
        _tool_counts(tools),
        _call_facts(placed_calls),
        prefixed(sum_amounts(call_amounts(placed_calls), RUN), "own_"),
    ):
        rows = rows.join(more, on=RUN, how="left", validate="1:1", nulls_equal=True, maintain_order="left")
    rows = _with_turns(rows, prompts)
    rows = _with_prompt(rows, entries)
    rows = _roll_up(rows.with_columns(pl.col("^own_.*$").fill_null(0)))
    rows = finish_amounts(finish_amounts(rows, "own_"), "incl_")
    gone = (pl.col("layout") == "none") & (pl.col("own_calls") == 0)
    rows = rows.with_columns(
        own_cost_usd=pl.when(~gone).then("own_cost_usd"),
        status=_status(),
        duration_ms=(pl.col("ended_at") - pl.col("started_at")).dt.total_milliseconds(),
        n_errors=(pl.col("n_tool_errors").fill_null(0) + pl.col("n_api_errors").fill_null(0)).cast(pl.Int32),
        **{n: pl.col(n).fill_null(0) for n in ("n_tools", "n_entries", "n_inherited_entries", "n_files", "n_resumes")},
    )
    return AGENTS.conform(rows.select(AGENTS.names).sort(AGENTS.order, maintain_order=True))


def _rows(
    members: pl.DataFrame,
    runs: pl.DataFrame,
    links: pl.DataFrame,
    pairs: pl.DataFrame,
    calls: pl.DataFrame,
    teams: pl.DataFrame,
) -> pl.DataFrame:
    """The runs with what started them; main threads first made out of the sessions that have lines of their own."""
    side = runs.join(links, on=RUN, how="left", validate="1:1", maintain_order="left")
    call = pairs.select(
        "tool_use_id", "outcome_told", "is_async",
        tool_use_entry_id="entry_id", told_type="result.agentType", asked_type="call.subagent_type",
        asked_name="call.name", asked_description="call.description", asked_team="call.team_name",
        asked_background="call.run_in_background",
        result_status="result.status", reported_total_tokens="result.totalTokens",
        reported_duration_ms=pl.coalesce("result.totalDurationMs", "result.durationMs").round().cast(pl.Int64),
        reported_tools="result.totalToolUseCount", told_worktree="result.worktreePath",
    )  # fmt: skip
    side = side.join(
        call, on=["tool_use_entry_id", "tool_use_id"], how="left", validate="m:1", maintain_order="left"
    ).with_columns(
        agent_type=pl.coalesce("meta.agentType", "told_type", "asked_type"),
        name=pl.coalesce("name", "asked_name"),
        description=pl.coalesce("meta.description", "asked_description"),
        team_name=pl.coalesce("team_name", "asked_team"),
        worktree_path=pl.coalesce("meta.worktreePath", "told_worktree"),
        is_background=(pl.col("asked_background") | pl.col("is_async")).fill_null(False),
    )
    side = _with_team(side, teams).with_columns(kind=_kind())
    mains = pl.concat([members.select(RUN), calls.select(RUN)]).filter(pl.col("agent_id").is_null())
    mains = (
        mains.unique("session_id", maintain_order=True)
        .join(_main_files(members), on="session_id", how="left", validate="1:1", nulls_equal=True)
        .with_columns(
            kind=pl.lit("main"), layout=pl.lit("session"), link_rule=pl.lit("main"), is_background=pl.lit(False)
        )
    )
    return pl.concat([mains, side.drop("^(?:told|asked)_.*$", "started_at")], how="diagonal_relaxed")


def _with_team(side: pl.DataFrame, teams: pl.DataFrame) -> pl.DataFrame:
    """What the team's folder says of a member; a member that is a session of its own has the leading session above."""
    key = ["team_name", "name"]
    told = teams.select(*key, team_type="agent_type", lead="lead_session_id").drop_nulls(key)
    away = pl.when(pl.col("layout") == "flat").then("lead")
    return side.join(told, on=key, how="left", validate="m:1", maintain_order="left").with_columns(
        agent_type=pl.coalesce("agent_type", "team_type"),
        parent_session_id=pl.coalesce("parent_session_id", away, "session_id"),
    )


def _main_files(members: pl.DataFrame) -> pl.DataFrame:
    return (
        members.filter(pl.col("agent_id").is_null())
        .sort("pos", maintain_order=True)
        .group_by("session_id", maintain_order=True)
        .agg(pl.col("file_id").first(), pl.col("file_id").n_unique().cast(pl.Int32).alias("n_files"))
    )


def _kind() -> pl.Expr:
    return (
        pl.when(pl.col("internal_kind").is_not_null())
        .then(pl.lit("internal"))
        .when(pl.col("workflow_id").is_not_null() | (pl.col("agent_type") == "workflow-subagent"))
        .then(pl.lit("workflow"))
        .when(pl.col("team_name").is_not_null())
        .then(pl.lit("teammate"))
        .when(pl.col("is_fork").fill_null(False) | (pl.col("agent_type") == "fork"))
        .then(pl.lit("fork"))
        .otherwise(pl.lit("agent"))
    )


def _lines(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """First and last own line, gaps, counts."""
    lines = members.select("entry_id", *RUN, "is_inherited").join(
        entries.select("entry_id", "timestamp", "type", "is_api_error_message"),
        on="entry_id", how="left", validate="1:1", maintain_order="left",
    )  # fmt: skip
    own = ~pl.col("is_inherited")
    node = own & pl.col("type").is_in(_NODES)
    counts = lines.group_by(RUN).agg(
        pl.col("timestamp").filter(node).min().alias("started_at"),
        pl.col("timestamp").filter(node).max().alias("ended_at"),
        own.sum().cast(pl.Int64).alias("n_entries"),
        pl.col("is_inherited").sum().cast(pl.Int64).alias("n_inherited_entries"),
        (own & pl.col("is_api_error_message")).sum().cast(pl.Int64).alias("n_api_errors"),
    )
    nodes = lines.filter(node)
    return counts.join(active_ms(nodes, by=RUN), on=RUN, how="left", validate="1:1", nulls_equal=True).join(
        longest_gap_ms(nodes, by=RUN, name="longest_idle_ms"), on=RUN, how="left", validate="1:1", nulls_equal=True
    )


def _last_lines(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Whether the last message of the run is an answer that asks for nothing more, or a note that it was stopped."""
    said = entries.filter(pl.col("type").is_in(["user", "assistant"])).select(
        "entry_id", "type", "prompt_kind", "stop_reason", "n_tool_uses", "is_api_error_message"
    )
    last = (
        members.select("entry_id", *RUN, "pos")
        .join(said, on="entry_id", how="inner", validate="1:1", maintain_order="left")
        # What a local command echoes after the answer changes nothing.
        .filter(~pl.col("prompt_kind").is_in(["meta", "command", "command_output", "caveat"]).fill_null(False))
        .sort("pos", maintain_order=True)
        .group_by(RUN, maintain_order=True)
        .last()
    )
    answered = (pl.col("type") == "assistant") & (pl.col("n_tool_uses").fill_null(0) == 0)
    return last.select(
        *RUN,
        is_answered=(answered & (pl.col("stop_reason") != "tool_use").fill_null(True)),
        is_stopped=(pl.col("prompt_kind") == "interrupt").fill_null(False),
        is_failed=pl.col("is_api_error_message").fill_null(False),
    )


def _statuses(notices: pl.DataFrame) -> pl.DataFrame:
    return (
        notices.filter(pl.col("status").is_not_null() & pl.col("task_id").is_not_null())
        .sort("pos", maintain_order=True)
        .group_by("session_id", pl.col("task_id").alias("agent_id"), maintain_order=True)
        .agg(pl.col("status").last().str.to_lowercase().alias("told_status"))
    )


def _status() -> pl.Expr:
    """What the program reported first, then what the lines show."""
    told = pl.col("told_status").replace_strict(
        {"completed": "completed", "failed": "failed", "error": "failed", "killed": "killed", "stopped": "killed"},
        default=None,
        return_dtype=pl.String,
    )
    answer = pl.when(~pl.col("is_async").fill_null(False)).then(
        pl.col("outcome_told").replace_strict(
            {"ok": "completed", "error": "failed", "denied": "killed", "interrupted": "killed"},
            default=None,
            return_dtype=pl.String,
        )
    )
    finished = pl.when(pl.col("meta.finished")).then(pl.lit("completed"))
    shown = (
        pl.when("is_failed").then(pl.lit("failed"))
        .when("is_answered").then(pl.lit("completed"))
        .when("is_stopped").then(pl.lit("killed"))
        .when("is_background").then(pl.lit("running"))
        .otherwise(pl.lit("unknown"))
    )  # fmt: skip
    return pl.coalesce(told, answer, finished, shown)


def _tool_counts(tools: pl.DataFrame) -> pl.DataFrame:
    return tools.group_by(RUN).agg(
        pl.len().cast(pl.Int32).alias("n_tools"),
        (pl.col("outcome") == "error").sum().cast(pl.Int64).alias("n_tool_errors"),
    )


def _call_facts(calls: pl.DataFrame) -> pl.DataFrame:
    return (
        calls.sort("first_at", "call_id", maintain_order=True)
        .group_by(RUN, maintain_order=True)
        .agg(
            pl.col("model").drop_nulls().unique(maintain_order=True).str.join(",").alias("models"),
            pl.col("context_tokens").filter(pl.col("source") != "advisor").last(),
        )
    )


def _with_turns(rows: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    own = prompts.filter(~pl.col("is_inherited")).group_by("session_id").agg(pl.len().cast(pl.Int32).alias("asked"))
    rows = rows.join(own, on="session_id", how="left", validate="m:1", nulls_equal=True, maintain_order="left")
    main = pl.col("agent_id").is_null()
    return rows.with_columns(
        n_turns=pl.when(main).then(pl.col("asked")).otherwise(pl.col("n_prompts")).fill_null(0)
    ).drop("asked")


def _with_prompt(rows: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    words = entries.select(prompt_entry_id="entry_id", prompt_chars="n_chars", prompt="text")
    return rows.join(words, on="prompt_entry_id", how="left", validate="m:1", maintain_order="left")


def _roll_up(rows: pl.DataFrame) -> pl.DataFrame:
    """Depth, number of runs below, and the inclusive amounts: level by level from the deepest."""
    rows = rows.with_row_index("row")
    main, told = _above(rows)
    up, depth = _levels(main, told, rows["agent_id"].is_null().to_numpy())
    own = [n for n in rows.columns if n.startswith("own_")]
    amounts = np.column_stack([rows[n].to_numpy() for n in own]).astype(np.int64)
    below = np.zeros(rows.height, dtype=np.int64)
    children = np.bincount(up[up >= 0], minlength=rows.height)
    for level in range(int(depth.max(initial=0)), 0, -1):
        at = np.flatnonzero((depth == level) & (up >= 0))
        np.add.at(amounts, up[at], amounts[at])
        np.add.at(below, up[at], below[at] + 1)
    return rows.drop("row").with_columns(
        pl.Series("depth", depth, dtype=pl.Int32),
        pl.Series("n_children", children, dtype=pl.Int32),
        pl.Series("n_descendants", below, dtype=pl.Int32),
        *(pl.Series("incl_" + n.removeprefix("own_"), amounts[:, k]) for k, n in enumerate(own)),
    )


def _above(rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Per row: the row of its session's main thread, and that of the run it says started it; -1 for none."""
    mains = rows.filter(pl.col("agent_id").is_null()).select("session_id", main="row")
    parents = rows.filter(pl.col("agent_id").is_not_null()).select(
        "session_id", parent_agent_id="agent_id", parent="row"
    )
    found = rows.select("session_id", "parent_agent_id").join(
        mains, on="session_id", how="left", validate="m:1", nulls_equal=True, maintain_order="left"
    )
    found = found.join(parents, on=["session_id", "parent_agent_id"], how="left", validate="m:1", maintain_order="left")
    main, told = (found[n].cast(pl.Int64).fill_null(-1).to_numpy() for n in ("main", "parent"))
    return main, told


def _levels(main: np.ndarray, told: np.ndarray, is_main: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row above each and its depth. A ring of runs that name one another hangs under the main thread."""
    up = np.where(is_main, -1, np.where(told >= 0, told, main))
    depth = np.where(is_main, 0, 1)
    known = up < 0
    for _ in range(_MAX_DEPTH):
        new = ~known & known[up]
        if not new.any():
            stuck = ~known
            if not stuck.any():
                break
            up = np.where(stuck, main, up)
            known = known | stuck & (up < 0)
            continue
        depth[new] = depth[up[new]] + 1
        known = known | new
    up = np.where(known, up, main)
    return up, depth
