"""The prompts of ``history.jsonl``: what was typed, when, where, and in which session."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from .decode import loads
from .errors import NotFoundError, ReadError, UsageError
from .find import PathLike, config_dirs, is_session_wanted
from .projects import is_project_wanted, project_of

if TYPE_CHECKING:
    import polars as pl

BLOCK_BYTES = 65_536
PASTE_FOLDERS = ("paste-cache", "paste-store")

# The name of a file in the paste cache is taken from the history: nothing but a plain name may pass.
_HASH = re.compile(r"[0-9A-Za-z]{1,128}")
_TRUNCATED = re.compile(r"\[\.\.\.Truncated text #(\d+)(?: \+\d+ lines?)?\.\.\.\]")
_PASTED = re.compile(r"\[Pasted text #(\d+)(?: \+\d+ lines?)?\]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_MS = 253_402_300_799_999


def read_history(
    path: PathLike | Sequence[PathLike] | None = None,
    *,
    last: int | None = None,
    projects: str | Sequence[str] | None = None,
    sessions: str | Sequence[str] | None = None,
) -> pl.DataFrame:
    """One row per prompt in ``history.jsonl``, newest first, pasted text put back in.

    Parameters
    ----------
    path
        A configuration folder, a ``history.jsonl``, or several of them. Default: your own configuration folders.
    last
        Only so many of the newest prompts; the file is then read from its end, no further than needed.
    projects, sessions
        Only these, as in ``load``: directories or names; session ids or their beginnings.

    Returns
    -------
    polars.DataFrame
        The table ``prompt_history``, in the opposite of file order; prompts of several files by time. Lines that cannot
        be read are left out, and counted in one warning per file (an unfinished last line is no damage).

    Raises
    ------
    NotFoundError
        The path does not exist.
    """
    if last is not None and last < 0:
        raise UsageError(f"last={last} is negative; give how many of the newest prompts you want.", last=last)
    wish = _Wish(_listed(projects), _listed(sessions))
    files = _history_files(path)
    rows: list[dict[str, object]] = []
    for file in files:
        rows += islice(_prompts(file, wish), last)
    if len(files) > 1:
        rows.sort(key=lambda row: -_time(row))
    return _frame(rows[:last])


def join_prompts(prompts: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """The prompts with ``session_id`` filled in where an old line does not name it.

    A prompt belongs to the one session of its project that was going on when it was sent; where several were, it stays
    without. Every row is kept, in order.
    """
    import polars as pl

    from .schema.listing import PROMPT_HISTORY

    numbered = prompts.with_row_index("_row")
    spans = sessions.select("project", pl.col("session_id").alias("_found"), "started_at", "ended_at").drop_nulls()
    found = (
        numbered.filter(pl.col("session_id").is_null() & pl.col("project").is_not_null())
        .select("_row", "project", "submitted_at")
        .join(spans, on="project", how="inner", validate="m:m", maintain_order="left_right")
        .filter(pl.col("submitted_at").is_between("started_at", "ended_at"))
        .group_by("_row", maintain_order=True)
        .agg(pl.col("_found").unique())
        .filter(pl.col("_found").list.len() == 1)
        .select("_row", pl.col("_found").list.first())
    )
    rule = PROMPT_HISTORY.polars()["session_rule"]
    joined = numbered.join(found, on="_row", how="left", validate="1:1", maintain_order="left").with_columns(
        session_id=pl.coalesce("session_id", "_found"),
        session_rule=pl.coalesce("session_rule", pl.when(pl.col("_found").is_not_null()).then(pl.lit("time", rule))),
    )
    return PROMPT_HISTORY.conform(joined.drop("_row", "_found"))


@dataclass(frozen=True, slots=True)
class _Wish:
    projects: list[str] | None
    sessions: list[str] | None

    def allows(self, row: dict[str, object]) -> bool:
        project, session = row["project"], row["session_id"]
        if self.projects is not None and not (
            isinstance(project, str) and any(is_project_wanted(p, project=project, slug=None) for p in self.projects)
        ):
            return False
        return self.sessions is None or (isinstance(session, str) and is_session_wanted(session, self.sessions))


def _history_files(path: PathLike | Sequence[PathLike] | None) -> list[str]:
    if path is None:
        places = [str(folder) for folder in config_dirs()]
    else:
        given = [path] if isinstance(path, str | os.PathLike) else path
        places = [os.path.abspath(os.path.expanduser(os.fspath(p))) for p in given]
    files = []
    for place in places:
        if not os.path.exists(place):
            raise NotFoundError(
                f"There is no history at {place}. Give a Claude Code configuration folder or a history.jsonl.",
                path=place,
            )
        files.append(os.path.join(place, "history.jsonl") if os.path.isdir(place) else place)
    return list(dict.fromkeys(os.path.realpath(file) for file in files if os.path.isfile(file) or os.path.isdir(file)))


def _prompts(path: str, wish: _Wish) -> Iterator[dict[str, object]]:
    """Rows of one file, newest first."""
    seen: set[tuple[object, ...]] = set()
    bad = 0
    try:
        with open(path, "rb") as file:
            for offset, line, is_whole in _lines_backwards(file):
                entry = _decoded(line)
                if entry is None:
                    bad += is_whole and bool(line.strip(b"\0 \t\r"))
                    continue
                row = _row(entry, os.path.dirname(path), offset)
                key = row["submitted_at"], row["session_id"], row["display"]
                row["is_copy"] = key in seen
                seen.add(key)
                if wish.allows(row):
                    yield row
    except OSError as error:
        raise ReadError(f"Cannot read {path}: {error.strerror}.", path=path) from error
    if bad:
        warnings.warn(f"{bad} lines of {path} are no prompts and were left out.", stacklevel=3)


def _lines_backwards(file: IO[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Lines from the last to the first: where each begins, its bytes, and whether it ends with LF."""
    position = file.seek(0, os.SEEK_END)
    rest: list[bytes] = []
    is_whole = False
    while position:
        start = max(0, position - BLOCK_BYTES)
        file.seek(start)
        pieces = file.read(position - start).split(b"\n")
        end = position
        for number in range(len(pieces) - 1, 0, -1):
            line = pieces[number] + b"".join(reversed(rest))
            end -= len(pieces[number])
            rest = []
            if line or is_whole:
                yield end, line, is_whole
            is_whole = True
            end -= 1
        rest.append(pieces[0])
        position = start
    if rest:
        yield 0, b"".join(reversed(rest)), is_whole


def _decoded(line: bytes) -> dict[str, Any] | None:
    line = line.removeprefix(b"\xef\xbb\xbf").lstrip(b"\0")
    try:
        entry = loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("display"), str) else None


def _row(entry: dict[str, Any], root: str, offset: int) -> dict[str, object]:
    pasted = entry.get("pastedContents")
    things = {n: t for n, t in pasted.items() if isinstance(t, dict)} if isinstance(pasted, dict) else {}
    texts = {n: _pasted_text(t, root) for n, t in things.items() if t.get("type") != "image"}
    # What was cut out of a long prompt can hold other placeholders, so it goes back first.
    prompt = _put_back(_put_back(entry["display"], _TRUNCATED, texts), _PASTED, texts)
    cwd, session, stamp = entry.get("project"), entry.get("sessionId"), entry.get("timestamp")
    cwd = cwd if isinstance(cwd, str) and cwd else None
    session = session if isinstance(session, str) and session else None
    project, worktree = project_of(cwd)
    return {
        "root": _SURROGATE.sub("\ufffd", root),
        "byte_offset": offset,
        "submitted_at": _milliseconds(stamp),
        "session_id": session,
        "session_rule": "written" if session else None,
        "cwd": cwd,
        "project": project,
        "worktree": worktree,
        "display": entry["display"],
        "prompt": prompt,
        "n_chars": len(prompt),
        "n_pasted": len(things),
        "n_images": len(things) - len(texts),
        "n_missing": sum(text is None for text in texts.values()),
    }


def _milliseconds(stamp: object) -> int | None:
    if isinstance(stamp, int | float) and not isinstance(stamp, bool) and abs(stamp) <= _MAX_MS:
        return int(stamp)
    return None


def _put_back(text: str, placeholder: re.Pattern[str], texts: dict[str, str | None]) -> str:
    if "[" not in text or not texts:
        return text
    return placeholder.sub(lambda found: t if (t := texts.get(found[1])) is not None else found[0], text)


def _pasted_text(thing: dict[str, Any], root: str) -> str | None:
    content, name = thing.get("content"), thing.get("contentHash")
    if isinstance(content, str):
        return content
    if not isinstance(name, str) or not _HASH.fullmatch(name):
        return None
    for folder in PASTE_FOLDERS:
        file = os.path.join(root, folder, name + ".txt")
        if os.path.isfile(file) and not os.path.islink(file):
            with open(file, encoding="utf-8", errors="replace", newline="") as stored:
                return stored.read()
    return None


def _time(row: dict[str, object]) -> int:
    time = row["submitted_at"]
    return time if isinstance(time, int) else 0


def _frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    import polars as pl

    from .schema.listing import PROMPT_HISTORY

    frame = pl.DataFrame(rows, schema={**PROMPT_HISTORY.polars(), "submitted_at": pl.Int64()})
    return PROMPT_HISTORY.conform(frame)


def _listed(value: str | Sequence[str] | None) -> list[str] | None:
    if value is None:
        return None
    return [value] if isinstance(value, str) else list(value)
