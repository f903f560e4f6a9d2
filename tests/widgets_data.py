"""A loaded object made of frames alone, for widgets at any size."""

from __future__ import annotations

from typing import Any

import polars as pl

from ccanalytics.schema import tables
from tests.frames import conform, make_agents, make_calls, make_compactions, make_sessions, make_tools


class Frames:
    """Has the tables and the raw lines that widgets use, and counts what is asked for."""

    def __init__(self, **frames: pl.DataFrame) -> None:
        for name, table in tables().items():
            setattr(self, name, frames.get(name, table.empty()))
        self.n_raw = 0
        self.words = "a line"

    def raw(self, ids: list[int]) -> list[dict[str, Any]]:
        self.n_raw += len(ids)
        return [{"type": "user", "message": {"role": "user", "content": f"{self.words} {i}"}} for i in ids]

    def resume(self, session: str) -> pl.DataFrame:
        rows = self.entries.filter(pl.col("session_id") == session)  # type: ignore[attr-defined]
        return conform("resume", {"session_id": rows["session_id"], "entry_id": rows["entry_id"]})

    def refresh(self) -> None:
        """Nothing new."""


def made_up(n: int = 2000, *, entries: int = 20_000, days: float = 60) -> Any:
    """Calls, sessions, agents, tools, compactions, and one long conversation."""
    calls = make_calls(n, days=days)
    first = calls["session_id"][0]
    types = ["user" if i % 2 == 0 else "assistant" for i in range(entries)]
    lines = conform(
        "entries",
        {
            "entry_id": range(entries), "file_id": [0] * entries, "line_no": range(1, entries + 1), "type": types,
            "session_id": [first] * entries, "uuid": [f"u{i}" for i in range(entries)],
            "prompt_kind": ["typed" if t == "user" else None for t in types],
        },
    )  # fmt: skip
    chains = conform(
        "chains",
        {
            "entry_id": range(entries), "file_id": [0] * entries, "session_id": [first] * entries,
            "parent_id": [None, *range(entries - 1)], "branch_no": [0] * entries, "on_resume": [True] * entries,
        },
    )  # fmt: skip
    files = conform("files", {"file_id": [0], "path": ["/x/a.jsonl"], "kind": ["session"], "session_id": [first]})
    return Frames(
        calls=calls, sessions=make_sessions(calls), agents=make_agents(300, session=first), tools=make_tools(n, calls),
        compactions=make_compactions([5, 15], calls.filter(pl.col("agent_id").is_null()).head(30)), entries=lines,
        chains=chains, files=files,
    )  # fmt: skip
