"""What Claude Code will delete soon: it removes transcripts that were not written to for a number of days."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from .lines import loads

DEFAULT_DAYS = 30
SOON_DAYS = 7


def retention_findings(files: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """Session files that reach the end of their retention within a week (or have passed it), one row per file."""
    roots = [root for root in files["root"].unique().to_list() if root is not None]
    days = {root: days_kept(Path(root)) for root in roots}
    limits = [(root, now - timedelta(days=kept - SOON_DAYS), kept) for root, kept in days.items() if kept > 0]
    types = pl.Schema({"root": pl.String(), "limit": pl.Datetime("ms", "UTC"), "kept": pl.Int64()})
    limit = pl.DataFrame(limits, schema=types, orient="row")
    old = files.join(limit, on="root", how="inner", validate="m:1", maintain_order="left")
    due = (pl.col("modified_at") + pl.duration(days=pl.col("kept"))).dt.strftime("%Y-%m-%d")
    return old.filter((pl.col("modified_at") < pl.col("limit")) & (pl.col("kind") == "session")).select(
        "file_id",
        pl.lit("deleted_soon").alias("code"),
        pl.lit(1, pl.Int64).alias("n"),
        (pl.lit("from ") + due + " on").alias("detail"),
    )


def days_kept(root: Path) -> int:
    """How many days the settings of a configuration directory keep transcripts; 0 when they are never deleted."""
    for name in ("settings.local.json", "settings.json"):
        path = root / name
        settings = loads(path.read_bytes()) if path.is_file() else None
        days = settings.get("cleanupPeriodDays") if isinstance(settings, dict) else None
        if isinstance(days, int) and not isinstance(days, bool):
            return max(days, 0)
    return DEFAULT_DAYS
