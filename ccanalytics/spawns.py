"""The call that started an agent → the first line of the agent, where the transcripts themselves say so.

This is the part of the story that links can tell; ``agents`` goes further (names, teams, workflows, resumed runs).
"""

from __future__ import annotations

import polars as pl

AGENT_TOOLS = ("Task", "Agent", "Workflow", "TeamCreate", "Teammate")
_RULES = ("agent_meta", "agent_result", "agent_result_text", "agent_progress", "agent_prompt")
_AGENT_ID = r'"(agentId|agent_id)":"([^"\\]+)"'


def build_spawns(entries: pl.DataFrame, blocks: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """One row per agent whose start is known: ``child_id``, ``call_id``, ``tool_use_id``, ``rule``.

    ``child_id`` is the first message of the agent's file (or of an inline sidechain), ``call_id`` the entry with the
    call. The best evidence wins: the file beside the transcript, the result, its text, progress lines, equal prompts.
    """
    calls = _calls(entries, blocks, files)
    if not calls.height:
        return pl.DataFrame(
            schema={"child_id": pl.Int64, "call_id": pl.Int64, "tool_use_id": pl.String, "rule": pl.String}
        )
    heads = _heads(entries, files)
    answers = blocks.lazy().filter(
        (pl.col("type") == "tool_result") & pl.col("tool_use_id").is_in(calls["tool_use_id"].implode())
    )
    results = answers.select("entry_id", "tool_use_id").collect()
    told = pl.concat([_by_meta(files), _by_result(entries, results, files), _by_progress(entries, files)])
    named = (
        told.drop_nulls()
        .join(heads.drop_nulls("agent_id"), on=["session_id", "agent_id"], how="inner", maintain_order="left")
        .join(calls.unique(["session_id", "tool_use_id"], keep="first", maintain_order=True),
              on=["session_id", "tool_use_id"], how="inner", maintain_order="left")
        .sort("trust", "call_id", maintain_order=True)
        .unique("child_id", keep="first", maintain_order=True)
    )  # fmt: skip
    found = pl.concat([_shown(named), _shown(_by_prompt(heads, calls, named))])
    return found.filter(pl.col("child_id") != pl.col("call_id")).sort("child_id")


def _shown(frame: pl.DataFrame) -> pl.DataFrame:
    rule = pl.lit(pl.Series(_RULES)).gather(pl.col("trust"))
    return frame.select("child_id", "call_id", "tool_use_id", rule.alias("rule"))


def _calls(entries: pl.DataFrame, blocks: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Calls of tools that start agents, in order: ``call_id``, ``session_id``, ``tool_use_id``, ``prompt``."""
    found = blocks.lazy().filter((pl.col("type") == "tool_use") & pl.col("tool_name").is_in(AGENT_TOOLS))
    placed = found.select(call_id="entry_id", tool_use_id="tool_use_id", prompt="text_hash").collect()
    return placed.with_columns(_sessions(entries, files, placed["call_id"]))


def _sessions(entries: pl.DataFrame, files: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """The session of the file each entry is in."""
    file = entries["file_id"].gather(ids)
    return files["session_id"].gather(files["file_id"].search_sorted(file))


def _heads(entries: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """First message of each agent's file, and of each inline sidechain (then without ``agent_id``)."""
    agents = files.filter((pl.col("kind") == "agent") & pl.col("agent_id").is_not_null()).select(
        "file_id", "session_id", "agent_id"
    )
    spoken = pl.col("type").is_in(["user", "assistant"])
    firsts = (
        entries.lazy()
        .filter(pl.col("file_id").is_in(agents["file_id"].implode()) & spoken)
        .group_by("file_id")
        .agg(
            pl.col("entry_id").min().alias("child_id"), pl.col("text_hash").sort_by("entry_id").first().alias("prompt")
        )
        .collect()
    )
    mains = files.filter(pl.col("kind") == "session")["file_id"]
    roots = entries.lazy().filter(
        pl.col("is_sidechain") & (pl.col("type") == "user") & pl.col("parent_uuid").is_null()
        & pl.col("file_id").is_in(mains.implode())
    )  # fmt: skip
    inline = roots.select(child_id="entry_id", prompt="text_hash").collect()
    inline = inline.with_columns(_sessions(entries, files, inline["child_id"]), agent_id=pl.lit(None, dtype=pl.String))
    own = agents.join(firsts, on="file_id", how="inner", validate="1:1", maintain_order="left")
    columns = ["child_id", "session_id", "agent_id", "prompt"]
    return pl.concat([own.select(columns), inline.select(columns)]).sort("child_id")


def _evidence(session: pl.Series, agent: pl.Series, call: pl.Series, trust: int) -> pl.DataFrame:
    columns = {"session_id": session, "agent_id": agent, "tool_use_id": call}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).with_columns(
        trust=pl.lit(trust, dtype=pl.Int64)
    )


def _by_meta(files: pl.DataFrame) -> pl.DataFrame:
    meta = files.filter(pl.col("meta").is_not_null())
    call = meta["meta"].str.extract(r'"toolUseId"\s*:\s*"([^"\\]+)"', 1)
    return _evidence(meta["session_id"], meta["agent_id"], call, 0)


def _by_result(entries: pl.DataFrame, answers: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """What results say of the agent they come from; a line that answers several calls says nothing of any one."""
    ids = answers["entry_id"]
    lines = entries.select("n_tool_results", "detail")[ids]
    told = answers.with_columns(
        lines["n_tool_results"],
        key=lines["detail"].str.extract(_AGENT_ID, 1),
        agent_id=lines["detail"].str.extract(_AGENT_ID, 2),
        session_id=_sessions(entries, files, ids),
    ).filter(pl.col("n_tool_results") == 1)
    sure = _evidence(told["session_id"], told["agent_id"], told["tool_use_id"], 1)
    trust = (told["key"] == "agent_id").fill_null(False).cast(pl.Int64) + 1
    return sure.with_columns(trust.alias("trust"))


def _by_progress(entries: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    lazy = entries.lazy().filter(
        (pl.col("subtype") == "agent_progress") & pl.col("parent_tool_use_id").is_not_null()
    )  # fmt: skip
    lines = lazy.select("entry_id", "parent_tool_use_id", "detail").collect()
    agent = lines["detail"].str.extract(_AGENT_ID, 2)
    return _evidence(_sessions(entries, files, lines["entry_id"]), agent, lines["parent_tool_use_id"], 3).unique(
        maintain_order=True
    )


def _by_prompt(heads: pl.DataFrame, calls: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Agents and calls left over whose prompts are equal, the first of one with the first of the other."""
    key = ["session_id", "prompt"]
    order = pl.int_range(pl.len()).over(key).alias("order")
    left = heads.filter(pl.col("prompt").is_not_null()).join(named, on="child_id", how="anti", maintain_order="left")
    free = calls.filter(pl.col("prompt").is_not_null()).join(named, on="call_id", how="anti", maintain_order="left")
    pairs = left.with_columns(order).join(
        free.with_columns(order), on=[*key, "order"], how="inner", validate="1:1", maintain_order="left"
    )
    return pairs.with_columns(trust=pl.lit(4, dtype=pl.Int64))
