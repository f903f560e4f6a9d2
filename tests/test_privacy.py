"""Nothing leaves the machine, and no conversation text is in a frame unless it was asked for."""

from __future__ import annotations

import os
import re
import socket
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.__main__ import main
from tests.build import assistant as said
from tests.build import (
    attachment,
    boundary,
    chain,
    compact_summary,
    meta,
    progress,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    uid,
    usage,
    user,
    write_agent,
    write_session,
)
from tests.exercise import table_names


def canary(name: str) -> str:
    return f"CANARY-{name}-YRANAC"


FOUND = re.compile(r"CANARY-(.*?)-YRANAC")

# Words that a person, a model or a tool said. None of them may be in any table when content is "none".
TEXTS = (
    "prompt", "answer", "thinking", "tool-input", "command-rest", "tool-output", "stdout", "stderr", "patch",
    "agent-prompt", "agent-answer", "compact-summary", "summary", "last-prompt", "queued", "enqueued",
    "system-text", "hook-output", "hook-command", "error-text", "api-error", "image", "document",
    "task-summary", "command-args", "bash-input", "todo", "file-content", "snapshot", "replacement", "staged",
    "plan", "echo", "unknown-field", "away", "search-query", "url-path", "notification", "rejection",
    "question", "memory", "snip-text", "attachment-text", "error-detail", "history",
)  # fmt: skip

# What says which thing and how, not what was said: facts that tables are made of.
FACTS = (
    "title", "ai-title", "tag", "mode", "agent-name", "agent-color", "agent-setting", "description",
    "file-path", "branch", "cwd", "host", "tool", "model", "agent-type", "session-slug", "pr-url", "team",
    "hook-name", "worktree",
)  # fmt: skip


def write_canaries(config: Path) -> Path:
    """Every text of a session is a canary of its own."""
    c = canary
    result: dict[str, Any] = {
        "stdout": c("stdout"),
        "stderr": c("stderr"),
        "structuredPatch": [{"lines": ["+" + c("patch")]}],
    }
    result |= {
        "filePath": c("file-path"),
        "content": c("file-content"),
        "originalFile": c("file-content"),
        "type": "text",
    }
    answered = {"agentId": "a1b2", "status": "completed", "prompt": c("agent-prompt"), "agentType": c("agent-type")}
    answered |= {
        "content": [{"type": "text", "text": c("agent-answer")}],
        "question": c("question"),
        "query": c("search-query"),
    }
    given = {"command": "ls " + c("command-rest"), "description": c("tool-input"), "content": c("tool-input")}
    started = {"subagent_type": c("agent-type"), "description": c("description"), "prompt": c("agent-prompt")}
    listed = {"todos": [{"content": c("todo"), "status": "pending", "activeForm": c("todo")}]}
    notified = f"<task-notification><task-id>t</task-id><summary>{c('notification')}</summary></task-notification>"
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": c("image")}}
    document = {"type": "document", "title": c("document"), "source": {"type": "text", "data": c("document")}}
    spot: dict[str, Any] = {"gitBranch": c("branch"), "slug": c("session-slug"), "unknownField": c("unknown-field")}
    lines = chain(
        user("u1", c("prompt"), **spot),
        said("a1", [thinking(c("thinking")), text(c("answer"))], model=c("model"), **spot),
        tool_use("a2", "Bash", given, call="t1", usage=usage()),
        tool_result("r1", "t1", c("tool-output"), toolUseResult=result),
        tool_use("a3", "Task", started, call="t2"),
        progress("p1", "agent_progress", {"message": {"message": {"content": c("echo")}}, "prompt": c("echo")}),
        progress(
            "p2",
            "hook_progress",
            {"hookName": c("hook-name"), "command": c("hook-command"), "output": c("hook-output")},
        ),
        progress("p3", "bash_progress", {"output": c("stdout"), "fullOutput": c("stdout")}),
        tool_result("r2", "t2", [text(c("agent-answer")), image], toolUseResult=answered),
        tool_use(
            "a4", "WebFetch", {"url": f"https://{c('host')}/{c('url-path')}", "prompt": c("tool-input")}, call="t3"
        ),
        tool_result("r3", "t3", c("tool-output"), toolUseResult=c("error-text"), is_error=True),
        tool_use("a5", c("tool"), {"query": c("search-query"), "path": c("file-path")}, call="t4"),
        tool_result("r4", "t4", "x", toolUseResult=f"User rejected {c('rejection')}", toolDenialReason=c("rejection")),
        tool_use("a6", "TodoWrite", listed, call="t5"),
        tool_result("r5", "t5", "x", toolUseResult={"oldTodos": listed["todos"], "newTodos": listed["todos"]}),
        tool_use("a7", "ExitPlanMode", {"plan": c("plan")}, call="t6"),
        tool_result("r6", "t6", "x", toolUseResult={"plan": c("plan"), "isAgent": False}),
        user("u2", [text(c("prompt")), image, document]),
        user("u3", f"<command-name>/go</command-name><command-args>{c('command-args')}</command-args>"),
        user("u4", f"<bash-input>{c('bash-input')}</bash-input>"),
        user("u5", f"<bash-stdout>{c('stdout')}</bash-stdout><bash-stderr>{c('stderr')}</bash-stderr>"),
        user("u6", notified, origin={"kind": "task-notification", "text": c("notification")}),
        user("u7", f"<teammate-message>{c('prompt')}</teammate-message>", teamName=c("team"), planContent=c("plan")),
        system("s1", "informational", content=c("system-text")),
        system("s2", "local_command", content=f"<local-command-stdout>{c('stdout')}</local-command-stdout>"),
        system("s3", "api_error", error={"message": c("api-error"), "status": 529}, cause={"message": c("api-error")}),
        system("s4", "stop_hook_summary", hookInfos=[{"command": c("hook-command")}], hookErrors=[c("hook-output")]),
        system("s5", "away_summary", content=c("away")),
        system("s6", "snip_boundary", content=c("snip-text"), snipMetadata={"removedUuids": []}),
        attachment("x1", "queued_command", {"prompt": c("queued"), "commandMode": "prompt"}),
        attachment(
            "x2",
            "hook_success",
            {
                "hookName": c("hook-name"),
                "stdout": c("hook-output"),
                "content": c("hook-output"),
                "command": c("hook-command"),
            },
        ),
        attachment("x3", "file", {"filename": c("attachment-text"), "content": {"file": c("file-content")}}),
        attachment("x4", "nested_memory", {"content": c("memory"), "path": c("attachment-text")}),
        said("a8", c("error-text"), isApiErrorMessage=True, error="rate_limit", errorDetails=c("error-detail")),
        said("a9", c("answer"), stop_reason="refusal", stop_details={"explanation": c("error-detail")}),
        boundary("b1", logical="a9", userContext=c("compact-summary")),
        compact_summary("k1", c("compact-summary"), summarizeMetadata={"userContext": c("compact-summary")}),
        meta("custom-title", customTitle=c("title")),
        meta("ai-title", aiTitle=c("ai-title")),
        meta("tag", tag=c("tag")),
        meta("mode", mode=c("mode")),
        meta("agent-name", agentName=c("agent-name")),
        meta("agent-color", agentColor=c("agent-color")),
        meta("agent-setting", agentSetting=c("agent-setting")),
        meta("last-prompt", lastPrompt=c("last-prompt"), leafUuid=uid("a9")),
        {"type": "summary", "summary": c("summary"), "leafUuid": uid("a9")},
        meta("task-summary", summary=c("task-summary"), timestamp="2026-01-02T03:04:05.000Z"),
        meta("pr-link", prNumber=1, prUrl=c("pr-url"), prRepository="a/b"),
        meta("queue-operation", operation="enqueue", content=c("enqueued")),
        meta("worktree-state", worktreeSession={"worktreeBranch": c("worktree"), "worktreePath": c("worktree")}),
        meta("file-history-snapshot", messageId=uid("u1"), snapshot={"trackedFileBackups": {c("snapshot"): {}}}),
        meta("file-history-delta", messageId=uid("u1"), delta={"content": c("snapshot")}, content=c("file-content")),
        meta("attribution-snapshot", surface="cli", fileStates={c("snapshot"): {"content": c("file-content")}}),
        meta("content-replacement", replacements=[{"toolUseId": "t", "replacement": c("replacement")}]),
        meta("marble-origami-commit", summary=c("compact-summary"), summaryContent=c("compact-summary")),
        meta("marble-origami-snapshot", staged=[{"summary": c("staged")}]),
        meta("speculation-accept", text=c("prompt"), timeSavedMs=4),
        meta("zz-new", words=c("unknown-field")),
    )
    write_session(config, lines)
    inner = chain(user("i1", c("agent-prompt")), said("i2", c("agent-answer")), agent="a1b2")
    write_agent(config, "a1b2", inner, meta={"agentType": c("agent-type"), "description": c("description")})
    return config


def strings_of(t: Any) -> dict[str, list[str]]:
    """Every text in every table, by table and column."""
    found = {}
    for name in table_names():
        frame = getattr(t, name)
        frame = frame if isinstance(frame, pl.DataFrame) else frame()
        for column, dtype in frame.schema.items():
            if dtype in (pl.String, pl.Enum, pl.Categorical):
                found[f"{name}.{column}"] = frame[column].cast(pl.String).drop_nulls().to_list()
    return found


def canaries_in(t: Any) -> dict[str, set[str]]:
    """Names of canaries, with the columns they are in."""
    found: dict[str, set[str]] = {}
    for column, texts in strings_of(t).items():
        for name in FOUND.findall("\n".join(texts)):
            found.setdefault(name, set()).add(column)
    return found


# Frames


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_canaries(tmp_path / "config")


def test_no_conversation_text_is_in_any_table_unless_asked_for(folder: Path) -> None:
    found = canaries_in(cc.load(folder))
    assert set(found) & set(TEXTS) == set()
    assert set(found) <= set(FACTS)


def test_facts_that_tables_hold_are_those_of_the_documentation(folder: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "guarantees.md").read_text(encoding="utf-8")
    for fact in canaries_in(cc.load(folder)):
        assert f"`{fact}`" in page, fact


def test_with_full_content_the_texts_are_there(folder: Path) -> None:
    found = canaries_in(cc.load(folder, content="full"))
    assert {"prompt", "answer", "thinking", "tool-input", "tool-output", "compact-summary", "queued"} <= set(found)


def test_no_conversation_text_is_in_views_reports_and_conversations(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    t = cc.load(folder)
    session = t.files["session_id"].drop_nulls()[0]
    shown = [repr(t), t._repr_html_(), str(t.resume(session)), str(t.history(session)), str(t.reconcile())]
    for words in (["report"], ["report", "--by", "session,agent,tool"], ["doctor"], ["resume", session]):
        main([*words, "--config-dir", str(folder)])
        shown += capfd.readouterr()
    assert set(FOUND.findall("\n".join(shown))) & set(TEXTS) == set()


def test_what_is_said_of_damage_holds_none_of_the_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = next(write_canaries(tmp_path).rglob("*.jsonl"))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(line[: len(line) * 2 // 3] for line in lines[:9]) + b'\n"CANARY-prompt-YRANAC"\n')
    t = cc.load(tmp_path)
    assert t.problems.height >= 9
    assert not FOUND.search("\n".join(t.problems["detail"].drop_nulls()))
    main(["doctor", "--config-dir", str(tmp_path)])
    assert not set(FOUND.findall("".join(capfd.readouterr()))) & set(TEXTS)


SECRETS = (
    "AKIA" + "ABCDEFGHIJKLMNOP", "ghp_" + "a1B2" * 9, "sk-ant-" + "api03-abcdefghijklmnop",
    "xoxb-" + "123456789012-abcdef",
    "Authorization: Bearer " + "abcdefghijklmnop.qrst", "AIza" + "b" * 35, "npm_" + "c" * 36, "glpat-" + "d" * 20,
    "password=" + "hunter2hunter2", "https://user:" + "hunter2@example.org/",
    "eyJhbGciOiJI.eyJzdWIiOiIx." + "c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE" + "x" * 300,
)  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
def test_se05_secrets_are_masked_in_previews(secret: str, tmp_path: Path) -> None:
    result = tool_result("r1", "t1", f"before {secret} after")
    write_session(
        tmp_path, chain(user("u1", f"key {secret} end"), tool_use("a1", call="t1", input={"x": secret}), result)
    )
    t = cc.load(tmp_path, content="preview")
    shown = "\n".join([*t.entries["text"].drop_nulls(), *t.blocks["text"].drop_nulls()])
    assert secret not in shown
    assert "hunter2" not in shown
    assert "c2lnbmF0dXJl" not in shown
    assert "[secret]" in shown


def test_se05_a_secret_cut_by_the_end_of_a_preview_is_masked(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    for length in range(150, 200, 7):
        write_session(tmp_path, chain(user("u1", "x" * (length - 1) + " " + secret)))
        text_shown = cc.load(tmp_path, content="preview").entries["text"][0]
        assert "ghp_a1B2" not in text_shown


def test_se05_secrets_are_in_no_default_table_export_or_view(tmp_path: Path) -> None:
    secret = SECRETS[0]
    lines = chain(
        user("u1", secret), tool_use("a1", "Bash", {"command": f"{secret} x", "url": f"https://u:{secret}@h/"})
    )
    lines.append(meta("custom-title", customTitle=secret, sessionId=uid("s1")))
    write_session(tmp_path / "config", [*lines, *chain(user("u2"), tool_result("r1", "a1", secret), parent="a1")])
    t = cc.load(tmp_path / "config")
    assert secret not in str([t for texts in strings_of(t).values() for t in texts])
    assert secret not in repr(t) + t._repr_html_()
    t.write_parquet(tmp_path / "lake")
    for path in (tmp_path / "lake").rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()


# Files


def modes_below(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): stat.S_IMODE(p.stat().st_mode) for p in folder.rglob("*")}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_cache_and_export_are_for_their_owner_only(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    old = os.umask(0)
    try:
        monkeypatch.setenv("CCANALYTICS_CACHE_DIR", str(tmp_path / "cache"))
        cc.load(folder, cache=True)
        cc.load(folder, cache=True).write_parquet(tmp_path / "lake")
    finally:
        os.umask(old)
    for place in ("cache", "lake"):
        modes = modes_below(tmp_path / place)
        assert len(modes) > 3
        assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
        assert not stat.S_IMODE((tmp_path / place).stat().st_mode) & 0o077


def test_a_cache_of_frames_without_text_holds_no_text(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("CCANALYTICS_CACHE_DIR", str(tmp_path / "cache"))
    cc.load(folder, cache=True)
    files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert files
    for path in files:
        for name in TEXTS:
            assert canary(name).encode() not in path.read_bytes(), (path, name)


# Network


def test_nothing_opens_a_socket(folder: Path, tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError(f"a socket was opened: {args}")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("CCANALYTICS_CACHE_DIR", str(tmp_path / "cache"))
    t = cc.load(folder, cache=True)
    strings_of(t)
    t.cost(by="day")
    t.reconcile()
    t.write_parquet(tmp_path / "lake")
    for words in (["report"], ["table", "calls"], ["sessions"], ["doctor"], ["prices"]):
        assert main([*words, *(["--config-dir", str(folder)] if words != ["prices"] else [])]) in (0, 3)
    capfd.readouterr()
