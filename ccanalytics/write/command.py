"""``ccanalytics doctor``, ``repair`` and ``redact``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ccanalytics.errors import UsageError
from ccanalytics.markup import plain
from ccanalytics.show import json_text, write_out
from ccanalytics.transcripts import check_choice

from .doctor import doctor
from .redact import redact
from .repair import repair

EXIT_DAMAGE = 3


def doctor_command(args: argparse.Namespace) -> int:
    """Say what is damaged; exit code 3 when something is."""
    check_choice("--format", args.format, ("table", "json"))
    from ccanalytics.load import load

    t = load(args.config_dir, sessions=args.session, projects=getattr(args, "project", None))
    diagnosis = doctor(t, session=args.session)
    if args.session is not None and not diagnosis.n_sessions:
        raise UsageError(
            f"there is no session {args.session!r}; list them with: ccanalytics sessions", got=args.session
        )
    write_out(json_text(diagnosis.to_dict()) if args.format == "json" else _lines(diagnosis.text()))
    return 0 if diagnosis.is_healthy else EXIT_DAMAGE


def repair_command(args: argparse.Namespace) -> int:
    """Mend a session, or show what would be done."""
    done = repair(args.session, path=args.config_dir, dry_run=args.dry_run)
    if args.format == "json":
        write_out(json_text(done.to_dict()))
    else:
        write_out(_lines(done.diff() + ("\n(nothing was changed: --dry-run)" if args.dry_run and done.files else "")))
    return 0


def redact_command(args: argparse.Namespace) -> int:
    """Write a copy fit to share."""
    source = args.config_dir[0] if args.config_dir and len(args.config_dir) == 1 else args.config_dir
    done = redact(source, args.output, keep_text=args.keep_text)
    facts = {"output": str(Path(done.output)), "files": done.n_files, "originals_replaced": done.n_originals}
    if args.format == "json":
        write_out(json_text({**facts, "left_out": list(done.left_out)}))
    else:
        left = f"; not copied: {', '.join(done.left_out)}" if done.left_out else ""
        write_out(_lines(f"{done.n_files} files in {done.output}, {done.n_originals} strings replaced{left}"))
    return 0


def _lines(text: str) -> str:
    # Ids and paths come from transcripts: control characters in them must not reach the terminal.
    return "".join(plain(line) + "\n" for line in text.split("\n"))
