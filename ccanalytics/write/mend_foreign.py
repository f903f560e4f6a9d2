"""Lines that lie in the file of another session."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from .mend_lines import Line, Step, read_lines


def bring_home(lines: list[Line], path: Path, session_id: str) -> tuple[list[Line], list[Step]]:
    """Lines of this session from another file of the folder, put in front, if an entry here hangs on one of them."""
    here = {line.value.get("uuid") for line in lines if line.value is not None}
    lost = {p for line in lines if line.value is not None and (p := line.value.get("parentUuid")) and p not in here}
    for other in _siblings(path):
        if not any(_holds(other, parent) for parent in lost if isinstance(parent, str)):
            continue
        away = [line for line in read_lines(other.read_bytes()) if _belongs(line, session_id, here)]
        if lost & {line.value.get("uuid") for line in away if line.value is not None}:
            reason = f"it names this session, lies in {other.name}, and the conversation here hangs on it"
            steps = [Step("bring_home", line.no, reason, _uuid(line), other.name, path.name) for line in away]
            return [*(Line(line.no, line.raw, line.value) for line in away), *lines], steps
    return lines, []


def send_home(lines: list[Line], path: Path, session_id: str) -> tuple[list[Line], list[Step]]:
    """The lines without those of other sessions that also stand in their own file and on which nothing here hangs."""
    foreign = {
        at: s for at, line in enumerate(lines) if (s := _session(line)) not in (None, session_id) and _uuid(line)
    }
    parents = {line.value.get("parentUuid") for at, line in enumerate(lines) if line.value and at not in foreign}
    steps, gone = list[Step](), set[int]()
    for name in sorted({str(s) for s in foreign.values()}):
        mine = [at for at, s in foreign.items() if s == name]
        home = path.with_name(f"{name}.jsonl")
        if home.name != path.name and _is_plain(name) and home.is_file():
            there = {line.raw for line in read_lines(home.read_bytes())}
            if all(lines[at].raw in there for at in mine) and not parents & {_uuid(lines[at]) for at in mine}:
                reason = f"it belongs to session {name}, whose own file has it too, and nothing here hangs on it"
                steps += [
                    Step("send_home", lines[at].no, reason, _uuid(lines[at]), path.name, home.name) for at in mine
                ]
                gone |= set(mine)
    return [line for at, line in enumerate(lines) if at not in gone], steps


def _siblings(path: Path) -> Iterator[Path]:
    for other in sorted(path.parent.glob("*.jsonl")):
        if other.name != path.name and other.is_file() and other.stat().st_size:
            yield other


def _holds(path: Path, uuid: str) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(f'"uuid":"{uuid}"'.encode()) >= 0


def _belongs(line: Line, session_id: str, here: set[object]) -> bool:
    return _session(line) == session_id and _uuid(line) is not None and _uuid(line) not in here


def _session(line: Line) -> str | None:
    found = line.value.get("sessionId") if line.value is not None else None
    return found if isinstance(found, str) else None


def _uuid(line: Line) -> str | None:
    found = line.value.get("uuid") if line.value is not None else None
    return found if isinstance(found, str) and found else None


def _is_plain(name: str) -> bool:
    return Path(name).name == name and name not in (".", "..")
