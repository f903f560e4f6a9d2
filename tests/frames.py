"""Tables made up for tests of pictures and widgets: declared columns, fixed contents, any size."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from ccanalytics.schema import tables

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")
PROJECTS = (
    "/home/dev/tidewatch",
    "/home/dev/recipe-box",
    "/home/dev/work/a-project-with-a-rather-long-name/services/ingest",
)
TYPES = ("Explore", "general-purpose", "code-reviewer", "a-type-with-a-really-long-name-that-goes-on")
TOOLS = ("Bash", "Read", "Edit", "Grep", "Task", "WebFetch", "mcp__weather__get_forecast_for_a_harbour", "TodoWrite")


def conform(name: str, columns: dict[str, Any]) -> pl.DataFrame:
    """A frame of a declared table; columns not given are null."""
    table = tables()[name]
    known = {k: table.polars()[k] for k in columns}
    return table.conform(pl.DataFrame(columns, schema=known))


def make_calls(n: int, *, days: float = 60, sessions: int = 20, seed: int = 1) -> pl.DataFrame:
    """``n`` calls over so many days; some by agents, some without a price."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, max(1, int(days * 86_400_000)), n))
    session = (np.arange(n) * sessions // max(n, 1)).astype(int)
    read = (rng.random(n) * 150_000 * (rng.random(n) > 0.06)).astype(int)
    write, plain, out = rng.integers(0, 9000, n), rng.integers(1, 900, n), rng.integers(5, 4000, n)
    model = rng.choice(len(MODELS), n, p=(0.6, 0.3, 0.1))
    cost = read * 5e-7 + write * 6e-6 + plain * 5e-6 + out * 2.5e-5
    agent = [None if a < 0.7 else f"a{s:03d}{int(a * 10)}" for a, s in zip(rng.random(n), session, strict=True)]
    return conform(
        "calls",
        {
            "call_id": [f"msg_{i:06d}" for i in range(n)],
            "session_id": [f"{s:08d}-0000-4000-8000-000000000000" for s in session],
            "agent_id": agent,
            "file_id": session,
            "entry_id": np.arange(n),
            "first_at": [START + timedelta(milliseconds=int(m)) for m in at],
            "model": [MODELS[m] for m in model],
            "model_family": [MODELS[m] for m in model],
            "input_tokens": plain,
            "output_tokens": out,
            "cache_creation_input_tokens": write,
            "cache_read_input_tokens": read,
            "ephemeral_5m_input_tokens": write,
            "ephemeral_1h_input_tokens": np.zeros(n, dtype=int),
            "web_search_requests": np.zeros(n, dtype=int),
            "context_tokens": read + write + plain,
            "total_tokens": read + write + plain + out,
            "project": [PROJECTS[s % 3] for s in session],
            "cost_usd": [None if i % 97 == 96 else float(c) for i, c in enumerate(cost)],
        },
    )


def make_sessions(calls: pl.DataFrame, title: Callable[[int], str] | None = None) -> pl.DataFrame:
    """The sessions of the calls, with titles."""
    ids = calls["session_id"].unique().sort().to_list()
    name = title or (lambda i: f"Session {i}: mend the thing that was broken by the change before the last one")
    spans = calls.group_by("session_id").agg(
        pl.col("first_at").min().alias("a"), pl.col("first_at").max().alias("b"), pl.col("project").first()
    ).sort("session_id")  # fmt: skip
    return conform(
        "sessions",
        {
            "session_id": ids,
            "kind": ["session"] * len(ids),
            "title": [name(i) for i in range(len(ids))],
            "project": spans["project"],
            "started_at": spans["a"],
            "ended_at": spans["b"],
        },
    )


def make_agents(n: int, *, session: str = "s1", seed: int = 2) -> pl.DataFrame:
    """A main thread and ``n`` runs under it, up to three levels deep."""
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.sort(rng.integers(1000, 3_600_000, n))])
    length = np.concatenate([[4_000_000], rng.integers(2000, 700_000, n)])
    parent = [None, *(f"a{rng.integers(0, i):04d}" if i > 2 and rng.random() < 0.4 else None for i in range(n))]
    depth = [0] * (n + 1)
    for i in range(1, n + 1):
        above = parent[i]
        depth[i] = 1 if above is None else depth[int(above[1:]) + 1] + 1
    own = rng.random(n + 1) * 0.8
    return conform(
        "agents",
        {
            "session_id": [session] * (n + 1),
            "agent_id": [None, *(f"a{i:04d}" for i in range(n))],
            "kind": ["main", *["agent"] * n],
            "parent_agent_id": parent,
            "depth": depth,
            "agent_type": [None, *(TYPES[i % 4] for i in range(n))],
            "description": [
                None,
                *(f"Look into part {i} of the harbour data and say what is wrong there" for i in range(n)),
            ],
            "started_at": [START + timedelta(milliseconds=int(m)) for m in start],
            "ended_at": [START + timedelta(milliseconds=int(a + b)) for a, b in zip(start, length, strict=True)],
            "duration_ms": length,
            "own_cost_usd": own,
            "incl_cost_usd": own * 2,
            "own_output_tokens": (own * 10_000).astype(int),
            "incl_output_tokens": (own * 20_000).astype(int),
        },
    )


def make_tools(n: int, calls: pl.DataFrame, *, seed: int = 3) -> pl.DataFrame:
    """``n`` tool calls asked for by the calls."""
    rng = np.random.default_rng(seed)
    pick = rng.integers(0, len(TOOLS), n)
    of = np.sort(rng.integers(0, max(1, len(calls)), n))
    outcome = np.where(rng.random(n) < 0.08, "error", np.where(rng.random(n) < 0.02, "denied", "ok"))
    took = (10 ** rng.normal(2 + pick % 4 * 0.5, 0.6)).astype(int)
    return conform(
        "tools",
        {
            "session_id": calls["session_id"][of],
            "agent_id": calls["agent_id"][of],
            "tool_use_id": [f"toolu_{i:06d}" for i in range(n)],
            "entry_id": calls["entry_id"][of],
            "block_no": [0] * n,
            "call_id": calls["call_id"][of],
            "name": [TOOLS[p] for p in pick],
            "duration_ms": took,
            "outcome": outcome.tolist(),
        },
    )


def make_compactions(entry_ids: list[int], calls: pl.DataFrame) -> pl.DataFrame:
    """Compactions just before the calls of these entries."""
    rows = calls.filter(pl.col("entry_id").is_in(entry_ids)).sort("entry_id")
    return conform(
        "compactions",
        {
            "entry_id": [10_000_000 + e for e in rows["entry_id"]],
            "session_id": rows["session_id"],
            "kind": ["compact"] * len(rows),
            "trigger": ["auto"] * len(rows),
            "timestamp": [at - timedelta(milliseconds=1) for at in rows["first_at"]],
            "pre_tokens": [150_000] * len(rows),
            "post_tokens": [9_000] * len(rows),
            "messages_before": [120] * len(rows),
            "messages_kept": [4] * len(rows),
            "messages_dropped": [116] * len(rows),
            "duration_ms": [42_000] * len(rows),
        },
    )


def make_chains(branches: list[tuple[int, int, bool]]) -> pl.DataFrame:
    """One file: for each branch (place it leaves the one before, entries, is it loaded on resume)."""
    rows: list[dict[str, Any]] = []
    ends: list[list[int]] = []
    for no, (leaves, n, on) in enumerate(branches):
        parent = ends[no - 1][leaves] if no else None
        ids: list[int] = []
        for i in range(n):
            entry = len(rows)
            rows.append({
                "entry_id": entry, "file_id": 0, "session_id": "s1", "parent_id": parent, "root_id": 0,
                "branch_no": no, "is_leaf": i == n - 1, "on_resume": on,
            })  # fmt: skip
            ids.append(entry)
            parent = entry
        ends.append(ids)
    return conform("chains", {k: [r[k] for r in rows] for k in rows[0]})
