"""One session: which file a session id means, its conversation as a frame or as API messages, what --continue takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ccanalytics.errors import NotFoundError, NothingToResumeError, UsageError
from ccanalytics.projects import match_slug, project_slug

from . import Apply, Resumed
from .collapse import COLLAPSED
from .nodes import KINDS, Rules
from .plan import CONTINUE, INTERRUPTED, NO_RESPONSE, Plan
from .reduce import Item, Message, api_messages

Raw = Callable[[Iterable[int]], list[dict[str, Any]]]
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class ContinuedSession(str):
    """A session id that ``--continue`` would take: the file may be one without a conversation, which is then empty."""

    __slots__ = ()


def session_file(
    files: pl.DataFrame, session_id: str, *, cwd: str | None = None, rules: str = "2.1.332"
) -> dict[str, Any]:
    """The main transcript that ``--resume SESSION`` reads, as a row of ``files``.

    The folder of the working directory comes first; 2.1.332 then looks in the other folders, 2.1.88 does not. Without
    ``cwd``, a file that lies in the folder of its own lines' directory goes before one that does not.

    Raises
    ------
    NothingToResumeError
        There is no such session, or only an agent's transcript.
    """
    mains = files.filter(pl.col("kind") == "session")
    found = mains.filter(pl.col("session_id") == session_id)
    if not found.height and len(session_id) >= 4:
        found = mains.filter(pl.col("session_id").str.starts_with(session_id))
        if found["session_id"].n_unique() > 1:
            raise NotFoundError(
                f"{found['session_id'].n_unique()} sessions begin with {session_id!r}; give more of the id",
                session_id=session_id,
            )
    if cwd is not None:
        here = found.filter(pl.col("project_dir").is_in(folders_of(cwd, found["project_dir"])))
        if here.height or rules == "2.1.88":
            found = here
    if not found.height:
        place = f" in the folder of {cwd}" if cwd is not None and rules == "2.1.88" else ""
        raise NothingToResumeError(
            f"there is no session {session_id!r}{place}; ccanalytics sessions lists those that can be resumed",
            session_id=session_id,
            reason="no such session",
        )
    rows = found.sort("file_id").rows(named=True)
    # Whoever entered a worktree leaves a few lines without a conversation behind in the other folder.
    return min(rows, key=lambda r: (not r["cwd"] or r["project_dir"] != project_slug(r["cwd"]), not r["cwd"]))


def continued_session(
    entries: pl.DataFrame, files: pl.DataFrame, cwd: str, *, rules: str = "2.1.332"
) -> ContinuedSession:
    """The session that ``--continue`` takes in a directory: the newest by file time that counts.

    Passed over are names that are no uuid, files with only sidechain lines and, under 2.1.332, files with only
    metadata. An empty file counts.

    Raises
    ------
    NothingToResumeError
        No file of that folder counts.
    """
    mains = files.filter(pl.col("kind") == "session")
    folders = folders_of(cwd, mains["project_dir"])
    here = mains.filter(pl.col("project_dir").is_in(folders)).sort("modified_at", "file_id", descending=True)
    talk = (
        entries.lazy()
        .filter(
            pl.col("file_id").is_in(here["file_id"].implode())
            & pl.col("type").is_in(KINDS)
            & pl.col("uuid").is_not_null()
        )
        .group_by("file_id")
        .agg((~pl.col("is_sidechain").fill_null(False)).any())
        .collect()
    )
    has_main = dict(talk.iter_rows())
    for row in here.iter_rows(named=True):
        if not _UUID.fullmatch(str(row["session_id"])) or not Path(str(row["path"])).name.startswith(row["session_id"]):
            continue
        state = has_main.get(row["file_id"])
        if state or (state is None and (not row["n_lines"] or rules == "2.1.88")):
            return ContinuedSession(row["session_id"])
    raise NothingToResumeError(
        f"there is no session to continue in {cwd}: no transcript in projects/{project_slug(full_path(cwd))} counts",
        cwd=cwd,
        reason="no session in this directory",
    )


def folders_of(cwd: str, folders: pl.Series) -> list[str]:
    """Those of the folders that may belong to a working directory, as named or with its links resolved."""
    known = set(folders.drop_nulls())
    return match_slug(full_path(cwd), known) or match_slug(os.path.realpath(full_path(cwd)), known)


def full_path(cwd: str) -> str:
    """The directory from the root, ``~`` and ``.`` resolved; links are left as they are."""
    if "\0" in cwd:
        raise UsageError(f"cwd is {cwd!r}; no directory has a NUL in its name.", got=cwd)
    # Not Path: its expanduser() fails for users that do not exist, its resolve() for links in a circle.
    return os.path.abspath(os.path.expanduser(cwd))  # noqa: PTH100, PTH111


def session_frame(resumed: Resumed, file: dict[str, Any], session_id: str) -> pl.DataFrame:
    """The rows of one session.

    Raises
    ------
    NothingToResumeError
        The program would refuse; ``facts["reason"]`` says why.
    """
    reason = resumed.refused.get(file["file_id"])
    if reason is not None and not (
        reason == "no entries" and (not file["n_lines"] or isinstance(session_id, ContinuedSession))
    ):
        raise NothingToResumeError(
            f"Claude Code would not resume {session_id}: {reason}",
            session_id=str(session_id),
            reason=reason,
            path=file["path"],
        )
    return resumed.frame.filter(pl.col("file_id") == file["file_id"])


def session_messages(
    resumed: Resumed,
    file: dict[str, Any],
    entries: pl.DataFrame,
    raw: Raw,
    *,
    rules: Rules,
    apply: Collection[Apply] = (),
    model: str | None = None,
) -> list[Message]:
    """The API messages of one session; ``session_frame`` has been asked before."""
    items = session_items(resumed, file["file_id"], raw)
    replacements = _replacements(entries, file["file_id"], raw) if "replacement" in apply else {}
    return api_messages(items, rules=rules, model=model, replacements=replacements)


def session_items(resumed: Resumed, file_id: int, raw: Raw) -> list[Item]:
    """The conversation of one file with its entries as they are written."""
    for plan in resumed.plans:
        if plan.has_file(file_id):
            rows = plan.row[plan.file == plan.file_number(file_id)].tolist()
            calls = resumed.frame.filter(pl.col("file_id") == file_id)["tool_use_id"].to_list()
            return _items(plan, rows, calls, raw)
    return []


def _items(plan: Plan, rows: Sequence[int], calls: Sequence[str | None], raw: Raw) -> list[Item]:
    entry = plan.nodes.entry
    more = [r for row in rows if row >= 0 for r in plan.absorbed.get(row, ())]
    summaries = [COLLAPSED - row for row in rows if row <= COLLAPSED]
    wanted = [*(int(entry[r]) for r in (*(r for r in rows if r >= 0), *more)), *summaries]
    written = dict(zip(wanted, raw(wanted), strict=True)) if wanted else {}
    items: list[Item] = []
    for row, call in zip(rows, calls, strict=True):
        if row >= 0:
            absorbed = tuple(written[int(entry[r])] for r in plan.absorbed.get(row, ()))
            items.append(Item(KINDS[plan.nodes.kind[row]], written[int(entry[row])], absorbed=absorbed))
        elif row <= COLLAPSED:
            line = written[COLLAPSED - row]
            text = line.get("summaryContent") or line.get("summary") or ""
            items.append(Item("user", made="collapsed", text=str(text)))
        elif row <= INTERRUPTED:
            items.append(Item("user", made="interrupted-result", call=call))
        else:
            items.append(Item("assistant", made="no-response") if row == NO_RESPONSE else Item("user", made="continue"))
    assert CONTINUE > INTERRUPTED
    return items


def _replacements(entries: pl.DataFrame, file_id: int, raw: Raw) -> dict[str, str]:
    """Replaced tool results of the main thread of a file, the last one of each call."""
    rows = entries.filter(
        (pl.col("file_id") == file_id) & (pl.col("type") == "content-replacement") & pl.col("agent_id").is_null()
    )["entry_id"].to_list()
    found: dict[str, str] = {}
    for line in raw(rows) if rows else []:
        listed = line.get("replacements")
        for one in listed if isinstance(listed, list) else []:
            if (
                isinstance(one, dict)
                and isinstance(one.get("toolUseId"), str)
                and isinstance(one.get("replacement"), str)
            ):
                found[one["toolUseId"]] = one["replacement"]
    return found


def as_forked(resumed: Resumed) -> pl.DataFrame:
    """The conversations as ``--fork-session`` would write them.

    A fork by 2.1.88 holds no attachments: what they say shows in the API messages, as reminders.
    """
    older = [
        i for g, p in zip(resumed.generations, resumed.plans, strict=True) if g == "2.1.88" for i in p.nodes.file_ids
    ]
    if not older:
        return resumed.frame
    hidden = pl.col("file_id").is_in(older) & (pl.col("type") == "attachment")
    position = pl.int_range(pl.len(), dtype=pl.Int32).over("session_id", "file_id").alias("position")
    return resumed.frame.filter(~hidden.fill_null(False)).with_columns(position)


def chain_json(frame: pl.DataFrame) -> list[str | dict[str, str]]:
    """The chain as ``resume --format json`` has it: uuids, and ``{"synthetic": type}`` for made-up entries."""
    rows = frame.select("uuid", "synthetic").iter_rows()
    return [uuid if synthetic is None else {"synthetic": synthetic} for uuid, synthetic in rows]
