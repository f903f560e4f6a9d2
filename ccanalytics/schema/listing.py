"""Tables that are read without loading transcripts: the list of sessions, the history of prompts."""

from __future__ import annotations

from . import Column as C
from . import Table

SESSION_LIST = Table(
    "session_list",
    "session as Claude Code lists it for resuming",
    ("session_id",),
    (
        C("session_id", "str", "session, by its file's name"),
        C("summary", "str", "what is shown for it: custom title, else last prompt, summary, first prompt"),
        C("custom_title", "str", "title given by the user, else by the model", "customTitle, aiTitle"),
        C("first_prompt", "str", "first words typed, cut at 200 characters", "message.content"),
        C("tag", "str", "tag at the end of the file", "tag"),
        C("git_branch", "str", "branch last worked on", "gitBranch"),
        C("cwd", "str", "directory it began in", "cwd"),
        C("created_at", "ts", "first timestamp near the file's beginning", "timestamp"),
        C("modified_at", "ts", "file time, the order of the list", "mtime"),
        C("size_bytes", "i64", "size of the file", unit="bytes"),
        C("project", "str", "directory the project is identified by, worktrees folded in", "cwd"),
        C("worktree", "str", "name of the worktree when cwd lies in one", "cwd"),
        C("project_dir", "str", "name of the folder under projects/ (the slug)"),
        C("is_agent", "bool", "the file turns out to be an agent's or a team member's behind its first line; see agents="),
        C("middle_title", "str", "title in the middle of a large file, where Claude Code does not look; see scan="),
        C("path", "str", "the file"),
    ),
    sort=("modified_at", "session_id"),
)

PROMPT_HISTORY = Table(
    "prompt_history",
    "prompt in history.jsonl",
    ("root", "byte_offset"),
    (
        C("root", "str", "configuration directory the history is in"),
        C("byte_offset", "i64", "where its line begins", unit="bytes"),
        C("submitted_at", "ts", "when it was sent", "timestamp"),
        C("session_id", "str", "session it was sent in; null in old lines, unless join_prompts() found one", "sessionId"),
        C("session_rule", "str", "how the session is known", values=("written", "time")),
        C("cwd", "str", "directory it was sent from, as written", "project"),
        C("project", "str", "directory the project is identified by, worktrees folded in", "project"),
        C("worktree", "str", "name of the worktree when the directory lies in one", "project"),
        C("display", "str", "the prompt as shown while typing, pasted text as a placeholder", "display"),
        C("prompt", "str", "the prompt with pasted text put back in, as far as it is known", "display, pastedContents"),
        C("n_chars", "i64", "characters of prompt", unit="characters"),
        C("n_pasted", "i32", "texts pasted, and images", "pastedContents"),
        C("n_images", "i32", "images among them", "pastedContents.type"),
        C("n_missing", "i32", "pasted texts that are neither in the line nor in the paste cache", "pastedContents.contentHash"),
        C("is_copy", "bool", "a newer line has the same time, session and words"),
    ),
    sort=("root", "byte_offset"),
)
