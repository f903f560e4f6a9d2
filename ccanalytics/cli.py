"""The command line: options, exit codes, one sentence per error. What a command does stands in its own module."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from . import __version__
from .errors import CCAnalyticsError, UsageError

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_DAMAGE = 0, 1, 2, 3

# The module and function of each command; imported only when the command is run.
COMMANDS = {
    "report": ("report_command", "run"),
    "table": ("table_command", "run"),
    "sessions": ("table_command", "run_sessions"),
    "resume": ("resume.command", "run"),
    "export": ("parquet", "export_command"),
    "doctor": ("write.command", "doctor_command"),
    "repair": ("write.command", "repair_command"),
    "redact": ("write.command", "redact_command"),
    "prices": ("table_command", "run_prices"),
}

REPORT_KEYS = (
    "day, week, month, hour, session, project, worktree, branch, model, agent, agent_type, tool, entrypoint, version, "
    "block, turn"
)
# Written out: help must not wait for the data frame library.
TABLES = (
    "files, entries, blocks, problems, edges, chains, resume, ledger, calls, agents, tools, turns, compactions, "
    "sessions, events, parallelism"
)


def run(argv: Sequence[str]) -> int:
    """Parse the options, run the command, return the exit code."""
    parser = build_parser()
    try:
        args = parser.parse_args(list(argv))
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else EXIT_USAGE
    if args.command is None:
        parser.print_help()
        return EXIT_OK
    try:
        return _run(args)
    except UsageError as e:
        return _fail(e, EXIT_USAGE)
    except CCAnalyticsError as e:
        return _fail(e, EXIT_FAILED)
    except KeyboardInterrupt:
        sys.stderr.write("\nccanalytics: stopped\n")
        return 130
    except BrokenPipeError:
        # The reader of a pipe has seen enough; python would otherwise complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


def _run(args: argparse.Namespace) -> int:
    module, function = COMMANDS[args.command]
    command = getattr(import_module(f"{__package__}.{module}"), function)
    code = command(args)
    sys.stdout.flush()
    return int(code)


def _fail(error: CCAnalyticsError, code: int) -> int:
    from .markup import plain

    sys.stderr.write(f"ccanalytics: {plain(error)}\n")
    return code


def build_parser() -> argparse.ArgumentParser:
    """All commands and options."""
    parser = argparse.ArgumentParser(
        prog="ccanalytics",
        description="Your Claude Code history: what it cost, what was said, what went wrong.",
        epilog=_examples(
            "ccanalytics report                        what each day cost",
            "ccanalytics report --by model,month       by model and month",
            "ccanalytics sessions                      sessions that can be resumed",
            "ccanalytics table calls --format ndjson   one line per API request",
            "ccanalytics doctor                        what is damaged and what it does",
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"ccanalytics {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_report(commands)
    _add_table(commands)
    _add_sessions(commands)
    _add_resume(commands)
    _add_export(commands)
    _add_write_side(commands)
    _add_prices(commands)
    return parser


if TYPE_CHECKING:
    Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _command(commands: Commands, name: str, summary: str, *examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=_examples(*examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config-dir",
        action="append",
        metavar="DIR",
        help="configuration folder, project folder or transcript; may be given more than once "
        "(default: $CLAUDE_CONFIG_DIR, else ~/.config/claude and ~/.claude)",
    )
    return parser


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no count")
    return int(text)


def _examples(*lines: str) -> str:
    return "examples:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", action="append", metavar="P", help="only this project; may be given more than once"
    )
    parser.add_argument("--session", action="append", metavar="ID", help="only this session (the beginning will do)")
    parser.add_argument("--no-cache", action="store_true", help="read every file anew and keep nothing")
    parser.add_argument("--workers", type=_count, metavar="N", help="processes to parse with (default: by size)")


def _add_span(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="D", help="from this day on: 2026-03-01, today, 7d")
    parser.add_argument("--until", metavar="D", help="up to and with this day")
    parser.add_argument("--timezone", "--tz", metavar="TZ", help="zone of days and weeks (default: the machine's)")


def _add_report(commands: Commands) -> None:
    p = _command(
        commands,
        "report",
        "tokens, calls and cost",
        "ccanalytics report --by day --since 7d",
        "ccanalytics report --by project,model --format csv > cost.csv",
        "ccanalytics report --by block --timezone Europe/Berlin",
        "ccanalytics report --policy claude-code --by session",
    )
    p.add_argument("--by", default="day", metavar="KEYS", help=f"one or several of {REPORT_KEYS} (default: day)")
    _add_span(p)
    p.add_argument(
        "--policy", default="list", choices=("list", "claude-code", "ccusage"), help="whose prices and rules"
    )
    p.add_argument("--format", default="table", choices=("table", "json", "csv", "markdown", "html"))
    p.add_argument("--prices", metavar="FILE", help="TOML file with prices of your own")
    p.add_argument(
        "--refresh-prices", action="store_true", help="fetch a public price table first (the one network use)"
    )
    p.add_argument("--live", action="store_true", help="stay and follow running sessions")
    _add_selection(p)


def _add_table(commands: Commands) -> None:
    p = _command(
        commands,
        "table",
        "one of the tables, whole",
        "ccanalytics table sessions",
        "ccanalytics table calls --format csv -o calls.csv",
        "ccanalytics table entries --content preview --format parquet -o entries.parquet",
    )
    p.add_argument("name", metavar="NAME", help=TABLES)
    p.add_argument("--format", default="table", choices=("table", "ndjson", "json", "csv", "parquet"))
    p.add_argument("-o", "--output", metavar="FILE", help="write to this file")
    p.add_argument("--columns", metavar="A,B", help="only these columns")
    p.add_argument("--limit", type=_count, metavar="N", help="only the first N rows (default for --format table: 40)")
    p.add_argument("--content", default="none", choices=("none", "preview", "full"), help="whether text is filled in")
    _add_span(p)
    _add_selection(p)


def _add_sessions(commands: Commands) -> None:
    p = _command(
        commands,
        "sessions",
        "sessions that can be resumed, newest first",
        "ccanalytics sessions",
        "ccanalytics sessions --format json",
    )
    p.add_argument("--format", default="table", choices=("table", "ndjson", "json", "csv"))
    p.add_argument("--limit", type=_count, metavar="N", help="only the first N rows")


def _add_resume(commands: Commands) -> None:
    p = _command(
        commands,
        "resume",
        "what Claude Code would load on --resume",
        "ccanalytics resume 5bc8fbbc-bde5-4099-8164-d8399f767c45",
        "ccanalytics resume --continue --cwd . --format json",
    )
    p.add_argument("session", nargs="?", metavar="SESSION", help="session id (the beginning will do)")
    p.add_argument("--continue", action="store_true", dest="continued", help="the session that --continue would take")
    p.add_argument("--cwd", metavar="DIR", help="working directory for --continue (default: the current one)")
    p.add_argument("--rules", default="2.1.332", metavar="V", help="2.1.332, 2.1.88, or auto (the last writer's)")
    p.add_argument(
        "--apply", action="append", choices=("snip", "replacement", "collapse"), help="apply these lines too"
    )
    p.add_argument("--large-files", default="rules", choices=("rules", "whole"), help="read large files whole")
    p.add_argument("--format", default="table", choices=("table", "json"))


def _add_export(commands: Commands) -> None:
    p = _command(
        commands,
        "export",
        "all tables as Parquet",
        "ccanalytics export lake/",
        "ccanalytics export --engine dask --scheduler tcp://host:8786 s3://logs/claude s3://lake/claude",
    )
    p.add_argument("paths", nargs="+", metavar="[IN …] OUT", help="where to write; sources may stand before it")
    p.add_argument("--engine", default="local", choices=("local", "dask"))
    p.add_argument("--scheduler", metavar="ADDRESS", help="address of a Dask scheduler (default: a local cluster)")
    p.add_argument("--content", default="none", choices=("none", "preview", "full"), help="whether text is exported")
    p.add_argument("--format", default="table", choices=("table", "json"), help="how the summary is printed")
    _add_selection(p)


def _add_write_side(commands: Commands) -> None:
    p = _command(
        commands,
        "doctor",
        "what is damaged and what it costs; exit code 3 when something is wrong",
        "ccanalytics doctor",
        "ccanalytics doctor 5bc8fbbc --format json",
    )
    p.add_argument("session", nargs="?", metavar="SESSION", help="session id (default: everything)")
    p.add_argument("--project", action="append", metavar="P", help="only this project")
    p.add_argument("--format", default="table", choices=("table", "json"))
    p = _command(
        commands,
        "repair",
        "mend a session that no longer resumes; the original is kept beside it",
        "ccanalytics repair 5bc8fbbc --dry-run",
    )
    p.add_argument("session", metavar="SESSION", help="session id or transcript file")
    p.add_argument("--dry-run", action="store_true", help="only show what would change")
    p.add_argument("--format", default="table", choices=("table", "json"))
    p = _command(
        commands,
        "redact",
        "a copy of transcripts (or of an export) fit to share",
        "ccanalytics redact OUT --config-dir ~/.claude",
    )
    p.add_argument("output", metavar="OUT", help="folder to write to; must not exist or be empty")
    p.add_argument("--keep-text", action="store_true", help="keep text, mask only what looks like a secret")
    p.add_argument("--format", default="table", choices=("table", "json"))


def _add_prices(commands: Commands) -> None:
    p = _command(
        commands,
        "prices",
        "the price table in use",
        "ccanalytics prices",
        "ccanalytics prices --refresh-prices",
    )
    p.add_argument("--format", default="table", choices=("table", "ndjson", "json", "csv"))
    p.add_argument("--refresh-prices", action="store_true", help="fetch a public price table (the one network use)")
    p.add_argument("--limit", type=_count, metavar="N", help="only the first N rows")
