"""What a resume restores beside the conversation, at the end and at any entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.errors import NotFoundError
from ccanalytics.schema.work import STATE_TABLES
from tests.build import (
    DROP,
    Line,
    assistant,
    at,
    boundary,
    chain,
    compact_summary,
    meta,
    tool_result,
    tool_use,
    uid,
    user,
    write_agent,
    write_session,
)
from tests.cases import case_dir

S1 = uid("s1")


def state_of(tmp_path: Path, *lines: Line, at: int | str | None = None) -> Any:
    write_session(tmp_path, chain(*lines))
    return cc.load(tmp_path).state(S1, at=at)


def backup(name: str | None, version: int = 1) -> Line:
    return {"backupFileName": name, "version": version, "backupTime": at(5)}


def snapshot(message: str, files: Line, **more: object) -> Line:
    shot = {"messageId": uid(message), "timestamp": at(1), "trackedFileBackups": files}
    return meta("file-history-snapshot", messageId=uid(message), snapshot=shot, isSnapshotUpdate=False, **more)


def test_files_have_the_backup_said_last_and_it_exists_or_not(tmp_path: Path) -> None:
    folder = tmp_path / "file-history" / S1
    folder.mkdir(parents=True)
    (folder / "aa@v2").write_text("x")
    state = state_of(
        tmp_path,
        snapshot("u1", {"a.py": backup("aa@v1"), "b.py": backup(None)}),
        user("u1"),
        assistant("a1"),
        snapshot("u2", {"a.py": backup("aa@v2", 2), "b.py": backup(None), "c.py": backup("../../secret")}),
        user("u2"),
    )
    rows = {r["path"]: r for r in state.file_history.to_dicts()}
    assert {p: (r["backup_name"], r["has_backup"]) for p, r in rows.items()} == {
        "a.py": ("aa@v2", True),
        "b.py": (None, None),
        "c.py": ("../../secret", False),
    }
    assert rows["a.py"]["message_uuid"] == uid("u2")
    assert rows["a.py"]["backup_path"] == str(folder / "aa@v2")
    assert rows["c.py"]["backup_path"] is None
    assert state.snapshots.height == 5


def test_an_update_replaces_the_snapshot_of_its_message_and_a_delta_adds_to_it(tmp_path: Path) -> None:
    delta = meta(
        "file-history-delta", messageId=uid("a1"), snapshotMessageId=uid("u1"), trackingPath="new.py", timestamp=at(3),
        backup={"backupFileName": None, "backupTime": at(3), "realParentDir": "/"},
    )  # fmt: skip
    state = state_of(
        tmp_path,
        snapshot("u1", {"a.py": backup("aa@v1")}),
        user("u1"),
        snapshot("u1", {"a.py": backup("aa@v1"), "b.py": backup("bb@v1")}) | {"isSnapshotUpdate": True},
        assistant("a1"),
        delta,
    )
    assert state.snapshots.select("snapshot_no", "path", "backup_name").rows() == [
        (0, "a.py", "aa@v1"),
        (0, "b.py", "bb@v1"),
        (0, "new.py", None),
    ]
    assert state.file_history["has_backup"].to_list() == [False, False, None]


def test_the_state_at_an_entry_knows_nothing_of_what_came_later(tmp_path: Path) -> None:
    lines = [
        meta("mode", mode="normal"),
        snapshot("u1", {"a.py": backup("aa@v1")}),
        user("u1"),
        assistant("a1"),
        meta("mode", mode="coordinator"),
        snapshot("u2", {"a.py": backup("aa@v2", 2)}),
        user("u2"),
    ]
    write_session(tmp_path, chain(*lines))
    t = cc.load(tmp_path)
    early, late = t.state(S1, at=uid("a1")), t.state(S1)
    assert [s.file_history["version"].to_list() for s in (early, late)] == [[1], [2]]
    modes = [s.settings.filter(pl.col("name") == "mode")["value"].to_list() for s in (early, late)]
    assert modes == [["normal"], ["coordinator"]]
    assert t.state(S1, at=3).file_history.equals(early.file_history)
    assert (early.at, late.at) == (3, None)


def test_settings_with_words_are_read_again(tmp_path: Path) -> None:
    state = state_of(
        tmp_path,
        user("u1", permissionMode="plan"),
        meta("custom-title", customTitle="One"),
        meta("custom-title", customTitle="Two"),
        meta("tag", tag="x"),
        meta("agent-name", agentName="ann"),
        meta("agent-color", agentColor="red"),
        meta("agent-setting", agentSetting="reviewer"),
        meta("last-prompt", lastPrompt="hello"),
        meta("tag", tag=""),
    )
    assert dict(state.settings.select("name", "value").iter_rows()) == {
        "agent_color": "red", "agent_name": "ann", "agent_setting": "reviewer", "custom_title": "Two",
        "last_prompt": "hello", "permission_mode": "plan",
    }  # fmt: skip


def test_the_worktree_is_the_one_entered_last_unless_it_was_left(tmp_path: Path) -> None:
    entered = meta("worktree-state", worktreeSession={"worktreePath": "/w", "worktreeName": "w", "originalCwd": "/r"})
    left = meta("worktree-state", worktreeSession=None)
    inside = state_of(tmp_path / "a", user("u1"), entered).worktree
    assert inside.select("name", "path", "original_cwd").rows() == [("w", "/w", "/r")]
    assert state_of(tmp_path / "b", user("u1"), entered, left).worktree.is_empty()


def test_pull_requests_and_replaced_results(tmp_path: Path) -> None:
    link = {"prNumber": 7, "prUrl": "https://x/7", "prRepository": "o/r"}
    swap = [{"kind": "tool-result", "toolUseId": "toolu_t1", "replacement": "…"}]
    write_session(
        tmp_path,
        chain(
            user("u1"),
            meta("pr-link", **link, timestamp=at(2)),
            meta("pr-link", **(link | {"prUrl": "https://x/8", "prNumber": 8})),
            meta("content-replacement", replacements=swap),
            meta("content-replacement", replacements=swap),
        ),
    )
    inner = meta("content-replacement", agentId="a1", replacements=[{"toolUseId": "toolu_t9"}])
    write_agent(tmp_path, "a1", chain(user("x1"), inner, agent="a1"))
    state = cc.load(tmp_path).state(S1)
    assert state.pr_links.select("number", "repository", "is_current").rows() == [(7, "o/r", False), (8, "o/r", True)]
    assert state.content_replacements.select("agent_id", "tool_use_id").rows() == [
        (None, "toolu_t1"),
        ("a1", "toolu_t9"),
    ]


def test_todos_come_from_the_last_call_of_each_agent_and_from_the_files(tmp_path: Path) -> None:
    def todo(line: str, *items: tuple[str, str]) -> Line:
        todos = [{"content": c, "status": s, "activeForm": c + "ing"} for c, s in items]
        return tool_use(line, "TodoWrite", {"todos": todos}, call=line)

    write_session(
        tmp_path,
        chain(user("u1"), todo("t1", ("dig", "pending")), todo("t2", ("dig", "completed"), ("sow", "pending"))),
    )
    write_agent(tmp_path, "a1", chain(user("x1"), todo("t3", ("weed", "in_progress")), agent="a1", start=9))
    folder = tmp_path / "todos"
    folder.mkdir()
    (folder / f"{S1}-agent-{S1}.json").write_text(json.dumps([{"content": "old", "status": "pending", "id": "1"}]))
    (folder / f"{S1}-agent-a1.json").write_text("[]")
    (folder / f"{uid('s2')}-agent-x.json").write_text('[{"content": "other"}]')
    (folder / "damaged.json").write_text("{")
    t = cc.load(tmp_path)
    written = t.state(S1).todos
    assert written.select(pl.col("source").cast(pl.String), "agent_id", "content", "status").rows() == [
        ("todo_write", None, "dig", "completed"),
        ("todo_write", None, "sow", "pending"),
        ("todo_write", "a1", "weed", "in_progress"),
        ("todo_file", None, "old", "pending"),
    ]
    assert t.state(S1, at=uid("t1")).todos.select("content", "status").rows() == [("dig", "pending")]


def test_tasks_are_followed_through_the_calls_that_change_them(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks" / S1
    tasks.mkdir(parents=True)
    (tasks / "2.json").write_text(json.dumps({"id": "2", "subject": "sow", "status": "pending", "blockedBy": ["1"]}))
    state = state_of(
        tmp_path,
        user("u1"),
        tool_use("a1", "TaskCreate", {"subject": "dig"}, call="c1"),
        tool_result("r1", "c1", toolUseResult={"task": {"id": "1"}}),
        tool_use("a2", "TaskCreate", {"subject": "sow", "activeForm": "sowing"}, call="c2"),
        tool_result("r2", "c2", toolUseResult={"task": {"id": "2"}}),
        tool_use("a3", "TaskUpdate", {"taskId": "2", "addBlockedBy": ["1"], "owner": "ann"}, call="c3"),
        tool_use("a4", "TaskUpdate", {"taskId": "1", "status": "deleted"}, call="c4"),
    )
    assert state.todos.select(
        pl.col("source").cast(pl.String), "item_id", "content", "status", "owner", "blocked_by"
    ).rows() == [
        ("task_calls", "2", "sow", "pending", "ann", "1"),
        ("task_file", "2", "sow", "pending", None, "1"),
    ]


def test_collapses_are_cleared_by_a_boundary_and_by_a_reset(tmp_path: Path) -> None:
    def commit(name: str) -> Line:
        return meta("marble-origami-commit", collapseId=name, summaryUuid=uid("s"), firstArchivedUuid=uid("f"))

    staged = meta("marble-origami-snapshot", staged=[{"startUuid": uid("x"), "endUuid": uid("y")}], armed=True)
    state = state_of(
        tmp_path / "a", user("u1"), commit("1"), boundary("b1"), compact_summary("c1"), commit("2"), commit("3"), staged
    )
    assert state.collapses["collapse_id"].to_list() == ["2", "3", None]
    assert state.collapses["first_uuid"].to_list() == [uid("f"), uid("f"), uid("x")]
    reset = meta("marble-origami-reset", reason="x")
    assert state_of(tmp_path / "b", user("u1"), commit("1"), reset).collapses.is_empty()


def test_the_last_attribution_snapshot_counts(tmp_path: Path) -> None:
    def shot(count: int) -> Line:
        return meta("attribution-snapshot", fileStates={"a.py": {"contentHash": "h", "claudeContribution": count}})

    state = state_of(tmp_path, user("u1"), shot(3), shot(8))
    assert state.attribution.select("path", "claude_characters", "content_hash").rows() == [("a.py", 8, "h")]


def test_a_fork_inherits_the_state_of_its_first_lines(tmp_path: Path) -> None:
    lines = chain(meta("mode", mode="plan"), snapshot("u1", {"a.py": backup("x@v1")}), user("u1"), assistant("a1"))
    write_session(tmp_path, lines)
    copied = [{**line, "sessionId": uid("s2")} for line in lines]
    write_session(tmp_path, [*copied, *chain(user("u2"), session="s2", start=60, parent="a1")], session="s2")
    assert cc.load(tmp_path).state(uid("s2")).file_history["path"].to_list() == ["a.py"]


def test_asking_for_what_is_not_there_says_so(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1")))
    t = cc.load(tmp_path)
    with pytest.raises(NotFoundError, match="no session"):
        t.state("nobody")
    with pytest.raises(NotFoundError, match="no entry"):
        t.state(S1, at=uid("nobody"))
    with pytest.raises(NotFoundError, match="no entry"):
        t.state(S1, at=99)


def test_lines_of_any_shape_make_a_state(tmp_path: Path) -> None:
    odd: list[object] = [1, "x", None, [], {}]
    lines: list[Line] = [user("u1", uuid=DROP)]
    for value in odd:
        lines += [
            meta("file-history-snapshot", messageId=value, snapshot=value),
            meta("file-history-snapshot", messageId="m", snapshot={"messageId": value, "trackedFileBackups": value}),
            meta(
                "file-history-snapshot",
                messageId="n",
                snapshot={"trackedFileBackups": {"p": value}, "timestamp": value},
            ),
            meta("file-history-delta", snapshotMessageId="m", trackingPath="q", backup=value),
            meta("worktree-state", worktreeSession=value),
            meta("content-replacement", replacements=value),
            meta("attribution-snapshot", fileStates=value),
            meta("attribution-snapshot", fileStates={"p": value}),
            meta("marble-origami-commit", collapseId=value),
            meta("marble-origami-snapshot", staged=value),
            meta("last-prompt", lastPrompt=value),
            meta("pr-link", prUrl=value, prNumber=value),
        ]
    state = state_of(tmp_path, *lines)
    for name, table in STATE_TABLES.items():
        assert getattr(state, name).schema == table.polars()
    assert "rows" in repr(state)
    assert "<table" in state._repr_html_()


def test_the_recorded_interactive_session_has_its_backup() -> None:
    config = case_dir("zoo", "2.1.300/tui-write") / "config"
    t = cc.load(config)
    state = t.state(t.sessions["session_id"][0])
    assert state.file_history["path"].to_list() == ["out.txt"]
    assert state.file_history.filter(pl.col("backup_name").is_not_null())["has_backup"].all()
