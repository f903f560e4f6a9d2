"""``ccanalytics report``: tokens, calls and cost by whatever one asks for."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime
from typing import Any

import polars as pl

from .cost import build_cost, cost_report, plain_rows
from .cost_keys import key_names
from .find import config_dirs
from .markup import markdown_text
from .prices import load_prices
from .sample import load_sample
from .show import (
    csv_out,
    fitting,
    html_out,
    json_text,
    markdown_out,
    note,
    print_table,
    terminal_width,
    write_out,
)
from .table_command import load_from, selection
from .transcripts import Transcripts
from .usage_only import UsageTranscripts, is_enough, load_usage
from .zones import local_zone_name, zone

Loaded = Transcripts | UsageTranscripts
# Formats that people read fall back on the sample; a program must never take the sample for the user's own data.
FOR_PEOPLE = ("table", "markdown", "html")


def run(args: argparse.Namespace) -> int:
    """Print the report; the exit code is 0 also when there is nothing to report."""
    key_names(args.by)
    zone(args.timezone)
    if args.refresh_prices:
        from .refresh import refresh_prices

        note(f"prices refreshed: {refresh_prices()}")
    if args.live:
        from .follow import follow_report

        return follow_report(args)
    t, is_sample = _transcripts(args)
    write_out(render(t, args, is_sample=is_sample))
    return 0


def _transcripts(args: argparse.Namespace) -> tuple[Loaded, bool]:
    t: Loaded = load_usage(args.config_dir, **selection(args)) if is_enough(args.by) else load_from(args)
    if len(t.files):
        return t, False
    looked = (
        "in the places given"
        if args.config_dir
        else "in "
        + (" and ".join(map(str, config_dirs())) or os.environ.get("CLAUDE_CONFIG_DIR") or "the default places")
    )
    if args.project or args.session:
        note(f"no transcripts were found {looked} that match; the report is empty")
        return t, False
    if args.config_dir or args.format not in FOR_PEOPLE:
        note(f"no transcripts were found {looked}; the report is empty")
        return t, False
    note(f"no transcripts were found {looked}; this is a report on the bundled sample")
    return load_sample(cache=False), True


def render(t: Loaded, args: argparse.Namespace, *, is_sample: bool = False) -> str:
    """The report as text in ``args.format``."""
    options = _options(t, args)
    if args.format == "json":
        return json_text(report_json(t, by=args.by, **options))
    frame = build_cost(t.cost_tables(args.by)[0], args.by, **options)
    names = key_names(args.by)
    shown = _for_people(frame, names)
    totals = build_cost(t.calls, **{k: v for k, v in options.items() if k not in ("agents", "tools")}).to_dicts()[0]
    if args.format == "csv":
        return csv_out(_plain(frame))
    title = (f"Cost by {', '.join(names)}" if names else "Cost") + (
        " — bundled sample, not your own data" if is_sample else ""
    )
    notes = _notes(t, args, totals, options)
    foot = {short: totals[m] for m, short in _SHORT.items()} | ({names[0]: "total"} if names else {})
    if args.format == "markdown":
        return (
            f"**{title}**\n\n"
            + markdown_out(shown, foot)
            + "\n"
            + "\n".join(f"- {markdown_text(n)}" for n in notes)
            + "\n"
        )
    if args.format == "html":
        return html_out(shown, title=title, notes=notes, totals=foot)
    shown, left_out = _narrowed(shown, foot)
    if left_out:
        notes.append(f"the terminal is too narrow for: {', '.join(left_out)}")
    print_table(shown, title=title, footer=notes, totals=foot)
    return ""


def report_json(t: Loaded, *, by: str, **options: Any) -> dict[str, object]:
    """The report as DESIGN's JSON object: rows, totals, unpriced_models, problems by code."""
    report = cost_report(t.cost_tables(by)[0], by, **options)
    counts = t.read_problems["code"].value_counts().sort("code")
    return report | {"problems": dict(counts.iter_rows())}


def _options(t: Loaded, args: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {
        "tz": args.timezone,
        "policy": args.policy,
        "since": args.since,
        "until": args.until,
        "prices": load_prices(args.prices) if args.prices else None,
    }
    return options | t.cost_tables(args.by)[1]


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with its times as text, as the JSON report has them."""
    return pl.DataFrame(
        plain_rows(frame), schema={n: pl.String if d.is_temporal() else d for n, d in frame.schema.items()}
    )


_SHORT = {
    "calls": "calls",
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_creation_input_tokens": "cache write",
    "cache_read_input_tokens": "cache read",
    "cost_usd": "cost_usd",
}


def _for_people(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """The columns that fit a terminal, keys as text."""
    keys = (pl.col(n).fill_null("—") if frame[n].dtype == pl.String else pl.col(n) for n in names)
    return _plain(frame).select(*keys, *(pl.col(m).alias(short) for m, short in _SHORT.items()))


def _narrowed(shown: pl.DataFrame, foot: dict[str, Any]) -> tuple[pl.DataFrame, list[str]]:
    """The frame without the measures there is no room for, and which these are; the cost stays."""
    left_out: list[str] = []
    for name in ("input", "cache write", "cache read", "output", "calls"):
        if not sys.stdout.isatty() or fitting(shown, terminal_width(), foot) == shown.columns:
            break
        shown = shown.drop(name)
        left_out.append(name)
    return shown, left_out


def _notes(t: Loaded, args: argparse.Namespace, totals: dict[str, Any], options: dict[str, Any]) -> list[str]:
    notes = []
    report = cost_report(t.calls, None, **{k: v for k, v in options.items() if k not in ("agents", "tools")})
    unpriced = report["unpriced_models"]
    if isinstance(unpriced, list) and unpriced:
        notes.append(
            f"no price is known for {', '.join(unpriced)}: {totals['unpriced_calls']:,} calls are not in the cost"
        )
    if totals["partial_calls"]:
        notes.append(
            f"{totals['partial_calls']:,} calls have no final output count on disk: their cost is a lower bound"
        )
    if "block" in key_names(args.by):
        notes.append("five-hour blocks are an estimate: the service keeps its windows for all clients together")
    if not totals["calls"]:
        notes.insert(0, _why_nothing(t, args))
    n_problems = len(t.read_problems)
    if n_problems:
        notes.append(f"{n_problems:,} places could not be read; ccanalytics doctor says what they are")
    start: datetime | None = t.files["first_at"].min()  # type: ignore[assignment]
    if start is not None:
        notes.append(f"transcripts begin on {start:%Y-%m-%d}; what Claude Code deleted before is not counted")
    policy = {"list": "list prices", "claude-code": "Claude Code's own rules", "ccusage": "the rules of ccusage 20"}
    when, where = load_prices(options["prices"]).date, args.timezone or local_zone_name()
    notes.append(f"cost in USD by {policy[args.policy]} of {when}; days in {where}")
    return notes


def _why_nothing(t: Loaded, args: argparse.Namespace) -> str:
    """Why there is not one request to show."""
    days = t.calls["first_at"].drop_nulls().dt.date().sort().cast(pl.String)
    if args.since or args.until:
        span = f"; those read are from {days[0]} to {days[-1]}" if len(days) else ""
        return f"no request falls between {args.since or 'the beginning'} and {args.until or 'now'}{span}"
    if args.project or args.session:
        return "no request belongs to the project or session asked for; ccanalytics sessions lists what there is"
    return f"the {len(t.files):,} transcripts that were read hold no request to the API"
