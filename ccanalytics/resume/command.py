"""``ccanalytics resume SESSION`` and ``resume --continue``: what Claude Code would load."""

from __future__ import annotations

import argparse

import polars as pl

from ccanalytics.conversations import Conversations
from ccanalytics.errors import NothingToResumeError, UsageError
from ccanalytics.show import json_text, note, print_table, write_out
from ccanalytics.table_command import load_from
from ccanalytics.transcripts import Transcripts

MAX_TEXT = 60


def run(args: argparse.Namespace) -> int:
    """Print one conversation; 0 also when the program would refuse it (``refused`` says so, and stderr why)."""
    if args.continued == (args.session is not None):
        raise UsageError("give a SESSION or --continue, one of the two", got=args.session)
    t = load_from(args)
    talk = t.conversations
    options = {"rules": args.rules, "apply": tuple(args.apply or ()), "large_files": args.large_files}
    if args.session is not None and args.cwd is not None:
        options["cwd"] = args.cwd
    session: str | None = args.session
    try:
        if session is None:
            session = talk.continued(args.cwd or ".", rules=args.rules)
        if args.format == "json":
            write_out(json_text(talk.as_json(session, **options)))
        else:
            _print(t, talk, session, options)
    except NothingToResumeError as e:
        if args.format != "json":
            raise
        refusal = {"session_id": session, "refused": True, "reason": e.facts.get("reason"), "chain": [], "messages": []}
        write_out(json_text(refusal))
        note(str(e))
    return 0


def _print(t: Transcripts, talk: Conversations, session: str, options: dict[str, object]) -> None:
    frame = talk.resume(session, **options)  # type: ignore[arg-type]
    assert isinstance(frame, pl.DataFrame)
    facts = t.entries.select("entry_id", "timestamp", "prompt_kind", "model", "n_chars")
    shown = frame.join(facts, on="entry_id", how="left", validate="m:1", maintain_order="left")
    shown = shown.select(
        "position", "type", "step", "synthetic", "timestamp", "prompt_kind", "model", "n_chars", "uuid"
    )  # fmt: skip
    n_made = frame["synthetic"].is_not_null().sum()
    print_table(
        shown,
        title=f"session {frame['session_id'][0] if len(frame) else session}, rules of Claude Code {options['rules']}",
        footer=[f"{frame.height} entries, {n_made} of them made up by the program"],
    )
