"""What a resume restores beside the conversation: files, todos, settings, worktree …, at any moment of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from .details import parse_details, read_details
from .errors import NotFoundError
from .schema.work import STATE_TABLES
from .todos import read_todos

ReadRaw = Callable[[Iterable[int]], list[dict[str, Any]]]
_SETTINGS = {
    "custom-title": "custom_title",
    "ai-title": "ai_title",
    "tag": "tag",
    "mode": "mode",
    "permission-mode": "permission_mode",
    "agent-name": "agent_name",
    "agent-color": "agent_color",
    "agent-setting": "agent_setting",
    "last-prompt": "last_prompt",
    "relocated": "relocated_cwd",
}


@dataclass(frozen=True)
class State:
    """What ``--resume`` restores of one session, as frames; see ``ccanalytics.schema.work.STATE_TABLES``."""

    session_id: str
    at: int | None
    """Entry up to which the state was followed; None for the end."""
    file_history: pl.DataFrame
    snapshots: pl.DataFrame
    todos: pl.DataFrame
    settings: pl.DataFrame
    pr_links: pl.DataFrame
    worktree: pl.DataFrame
    content_replacements: pl.DataFrame
    attribution: pl.DataFrame
    collapses: pl.DataFrame

    def __repr__(self) -> str:
        rows = "\n".join(f"  {name:<20}  {n} rows" for name, n in self._sizes())
        return f"State of session {self.session_id}\n{rows}"

    def _repr_html_(self) -> str:
        from .markup import table_html

        return table_html([(n, f"{k} rows") for n, k in self._sizes()], caption=f"State of session {self.session_id}")

    def _sizes(self) -> list[tuple[str, int]]:
        return [(name, getattr(self, name).height) for name in STATE_TABLES]


def build_state(
    entries: pl.DataFrame,
    blocks: pl.DataFrame,
    files: pl.DataFrame,
    members: pl.DataFrame,
    session_id: str,
    *,
    raw: ReadRaw,
    at: int | str | None = None,
) -> State:
    """The state of a session at its end, or as it was when an entry had been written.

    Parameters
    ----------
    raw
        Reads entries again by their ids.
    at
        An entry id, or the uuid of an entry of the session.

    Raises
    ------
    NotFoundError
        There is no such session, or no such entry in it.
    """
    lines = members.filter(pl.col("session_id") == session_id).select("entry_id", "file_id", "agent_id", "pos")
    if lines.is_empty():
        raise NotFoundError(f"there is no session {session_id!r}", session_id=session_id)
    lines = lines.join(entries.drop("file_id", "agent_id", "session_id"), on="entry_id", how="left", validate="1:1")
    lines = lines.sort("pos")
    entry = None if at is None else _entry_at(lines, at)
    if entry is not None:
        lines = _until(lines, entry)
    main = lines.filter(pl.col("agent_id").is_null())
    folder = _root(files, lines)
    snapshots = _snapshots(main, raw, folder, session_id)
    frames = {
        "snapshots": snapshots,
        "file_history": _file_history(snapshots, folder, session_id),
        "todos": read_todos(lines, blocks, raw, folder if at is None else None, session_id),
        "settings": _settings(main, raw),
        "pr_links": _pr_links(main),
        "worktree": _worktree(main),
        "content_replacements": _replacements(lines),
        "attribution": _attribution(main, raw),
        "collapses": _collapses(main, raw),
    }
    done = {name: STATE_TABLES[name].conform(frame) for name, frame in frames.items()}
    return State(session_id=session_id, at=entry, **done)


def _entry_at(lines: pl.DataFrame, at: int | str) -> int:
    column = "entry_id" if isinstance(at, int) else "uuid"
    found = lines.filter(pl.col(column) == at)["entry_id"]
    if found.is_empty():
        raise NotFoundError(f"the session has no entry with the {column} {at!r}", at=at)
    return int(found[-1])


def _until(lines: pl.DataFrame, entry: int) -> pl.DataFrame:
    """Lines of the entry's own thread up to it, and those of other threads written by then."""
    here = lines.filter(pl.col("entry_id") == entry)
    pos, agent, moment = here["pos"][0], here["agent_id"][0], here["timestamp"][0]
    own = pl.col("agent_id").is_null() if agent is None else (pl.col("agent_id") == agent).fill_null(False)
    past = pl.lit(False) if moment is None else (pl.col("timestamp") <= moment).fill_null(False)
    return lines.filter(pl.when(own).then(pl.col("pos") <= pos).otherwise(past))


def _root(files: pl.DataFrame, lines: pl.DataFrame) -> Path | None:
    roots = files.filter(pl.col("file_id").is_in(lines["file_id"].unique().implode()))["root"].drop_nulls()
    return Path(roots[0]) if len(roots) else None


def _snapshots(main: pl.DataFrame, raw: ReadRaw, folder: Path | None, session_id: str) -> pl.DataFrame:
    """Snapshots in order, one row per file: an update replaces the one of its message, a delta adds a file to it."""
    kinds = ["file-history-snapshot", "file-history-delta"]
    told = main.filter(pl.col("type").is_in(kinds))["entry_id"].to_list()
    kept: dict[str, dict[str, Any]] = {}
    for entry_id, line in zip(told, raw(told), strict=True):
        if line.get("type") == kinds[0]:
            _take_snapshot(kept, line, entry_id)
        else:
            _take_delta(kept, line, entry_id)
    rows = [row for number, shot in enumerate(kept.values()) for row in _rows_of(shot, number)]
    frame = pl.DataFrame(rows, schema={**_SHOT, "backed_up": pl.String, "taken": pl.String}, orient="row")
    frame = frame.with_columns(
        timestamp=_moment("taken"), backed_up_at=_moment("backed_up"), has_backup=_exists(frame, folder, session_id)
    )
    return frame.drop("taken", "backed_up").sort("snapshot_no", "path", nulls_last=True, maintain_order=True)


_SHOT = {
    "snapshot_no": pl.Int32, "message_uuid": pl.String, "path": pl.String, "backup_name": pl.String,
    "version": pl.Int64, "entry_id": pl.Int64,
}  # fmt: skip


def _moment(column: str) -> pl.Expr:
    return pl.col(column).str.to_datetime("%+", time_unit="ms", time_zone="UTC", strict=False)


def _take_snapshot(kept: dict[str, dict[str, Any]], line: dict[str, Any], entry_id: int) -> None:
    shot = line.get("snapshot")
    if not isinstance(shot, dict):
        return
    message = _text(shot.get("messageId")) or _text(line.get("messageId")) or f"entry:{entry_id}"
    backups = shot.get("trackedFileBackups")
    kept[message] = {
        "message": message,
        "taken": _text(shot.get("timestamp")),
        "backups": {p: (b, entry_id) for p, b in backups.items()} if isinstance(backups, dict) else {},
        "entry_id": entry_id,
    }


def _take_delta(kept: dict[str, dict[str, Any]], line: dict[str, Any], entry_id: int) -> None:
    message, path = _text(line.get("snapshotMessageId")), _text(line.get("trackingPath"))
    if message is None or path is None:
        return
    shot = kept.setdefault(
        message, {"message": message, "taken": _text(line.get("timestamp")), "backups": {}, "entry_id": entry_id}
    )
    shot["backups"][path] = (line.get("backup"), entry_id)


def _rows_of(shot: dict[str, Any], number: int) -> list[tuple[Any, ...]]:
    backups = shot["backups"] or {None: ({}, shot["entry_id"])}
    rows = []
    for path, (backup, entry_id) in backups.items():
        facts = backup if isinstance(backup, dict) else {}
        version = facts.get("version")
        is_number = isinstance(version, int) and not isinstance(version, bool) and abs(version) < 2**62
        rows.append(
            (
                number, shot["message"], path, _text(facts.get("backupFileName")),
                version if is_number else None,
                entry_id, _text(facts.get("backupTime")), shot["taken"],
            )
        )  # fmt: skip
    return rows


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _exists(frame: pl.DataFrame, folder: Path | None, session_id: str) -> pl.Series:
    """Whether the backups lie in the session's folder of backups; names come from the lines and must be plain."""
    known: set[str] = set()
    place = None if folder is None else folder / "file-history" / session_id
    if place is not None and _is_plain(session_id) and place.is_dir():
        known = {p.name for p in place.iterdir()}
    names = frame["backup_name"]
    if folder is None:
        return pl.Series("has_backup", [None] * len(names), dtype=pl.Boolean)
    return pl.Series("has_backup", [None if n is None else n in known for n in names.to_list()], dtype=pl.Boolean)


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and not any(c in name for c in "/\\\0")


def _file_history(snapshots: pl.DataFrame, folder: Path | None, session_id: str) -> pl.DataFrame:
    """The last word on every file."""
    last = snapshots.filter(pl.col("path").is_not_null()).unique("path", keep="last", maintain_order=True).sort("path")
    base = None if folder is None or not _is_plain(session_id) else str(folder / "file-history" / session_id)
    plain = ~pl.col("backup_name").str.contains(r"[/\\\x00]|^\.{0,2}$")
    path = pl.when(plain).then(pl.lit(base) + "/" + pl.col("backup_name")) if base else pl.lit(None, dtype=pl.String)
    return last.with_columns(backup_path=path).drop("snapshot_no", "timestamp")


def _settings(main: pl.DataFrame, raw: ReadRaw) -> pl.DataFrame:
    """The last value of each setting; the permission mode is also said by prompts."""
    timed = main.with_columns(pl.col("timestamp").forward_fill())
    told = timed.filter(pl.col("type").is_in(list(_SETTINGS))).select(
        "entry_id", "timestamp", "pos", "value", name=pl.col("type").replace_strict(_SETTINGS, return_dtype=pl.String)
    )
    users = timed.filter((pl.col("type") == "user") & pl.col("detail").str.contains('"permissionMode"', literal=True))
    modes = users.select(
        "entry_id", "timestamp", "pos",
        value=pl.col("detail").str.extract(r'"permissionMode":"([^"\\]+)"', 1), name=pl.lit("permission_mode"),
    ).drop_nulls("value")  # fmt: skip
    last = pl.concat([told, modes]).sort("pos", maintain_order=True).unique("name", keep="last", maintain_order=True)
    prompts = last.filter((pl.col("name") == "last_prompt") & pl.col("value").is_null())["entry_id"].to_list()
    words = {i: _text(line.get("lastPrompt")) for i, line in zip(prompts, raw(prompts), strict=True)}
    values = [words.get(i, v) for i, v in last.select("entry_id", "value").iter_rows()]
    last = last.with_columns(pl.Series("value", values, dtype=pl.String)).drop("pos").sort("name")
    return last.filter(pl.col("value").is_not_null() & ((pl.col("name") != "tag") | (pl.col("value") != "")))


def _pr_links(main: pl.DataFrame) -> pl.DataFrame:
    told = main.filter(pl.col("type") == "pr-link").select("entry_id", "timestamp", "detail", "value")
    facts = read_details(told["detail"], {"prUrl": "str", "prNumber": "i64", "prRepository": "str"})
    return (
        pl.concat([told, facts], how="horizontal")
        .with_columns(
            url=pl.coalesce("prUrl", "value"),
            is_current=pl.int_range(pl.len()) == pl.len() - 1,
        )
        .select("entry_id", "timestamp", "url", "is_current", number="prNumber", repository="prRepository")
        .sort("entry_id")
    )


def _worktree(main: pl.DataFrame) -> pl.DataFrame:
    """The worktree entered last; leaving it writes a line that names none."""
    told = main.filter(pl.col("type") == "worktree-state").tail(1)
    keys = {
        "name": "worktreeName", "path": "worktreePath", "branch": "worktreeBranch", "original_cwd": "originalCwd",
        "original_branch": "originalBranch", "original_head": "originalHeadCommit",
    }  # fmt: skip
    facts = read_details(told["detail"], {f"worktreeSession.{k}": "str" for k in keys.values()})
    rows = facts.select(**{n: pl.col(f"worktreeSession.{k}") for n, k in keys.items()}).with_columns(told["entry_id"])
    return rows.filter(pl.any_horizontal(pl.col("name", "path").is_not_null()))


def _replacements(lines: pl.DataFrame) -> pl.DataFrame:
    told = lines.filter(pl.col("type") == "content-replacement").select("entry_id", "detail", "agent_id")
    rows = []
    for (entry_id, agent), detail in zip(
        told.select("entry_id", "agent_id").iter_rows(), parse_details(told["detail"]), strict=True
    ):
        facts = detail if isinstance(detail, dict) else {}
        ids = facts.get("toolUseIds")
        whose = _text(facts.get("agentId")) or agent
        rows += [(whose, i, entry_id) for i in (ids if isinstance(ids, list) else []) if isinstance(i, str)]
    schema = {"agent_id": pl.String, "tool_use_id": pl.String, "entry_id": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.unique(["agent_id", "tool_use_id"], keep="last", maintain_order=True).sort("agent_id", "tool_use_id")


def _attribution(main: pl.DataFrame, raw: ReadRaw) -> pl.DataFrame:
    last = main.filter(pl.col("type") == "attribution-snapshot")["entry_id"].to_list()[-1:]
    rows = []
    for line in raw(last):
        states = line.get("fileStates")
        for path, state in states.items() if isinstance(states, dict) else ():
            facts = state if isinstance(state, dict) else {}
            wrote = facts.get("claudeContribution")
            count = int(wrote) if isinstance(wrote, int | float) and 0 <= wrote < 2**53 else None
            rows.append((path, count, _text(facts.get("contentHash")), last[0]))
    schema = {"path": pl.String, "claude_characters": pl.Int64, "content_hash": pl.String, "entry_id": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("path")


def _collapses(main: pl.DataFrame, raw: ReadRaw) -> pl.DataFrame:
    """Commits since the last compact boundary or reset, then what the last snapshot has staged."""
    cleared = (pl.col("subtype") == "compact_boundary") | (pl.col("type") == "marble-origami-reset")
    cut = main.filter(cleared.fill_null(False))["pos"].max()
    told = main if cut is None else main.filter(pl.col("pos") > cut)
    told = told.filter(pl.col("type").is_in(["marble-origami-commit", "marble-origami-snapshot"]))
    ids = told["entry_id"].to_list()
    commits: list[tuple[Any, ...]] = []
    staged: list[tuple[Any, ...]] = []
    for entry_id, line in zip(ids, raw(ids), strict=True):
        if line.get("type") == "marble-origami-commit":
            facts = (line.get(k) for k in ("collapseId", "summaryUuid", "firstArchivedUuid", "lastArchivedUuid"))
            commits.append(("commit", *map(_text, facts), entry_id))
        else:
            waiting = line.get("staged")
            items = [i for i in waiting if isinstance(i, dict)] if isinstance(waiting, list) else []
            staged = [
                ("staged", None, None, _text(i.get("startUuid")), _text(i.get("endUuid")), entry_id) for i in items
            ]
    names = ("kind", "collapse_id", "summary_uuid", "first_uuid", "last_uuid")
    schema = {**dict.fromkeys(names, pl.String), "entry_id": pl.Int64}
    frame = pl.DataFrame(commits + staged, schema=schema, orient="row")
    return frame.with_columns(collapse_no=pl.int_range(pl.len(), dtype=pl.Int32))
