"""Teams of agents: what their folders under ``teams/`` say of members and of the messages that wait for them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from .schema.work import TEAM_TABLES
from .small_files import read_small


def read_teams(roots: Iterable[str | Path]) -> pl.DataFrame:
    """One row per member of a team, sorted by team and name, from ``teams/*/config.json`` and the inboxes beside it.

    Parameters
    ----------
    roots
        Configuration folders. A folder without teams, a missing or a damaged file add nothing.
    """
    rows: list[dict[str, Any]] = []
    for root in dict.fromkeys(Path(r) for r in roots):
        for config in sorted(root.glob("teams/*/config.json")):
            rows += _members(config)
    table = TEAM_TABLES["team_members"]
    frame = pl.DataFrame(rows, schema={**table.polars(), "joined_at": pl.Int64, "last_message_at": pl.Int64})
    times = pl.col("joined_at", "last_message_at").cast(pl.Datetime("ms")).dt.replace_time_zone("UTC")
    frame = frame.with_columns(times).unique(table.key, keep="first", maintain_order=True)
    return table.conform(frame.sort(table.order, nulls_last=True, maintain_order=True))


def _members(config: Path) -> list[dict[str, Any]]:
    team = _read(config)
    if not isinstance(team, dict):
        return []
    listed = team.get("members")
    lead = _text(team.get("leadAgentId"))
    rows = []
    for member in listed if isinstance(listed, list) else []:
        if not isinstance(member, dict):
            continue
        name, agent_id = _text(member.get("name")), _text(member.get("agentId"))
        rows.append(
            {
                "team_name": _text(team.get("name")) or config.parent.name,
                "name": name,
                "agent_id": agent_id,
                "agent_type": _text(member.get("agentType")),
                "model": _text(member.get("model")),
                "lead_session_id": _text(team.get("leadSessionId")),
                "joined_at": _milliseconds(member.get("joinedAt")),
                "cwd": _text(member.get("cwd")),
                "is_lead": lead is not None and agent_id == lead,
                **_inbox(config.parent / "inboxes", name),
            }
        )
    return rows


def _inbox(folder: Path, name: str | None) -> dict[str, int | None]:
    if not name or any(c in name for c in "/\\\0") or not folder.is_dir():
        return {"n_messages": None, "n_unread": None, "last_message_at": None}
    held = _read(folder / f"{name}.json")
    messages = [m for m in held if isinstance(m, dict)] if isinstance(held, list) else []
    times = [t for m in messages if (t := _milliseconds(m.get("timestamp"))) is not None]
    unread = sum(1 for m in messages if m.get("read") is not True)
    return {"n_messages": len(messages), "n_unread": unread, "last_message_at": max(times, default=None)}


def _read(path: Path) -> object:
    try:
        value: object = orjson.loads(read_small(path))
    except (OSError, ValueError):
        return None
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _milliseconds(value: object) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**52:
        return int(value)
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
