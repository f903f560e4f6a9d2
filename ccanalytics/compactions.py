"""Compactions: what was put away, what was kept, what it cost."""

from __future__ import annotations

import polars as pl

from .details import parse_details, read_details
from .links import RUN
from .schema.work import COMPACTIONS

_FACTS = {
    "compactMetadata.trigger": "str",
    "compactMetadata.preTokens": "i64",
    "compactMetadata.postTokens": "i64",
    "compactMetadata.durationMs": "i64",
    "compactMetadata.cumulativeDroppedTokens": "i64",
    "compactMetadata.preservedSegment.headUuid": "str",
    "compactMetadata.preservedSegment.tailUuid": "str",
    "compactMetadata.preservedSegment.anchorUuid": "str",
    "microcompactMetadata.trigger": "str",
    "microcompactMetadata.preTokens": "i64",
    "microcompactMetadata.tokensSaved": "i64",
}


def build_compactions(
    entries: pl.DataFrame,
    members: pl.DataFrame,
    *,
    calls: pl.DataFrame,
    agents: pl.DataFrame,
    entry_turns: pl.DataFrame,
) -> pl.DataFrame:
    """One row per compact boundary and microcompaction, copies in other files left out; sorted by entry.

    Parameters
    ----------
    calls
        API requests with ``session_id`` and ``agent_id`` as :func:`~ccanalytics.work.place_calls` sets them.
    agents, entry_turns
        The table of agent runs, and ``entry_id, turn_no``.

    Notes
    -----
    The request that writes the summary has no line of its own. Its cost is known where a version keeps it in a
    compaction agent's file, or where Claude Code's own totals before and after enclose the compaction and nothing else.
    """
    rows = _boundaries(entries, members)
    rows = pl.concat([rows, _facts(rows)], how="horizontal").drop("detail")
    kept = _kept(rows, entries, members)
    rows = rows.join(kept, on="entry_id", how="left", validate="1:1", maintain_order="left")
    for more in (
        _messages_before(rows, entries, members),
        _summaries(rows, entries, members),
        _contexts(rows, calls, members),
        _costs(rows, entries, members, calls, agents),
        entry_turns,
    ):
        rows = rows.join(more, on="entry_id", how="left", validate="1:1", maintain_order="left")
    rows = rows.with_columns(
        messages_dropped=pl.when(pl.col("kind") == "compact").then(
            (pl.col("messages_before") - pl.col("messages_kept")).clip(lower_bound=0)
        ),
        tokens_saved=pl.coalesce("tokens_saved", pl.col("pre_tokens") - pl.col("post_tokens")),
        summary_cost_rule=pl.when(pl.col("kind") == "compact").then(pl.col("summary_cost_rule").fill_null("unknown")),
    )
    return COMPACTIONS.conform(rows.select(COMPACTIONS.names).sort(COMPACTIONS.order, maintain_order=True))


def _boundaries(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    found = (
        entries.filter(
            (pl.col("type") == "system") & pl.col("subtype").is_in(["compact_boundary", "microcompact_boundary"])
        )
        .with_columns(kind=pl.col("subtype").str.strip_suffix("_boundary"))
        .select("entry_id", "uuid", "timestamp", "version", "detail", "kind")
        .join(
            members.select("entry_id", "file_id", *RUN, "pos", "is_inherited"),
            on="entry_id", how="left", validate="1:1", maintain_order="left",
        )
        .with_columns(key=pl.coalesce("uuid", pl.col("entry_id").cast(pl.String)))
        .sort("is_inherited", "pos", maintain_order=True)
    )  # fmt: skip
    copies = found.group_by("key").agg(
        n_copies=(pl.col("file_id").n_unique() - 1).cast(pl.Int32),
        copied_to=pl.col("session_id").unique(maintain_order=True).slice(1).str.join(","),
    )
    return (
        found.unique("key", keep="first", maintain_order=True)
        .join(copies, on="key", how="left", validate="1:1", maintain_order="left")
        .with_columns(pl.when(pl.col("copied_to") != "").then("copied_to").alias("copied_to"))
        .drop("key", "file_id", "is_inherited")
    )


def _facts(rows: pl.DataFrame) -> pl.DataFrame:
    told = read_details(rows["detail"], _FACTS)  # type: ignore[arg-type]
    lists = [_listed(d) for d in parse_details(rows["detail"])]
    big, small, segment = "compactMetadata.", "microcompactMetadata.", "compactMetadata.preservedSegment."
    return told.select(
        trigger=pl.coalesce(big + "trigger", small + "trigger"),
        pre_tokens=pl.coalesce(big + "preTokens", small + "preTokens"),
        post_tokens=pl.col(big + "postTokens"),
        tokens_saved=pl.col(small + "tokensSaved"),
        cumulative_dropped_tokens=pl.col(big + "cumulativeDroppedTokens"),
        duration_ms=pl.col(big + "durationMs"),
        segment_head_uuid=pl.col(segment + "headUuid"),
        segment_tail_uuid=pl.col(segment + "tailUuid"),
        segment_anchor_uuid=pl.col(segment + "anchorUuid"),
    ).with_columns(
        pl.Series("kept_uuids", [kept for kept, _ in lists], dtype=pl.List(pl.String)),
        pl.Series("n_compacted_tools", [cleared for _, cleared in lists], dtype=pl.Int64),
    )


def _listed(detail: object) -> tuple[list[str] | None, int | None]:
    """The uuids a boundary lists as kept, and the number of tool results a microcompaction cleared."""

    def below(value: object, key: str) -> object:
        return value.get(key) if isinstance(value, dict) else None

    named = below(below(detail, "compactMetadata"), "preservedMessages")
    kept = below(named, "uuids") if below(named, "uuids") is not None else below(named, "allUuids")
    cleared = below(below(detail, "microcompactMetadata"), "compactedToolIds")
    uuids = [u for u in kept if isinstance(u, str)] if isinstance(kept, list) else None
    return uuids, len(cleared) if isinstance(cleared, list) else None


def _kept(rows: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """How many of the kept lines there are, and whether all that are named can be found."""
    lines = _named_lines(rows, entries, members)
    listed = (
        rows.select("entry_id", "session_id", uuid="kept_uuids")
        .explode("uuid")
        .drop_nulls("uuid")
        .join(lines.select("session_id", "uuid", "type"), on=["session_id", "uuid"], how="left", validate="m:1")
        .group_by("entry_id")
        .agg(
            n_listed=pl.col("type").is_in(["user", "assistant"]).sum().cast(pl.Int64),
            n_lost=pl.col("type").is_null().sum(),
        )
    )
    ends = _segment_ends(rows, lines)
    ends = ends.with_columns(n_between=_count_between(ends, entries, members))
    has_list = pl.col("kept_uuids").is_not_null()
    asked = pl.col("segment_head_uuid").is_not_null() | pl.col("segment_tail_uuid").is_not_null()
    return ends.join(listed, on="entry_id", how="left", validate="1:1", maintain_order="left").select(
        "entry_id",
        messages_kept=pl.when(has_list).then(pl.col("n_listed").fill_null(0))
        .when(asked).then(pl.col("n_between").fill_null(0))
        .otherwise(0),
        segment=pl.when(has_list & (pl.col("kept_uuids").list.len() == 0)).then(pl.lit("empty"))
        .when(has_list & (pl.col("n_lost") > 0)).then(pl.lit("dangling"))
        .when(has_list).then(pl.lit("found"))
        .when(~asked).then(pl.lit("none"))
        .when((pl.col("head_pos") <= pl.col("tail_pos")).fill_null(False)).then(pl.lit("found"))
        .otherwise(pl.lit("dangling")),
    )  # fmt: skip


def _named_lines(rows: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """The lines whose uuids the boundaries name, each once in its session."""
    named = pl.concat([rows["kept_uuids"].explode(), rows["segment_head_uuid"], rows["segment_tail_uuid"]])
    return (
        entries.select("entry_id", "uuid", "type")
        .filter(pl.col("uuid").is_in(named.drop_nulls().unique().implode()))
        .join(members.select("entry_id", "session_id", "pos"), on="entry_id", how="left", validate="1:1")
        .sort("pos", maintain_order=True)
        .unique(["session_id", "uuid"], keep="first", maintain_order=True)
    )


def _segment_ends(rows: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    ends = rows.select("entry_id", "session_id", "kept_uuids", "segment_head_uuid", "segment_tail_uuid")
    for end in ("head", "tail"):
        name = f"segment_{end}_uuid"
        at = lines.select("session_id", pl.col("uuid").alias(name), pl.col("pos").alias(f"{end}_pos"))
        ends = ends.join(at, on=["session_id", name], how="left", validate="m:1", maintain_order="left")
    return ends


def _count_between(ends: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame) -> pl.Series:
    """Messages of the session from head to tail, both included; null where an end is missing."""
    asked = ends.filter(pl.col("kept_uuids").is_null()).select("entry_id", "session_id", "head_pos", "tail_pos")
    asked = asked.drop_nulls()
    said = _messages(entries, members.join(asked, on="session_id", how="semi")).select("session_id", "pos")
    found = (
        asked.join(said, on="session_id", how="inner")
        .filter(pl.col("pos").is_between("head_pos", "tail_pos"))
        .group_by("entry_id")
        .agg(n_between=pl.len().cast(pl.Int64))
    )
    counted = ends.select("entry_id").join(found, on="entry_id", how="left", validate="1:1", maintain_order="left")
    return counted["n_between"]


def _messages(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Members that are user or assistant lines."""
    said = entries.filter(pl.col("type").is_in(["user", "assistant"])).select("entry_id")
    return members.join(said, on="entry_id", how="semi", maintain_order="left")


def _messages_before(rows: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Messages of the thread since the boundary before."""
    threads = rows.select("session_id").unique()
    said = (
        _messages(entries, members.join(threads, on="session_id", how="semi", maintain_order="left"))
        .select(*RUN, "pos")
        .sort("pos")
        .with_columns(said=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(RUN))
        .with_columns(thread=pl.struct(RUN).hash())
    )
    cuts = rows.filter(pl.col("kind") == "compact").select("entry_id", *RUN, "pos").sort("pos")
    cuts = cuts.with_columns(thread=pl.struct(RUN).hash()).join_asof(
        said.select("thread", "pos", "said"), on="pos", by="thread", check_sortedness=False
    )
    before = pl.col("said").fill_null(0)
    return cuts.with_columns(messages_before=before - before.shift(1, fill_value=0).over("thread")).select(
        "entry_id", "messages_before"
    )


def _summaries(rows: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """The summary behind the boundary: hung on it, else the next one of the thread."""
    written = (
        entries.filter(pl.col("is_compact_summary").fill_null(False))
        .select(pos_id="entry_id", up="parent_uuid", summary_chars="n_chars")
        .join(
            members.select(pos_id="entry_id", session_id="session_id", agent_id="agent_id", pos="pos"),
            on="pos_id",
            how="left",
        )
        .with_columns(thread=pl.struct(RUN).hash())
        .sort("pos")
    )
    cuts = rows.filter(pl.col("kind") == "compact").select("entry_id", "uuid", *RUN, "pos")
    hung = written.drop_nulls("up").unique(["session_id", "up"], keep="first", maintain_order=True)
    cuts = cuts.join(
        hung.select("session_id", uuid="up", hung_id="pos_id", hung_chars="summary_chars"),
        on=["session_id", "uuid"], how="left", validate="m:1",
    )  # fmt: skip
    cuts = cuts.with_columns(thread=pl.struct(RUN).hash()).sort("pos")
    nxt = cuts.select("entry_id", next_cut=pl.col("pos").shift(-1).over("thread"))
    cuts = cuts.join(nxt, on="entry_id", how="left", validate="1:1", maintain_order="left").join_asof(
        written.select("thread", "pos", "pos_id", "summary_chars", at="pos"),
        on="pos", by="thread", strategy="forward", check_sortedness=False,
    )  # fmt: skip
    near = pl.col("next_cut").is_null() | (pl.col("at") < pl.col("next_cut"))
    return cuts.select(
        "entry_id",
        summary_entry_id=pl.coalesce("hung_id", pl.when(near).then("pos_id")),
        summary_chars=pl.when(pl.col("hung_id").is_not_null()).then("hung_chars").when(near).then("summary_chars"),
    )


def _contexts(rows: pl.DataFrame, calls: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Prompt sizes of the requests on both sides of the boundary."""
    asked = (
        calls.filter(pl.col("source") == "transcript")
        .select("entry_id", *RUN, "context_tokens")
        .join(members.select("entry_id", "pos"), on="entry_id", how="left", validate="m:1")
        .with_columns(thread=pl.struct(RUN).hash())
        .sort("pos")
        .select("thread", "pos", "context_tokens")
    )
    cuts = rows.select("entry_id", *RUN, "pos").with_columns(thread=pl.struct(RUN).hash()).sort("pos")
    for side, strategy in (("before", "backward"), ("after", "forward")):
        cuts = cuts.join_asof(
            asked.rename({"context_tokens": f"context_{side}_tokens"}),
            on="pos", by="thread", strategy=strategy, check_sortedness=False,  # type: ignore[arg-type]
        )  # fmt: skip
    return cuts.select("entry_id", "context_before_tokens", "context_after_tokens")


def _costs(
    rows: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame, calls: pl.DataFrame, agents: pl.DataFrame
) -> pl.DataFrame:
    cuts = rows.filter((pl.col("kind") == "compact") & pl.col("agent_id").is_null()).select(
        "entry_id", "session_id", "timestamp", "pos"
    )
    by_agent = _cost_of_agents(cuts, agents).with_columns(summary_cost_rule=pl.lit("compaction_agent"))
    by_total = _cost_of_totals(cuts, entries, members, calls).with_columns(summary_cost_rule=pl.lit("recorded_total"))
    return pl.concat([by_agent, by_total]).unique("entry_id", keep="first", maintain_order=True)


def _cost_of_agents(cuts: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """A compaction agent ends right before the boundary it made."""
    made = agents.filter((pl.col("internal_kind") == "compact") & pl.col("ended_at").is_not_null())
    made = made.filter(pl.col("own_calls") > 0).select("session_id", "ended_at", "own_cost_usd").sort("ended_at")
    timed = cuts.filter(pl.col("timestamp").is_not_null()).sort("timestamp")
    found = made.join_asof(
        timed.select("session_id", "timestamp", "entry_id"),
        left_on="ended_at", right_on="timestamp", by="session_id", strategy="forward", check_sortedness=False,
    )  # fmt: skip
    return (
        found.drop_nulls("entry_id")
        .unique("entry_id", keep="last", maintain_order=True)
        .select("entry_id", summary_cost_usd="own_cost_usd")
    )


def _cost_of_totals(
    cuts: pl.DataFrame, entries: pl.DataFrame, members: pl.DataFrame, calls: pl.DataFrame
) -> pl.DataFrame:
    """The step of Claude Code's own total, where its two lines enclose this compaction and no request with lines."""
    totals = entries.filter(pl.col("type") == "cost-state").select("entry_id", "detail")
    totals = totals.with_columns(total=read_details(totals["detail"], {"totalCostUSD": "f64"})["totalCostUSD"]).drop(
        "detail"
    )
    totals = totals.join(members.select("entry_id", "session_id", "pos"), on="entry_id", how="left", validate="1:1")
    totals = totals.drop_nulls("total").sort("pos")
    spent = calls.select("session_id", "entry_id").join(members.select("entry_id", "pos"), on="entry_id", how="left")
    busy = pl.concat([spent.select("session_id", "pos"), cuts.select("session_id", "pos")]).drop_nulls().sort("pos")
    steps = totals.select("session_id", before_pos="pos", before="total").sort("before_pos")
    found = cuts.sort("pos").join_asof(
        steps, left_on="pos", right_on="before_pos", by="session_id", check_sortedness=False
    ).join_asof(
        totals.select("session_id", after_pos="pos", after="total").sort("after_pos"),
        left_on="pos", right_on="after_pos", by="session_id", strategy="forward", check_sortedness=False,
    ).drop_nulls(["before_pos", "after_pos"])  # fmt: skip
    between = (
        found.select("entry_id", "session_id", "before_pos", "after_pos")
        .join(busy, on="session_id", how="inner")
        .filter(pl.col("pos").is_between("before_pos", "after_pos"))
        .group_by("entry_id")
        .agg(n=pl.len())
    )
    return (
        found.join(between, on="entry_id", how="left", validate="1:1", maintain_order="left")
        .filter((pl.col("n") == 1) & (pl.col("after") > pl.col("before")))
        .select("entry_id", summary_cost_usd=pl.col("after") - pl.col("before"))
    )
