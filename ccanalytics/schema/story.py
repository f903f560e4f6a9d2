"""The table of ``t.history(session_id)``: one session's whole story. It is asked for by session, not kept for all."""

from __future__ import annotations

from . import Column as C
from . import Table

PARTS = ("main", "branch", "sidechain", "agent", "orphan", "other")

HISTORY = Table(
    "history",
    "entry of a session's story, through all compactions",
    ("session_id", "position"),
    (
        C("session_id", "str", "session"),
        C("position", "i32", "place in the story, from 0: a dropped branch and an agent's lines follow what they hang from"),
        C("entry_id", "i64", "entry"),
        C("file_id", "i32", "file it is in"),
        C("uuid", "str", "the entry's uuid", "uuid"),
        C("type", "str", "user, assistant, system or attachment", "type"),
        C("subtype", "str", "kind within the type", "subtype, attachment.type"),
        C("timestamp", "ts", "when it was written", "timestamp"),
        C("parent_id", "i64", "entry before it in the story: its parent, what came before a boundary, or the call of its agent"),
        C("part", "str", "what of the story it belongs to", values=PARTS),
        C("agent_id", "str", "agent whose line it is; null on the main thread", "agentId"),
        C("branch_no", "i32", "branch within its file; see chains"),
        C("dropped_id", "i64", "first entry of the dropped branch it is on"),
        C("segment", "i32", "compact boundaries up to it in its file"),
        C("on_resume", "bool", "Claude Code would load it on --resume"),
        C("off_reason", "str", "why not, if not; see chains"),
        C("copy_of", "i64", "entry of another session that it was copied from"),
    ),
)
