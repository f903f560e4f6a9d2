"""``ccanalytics table NAME``, ``sessions`` and ``prices``: one frame, in the format asked for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import polars as pl

from .errors import UsageError, WriteError
from .load import load
from .schema import tables
from .show import csv_out, fitting, json_text, ndjson_text, note, print_table, progress_bar, terminal_width, write_out
from .transcripts import Transcripts, check_choice
from .zones import parse_moment

DEFAULT_ROWS = 40


def run(args: argparse.Namespace) -> int:
    """Print or write one table."""
    check_choice("NAME", args.name, [n for n in tables() if hasattr(Transcripts, n) or n in BASE])
    t = load_from(args, content=args.content)
    table = getattr(t, args.name)
    frame: pl.DataFrame = table() if callable(table) else table
    frame = _in_span(frame, args)
    return emit(frame, args, name=args.name, why_none="the table is empty, or no row matches" if len(t.files) else "")


BASE = ("files", "entries", "blocks", "problems")
# What a person looks for first, where the key alone would fill the terminal.
HEADLINE = {
    "sessions": ("session_id", "modified_at", "summary", "title", "started_at", "cost_usd", "project"),
    "calls": ("first_at", "model", "cost_usd", "input_tokens", "output_tokens", "call_id", "project"),
    "agents": ("kind", "agent_type", "description", "own_cost_usd", "incl_cost_usd", "agent_id", "session_id"),
    "tools": ("name", "started_at", "duration_ms", "outcome", "file_path", "tool_use_id", "session_id"),
    "turns": ("session_id", "turn_no", "cost_usd", "calls", "n_tools", "started_at"),
    "entries": ("entry_id", "type", "timestamp", "uuid", "prompt_kind", "model", "text"),
}


def load_from(args: argparse.Namespace, **options: Any) -> Transcripts:
    """The transcripts that the options of a command name."""
    return load(args.config_dir, **selection(args), **options)


def selection(args: argparse.Namespace) -> dict[str, Any]:
    """What the options of a command say of what to load, and how."""
    return {
        "projects": getattr(args, "project", None),
        "sessions": getattr(args, "session", None),
        "cache": False if getattr(args, "no_cache", False) else None,
        "workers": getattr(args, "workers", None),
        "progress": progress_bar("reading transcripts"),
    }


def _in_span(frame: pl.DataFrame, args: argparse.Namespace) -> pl.DataFrame:
    at = next((c for c in ("timestamp", "first_at", "started_at", "start_at", "at") if c in frame.columns), None)
    if at is None:
        return frame
    if args.since is not None:
        frame = frame.filter(pl.col(at) >= parse_moment(args.since, tz=args.timezone))
    if args.until is not None:
        frame = frame.filter(pl.col(at) < parse_moment(args.until, tz=args.timezone, is_end=True))
    return frame


def emit(frame: pl.DataFrame, args: argparse.Namespace, *, name: str, why_none: str = "") -> int:
    """Print ``frame`` in ``args.format``, or write it to ``args.output``."""
    columns = getattr(args, "columns", None)
    if columns:
        wanted = [c.strip() for c in columns.split(",")]
        for c in wanted:
            check_choice("--columns", c, frame.columns)
        frame = frame.select(wanted)
    total = len(frame)
    limit = args.limit if args.limit is not None else (DEFAULT_ROWS if args.format == "table" else None)
    frame = frame.head(limit) if limit is not None else frame
    output = getattr(args, "output", None)
    if args.format == "parquet":
        if not output:
            raise UsageError("--format parquet needs -o FILE: Parquet is not text")
        _write(output, lambda path: frame.write_parquet(path, compression="zstd"))
        return 0
    if args.format == "table" and not output:
        if total:
            _print(frame, name, total, keep_all=bool(columns))
        else:
            note(f"no {name} to show: {why_none or 'no transcripts were found, or none match'}")
        return 0
    text = {
        "table": lambda: csv_out(frame),
        "csv": lambda: csv_out(frame),
        "ndjson": lambda: ndjson_text(frame),
        "json": lambda: json_text(frame.to_dicts()),
    }[args.format]()
    if output:
        _write(output, lambda path: path.write_text(text, encoding="utf-8"))
    else:
        write_out(text)
    return 0


def _print(frame: pl.DataFrame, name: str, total: int, *, keep_all: bool) -> None:
    hidden = 0
    if not keep_all:
        filled = [c for c in frame.columns if frame[c].null_count() < len(frame)]
        first = [c for c in HEADLINE.get(name, ()) if c in filled]
        shown = fitting(frame.select(*first, *(c for c in filled if c not in first)), terminal_width())
        hidden = len(frame.columns) - len(shown)
        frame = frame.select(shown)
    lines = [f"{total:,} row{'s' if total > 1 else ''}"]
    if len(frame) < total:
        lines = [f"first {len(frame):,} of {total:,} rows; --limit shows more"]
    if hidden:
        lines.append(f"{hidden} more columns; --columns names those to show, --format csv has them all")
    print_table(frame, title=name, footer=lines)


def _write(output: str, write: Any) -> None:
    path = Path(output)
    try:
        write(path)
    except OSError as e:
        raise WriteError(f"cannot write {path}: {e.strerror or e}", path=str(path)) from e


def run_sessions(args: argparse.Namespace) -> int:
    """Print the sessions that can be resumed."""
    from .listing import list_sessions

    return emit(list_sessions(args.config_dir), args, name="sessions")


def run_prices(args: argparse.Namespace) -> int:
    """Print the price table in use."""
    from .prices import prices
    from .refresh import refresh_prices

    if args.refresh_prices:
        refresh_prices()
    return emit(prices(), args, name="prices")
