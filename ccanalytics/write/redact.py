"""`redact`: a copy of transcripts, or of their Parquet export, that is fit to share."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ccanalytics.errors import NotFoundError, UsageError, WriteError
from ccanalytics.find import FoundFile, find_files
from ccanalytics.jobs import Piece, read_piece
from ccanalytics.projects import project_slug

from .files import make_private_dirs, replace_file, split_lines
from .lines import encode, loads, objects_in
from .redactor import MIN_CHECKED, Redactor
from .vocabulary import KEYS, WORDS

PathLike = str | os.PathLike[str]

_CWD = re.compile(rb'"(?:cwd|originalCwd|worktreePath|project)":"((?:[^"\\]|\\.)*)"')
_BRANCH = re.compile(rb'"(?:gitBranch|worktreeBranch|originalBranch)":"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Redaction:
    """What was written, and what was left out."""

    output: Path
    n_files: int
    n_originals: int
    """Different strings of 9 characters and more that were replaced, none of which is in the copy."""
    left_out: tuple[str, ...]
    """Kinds of files that were not copied."""


def redact(
    source: PathLike | Sequence[PathLike] | None,
    output: PathLike,
    *,
    keep_text: bool = False,
    key: bytes | None = None,
) -> Redaction:
    """Copy transcripts (or a Parquet export) with everything that says something about somebody replaced.

    A text becomes its length and a keyed hash; paths, branches, names, and ids become others of the same shape, the
    same one everywhere; what is no Claude model id becomes another name. Structure, times, tokens, and so cost stay. At
    the end every string of the copy is compared with the originals.

    Parameters
    ----------
    source
        Configuration directory, project, transcript (or several), or the folder of an export; default as in `load`.
    output
        Folder to write to; must not exist, or be empty.
    keep_text
        Keep texts; what looks like a secret is masked, ids, directories and branches in them are replaced.
    key
        Secret of the hashes; by default a random one that is forgotten. The same key gives the same copy.

    Raises
    ------
    UsageError
        ``output`` holds something.
    WriteError
        An original string is still found in the copy; the copy was removed.
    """
    target = Path(output)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is not empty; give a folder that does not exist", path=str(target))
    redactor = Redactor(key or secrets.token_bytes(32), keep_text=keep_text)
    make_private_dirs(target)
    try:
        tables = _parquet_files(source)
        n = _copy_tables(tables, target, redactor) if tables else _copy_transcripts(source, target, redactor)
        check_redacted(target, redactor)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return Redaction(target, n, len(redactor.originals), () if tables else _LEFT_OUT)


_LEFT_OUT = ("tool-results", "file-history", "paste-cache", "image-cache", "todos", "plans", "settings")


def _copy_transcripts(source: Any, target: Path, redactor: Redactor) -> int:
    found = find_files(source)
    if not found:
        raise NotFoundError("there are no transcripts to copy", source=str(source))
    folders = {f.project_dir for f in found}
    slugs = {name: _new_slug(name, [f for f in found if f.project_dir == name], redactor) for name in folders}
    for file in found:
        path = target / "projects" / slugs[file.project_dir] / _new_name(file, redactor)
        _write(path, [_new_line(line, redactor) for line in split_lines(_read(file.path))], file.mtime_ns)
        if file.meta_path is not None:
            meta = loads(Path(file.meta_path).read_bytes())
            text = orjson.dumps(redactor.value(meta)) if isinstance(meta, dict) else b"{}"
            _write(path.with_name(path.name.removesuffix(".jsonl") + ".meta.json"), [text], file.mtime_ns)
    logs = {Path(f.root) / "history.jsonl" for f in found if f.root is not None}
    for log in (log for log in logs if log.is_file()):
        lines = [_new_line(line, redactor) for line in split_lines(log.read_bytes())]
        _write(target / log.name, lines, log.stat().st_mtime_ns)
    return len(found)


def _read(path: str) -> bytes:
    return read_piece(Piece(path))


def _write(path: Path, chunks: Iterable[bytes], mtime_ns: int) -> None:
    make_private_dirs(path.parent)
    replace_file(path, chunks)
    # Lists of sessions are sorted by the time of the file.
    os.utime(path, ns=(mtime_ns, mtime_ns))


def _new_slug(name: str | None, files: list[FoundFile], redactor: Redactor) -> str:
    """The folder name of the new working directory; also lets the redactor know directories and branches."""
    new = "-" + redactor.identifier(name or "")[:16]
    for file in files:
        data = _read(file.path)
        directories = {_text(found) for found in _CWD.findall(data)}
        redactor.learn(directories, {_text(found) for found in _BRANCH.findall(data)})
        for cwd in sorted(directories):
            if project_slug(cwd) == name:
                new = project_slug(redactor.path(cwd))
    return new


def _text(raw: bytes) -> str:
    return str(loads(b'"' + raw + b'"') or "")


def _new_name(file: FoundFile, redactor: Redactor) -> Path:
    """Where a file lies below its project folder, with the ids in its names replaced."""
    path = Path(file.path)
    parts = list(path.parts)
    below = parts[parts.index(file.project_dir) + 1 :] if file.project_dir in parts else parts[-1:]
    stem = path.name.split(".jsonl")[0]
    return Path(*(_new_part(part, redactor) for part in below[:-1]), _new_part(stem, redactor) + ".jsonl")


def _new_part(part: str, redactor: Redactor) -> str:
    return part if part in ("subagents", "workflows") else redactor.identifier(part)


def _new_line(line: bytes, redactor: Redactor) -> bytes:
    end = line[len(line.rstrip(b"\r\n")) :]
    body = line[: len(line) - len(end)]
    if not body.strip():
        return line
    found = objects_in(body)
    if len(found) == 1 and body.strip()[:1] == b"{" and body.strip()[-1:] == b"}":
        return _encoded(found[0].value, redactor) + end
    # A damaged line stays damaged in the same way, so that counts of damage do not change.
    nul = b"\0" * body.count(0)
    if not found:
        value = loads(body.strip(b" \t\r\0"))
        start = orjson.dumps(redactor.value(value)) if value is not None else b"{" if b"{" in body[:1] else b"torn"
        return nul + (start if 0 not in body or body.strip(b"\0") else b"") + end
    torn = b'{"torn' if found[0].start and body[: found[0].start].strip(b" \t\0") else b""
    return nul + torn + b"".join(_encoded(each.value, redactor) for each in found) + end


def _encoded(value: Any, redactor: Redactor) -> bytes:
    try:
        return encode(redactor.value(value)).rstrip(b"\n")
    except RecursionError:
        # Nested a thousand deep: nothing of it can be told apart, so nothing of it is kept.
        return b"{}"


def _parquet_files(source: Any) -> list[tuple[Path, Path]]:
    """Files of an export with their root, none when the source is no export."""
    if source is None or isinstance(source, list | tuple):
        return []
    root = Path(source)
    if not root.is_dir() or (root / "projects").is_dir():
        return []
    return [(root, path) for path in sorted(root.rglob("*.parquet"))]


def _copy_tables(tables: list[tuple[Path, Path]], target: Path, redactor: Redactor) -> int:
    from .redact_tables import copy_manifest, copy_table

    for root, path in tables:
        copy_table(root, path, target, redactor)
    for root in sorted({root for root, _ in tables}):
        copy_manifest(root, target, redactor)
    return len(tables)


def check_redacted(output: Path, redactor: Redactor) -> None:
    """Raise ``WriteError`` if a string that was replaced is found in a copy, alone or inside another string."""
    survivors, originals = 0, redactor.originals - redactor.kinds
    places = set[str]()
    for path in sorted(p for p in output.rglob("*") if p.is_file()):
        names = set(path.relative_to(output).parts)
        for text in {*names, *_strings_of(path)}:
            if _survives(text, originals):
                survivors += 1
                places.add(path.name)
    if survivors:
        raise WriteError(
            f"{survivors} original strings of {MIN_CHECKED} characters or more are still in the copy "
            f"({', '.join(sorted(places)[:3])}); the copy was removed",
            n_survivors=survivors,
            files=sorted(places),
        )


_MADE = re.compile(
    r"\[(?:text|data) \d+ [0-9a-f]{12}\]|[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}"
    r"|\b(?:name-|branch-|model-|k_|p)[0-9a-f]{8}\b|[0-9a-f]{16}"
)
_WORD = re.compile(r"[^\s\"'`<>(){}\[\],;|=]+")


def _survives(text: str, originals: set[str]) -> bool:
    if text in WORDS or text in KEYS:
        return False
    if text in originals:
        return True
    for part in _MADE.split(text):
        if len(part) < MIN_CHECKED:
            continue
        if len(part) > 200:
            if any(word in originals for word in _WORD.findall(part)):
                return True
        elif any(part[i:j] in originals for i in range(len(part)) for j in range(i + MIN_CHECKED, len(part) + 1)):
            return True
    return False


def _strings_of(path: Path) -> set[str]:
    if path.suffix == ".parquet":
        from .redact_tables import strings_of_table

        return strings_of_table(path)
    found = set[str]()
    for line in split_lines(path.read_bytes()):
        for each in objects_in(line):
            found.update(_strings(each.value))
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _strings(item)
