"""What cost can be grouped by: times in a named zone, places, models, agents, tools, five-hour blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from .errors import UsageError
from .zones import zone

BLOCK_MS = 5 * 3_600_000
_HOUR_MS = 3_600_000


def local(column: str, tz: str | None) -> pl.Expr:
    """A time of ``calls`` in the zone of that name (default: the machine's)."""
    return pl.col(column).dt.convert_time_zone(str(zone(tz)))


def _hour(tz: str | None) -> pl.Expr:
    # The hour as a moment, not as a clock face: the two hours called 01:00 when clocks go back stay two, and zones
    # off by 45 minutes begin their hours where their clocks do.
    here = local("first_at", tz)
    within = here.dt.minute().cast(pl.Int64) * 60_000 + here.dt.second().cast(pl.Int64) * 1000 + here.dt.millisecond()
    return (pl.col("first_at") - pl.duration(milliseconds=within)).dt.convert_time_zone(str(zone(tz)))


def _day(tz: str | None) -> pl.Expr:
    return local("first_at", tz).dt.date()


def _plain(column: str) -> Callable[[str | None], pl.Expr]:
    return lambda _tz: pl.col(column)


KEYS: dict[str, Callable[[str | None], pl.Expr]] = {
    "hour": _hour,
    "day": _day,
    "week": lambda tz: _day(tz).dt.truncate("1w"),
    "month": lambda tz: _day(tz).dt.truncate("1mo"),
    "block": lambda tz: local("block_start", tz),
    "session": _plain("session_id"),
    "project": _plain("project"),
    "worktree": _plain("worktree"),
    "branch": _plain("git_branch"),
    # The suffix says how large a window was asked for, not which model answered.
    "model": lambda _tz: pl.col("model").str.replace(r"\[\w+\]$", ""),
    "model_family": _plain("model_family"),
    "requested_model": _plain("requested_model"),
    "agent": _plain("agent_id"),
    "agent_type": _plain("agent_type"),
    "tool": _plain("tool"),
    "turn": _plain("turn_no"),
    "entrypoint": _plain("entrypoint"),
    "version": _plain("version"),
    "cwd": _plain("cwd"),
    "speed": _plain("speed"),
    "service_tier": _plain("service_tier"),
    "source": _plain("source"),
}
"""Every key that ``by`` may name, and the value it stands for."""

SPELLINGS = {
    "session_id": "session", "git_branch": "branch", "agent_id": "agent", "turn_no": "turn", "daily": "day",
    "weekly": "week", "monthly": "month", "hourly": "hour", "blocks": "block", "agent-type": "agent_type",
}  # fmt: skip


def key_names(by: str | Sequence[str] | None) -> list[str]:
    """The keys asked for, in order, without repeats; ``UsageError`` for one that does not exist."""
    asked = by.split(",") if isinstance(by, str) else list(by or ())
    names = [k.strip() for k in asked if k.strip()]
    for name in names:
        if name not in KEYS and name not in SPELLINGS:
            raise UsageError(f"cost cannot be grouped by {name!r}; allowed: {', '.join(KEYS)}", by=name)
    return list(dict.fromkeys(SPELLINGS.get(n, n) if n not in KEYS else n for n in names))


def with_folders(calls: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """``calls`` with the folder's name as project where no line says which directory it was."""
    folders = files.select("file_id", "project_dir")
    named = calls.join(folders, on="file_id", how="left", validate="m:1", maintain_order="left")
    return named.with_columns(pl.coalesce("project", "project_dir").alias("project")).drop("project_dir")


def with_blocks(calls: pl.DataFrame) -> pl.DataFrame:
    """``calls`` with ``block_start``: the five-hour window each falls in, null where it has no time.

    A window begins at the full hour (UTC) of the first call after the last window ended. It is an estimate: the
    service keeps its windows for all clients together.
    """
    times = calls["first_at"].dt.epoch("ms")
    starts = block_starts(times.drop_nulls().sort().to_numpy())
    if not len(starts):
        return calls.with_columns(block_start=pl.lit(None, dtype=pl.Datetime("ms", "UTC")))
    which = np.searchsorted(starts, times.fill_null(starts[0]).to_numpy(), side="right") - 1
    found = pl.Series("block_start", starts[which]).cast(pl.Datetime("ms")).dt.replace_time_zone("UTC")
    return calls.with_columns(pl.when(pl.col("first_at").is_not_null()).then(found).alias("block_start"))


def block_starts(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Beginnings of the windows over sorted times, in milliseconds."""
    starts: list[int] = []
    at = 0
    while at < len(times):
        start = int(times[at]) // _HOUR_MS * _HOUR_MS
        starts.append(start)
        at = int(np.searchsorted(times, start + BLOCK_MS, side="left"))
    return np.asarray(starts, dtype=np.int64)


def split_by_tool(calls: pl.DataFrame, tools: pl.DataFrame, counts: Sequence[str]) -> pl.DataFrame:
    """``calls`` shared out over the tool calls each asked for, in equal parts; ``tool`` is null where there are none.

    Tokens stay whole numbers: what does not divide goes to the first. The call itself counts with its first tool.
    """
    uses = tools.filter(pl.col("call_id").is_not_null()).sort("entry_id", "block_no").select(
        "call_id", tool="name", nth=pl.int_range(pl.len()).over("call_id"), uses=pl.len().over("call_id")
    )  # fmt: skip
    shared = calls.join(uses, on="call_id", how="left", validate="1:m", maintain_order="left_right")
    shared = shared.with_columns(
        nth=pl.col("nth").fill_null(0).cast(pl.Int64), uses=pl.col("uses").fill_null(1).cast(pl.Int64)
    )
    is_first = pl.col("nth") == 0
    return shared.with_columns(
        *(pl.col(c) // pl.col("uses") + (pl.col("nth") < pl.col(c) % pl.col("uses")) for c in counts),
        (pl.col(r"^(cost_.*|.*_usd)$") / pl.col("uses")),
        *(pl.when(is_first).then(pl.col(c)).otherwise(0) for c in ("calls", "partial_calls", "unpriced_calls")),
    )  # fmt: skip
