"""Whose line is it: the session and the agent of every entry, and whether it was only copied there.

A fork or an old resume begins its file with lines of another session. Such lines are *inherited*: they stay where
they are, and everything that counts work leaves them out.
"""

from __future__ import annotations

import numpy as np
import polars as pl

NODE_TYPES = ("user", "assistant", "system", "attachment", "progress")
_MAX_ROUNDS = 64


def build_members(
    entries: pl.DataFrame, files: pl.DataFrame, *, calls: pl.DataFrame, entry_calls: pl.DataFrame
) -> pl.DataFrame:
    """One row per entry: its session, agent, layout, position and whether it was inherited.

    Parameters
    ----------
    entries, files, calls
        The tables of these names.
    entry_calls
        ``entry_id, call_id`` of the lines of API requests, as the ledger has them.

    Returns
    -------
    pl.DataFrame
        ``entry_id, file_id, session_id, agent_id, layout, pos, is_inherited, origin_session_id``, by ``entry_id``.
        ``agent_id`` is null on the main thread and ``inline-<uuid>`` for a sidechain inside a session's file.
        ``pos`` orders the lines of a session: files by their first time, lines as written.
    """
    lines = entries.select(
        "entry_id", "file_id", "type", "uuid", "parent_uuid", "session_id", "agent_id", "is_sidechain", "timestamp",
        "n_chars", "forked_from_session_id", "forked_from_uuid",
    )  # fmt: skip
    homes = _file_homes(files, _agent_files(entries))
    lines = lines.join(homes, on="file_id", how="left", validate="m:1", maintain_order="left")
    lines = lines.with_columns(pl.coalesce("home_session_id", "session_id").alias("session_id"))
    lines = _with_agent(lines)
    owned = entry_calls.join(
        calls.select("call_id", owner_file_id="file_id"), on="call_id", how="inner", validate="m:1"
    )
    inherited = _inherited(lines, owned.drop("call_id"))
    return (
        lines.join(inherited, on="file_id", how="left", validate="m:1", maintain_order="left")
        .with_columns(
            (pl.col("type").is_in(NODE_TYPES) & (pl.col("entry_id") <= pl.col("inherited_to")))
            .fill_null(False)
            .alias("is_inherited"),
            (pl.col("file_rank").cast(pl.Int64) * 2**36 + pl.col("entry_id")).alias("pos"),
        )
        .select(
            "entry_id", "file_id", "session_id", "agent_id", "layout", "pos", "is_inherited",
            pl.when("is_inherited").then("origin_session_id").alias("origin_session_id"),
        )
    )  # fmt: skip


def _agent_files(entries: pl.DataFrame) -> pl.DataFrame:
    """Files whose conversation is an agent's from end to end, wherever they lie and however they are named."""
    has_envelope = pl.col("is_sidechain").is_not_null() | (pl.col("uuid").is_not_null() & pl.col("has_message"))
    nodes = entries.filter(pl.col("type").is_in(NODE_TYPES) & has_envelope)
    return nodes.group_by("file_id").agg(
        pl.col("is_sidechain").fill_null(False).all().alias("all_sidechain"),
        pl.col("agent_id").drop_nulls().first().alias("line_agent_id"),
        (pl.col("agent_name") + "@" + pl.col("team_name")).drop_nulls().first().alias("member_id"),
    )


def _file_homes(files: pl.DataFrame, contents: pl.DataFrame) -> pl.DataFrame:
    stem = pl.col("path").str.extract(r"([^/\\]+?)(?:\.jsonl)?(?:\.gz|\.zst)?$", 1).str.strip_prefix("agent-")
    kind = pl.col("kind").cast(pl.String)
    is_agent = (kind == "agent") | pl.col("all_sidechain").fill_null(False) | pl.col("member_id").is_not_null()
    layout = pl.col("layout").cast(pl.String)
    return (
        files.join(contents, on="file_id", how="left", validate="1:1", maintain_order="left")
        # The order in which files own the requests they share; see usage_lines.
        .sort("first_at", "last_at", "session_id", "file_id", nulls_last=True, maintain_order=True)
        .select(
            "file_id",
            pl.col("session_id").alias("home_session_id"),
            pl.when(is_agent).then(pl.coalesce("agent_id", "member_id", "line_agent_id", stem)).alias("home_agent_id"),
            is_agent.alias("is_agent_file"),
            pl.when(is_agent & (layout == "session")).then(pl.lit("flat")).otherwise(layout).alias("layout"),
            pl.int_range(pl.len(), dtype=pl.Int64).alias("file_rank"),
        )
    )


def _with_agent(lines: pl.DataFrame) -> pl.DataFrame:
    """``agent_id`` by file, else by line, else the sidechain the line hangs in."""
    in_session = ~pl.col("is_agent_file")
    beside = pl.col("is_sidechain").fill_null(False) & in_session
    lines = lines.with_columns(
        pl.when("is_agent_file").then(pl.col("home_agent_id")).when(beside).then(pl.col("agent_id")).alias("agent_id"),
        pl.when(beside).then(pl.lit("inline")).otherwise(pl.col("layout")).alias("layout"),
    )
    loose = lines.filter(beside & pl.col("agent_id").is_null() & pl.col("type").is_in(NODE_TYPES))
    if loose.is_empty():
        return lines
    named = sidechain_roots(loose.select("entry_id", "file_id", "uuid", "parent_uuid"))
    return (
        lines.join(named, on="entry_id", how="left", validate="1:1", maintain_order="left")
        .with_columns(pl.coalesce("agent_id", "inline_id").alias("agent_id"))
        .drop("inline_id")
    )


def sidechain_roots(lines: pl.DataFrame) -> pl.DataFrame:
    """``entry_id`` and ``inline_id``: the sidechain's first line names it, whatever hangs on what below it."""
    lines = lines.with_row_index("row")
    first = lines.filter(pl.col("uuid").is_not_null()).unique(["file_id", "uuid"], keep="first", maintain_order=True)
    found = lines.join(
        first.select("file_id", pl.col("uuid").alias("parent_uuid"), pl.col("row").alias("up")),
        on=["file_id", "parent_uuid"],
        how="left",
        validate="m:1",
        maintain_order="left",
    )
    own = np.arange(lines.height, dtype=np.int64)
    up = found["up"].cast(pl.Int64).fill_null(-1).to_numpy()
    jump = np.where(up < 0, own, up)
    for _ in range(_MAX_ROUNDS):
        further = jump[jump]
        if np.array_equal(further, jump):
            break
        # In a cycle nothing is a root: the smallest row of the two ends stands for it.
        jump = np.where(further == own, np.minimum(jump, own), further)
    names = lines["uuid"].fill_null(lines["entry_id"].cast(pl.String))
    return lines.select("entry_id").with_columns(("inline-" + names.gather(jump)).alias("inline_id"))


def _inherited(lines: pl.DataFrame, owned: pl.DataFrame) -> pl.DataFrame:
    """Per file that begins with copied lines: the last of them, and the session they come from."""
    told = lines.filter(pl.col("type") == "assistant").join(
        owned, on="entry_id", how="inner", validate="1:1", maintain_order="left"
    )
    marks = pl.concat([_copied_calls(told, lines), _forked_lines(lines), _copied_lines(lines, told)])
    return (
        marks.sort("entry_id", maintain_order=True)
        .group_by("file_id", maintain_order=True)
        .agg(
            pl.col("entry_id").last().alias("inherited_to"),
            pl.col("origin_session_id").drop_nulls().last().alias("origin_session_id"),
        )
    )


def _copied_calls(told: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Answers that another file owns."""
    homes = lines.unique("file_id", keep="first", maintain_order=True).select(
        owner_file_id="file_id", origin_session_id="session_id"
    )
    return (
        told.filter(pl.col("file_id") != pl.col("owner_file_id"))
        .join(homes, on="owner_file_id", how="left", validate="m:1", maintain_order="left")
        # A session in two folders is one and shares nothing with itself.
        .filter((pl.col("session_id") != pl.col("origin_session_id")) | pl.col("is_agent_file"))
        .select("file_id", "entry_id", "origin_session_id")
    )


def _forked_lines(lines: pl.DataFrame) -> pl.DataFrame:
    marked = pl.col("forked_from_uuid").is_not_null() | pl.col("forked_from_session_id").is_not_null()
    return lines.filter(marked).select("file_id", "entry_id", origin_session_id="forked_from_session_id")


def _copied_lines(lines: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Lines that stand in an older file word for word; which file is older, the requests decide where they can."""
    same = ["uuid", "type", "timestamp", "n_chars"]
    nodes = lines.filter(pl.col("uuid").is_not_null() & pl.col("type").is_in(NODE_TYPES))
    shared = nodes.filter(pl.col("uuid").is_duplicated())
    shared = shared.filter(pl.struct(same).is_duplicated())
    # The home of a line is the file that keeps the answers around it; else the file that began first.
    foreign = told.group_by("file_id").agg(n_foreign=(pl.col("file_id") != pl.col("owner_file_id")).sum())
    shared = shared.join(foreign, on="file_id", how="left", validate="m:1", maintain_order="left").with_columns(
        pl.col("n_foreign").fill_null(0)
    )
    home = shared.sort("n_foreign", "file_rank", "entry_id", maintain_order=True)
    home = home.unique(same, keep="first", maintain_order=True)
    home = home.select(*same, owner_file_id="file_id", origin_session_id="session_id")
    return (
        shared.join(home, on=same, how="left", validate="m:1", nulls_equal=True, maintain_order="left")
        .filter(pl.col("file_id") != pl.col("owner_file_id"))
        .filter((pl.col("session_id") != pl.col("origin_session_id")) | pl.col("is_agent_file"))
        .select("file_id", "entry_id", "origin_session_id")
    )
