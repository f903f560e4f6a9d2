"""What each code the doctor reports means: how bad it is, what it touches, what it does, and what mends it."""

from __future__ import annotations

LEVELS = ("damage", "note")
REPAIR = "ccanalytics repair SESSION"

_MEANINGS: dict[str, tuple[str, str, str, str | None]] = {
    "bad_json": ("damage", "reading", "lines that are no records are left out", REPAIR),
    "torn_line": ("damage", "reading", "records that were cut off are lost", REPAIR),
    "not_an_object": (
        "damage",
        "reading",
        "lines that are no records; versions up to 2.1.88 stop reading at null",
        REPAIR,
    ),
    "glued_records": ("damage", "resume", "Claude Code loads at most the first of records on one line", REPAIR),
    "record_behind_damage": ("damage", "resume", "Claude Code does not see a record behind damage", REPAIR),
    "nul_bytes": ("damage", "resume", "a crash left NUL bytes; Claude Code does not see a record behind them", REPAIR),
    "bad_utf8": ("damage", "reading", "bytes that are no UTF-8 are shown as U+FFFD", REPAIR),
    "odd_message": ("damage", "reading", "messages of an unexpected shape show nothing and count nothing", None),
    "odd_field": ("note", "reading", "fields of an unexpected type are read as null", None),
    "bad_timestamp": ("damage", "resume", "entries without a readable time are not found when a link is bridged", None),
    "unreadable_file": ("damage", "reading", "the file could not be read to its end", "check its permissions"),
    "bad_meta": ("damage", "reading", "the agent's meta file is damaged; the agent is linked by other means", None),
    "shared_folder": ("note", "reading", "several directories share this folder; they are told apart by cwd", None),
    "indexed_only": ("note", "retention", "sessions-index.json names sessions whose file is gone", None),
    "unfinished_line": (
        "damage",
        "reading",
        "the last line was begun and never ended; what is appended next is lost",
        REPAIR,
    ),
    "missing_parent": (
        "damage",
        "resume",
        "entries hang on a line that is nowhere; what came before may be lost",
        REPAIR,
    ),
    "parent_in_other_file": (
        "damage",
        "resume",
        "entries hang on a line in another file, which a resume does not read",
        REPAIR,
    ),
    "cycle": ("damage", "resume", "links run in a circle; the conversation has no beginning", REPAIR),
    "duplicate_uuid": ("damage", "resume", "a uuid stands on several lines; the last one counts", REPAIR),
    "foreign_session": (
        "damage",
        "resume",
        "lines of another session lie in this file and are taken for its own",
        REPAIR,
    ),
    "skips_compaction": (
        "note",
        "resume",
        "the resumed conversation jumps over a compaction: it is longer than it was",
        None,
    ),
    "inherited_line": ("note", "resume", "lines of the session this one was copied from; they belong to it", None),
    "hangs_on_no_entry": (
        "damage",
        "resume",
        "entries hang on a line that is no entry; the chain is lost there",
        REPAIR,
    ),
    "kept_messages_missing": ("damage", "resume", "messages a compaction meant to keep are not in the file", None),
    "result_without_call": ("damage", "resume", "results answer no call; Claude Code leaves them out", None),
    "large_file_not_read": ("note", "resume", "Claude Code does not read the beginning of a file this large", None),
    "unreachable": ("damage", "resume", "messages cannot be reached from the end of the conversation", REPAIR),
    "not_read_on_resume": ("note", "resume", "messages are not read on a resume", None),
    "unseen_by_claude_code": (
        "damage",
        "resume",
        "whole messages on damaged lines are not seen by Claude Code",
        REPAIR,
    ),
    "hidden_by_open_call": (
        "damage",
        "resume",
        "answers are left out because none of their calls has a result",
        REPAIR,
    ),
    "not_resumed": ("damage", "resume", "Claude Code refuses to resume the session", None),
    "on_abandoned_branch": ("note", "resume", "messages are on branches that were left by going back", None),
    "unanswered_call": (
        "damage",
        "resume",
        "calls have no result; Claude Code makes one up or leaves the answer out",
        REPAIR,
    ),
    "repeated_result": (
        "damage",
        "resume",
        "calls have several results; Claude Code sends one and leaves out the others",
        None,
    ),
    "unlinked_agent": (
        "damage",
        "numbers",
        "it is not known which call started the agent; its cost is in no other",
        None,
    ),
    "uncertain_output": (
        "note",
        "numbers",
        "only a placeholder for the output was written; the cost is a lower bound",
        None,
    ),
    "progress_only_call": (
        "note",
        "numbers",
        "calls are known from progress lines alone; their agent's file is gone",
        None,
    ),
    "unpriced_call": (
        "note",
        "numbers",
        "the model has no price; the calls are in no sum of cost",
        "give prices to cc.prices",
    ),
    "deleted_soon": (
        "note",
        "retention",
        "will be deleted by Claude Code within a week",
        "raise cleanupPeriodDays",
    ),
}


def meaning_of(code: str) -> tuple[str, str, str, str | None]:
    """Level, area, effect and remedy of a code; a code that is not known is worth knowing."""
    return _MEANINGS.get(code, ("note", "reading", "see docs/problems.md", None))
