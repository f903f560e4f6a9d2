"""Agents at work side by side: how many when, and how long the work would have taken one after another.

A run is at work from a line to the next as long as something is asked of it: after a prompt, a result, a call that is
running. It is not after its final answer, and not while it waits for an agent it started.
"""

from __future__ import annotations

import polars as pl

from .links import AGENT_TOOLS, RUN
from .schema.work import PARALLELISM

_MAX_DEPTH = 64
_OPENS = ("typed", "tool_result", "task_notification", "teammate", "meta", "compact_summary", "shell_input", "hook")
_NODES = ["user", "assistant", "system", "attachment", "progress"]


def build_intervals(entries: pl.DataFrame, members: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Stretches of work: ``session_id, agent_id, begin, end`` (milliseconds since 1970), by run and time."""
    waits = pairs.filter(
        pl.col("name").is_in(AGENT_TOOLS) & ~pl.col("is_async") & pl.col("result_entry_id").is_not_null()
    ).select(entry_id="result_entry_id")
    lines = (
        members.filter(~pl.col("is_inherited"))
        .select("entry_id", *RUN, "pos")
        .join(
            entries.filter(pl.col("type").is_in(_NODES) & pl.col("timestamp").is_not_null()).select(
                "entry_id", "timestamp", "type", "subtype", "prompt_kind", "stop_reason", "n_tool_uses", "message_id"
            ),
            on="entry_id", how="inner", validate="1:1", maintain_order="left",
        )
        .join(waits.unique().with_columns(is_wait=pl.lit(True)), on="entry_id", how="left", validate="1:1")
        .sort(*RUN, "timestamp", "pos", maintain_order=True)
    )  # fmt: skip
    thread = pl.struct(RUN).hash()
    lines = lines.with_columns(thread=thread).with_columns(state=_state().forward_fill().over("thread"))
    begin, end = pl.col("timestamp").shift(1).over("thread"), pl.col("timestamp")
    asked = (pl.col("prompt_kind") == "typed") | (pl.col("prompt_kind") == "interrupt")
    working = pl.col("state").shift(1).over("thread") & ~asked.fill_null(False) & pl.col("is_wait").is_null()
    return (
        lines.with_columns(begin=begin.dt.epoch("ms"), end=end.dt.epoch("ms"), working=working)
        .filter(pl.col("working") & (pl.col("end") > pl.col("begin")))
        .select(*RUN, "begin", "end")
    )


def _state() -> pl.Expr:
    """True where the line leaves work to do, False where it ends it, null where it changes nothing."""
    answer = pl.col("type") == "assistant"
    more = (pl.col("message_id") == pl.col("message_id").shift(-1).over("thread")).fill_null(False)
    final = answer & (pl.col("n_tool_uses").fill_null(0) == 0) & (pl.col("stop_reason") != "tool_use").fill_null(True)
    return (
        pl.when(pl.col("type") == "user").then(pl.col("prompt_kind").is_in(_OPENS))
        .when(final & ~more).then(pl.lit(False))
        .when(answer).then(pl.lit(True))
        .when(pl.col("subtype") == "turn_duration").then(pl.lit(False))
    )  # fmt: skip


def build_parallelism(intervals: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """One row per session and number of agents at work, with the time it was so; sorted by session and number.

    Parameters
    ----------
    intervals
        What :func:`build_intervals` gives.
    spans
        ``session_id, span_ms``: from the first to the last line of each session.
    """
    steps = pl.concat(
        [intervals.select("session_id", at="begin", step=1), intervals.select("session_id", at="end", step=-1)]
    )
    levels = (
        steps.group_by("session_id", "at")
        .agg(pl.col("step").sum())
        .sort("session_id", "at")
        .with_columns(
            n_at_work=pl.col("step").cum_sum().over("session_id").cast(pl.Int32),
            time_ms=(pl.col("at").shift(-1) - pl.col("at")).over("session_id").fill_null(0),
        )
        .filter((pl.col("n_at_work") > 0) & (pl.col("time_ms") > 0))
        .group_by("session_id", "n_at_work")
        .agg(pl.col("time_ms").sum())
    )
    busy = levels.group_by("session_id").agg(busy=pl.col("time_ms").sum())
    idle = spans.join(busy, on="session_id", how="left", validate="1:1").select(
        "session_id",
        n_at_work=pl.lit(0, dtype=pl.Int32),
        time_ms=(pl.col("span_ms").fill_null(0) - pl.col("busy").fill_null(0)).clip(lower_bound=0),
    )
    rows = pl.concat([idle, levels]).with_columns(share=pl.col("time_ms") / pl.col("time_ms").sum().over("session_id"))
    rows = rows.with_columns(share=pl.when(pl.col("share").is_finite()).then("share"))
    return PARALLELISM.conform(rows.sort(PARALLELISM.order, maintain_order=True))


def sum_parallelism(
    parallelism: pl.DataFrame, intervals: pl.DataFrame, agents: pl.DataFrame, pairs: pl.DataFrame
) -> pl.DataFrame:
    """One row per session: ``wall_busy_ms``, ``serial_ms``, ``critical_path_ms``, ``max_agents_at_work``."""
    busy = parallelism.filter(pl.col("n_at_work") > 0)
    wall = busy.group_by("session_id").agg(
        wall_busy_ms=pl.col("time_ms").sum(), max_agents_at_work=pl.col("n_at_work").max()
    )
    own = intervals.group_by(RUN).agg(work_ms=(pl.col("end") - pl.col("begin")).sum())
    serial = own.group_by("session_id").agg(serial_ms=pl.col("work_ms").sum())
    path = _critical_paths(intervals, own, agents, pairs)
    return wall.join(serial, on="session_id", how="full", coalesce=True, validate="1:1").join(
        path, on="session_id", how="full", coalesce=True, validate="1:1"
    )


def _critical_paths(
    intervals: pl.DataFrame, own: pl.DataFrame, agents: pl.DataFrame, pairs: pl.DataFrame
) -> pl.DataFrame:
    """The longest chain of work in each session, from the innermost runs outward.

    Runs started by one message side by side take as long as the longest of them; one after another they add up. A run
    in the background makes a chain of its own: what its parent did before it, the run itself, what its parent did then.
    """
    asked = pairs.select(
        "tool_use_id", tool_use_entry_id="entry_id", asked_at="started_at",
        batch=pl.coalesce("message_id", pl.col("entry_id").cast(pl.String)),
    )  # fmt: skip
    runs = (
        agents.select(*RUN, "parent_agent_id", "depth", "tool_use_id", "tool_use_entry_id", "is_background", "ended_at")
        .join(own, on=RUN, how="left", validate="1:1", nulls_equal=True, maintain_order="left")
        .join(asked, on=["tool_use_id", "tool_use_entry_id"], how="left", validate="m:1", maintain_order="left")
        .with_columns(pl.col("work_ms").fill_null(0))
    )
    runs = runs.join(_work_around(runs, intervals), on=RUN, how="left", validate="1:1", nulls_equal=True)
    runs = runs.with_columns(path_ms=pl.col("work_ms"))
    deepest = runs["depth"].max()
    for level in range(min(int(deepest) if isinstance(deepest, int) else 0, _MAX_DEPTH), 0, -1):
        runs = _lengthened(runs, level)
    return runs.filter(pl.col("depth") == 0).select("session_id", critical_path_ms="path_ms")


def _work_around(runs: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    """For runs in the background: the work of their parent before it started them and after they ended."""
    started = runs.filter(pl.col("is_background") & pl.col("asked_at").is_not_null() & (pl.col("depth") > 0)).select(
        *RUN, "parent_agent_id", asked=pl.col("asked_at").dt.epoch("ms"), ended=pl.col("ended_at").dt.epoch("ms")
    )
    done = started.join(
        intervals.rename({"agent_id": "parent_agent_id"}),
        on=["session_id", "parent_agent_id"], how="inner", nulls_equal=True,
    )  # fmt: skip
    before = (pl.min_horizontal("end", "asked") - pl.col("begin")).clip(lower_bound=0)
    after = (pl.col("end") - pl.max_horizontal("begin", "ended")).clip(lower_bound=0)
    return done.group_by(RUN).agg(around_ms=(before + after.fill_null(0)).sum())


def _lengthened(runs: pl.DataFrame, level: int) -> pl.DataFrame:
    """The runs one level up with the paths of the runs of this level added."""
    parent = ["session_id", "parent_agent_id"]
    children = runs.filter(pl.col("depth") == level)
    beside = (
        children.filter("is_background")
        .group_by(parent)
        .agg(beside_ms=(pl.col("around_ms").fill_null(0) + pl.col("path_ms")).max())
    )
    within = (
        children.filter(~pl.col("is_background"))
        .group_by(*parent, "batch")
        .agg(pl.col("path_ms").max())
        .group_by(parent)
        .agg(within_ms=pl.col("path_ms").sum())
    )
    added = within.join(beside, on=parent, how="full", coalesce=True, validate="1:1", nulls_equal=True)
    added = added.rename({"parent_agent_id": "agent_id"})
    runs = runs.join(added, on=RUN, how="left", validate="1:1", nulls_equal=True, maintain_order="left")
    here = pl.col("depth") < level
    longer = pl.max_horizontal(pl.col("path_ms") + pl.col("within_ms").fill_null(0), pl.col("beside_ms").fill_null(0))
    return runs.with_columns(path_ms=pl.when(here).then(longer).otherwise("path_ms")).drop("within_ms", "beside_ms")
