"""remove_entry: one entry goes, everything else stays, whatever happens meanwhile."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from ccanalytics.errors import NotFoundError, UsageError, WriteError
from ccanalytics.write import remove
from ccanalytics.write.remove import TAIL_BYTES, remove_entry

Json = dict[str, Any]


def naive(data: bytes, uuid: str, *, reparent: bool = False) -> bytes:
    """The plain version: every line that is an object with this uuid goes."""
    *whole, last = data.split(b"\n")
    lines = [line + b"\n" for line in whole] + ([last] if last else [])
    parents = [o.get("parentUuid") for o in map(parse, lines) if o.get("uuid") == uuid]
    kept = [x for x in lines if parse(x).get("uuid") != uuid]
    if reparent and parents:
        kept = [rehung(x, uuid, parents[-1]) for x in kept]
    return b"".join(kept)


def parse(line: bytes) -> Json:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def rehung(line: bytes, uuid: str, parent: str | None) -> bytes:
    if parse(line).get("parentUuid") != uuid:
        return line
    return line.replace(b'{"parentUuid":"' + uuid.encode() + b'"', b'{"parentUuid":' + orjson.dumps(parent), 1)


def random_file(source: random.Random) -> tuple[bytes, list[str]]:
    uuids = [f"{source.getrandbits(64):016x}" for _ in range(source.randint(1, 40))]
    size = source.choice([10, 300, 4000, 30_000])
    lines, known = list[bytes](), list[str]()
    for uuid in uuids:
        parent = source.choice([*known, None])
        text = f"{source.choice(uuids)} " + "y" * source.randint(0, size)
        entry: Json = {"parentUuid": parent, "message": {"content": text, "uuid": source.choice(uuids)}, "uuid": uuid}
        known.append(uuid)
        lines.append(orjson.dumps(entry))
        if source.random() < 0.3:
            lines.append(
                source.choice([b"", b"{torn", b"null", b"\0" * 9, b'{"type":"tag","tag":"\xe2\x80\xa8"}', b" \r"])
            )
    end = b"" if source.random() < 0.2 else b"\n"
    return b"\n".join(lines) + end, uuids


def test_a_thousand_random_removals_equal_a_naive_rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    source, path, methods = random.Random(88), tmp_path / "s.jsonl", set()
    for _ in range(1000):
        data, uuids = random_file(source)
        path.write_bytes(data)
        uuid, reparent = source.choice(uuids), source.random() < 0.4
        done = remove_entry(path, uuid, reparent=reparent)
        assert path.read_bytes() == naive(data, uuid, reparent=reparent)
        methods.add(done.method)
    assert methods == {"tail", "rewrite"}


def test_a_line_at_the_end_costs_the_same_in_a_file_of_any_size(tmp_path: Path) -> None:
    costs = set()
    for n_lines in (200, 2_000, 20_000):
        path = tmp_path / f"{n_lines}.jsonl"
        filler = orjson.dumps({"type": "user", "uuid": "other", "text": "z" * 1000}) + b"\n"
        path.write_bytes(filler * n_lines + b'{"uuid":"last","parentUuid":"p"}\n' + filler)
        done = remove_entry(path, "last")
        assert done.method == "tail"
        costs.add((done.bytes_read, done.bytes_written))
    assert len(costs) == 1
    read, written = costs.pop()
    assert read <= TAIL_BYTES + 1
    assert written <= 2 * TAIL_BYTES + 1


class Crash(BaseException):
    """A power cut."""


class CrashingFile(FileIO):
    """A file whose writes may stop anywhere: the budget is in bytes."""

    budget = 0

    def write(self, data: Any) -> int:
        part = bytes(data)[: max(CrashingFile.budget, 0)]
        CrashingFile.budget -= len(bytes(data))
        written = super().write(part)
        if CrashingFile.budget < 0:
            raise Crash
        return written

    def truncate(self, size: int | None = None) -> int:
        CrashingFile.budget -= 1
        if CrashingFile.budget < 0:
            raise Crash
        return super().truncate(size)


def crash_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, uuid: str) -> list[bytes]:
    """What a removal in the tail leaves on disk if it stops after any number of bytes."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    opener: Callable[..., FileIO] = lambda path, *_, **__: CrashingFile(path, "r+")  # noqa: E731
    monkeypatch.setattr(remove, "open", opener, raising=False)
    path, states, budget = tmp_path / "c.jsonl", list[bytes](), 0
    while True:
        path.write_bytes(data)
        CrashingFile.budget = budget
        try:
            remove_entry(path, uuid)
        except Crash:
            states.append(path.read_bytes())
            budget += 1
        else:
            return states


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("removed", [b"", b"w" * 40, b"w" * 400])
def test_a_crash_at_any_byte_loses_no_other_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: bytes, end: bytes
) -> None:
    others = [orjson.dumps({"uuid": f"u{n}", "text": "v" * n * 50}) for n in range(4)]
    target = orjson.dumps({"uuid": "gone", "text": removed.decode()})
    data = b"\n".join([others[0], target, *others[1:]]) + end
    states = crash_points(tmp_path, monkeypatch, data, "gone")
    assert len(states) > 300
    for state in states:
        assert set(others) <= set(state.split(b"\n"))


def test_a_parent_or_a_text_that_mentions_the_uuid_is_no_match(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    data = b'{"parentUuid":"u1","uuid":"u2"}\n{"uuid":"u3","message":{"uuid":"u1"},"text":"\\"uuid\\":\\"u1\\""}\n'
    path.write_bytes(data)
    with pytest.raises(NotFoundError):
        remove_entry(path, "u1")
    assert path.read_bytes() == data


def test_a_uuid_written_with_escapes_is_a_match(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"uuid":"\\u0075\\u0031"}\n{"uuid":"u2"}\n')
    remove_entry(path, "u1")
    assert path.read_bytes() == b'{"uuid":"u2"}\n'


def test_only_the_object_goes_from_a_line_of_glued_ones(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    first = b'{"type":"user","uuid":"u1","sessionId":"s","parentUuid":null}'
    second = b'{"type":"user","uuid":"u2","sessionId":"s","parentUuid":"u1"}'
    path.write_bytes(first + second + b"\n")
    done = remove_entry(path, "u1", reparent=True)
    assert path.read_bytes() == second.replace(b'"parentUuid":"u1"', b'"parentUuid":null') + b"\n"
    assert done.n_reparented == 1


def test_copies_all_takes_every_copy_and_nearest_those_in_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    line, filler = b'{"uuid":"u1"}\n', b'{"uuid":"x","t":"' + b"z" * TAIL_BYTES + b'"}\n'
    path.write_bytes(line + filler + line)
    remove_entry(path, "u1")
    assert path.read_bytes() == line + filler
    path.write_bytes(line + filler + line)
    assert remove_entry(path, "u1", copies="all").n_removed == 2
    assert path.read_bytes() == filler


def test_a_child_that_stands_before_the_tail_is_reparented_too(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    filler = b'{"uuid":"x","t":"' + b"z" * TAIL_BYTES + b'"}\n'
    path.write_bytes(b'{"parentUuid":"u1","uuid":"u2"}\n' + filler + b'{"parentUuid":"u0","uuid":"u1"}\n')
    assert remove_entry(path, "u1", reparent=True).method == "rewrite"
    assert path.read_bytes() == b'{"parentUuid":"u0","uuid":"u2"}\n' + filler


def test_a_large_file_is_not_rewritten_unless_the_limit_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    data = b'{"uuid":"u1"}\n' + b'{"uuid":"x","t":"' + b"z" * TAIL_BYTES + b'"}\n'
    path.write_bytes(data)
    with pytest.raises(WriteError, match="limit_bytes"):
        remove_entry(path, "u1", limit_bytes=1000)
    assert path.read_bytes() == data
    remove_entry(path, "u1", limit_bytes=10**6)
    assert not path.read_bytes().startswith(b'{"uuid":"u1"}')


def test_a_rewrite_keeps_the_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"uuid":"u1"}\n' + b'{"uuid":"x","t":"' + b"z" * TAIL_BYTES + b'"}\n')
    path.chmod(0o640)
    remove_entry(path, "u1")
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_failed_rewrite_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    data = b'{"uuid":"u1"}\n' + b'{"uuid":"x","t":"' + b"z" * TAIL_BYTES + b'"}\n'
    path.write_bytes(data)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "in use")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(WriteError, match="in use"):
        remove_entry(path, "u1")
    assert path.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_file_that_grows_meanwhile_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"uuid":"u1"}\n{"uuid":"u2"}\n')
    real = remove._write

    def growing(file: FileIO, at: int, data: bytes) -> None:
        real(file, at, data)
        if at < 10:
            with path.open("ab") as other:
                other.write(b'{"uuid":"u3"}\n')

    monkeypatch.setattr(remove, "_write", growing)
    with pytest.raises(WriteError, match="grew"):
        remove_entry(path, "u1")
    assert {b'{"uuid":"u2"}', b'{"uuid":"u3"}'} <= set(path.read_bytes().split(b"\n"))


def test_no_uuid_and_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        remove_entry(tmp_path / "none.jsonl", "u1")
    (tmp_path / "s.jsonl").write_bytes(b"")
    with pytest.raises(UsageError):
        remove_entry(tmp_path / "s.jsonl", "")
