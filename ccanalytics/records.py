"""What Claude Code wrote down of its own spending: cost-state lines, and the last session of each project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import polars as pl

from .models import named_model
from .small_files import read_small

TOKEN_FIELDS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
    "web_search_requests": "webSearchRequests",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One total that Claude Code wrote, with its parts by model."""

    session_id: str
    total_usd: float
    found_in: str
    entry_id: int | None = None
    start_ms: int | None = None
    models: dict[str, dict[str, float]] = field(default_factory=dict)
    """Tokens by kind and ``cost_usd`` of each model, by canonical name (as written where it has none)."""
    has_unknown_model: bool = False


def cost_states(entries: pl.DataFrame, files: pl.DataFrame) -> list[Record]:
    """All cost-state lines, in the order they stand in the files."""
    homes = files.select("file_id", home="session_id")
    rows = entries.filter(pl.col("type") == "cost-state").select("entry_id", "file_id", "session_id", "detail")
    rows = rows.join(homes, on="file_id", how="left", validate="m:1", maintain_order="left")
    found = []
    for entry, home, named, detail in rows.select("entry_id", "home", "session_id", "detail").iter_rows():
        state = _object(detail)
        total = _number(state.get("totalCostUSD"))
        session = home or named
        if total is not None and session:
            found.append(
                Record(
                    session,
                    total,
                    "cost-state",
                    entry,
                    _whole(state.get("startTime")),
                    _models(state.get("modelUsage")),
                    state.get("hasUnknownModelCost") is True,
                )
            )
    return found


def last_costs(roots: Iterable[str]) -> list[Record]:
    """The last session of each project, from the ``.claude.json`` of these configuration directories."""
    found = []
    for root in dict.fromkeys(roots):
        beside = [Path(root).parent / ".claude.json"] if Path(root).name == ".claude" else []
        for file in (Path(root) / ".claude.json", *beside):
            projects = _object(_text_of(file)).get("projects")
            for project in projects.values() if isinstance(projects, dict) else ():
                total = _number(project.get("lastCost")) if isinstance(project, dict) else None
                session = project.get("lastSessionId") if isinstance(project, dict) else None
                if total is not None and isinstance(session, str):
                    start = _whole(project.get("lastStartTime"))
                    found.append(
                        Record(session, total, ".claude.json", None, start, _models(project.get("lastModelUsage")))
                    )
    return found


def _text_of(file: Path) -> bytes:
    try:
        return read_small(file)
    except OSError:
        return b"{}"


def _object(text: str | bytes | None) -> dict[str, object]:
    try:
        value = orjson.loads(text or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _models(usage: object) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, row in usage.items() if isinstance(usage, dict) else ():
        if isinstance(row, dict):
            sums = found.setdefault(named_model(name) or name, dict.fromkeys((*TOKEN_FIELDS, "cost_usd"), 0.0))
            for column, key in (*TOKEN_FIELDS.items(), ("cost_usd", "costUSD")):
                sums[column] += _number(row.get(key)) or 0.0
    return found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None
