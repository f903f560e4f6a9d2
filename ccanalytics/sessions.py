"""Sessions: what each was about, when, where, how much of it, and which others it belongs with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from .amounts import call_amounts, finish_amounts, prefixed, sum_amounts
from .beside import Heading
from .details import read_details
from .listing import read_listing
from .schema.work import SESSIONS
from .secrets import mask_secrets
from .times import FIVE_MINUTES_MS, THIRTY_MINUTES_MS, active_ms

ReadRaw = Callable[[Iterable[int]], list[dict[str, Any]]]
_KEY = ["session_id"]
_NODES = ["user", "assistant", "system", "attachment", "progress"]
_VALUES = {
    "custom-title": "custom_title",
    "ai-title": "ai_title",
    "tag": "tag",
    "permission-mode": "permission_mode",
    "mode": "mode",
    "agent-name": "said_name",
    "pr-link": "pr_url",
}


def build_sessions(
    entries: pl.DataFrame,
    files: pl.DataFrame,
    members: pl.DataFrame,
    *,
    placed_calls: pl.DataFrame,
    agents: pl.DataFrame,
    tools: pl.DataFrame,
    prompts: pl.DataFrame,
    compactions: pl.DataFrame,
    problems: pl.DataFrame,
    parallel: pl.DataFrame,
    titles: pl.DataFrame,
) -> pl.DataFrame:
    """One row per session id over all its files, sorted by it.

    Parameters
    ----------
    members, prompts, parallel
        What :func:`~ccanalytics.members.build_members`, :func:`~ccanalytics.turns.build_prompts` and
        :func:`~ccanalytics.parallelism.sum_parallelism` give.
    placed_calls
        ``calls`` with ``session_id`` and ``agent_id`` as :func:`~ccanalytics.work.place_calls` sets them.
    titles
        ``session_id, shown, shown_source``: what the list of sessions shows (:func:`read_titles`).

    Notes
    -----
    Times are those on the lines, never those of the files. What a fork or a resume copied counts in ``n_inherited_*``
    and nowhere else.
    """
    lines = _lines(entries, members)
    rows = pl.concat([members.select(_KEY), placed_calls.select(_KEY)]).drop_nulls().unique().sort(_KEY)
    for more in (
        _spans(lines),
        _places(lines, files),
        _said(lines),
        titles,
        _work(agents, tools, prompts, compactions),
        _amounts(placed_calls),
        _models(placed_calls),
        _lineage(lines, agents),
        _damage(problems, members),
        parallel,
    ):
        rows = rows.join(more, on="session_id", how="left", validate="1:1", maintain_order="left")
    rows = _with_title(rows.with_columns(_kind()))
    for prefix in ("", "main_", "agents_"):
        rows = finish_amounts(rows, prefix)
    rows = rows.with_columns(
        n_concurrent=count_concurrent(rows),
        span_ms=(pl.col("ended_at") - pl.col("started_at")).dt.total_milliseconds(),
    )
    counts = [
        n for n in SESSIONS.names if n.startswith("n_") or n in ("active_ms", "active_30m_ms", "max_agents_at_work")
    ]
    rows = rows.with_columns(pl.col(counts).fill_null(0), pl.col("has_recorded_cost").fill_null(False))
    return SESSIONS.conform(rows.select(SESSIONS.names).sort(SESSIONS.order, maintain_order=True))


def _lines(entries: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    facts = entries.select(
        "entry_id", "type", "timestamp", "cwd", "git_branch", "version", "entrypoint", "team_name", "agent_name",
        "value", "detail",
    )  # fmt: skip
    return members.drop("layout").join(facts, on="entry_id", how="left", validate="1:1", maintain_order="left")


def _spans(lines: pl.DataFrame) -> pl.DataFrame:
    own = lines.filter(~pl.col("is_inherited"))
    said = own.filter(pl.col("type").is_in(["user", "assistant", "attachment"]))
    counts = lines.group_by(_KEY).agg(
        n_entries=pl.len().cast(pl.Int64),
        n_files=pl.col("file_id").n_unique().cast(pl.Int32),
        n_inherited_entries=pl.col("is_inherited").sum().cast(pl.Int64),
        has_recorded_cost=(pl.col("type") == "cost-state").any(),
    )
    times = own.group_by(_KEY).agg(started_at=pl.col("timestamp").min(), ended_at=pl.col("timestamp").max())
    five = active_ms(said, by=_KEY, cap_ms=FIVE_MINUTES_MS)
    thirty = active_ms(said, by=_KEY, cap_ms=THIRTY_MINUTES_MS, name="active_30m_ms")
    for more in (times, five, thirty):
        counts = counts.join(more, on=_KEY, how="left", validate="1:1")
    return counts


def _places(lines: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Project, branch, version …: of the main thread where there is one, in order of the lines."""
    order = lines.sort(pl.col("agent_id").is_not_null(), "pos", maintain_order=True)
    homes = files.select("file_id", "project", "project_dir", "worktree")
    order = order.join(homes, on="file_id", how="left", validate="m:1", maintain_order="left")
    known = pl.col("project").is_not_null()

    def listed(name: str) -> pl.Expr:
        return pl.col(name).drop_nulls().unique(maintain_order=True).str.join(",")

    return order.group_by(_KEY, maintain_order=True).agg(
        pl.col("project").filter(known).first(),
        pl.coalesce(pl.col("project_dir").filter(known).first(), pl.col("project_dir").first()).alias("project_dir"),
        pl.col("worktree").drop_nulls().first(),
        pl.col("cwd").drop_nulls().first(),
        pl.col("git_branch").filter(pl.col("agent_id").is_null()).drop_nulls().last(),
        listed("git_branch").alias("git_branches"),
        listed("version").alias("versions"),
        pl.col("entrypoint").drop_nulls().first(),
        pl.col("team_name").drop_nulls().first(),
        pl.col("agent_name").drop_nulls().last(),
        has_main=(pl.col("agent_id").is_null() & pl.col("type").is_in(_NODES)).any(),
        is_member=(pl.col("team_name").is_not_null() & pl.col("agent_name").is_not_null()).any(),
    )


def _said(lines: pl.DataFrame) -> pl.DataFrame:
    """The last value of each metadata line of the main thread; an empty tag is none."""
    told = lines.filter(pl.col("agent_id").is_null() & pl.col("type").is_in(list(_VALUES))).sort("pos")
    said = told.group_by(_KEY, maintain_order=True).agg(
        pl.col("value").filter(pl.col("type") == kind).last().alias(name) for kind, name in _VALUES.items()
    )
    modes = lines.filter(
        (pl.col("type") == "user") & pl.col("detail").str.contains('"permissionMode"', literal=True).fill_null(False)
    ).sort("pos")
    modes = modes.group_by(_KEY, maintain_order=True).agg(
        pl.col("detail").last().str.extract(r'"permissionMode":"([^"\\]+)"', 1).alias("user_mode")
    )
    return (
        said.join(modes, on=_KEY, how="full", coalesce=True, validate="1:1")
        .with_columns(
            pl.coalesce("permission_mode", "user_mode").alias("permission_mode"),
            pl.when(pl.col("tag") != "").then("tag").alias("tag"),
        )
        .drop("user_mode")
    )


def _work(agents: pl.DataFrame, tools: pl.DataFrame, prompts: pl.DataFrame, compactions: pl.DataFrame) -> pl.DataFrame:
    def count(frame: pl.DataFrame, name: str) -> pl.DataFrame:
        return frame.group_by(_KEY).agg(pl.len().cast(pl.Int32).alias(name))

    parts = [
        count(agents.filter(pl.col("kind") != "main"), "n_agents"),
        count(tools, "n_tools"),
        count(tools.filter(pl.col("outcome") == "error"), "n_tool_errors"),
        count(_copied(tools), "n_inherited_tools"),
        count(prompts.filter(~pl.col("is_inherited")), "n_turns"),
        count(prompts.filter(pl.col("is_inherited")), "n_inherited_turns"),
        count(compactions.filter(pl.col("kind") == "compact"), "n_compactions"),
        count(_copied(compactions.filter(pl.col("kind") == "compact")), "n_inherited_compactions"),
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.join(part, on=_KEY, how="full", coalesce=True, validate="1:1")
    return whole.filter(pl.col("session_id").is_not_null())


def _copied(table: pl.DataFrame) -> pl.DataFrame:
    return (
        table.filter(pl.col("copied_to").is_not_null())
        .select(pl.col("copied_to").str.split(",").alias("session_id"))
        .explode("session_id")
    )


def _amounts(calls: pl.DataFrame) -> pl.DataFrame:
    amounts = call_amounts(calls)
    whole = sum_amounts(amounts, _KEY)
    main = prefixed(sum_amounts(amounts.filter(pl.col("agent_id").is_null()), _KEY), "main_")
    side = prefixed(sum_amounts(amounts.filter(pl.col("agent_id").is_not_null()), _KEY), "agents_")
    return whole.join(main, on=_KEY, how="left", validate="1:1").join(side, on=_KEY, how="left", validate="1:1")


def _models(calls: pl.DataFrame) -> pl.DataFrame:
    names = calls.sort("first_at", "call_id", maintain_order=True).group_by(_KEY, maintain_order=True)
    return names.agg(pl.col("model").drop_nulls().unique(maintain_order=True).str.join(",").alias("models"))


def _lineage(lines: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Where copied lines come from; and which session went on where this one ended."""
    main = lines.filter(pl.col("agent_id").is_null())
    forked = main.filter(pl.col("is_inherited") & (pl.col("origin_session_id") != pl.col("session_id")))
    forked = forked.group_by(_KEY).agg(forked_from=pl.col("origin_session_id").drop_nulls().last())
    own = main.filter(~pl.col("is_inherited") & pl.col("type").is_in(["user", "assistant"]))
    ends = own.group_by(_KEY).agg(begins=pl.col("timestamp").min(), ends=pl.col("timestamp").max())
    heirs = forked.join(ends, on=_KEY, how="left", validate="1:1").select(
        heir="session_id", session_id="forked_from", heir_begins="begins"
    )
    heirs = heirs.drop_nulls("session_id").join(ends, on=_KEY, how="inner", validate="m:1")
    # A session that was resumed into a new file says nothing more itself; one that was forked may.
    heirs = heirs.filter(pl.col("heir_begins") >= pl.col("ends")).sort("heir_begins", "heir")
    heirs = heirs.group_by(_KEY, maintain_order=True).agg(by_copy=pl.col("heir").first())
    told = main.filter(pl.col("type") == "continued-in")
    facts = read_details(told["detail"], {"continuedIn": "str", "newSessionId": "str", "continuedInSessionId": "str"})
    told = told.select("session_id").with_columns(by_line=facts.select(pl.coalesce(pl.all())).to_series())
    told = told.drop_nulls().group_by(_KEY, maintain_order=True).agg(pl.col("by_line").last())
    above = agents.filter(pl.col("parent_session_id") != pl.col("session_id"))
    above = above.group_by(_KEY, maintain_order=True).agg(pl.col("parent_session_id").first())
    whole = forked
    for more in (heirs, told, above):
        whole = whole.join(more, on=_KEY, how="full", coalesce=True, validate="1:1")
    return whole.with_columns(continued_in=pl.coalesce("by_line", "by_copy")).drop("by_line", "by_copy")


def _damage(problems: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Problems of the files a session's lines are in; a file is counted with the session most of it belongs to."""
    homes = members.group_by("file_id").agg(pl.col("session_id").drop_nulls().mode().sort().first())
    return (
        problems.join(homes, on="file_id", how="inner", validate="m:1")
        .group_by(_KEY)
        .agg(n_problems=pl.len().cast(pl.Int64))
        .filter(pl.col("session_id").is_not_null())
    )


def _kind() -> pl.Expr:
    is_agent = ~pl.col("has_main").fill_null(False)
    return (
        pl.when(is_agent & pl.col("is_member").fill_null(False)).then(pl.lit("teammate"))
        .when(is_agent & pl.col("is_beside").fill_null(False)).then(pl.lit("agent"))
        .otherwise(pl.lit("session"))
        .alias("kind")
    )  # fmt: skip


def _with_title(rows: pl.DataFrame) -> pl.DataFrame:
    """The shown title, else the titles the lines tell of, the user's before the model's."""
    title = pl.coalesce("shown", "custom_title", "ai_title")
    told = (
        pl.when(pl.col("shown").is_not_null()).then("shown_source")
        .when(pl.col("custom_title").is_not_null()).then(pl.lit("custom_title"))
        .when(pl.col("ai_title").is_not_null()).then(pl.lit("ai_title"))
    )  # fmt: skip
    name = pl.coalesce("agent_name", "said_name")
    return rows.with_columns(title=title, title_source=told, agent_name=name)


def count_concurrent(rows: pl.DataFrame) -> pl.Series:
    """Per session, the most other sessions of its project alive at one moment of its span."""
    begin = rows["started_at"].dt.epoch("ms").to_numpy()
    end = rows["ended_at"].dt.epoch("ms").to_numpy()
    out = np.zeros(rows.height, dtype=np.int32)
    timed = rows.with_row_index("row").filter(pl.col("started_at").is_not_null() & (pl.col("kind") == "session"))
    for part in timed.partition_by("project", maintain_order=True):
        at = part["row"].to_numpy()
        starts, ends = np.sort(begin[at]), np.sort(end[at])
        # Alive at a session's start: begun by then, and not ended before.
        alive = np.searchsorted(starts, starts, "right") - np.searchsorted(ends, starts, "left")
        first, last = np.searchsorted(starts, begin[at], "left"), np.searchsorted(starts, end[at], "right")
        out[at] = [int(alive[a:b].max(initial=1)) - 1 for a, b in zip(first, last, strict=True)]
    return pl.Series("n_concurrent", out)


def read_titles(
    files: pl.DataFrame,
    entries: pl.DataFrame,
    members: pl.DataFrame,
    raw: ReadRaw | None,
    *,
    headings: Mapping[str, Heading] | None = None,
) -> pl.DataFrame:
    """``session_id, shown, shown_source, is_beside``: the title the list of sessions shows, by Claude Code's own rules.

    Parameters
    ----------
    raw
        Reads entries again by their ids; without it the summaries that stand in other sessions' files are left out.
    headings
        What the list shows of each file, by path; without it the files are read.

    Notes
    -----
    A ``summary`` line describes the session its ``leafUuid`` lies in, which may be another than that of its file.
    """
    stem = pl.col("path").str.extract(r"([^/\\]+?)\.jsonl[^/\\]*$", 1)
    own = files.filter(stem == pl.col("session_id")).sort("modified_at", "file_id", descending=True)
    own = own.unique("session_id", keep="first", maintain_order=True)
    summaries = _summaries(entries, members, raw)
    said = entries.filter(pl.col("type").is_in(["custom-title", "last-prompt"])).join(
        members.select("entry_id", home="session_id"), on="entry_id", how="left", validate="1:1"
    )
    kinds = {k: set(said.filter(pl.col("type") == k)["home"].drop_nulls()) for k in ("custom-title", "last-prompt")}
    rows = []
    for session_id, path, kind in own.select("session_id", "path", pl.col("kind").cast(pl.String)).iter_rows():
        heading = headings.get(path) if headings is not None else read_heading(path)
        shown, source = _shown(heading, session_id, kinds, summaries)
        rows.append((session_id, shown, source, kind == "agent"))
    known = {r[0] for r in rows}
    rows += [(s, text, "summary", False) for s, text in sorted(summaries.items()) if s not in known]
    schema = {"session_id": pl.String, "shown": pl.String, "shown_source": pl.String, "is_beside": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


def read_heading(path: str) -> Heading | None:
    """What the list of sessions shows of a file, secrets masked; None when it is not listed."""
    found = read_listing(path) if Path(path).suffix == ".jsonl" else None
    if found is None:
        return None
    title, prompt = found.custom_title, found.first_prompt
    return replace(
        found,
        summary=mask_secrets(found.summary),
        custom_title=None if title is None else mask_secrets(title),
        first_prompt=None if prompt is None else mask_secrets(prompt),
    )


def _shown(
    listing: Heading | None, session_id: str, kinds: dict[str, set[str]], summaries: dict[str, str]
) -> tuple[str | None, str | None]:
    about = summaries.get(session_id)
    if listing is None:
        return about, "summary" if about else None
    if listing.custom_title:
        return listing.custom_title, "custom_title" if session_id in kinds["custom-title"] else "ai_title"
    prompt = listing.first_prompt
    if session_id in kinds["last-prompt"] and listing.summary != prompt:
        return listing.summary, "last_prompt"
    if about:
        return about, "summary"
    if not prompt:
        return None, None
    return prompt, "last_prompt" if session_id in kinds["last-prompt"] else "first_prompt"


def _summaries(entries: pl.DataFrame, members: pl.DataFrame, raw: ReadRaw | None) -> dict[str, str]:
    """The last summary of each session, found by the line it points at."""
    told = entries.filter((pl.col("type") == "summary") & pl.col("leaf_uuid").is_not_null()).select(
        "entry_id", "leaf_uuid"
    )
    if told.is_empty() or raw is None:
        return {}
    homes = entries.select("entry_id", leaf_uuid="uuid").filter(pl.col("leaf_uuid").is_in(told["leaf_uuid"].implode()))
    homes = homes.join(
        members.select("entry_id", "session_id", "is_inherited", "pos"), on="entry_id", how="left", validate="1:1"
    )
    homes = homes.sort("is_inherited", "pos").unique("leaf_uuid", keep="first", maintain_order=True)
    found = told.join(homes.drop("entry_id"), on="leaf_uuid", how="inner", validate="m:1", maintain_order="left")
    found = found.drop_nulls("session_id").unique("session_id", keep="last", maintain_order=True)
    texts = [line.get("summary") for line in raw(found["entry_id"].to_list())]
    pairs = zip(found["session_id"], texts, strict=True)
    return {s: mask_secrets(t) for s, t in pairs if isinstance(t, str) and t.strip()}
