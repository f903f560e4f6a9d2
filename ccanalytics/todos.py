"""Todo and task lists: from the last calls that wrote them, and from the files Claude Code keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from .small_files import read_small

ReadRaw = Callable[[Iterable[int]], list[dict[str, Any]]]
_TASK_TOOLS = ("TaskCreate", "TaskUpdate")
_COLUMNS = (
    "source", "agent_id", "item_no", "item_id", "status", "priority", "content", "active_form", "owner", "blocked_by",
    "entry_id",
)  # fmt: skip
Row = tuple[Any, ...]


def read_todos(
    lines: pl.DataFrame, blocks: pl.DataFrame, raw: ReadRaw, folder: Path | None, session_id: str
) -> pl.DataFrame:
    """Items of the lists of a session and its agents (table ``todos`` of a state).

    Parameters
    ----------
    lines
        Lines of the session up to the asked moment, in order.
    folder
        The configuration folder whose ``todos`` and ``tasks`` are looked into; None leaves the files out.
    """
    used = blocks.filter((pl.col("type") == "tool_use") & pl.col("tool_name").is_in(["TodoWrite", *_TASK_TOOLS]))
    used = used.select("entry_id", "tool_name", "tool_use_id").join(
        lines.filter(pl.col("type") == "assistant").select("entry_id", "agent_id", "pos"),
        on="entry_id", how="inner", validate="m:1",
    )  # fmt: skip
    used = used.sort("pos", maintain_order=True)
    rows = _from_todo_write(used, raw) + _from_task_calls(used, lines, blocks, raw)
    if folder is not None and _is_plain(session_id):
        rows += _from_todo_files(folder / "todos", session_id) + _from_task_files(folder / "tasks" / session_id)
    schema: dict[str, Any] = dict.fromkeys(_COLUMNS, pl.String)
    schema |= {"item_no": pl.Int32, "entry_id": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _from_todo_write(used: pl.DataFrame, raw: ReadRaw) -> list[Row]:
    last = used.filter(pl.col("tool_name") == "TodoWrite").unique("agent_id", keep="last", maintain_order=True)
    last = last.sort("agent_id", nulls_last=False)
    rows: list[Row] = []
    objects = raw(last["entry_id"].to_list())
    for (entry_id, agent, call), line in zip(
        last.select("entry_id", "agent_id", "tool_use_id").iter_rows(), objects, strict=True
    ):
        items = _input(line, call).get("todos")
        rows += _items("todo_write", agent, items, entry_id)
    return rows


def _items(source: str, agent: str | None, items: object, entry_id: int | None) -> list[Row]:
    rows = []
    for number, item in enumerate(items if isinstance(items, list) else []):
        facts = item if isinstance(item, dict) else {}
        words = [_text(facts.get(k)) for k in ("id", "status", "priority", "content", "activeForm", "owner")]
        rows.append((source, agent, number, *words, None, entry_id))
    return rows


def _from_task_calls(used: pl.DataFrame, lines: pl.DataFrame, blocks: pl.DataFrame, raw: ReadRaw) -> list[Row]:
    """Tasks made and changed by calls, followed in order; the id of a new task stands in the call's result."""
    calls = used.filter(pl.col("tool_name").is_in(_TASK_TOOLS))
    if calls.is_empty():
        return []
    ids = _new_task_ids(calls, lines, blocks, raw)
    tasks: dict[str, dict[str, Any]] = {}
    objects = raw(calls["entry_id"].to_list())
    for (entry_id, agent, name, call), line in zip(
        calls.select("entry_id", "agent_id", "tool_name", "tool_use_id").iter_rows(), objects, strict=True
    ):
        facts = _input(line, call)
        key = ids.get(call, f"call:{call}") if name == "TaskCreate" else _text(facts.get("taskId"))
        if key is None or (name == "TaskUpdate" and facts.get("status") == "deleted"):
            tasks.pop(key or "", None)
            continue
        task = tasks.setdefault(key, {"status": "pending", "agent": agent, "blocked": []})
        task |= {k: v for k in ("subject", "status", "owner", "activeForm") if (v := _text(facts.get(k))) is not None}
        task["blocked"] += _words(facts.get("addBlockedBy"))
        task["entry_id"] = entry_id
    return [
        (
            "task_calls", t["agent"], number, key, t["status"], None, t.get("subject"), t.get("activeForm"),
            t.get("owner"), ",".join(dict.fromkeys(t["blocked"])) or None, t["entry_id"],
        )
        for number, (key, t) in enumerate(tasks.items())
    ]  # fmt: skip


def _new_task_ids(calls: pl.DataFrame, lines: pl.DataFrame, blocks: pl.DataFrame, raw: ReadRaw) -> dict[str, str]:
    made = calls.filter(pl.col("tool_name") == "TaskCreate").select("tool_use_id").unique()
    answers = blocks.filter(pl.col("type") == "tool_result").join(made, on="tool_use_id", how="semi")
    answers = answers.select("entry_id", "tool_use_id").join(
        lines.filter(pl.col("type") == "user").select("entry_id"), on="entry_id", how="semi", maintain_order="left"
    )
    ids: dict[str, str] = {}
    for (_, call), line in zip(answers.iter_rows(), raw(answers["entry_id"].to_list()), strict=True):
        result = line.get("toolUseResult")
        task = result.get("task") if isinstance(result, dict) else None
        found = task.get("id") if isinstance(task, dict) else None
        if isinstance(found, str | int) and not isinstance(found, bool):
            ids[call] = str(found)
    return ids


def _from_todo_files(folder: Path, session_id: str) -> list[Row]:
    """``<session>-agent-<agent>.json``; the main thread's has the session for its agent, the oldest none."""
    rows: list[Row] = []
    if not folder.is_dir():
        return rows
    for path in sorted(folder.glob("*.json")):
        session, _, agent = path.stem.partition("-agent-")
        if session == session_id:
            rows += _items("todo_file", agent if agent not in ("", session_id) else None, _read(path), None)
    return rows


def _from_task_files(folder: Path) -> list[Row]:
    rows: list[Row] = []
    if not folder.is_dir():
        return rows
    paths = sorted(folder.glob("*.json"), key=lambda p: (len(p.stem), p.stem))
    for number, path in enumerate(paths):
        task = _read(path)
        if isinstance(task, dict):
            name, status = _text(task.get("id")) or path.stem, _text(task.get("status"))
            words = [_text(task.get(k)) for k in ("subject", "activeForm", "owner")]
            blocked = ",".join(_words(task.get("blockedBy"))) or None
            rows.append(("task_file", None, number, name, status, None, *words, blocked, None))
    return rows


def _read(path: Path) -> object:
    try:
        value: object = orjson.loads(read_small(path))
    except (OSError, ValueError):
        return None
    return value


def _input(line: dict[str, Any], call: str) -> dict[str, Any]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("id") == call and isinstance(block.get("input"), dict):
            found: dict[str, Any] = block["input"]
            return found
    return {}


def _words(value: object) -> list[str]:
    return [str(v) for v in value if isinstance(v, str | int)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and not any(c in name for c in "/\\\0")
