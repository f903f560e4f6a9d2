"""`repair`: mend a session that no longer resumes as far as it could, never in place without a copy of the original."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccanalytics.errors import NotFoundError, UsageError, WriteError
from ccanalytics.find import FoundFile, find_files

from .files import make_private_dirs, replace_file
from .mend_calls import answer_calls, hidden_calls
from .mend_foreign import bring_home, send_home
from .mend_lines import BOM, Line, Step, drop_copies, drop_empty, join_lines, mend_lines, read_lines, replaced
from .mend_links import Links

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Counts:
    """What a file holds and how much of it a resume loads."""

    n_bytes: int
    n_lines: int
    n_damaged_lines: int
    n_entries: int
    n_broken_links: int
    resumed: tuple[str, ...]
    """uuids that a resume loads, in order; empty when it is refused, and for agents' files."""


@dataclass(frozen=True, slots=True)
class FileRepair:
    """What was (or would be) done to one file."""

    path: Path
    steps: tuple[Step, ...]
    left: tuple[str, ...]
    """What is still wrong, and why it was left: it could not be mended with certainty."""
    before: Counts
    after: Counts
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class Repair:
    """What was (or, with ``dry_run``, would be) done to a session."""

    session_id: str
    dry_run: bool
    files: tuple[FileRepair, ...]

    @property
    def steps(self) -> pl.DataFrame:
        """One row per step: file, line, name of the rule, uuid, value before and after, reason."""
        import polars as pl

        names = ("path", "line_no", "name", "uuid", "before", "after", "reason")
        rows = [
            (str(f.path), s.line_no, s.name, s.uuid, s.before, s.after, s.reason) for f in self.files for s in f.steps
        ]
        types = {name: pl.Int32 if name == "line_no" else pl.String for name in names}
        return pl.DataFrame(rows, schema=types, orient="row").sort("path", "line_no", maintain_order=True)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "session_id": self.session_id,
            "dry_run": self.dry_run,
            "files": [
                {
                    "path": str(f.path),
                    "backup": str(f.backup) if f.backup else None,
                    "before": _counts_dict(f.before),
                    "after": _counts_dict(f.after),
                    "steps": [{name: getattr(s, name) for name in Step.__slots__} for s in f.steps],
                    "left": list(f.left),
                }
                for f in self.files
            ],
        }

    def diff(self) -> str:
        """What changes, for people: counts, then each step with the link before and after."""
        lines = []
        for f in self.files:
            lines.append(f"{f.path}" + (f"  (original: {f.backup.name})" if f.backup else ""))
            for name, value in _counts_dict(f.before).items():
                after = _counts_dict(f.after)[name]
                lines.append(f"  {name:<16} {value}" + (f" -> {after}" if after != value else ""))
            for step in f.steps:
                lines.append(f"  line {step.line_no}: {step.name}: {step.reason}")
                if step.uuid and step.name not in _WITHOUT_LINK:
                    lines += [f"    - {step.uuid} on {step.before}", f"    + {step.uuid} on {step.after}"]
            lines += [f"  left: {text}" for text in f.left]
        return "\n".join(lines) or "nothing to mend"

    def __repr__(self) -> str:
        return self.diff()


_WITHOUT_LINK = ("drop_copy", "drop_empty", "answer_call", "bring_home", "send_home")


def repair(
    session: str | os.PathLike[str],
    *,
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    dry_run: bool = False,
) -> Repair:
    """Mend a session's transcripts: the main one and those of its agents.

    What can be mended with certainty is mended: torn lines and NUL bytes go, glued records get lines of their own,
    copies of a line go, lost parents are found by the rule Claude Code uses, else by ids and times, loops are cut,
    lines of another session go home, and calls whose missing result hides an answer get a made-up result that says so.
    Nothing else is changed. The result is loaded before it is written: a resume must load all that it loaded before.

    Parameters
    ----------
    session
        Session id, the beginning of one, or a transcript file.
    path
        Configuration directory (or several) in which to look for the session.
    dry_run
        Only say what would be done.

    Returns
    -------
    Repair
        Steps with their reasons, counts before and after, and what was left; ``print(repair.diff())``.

    Raises
    ------
    NotFoundError
        There is no such session.
    WriteError
        A file cannot be written, or changes while it is mended; it is as it was.
    """
    found = _find(session, path)
    session_id = next((f.session_id for f in found if f.kind == "session"), found[0].session_id) or ""
    known = {f.path: _uuids(Path(f.path)) for f in found}
    done = []
    for file in found:
        elsewhere = frozenset[str]().union(*(uuids for other, uuids in known.items() if other != file.path))
        mended = _mend_file(Path(file.path), elsewhere, is_main=file.kind == "session", session_id=session_id)
        done.append(mended if dry_run or not mended.result.steps else _write(mended))
    return Repair(session_id, dry_run, tuple(m.result for m in done if m.result.steps or m.result.left))


def _find(session: str | os.PathLike[str], path: Any) -> list[FoundFile]:
    text = os.fspath(session)
    if text.endswith(".jsonl") and Path(text).is_file():
        root = Path(text).resolve()
        places: Any = [root, *sorted((root.with_suffix("") / "subagents").glob("**/*.jsonl"))]
        found = find_files([str(p) for p in places])
    elif not text:
        raise UsageError("session must be a session id or a transcript file, got an empty value", got=text)
    else:
        found = find_files(path, sessions=[text])
    found = [f for f in found if f.path.endswith(".jsonl") and f.kind in ("session", "agent")]
    sessions = {f.session_id for f in found}
    if not found:
        raise NotFoundError(
            f"no transcript of a session {text!r} was found; cc.list_sessions(), or ccanalytics sessions, lists them",
            got=text,
        )
    if len(sessions) > 1:
        raise UsageError(f"{text!r} is the beginning of {len(sessions)} sessions; give more of the id", got=text)
    return sorted(found, key=lambda f: (f.kind != "session", f.path))


def _uuids(path: Path) -> frozenset[str]:
    lines = read_lines(path.read_bytes())
    return frozenset(
        str(line.value["uuid"]) for line in lines if line.value and isinstance(line.value.get("uuid"), str)
    )


@dataclass(slots=True)
class _Mended:
    result: FileRepair
    data: bytes
    old: bytes
    stat: os.stat_result


@dataclass(slots=True)
class _Plan:
    """A way to mend a file: its new lines, the steps that lead to them, and what is left."""

    lines: list[Line]
    steps: list[Step] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def _mend_file(path: Path, elsewhere: frozenset[str], *, is_main: bool, session_id: str) -> _Mended:
    stat = path.stat()
    old = path.read_bytes()
    bom = BOM if old.startswith(BOM) else b""
    lines = read_lines(old)
    with _Workshop(path, is_main=is_main) as workshop:
        before = workshop.counts(old, elsewhere)
        plan = _best_plan(lines, before, workshop, elsewhere, path=path, session_id=session_id)
        data = bom + join_lines(plan.lines) if plan.steps else old
        after = workshop.counts(data, elsewhere)
    return _Mended(FileRepair(path, tuple(plan.steps), tuple(plan.left), before, after), data, old, stat)


def _best_plan(
    lines: list[Line],
    before: Counts,
    workshop: _Workshop,
    elsewhere: frozenset[str],
    *,
    path: Path,
    session_id: str,
) -> _Plan:
    """The plan that mends most among those after which a resume loads all that it loaded before."""
    foreign = session_id if workshop.is_main else None
    for how in ("all", "links", "lines"):
        plan = _plan(lines, elsewhere, how=how, path=path, session_id=foreign)
        after = workshop.counts(join_lines(plan.lines), elsewhere)
        if _is_subsequence(before.resumed, after.resumed):
            if workshop.is_main and how == "all":
                _answer(plan, after, workshop, elsewhere)
            return plan
    left = ["mending it would take entries out of the resumed conversation, so it was left as it is"]
    return _Plan(lines, [], left if plan.steps else [])


def _plan(lines: list[Line], elsewhere: frozenset[str], *, how: str, path: Path, session_id: str | None) -> _Plan:
    damaged = [line for line in lines if line.value is None]
    whole, steps = mend_lines(lines)
    single, copies = drop_copies(whole)
    plan = _Plan(single, [*steps, *copies])
    if how == "lines":
        return plan
    if session_id is not None and how == "all":
        plan.lines, more = send_home(plan.lines, path, session_id)
        plan.steps += more
        plan.lines, more = bring_home(plan.lines, path, session_id)
        plan.steps += more
    links = Links.read(plan.lines, damaged).mend(elsewhere, cut_loops=how == "all")
    plan.lines = links.apply(plan.lines)
    plan.steps += links.steps
    plan.lines, more = drop_empty(plan.lines)
    plan.steps += more
    for node in links.broken(elsewhere):
        why = "no id and no time tells what stood there"
        plan.left.append(f"line {node.line_no}: the parent {node.parent} of {node.uuid} is not in the file; {why}")
    for no, uuid in replaced(plan.lines):
        plan.left.append(f"line {no}: {uuid} stands further below with other content, and that is what counts")
    plan.left += [
        f"entry {uuid} hangs on itself; more than one link could be the wrong one" for uuid in links.looping()
    ]
    return plan


def _answer(plan: _Plan, counts: Counts, workshop: _Workshop, elsewhere: frozenset[str]) -> None:
    """Answer the calls that hide an entry from the resume, if that brings the entry back."""
    lines, steps = answer_calls(plan.lines, hidden_calls(Links.read(plan.lines, []), counts.resumed))
    if steps:
        after = workshop.counts(join_lines(lines), elsewhere)
        if _is_subsequence(counts.resumed, after.resumed) and len(after.resumed) > len(counts.resumed):
            plan.lines = lines
            plan.steps += steps


class _Workshop:
    """A folder of its own in which a version of a file is looked at as Claude Code would."""

    def __init__(self, path: Path, *, is_main: bool) -> None:
        self.is_main = is_main
        self._path = path
        self._seen: dict[bytes, Counts] = {}

    def __enter__(self) -> _Workshop:
        self._root = Path(tempfile.mkdtemp(prefix="ccanalytics-repair-"))
        self._file = self._root / "projects" / "-mend" / self._path.name
        make_private_dirs(self._file.parent)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def counts(self, data: bytes, elsewhere: frozenset[str]) -> Counts:
        if data not in self._seen:
            self._seen[data] = self._count(data, elsewhere)
        return self._seen[data]

    def _count(self, data: bytes, elsewhere: frozenset[str]) -> Counts:
        lines = read_lines(data)
        links = Links.read(lines, [])
        return Counts(
            n_bytes=len(data),
            n_lines=len(lines),
            n_damaged_lines=sum(1 for line in lines if line.value is None and line.raw.strip()),
            n_entries=len(links.nodes),
            n_broken_links=len(links.broken(elsewhere)) + len(links.looping()),
            resumed=self._resumed(data) if self.is_main else (),
        )

    def _resumed(self, data: bytes) -> tuple[str, ...]:
        from ccanalytics.load import load
        from ccanalytics.resume import resume_sessions

        replace_file(self._file, [data])
        t = load(self._root, cache=False, workers=1)
        frame = resume_sessions(t.entries, t.blocks, t.files, t.problems).frame
        return tuple(frame["uuid"].drop_nulls().to_list())


def _is_subsequence(first: Sequence[str], second: Iterable[str]) -> bool:
    rest = iter(second)
    return all(uuid in rest for uuid in first)


def _write(mended: _Mended, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> _Mended:
    path, result = mended.result.path, mended.result
    backup = path.with_name(f"{path.name}.{clock():%Y%m%dT%H%M%S%f}Z.bak")
    replace_file(backup, [mended.old], mode=mended.stat.st_mode & 0o777)
    now = path.stat()
    if (now.st_size, now.st_mtime_ns) != (mended.stat.st_size, mended.stat.st_mtime_ns):
        backup.unlink()
        raise WriteError(
            f"{path} changed while it was mended and is as it was; close the session that writes to it", path=str(path)
        )
    replace_file(path, [mended.data])
    if path.read_bytes() != mended.data:
        replace_file(path, [mended.old])
        raise WriteError(f"{path} did not read back as it was written; the original was put back", path=str(path))
    # The time of the file decides which session --continue takes and when it is deleted: mending is not using.
    os.utime(path, ns=(mended.stat.st_atime_ns, mended.stat.st_mtime_ns))
    done = FileRepair(path, result.steps, result.left, result.before, result.after, backup)
    return _Mended(done, mended.data, mended.old, mended.stat)


def _counts_dict(counts: Counts) -> dict[str, int]:
    names = ("n_bytes", "n_lines", "n_damaged_lines", "n_entries", "n_broken_links")
    return {**{name: getattr(counts, name) for name in names}, "n_resumed": len(counts.resumed)}
