"""The tables of the conversation graph: edges, chains, resume."""

from __future__ import annotations

from . import Column as C
from . import Table

EDGE_KINDS = ("parent", "bridged", "logical", "relinked", "spliced", "recovered", "answer", "spawn", "copy")
EDGE_RULES = (
    "parent_uuid",
    "other_file",
    "progress",
    "logical_parent_uuid",
    "preserved_messages",
    "preserved_segment",
    "snip",
    "time_window",
    "same_message",
    "result_of_message",
    "result_by_call",
    "passive",
    "tool_use_id",
    "same_uuid",
    "forked_from",
    "message_id",
    "agent_meta",
    "agent_result",
    "agent_result_text",
    "agent_progress",
    "agent_prompt",
)
OFF_REASONS = (
    "abandoned",
    "before_boundary",
    "beside",
    "sidechain",
    "snipped",
    "replaced",
    "orphan",
    "unanswered",
    "empty",
    "not_read",
    "rescued",
    "agent",
    "progress",
    "refused",
)
STEPS = (
    "walk",
    "bridged",
    "relinked",
    "spliced",
    "line",
    "result",
    "passive",
    "behind_tip",
    "interrupted",
    "no_response",
    "continue",
    "collapsed",
)

EDGES = Table(
    "edges",
    "link between two entries, with its kind and rule",
    ("child_id", "parent_id", "kind"),
    (
        C("child_id", "i64", "entry the link starts from: the later one, the answer, the agent's first entry, the copy"),
        C("parent_id", "i64", "entry it leads to"),
        C("kind", "str", "what the link means", values=EDGE_KINDS),
        C("rule", "str", "how it was found", values=EDGE_RULES),
        C("file_id", "i32", "file of the child"),
        C("session_id", "str", "session of the child's file"),
        C("child_uuid", "str", "uuid of the child as written", "uuid"),
        C("parent_uuid", "str", "uuid of the parent as written", "uuid"),
        C("tool_use_id", "str", "the call an answer or a spawn goes through", "tool_use_id"),
        C("gap_ms", "i64", "time from the parent to the child; null where a time is unreadable", "timestamp", "ms"),
    ),
)

CHAINS = Table(
    "chains",
    "entry of a conversation: where it hangs, on which branch, and whether a resume shows it",
    ("entry_id",),
    (
        C("entry_id", "i64", "entry (user, assistant, system, attachment and progress lines)"),
        C("file_id", "i32", "file it is in"),
        C("session_id", "str", "session of that file"),
        C("parent_id", "i64", "entry of its file it hangs on once links are repaired; null at a root"),
        C("root_id", "i64", "entry its chain begins with"),
        C("depth", "i32", "links from the root; 0 at a root", unit="links"),
        C("n_children", "i32", "entries that hang on it"),
        C("branch_no", "i32", "branch within the file: 0 is the resumed conversation (else that of the last leaf), then by leaf, newest first"),
        C("is_leaf", "bool", "nothing hangs on it"),
        C("on_resume", "bool", "Claude Code would load it on --resume"),
        C("off_reason", "str", "why not, if not", values=OFF_REASONS),
        C("dropped_id", "i64", "abandoned entries: first entry of the dropped branch they are on"),
        C("segment", "i32", "compact boundaries before it in the file, itself included"),
    ),
)

RESUME = Table(
    "resume",
    "entry that Claude Code would load on --resume, in its order",
    ("session_id", "file_id", "position"),
    (
        C("session_id", "str", "session that is resumed"),
        C("file_id", "i32", "file it is read from"),
        C("position", "i32", "place in the conversation, from 0"),
        C("entry_id", "i64", "entry; null where the program makes one up"),
        C("uuid", "str", "the entry's uuid; null where the program makes one up", "uuid"),
        C("type", "str", "user, assistant, system or attachment", "type"),
        C("step", "str", "which step of loading brought it in", values=STEPS),
        C("synthetic", "str", "type of an entry the program makes up; null for real ones", values=("user", "assistant")),
        C("tool_use_id", "str", "call a made-up result answers"),
    ),
)
