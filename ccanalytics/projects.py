"""Which project a working directory belongs to, and the folder Claude Code keeps its transcripts in.

A project is identified by ``cwd``. The folder name (the slug) cannot be decoded: many paths share one.
Everything here is text in, text out; nothing is looked up on disk.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

SLUG_LENGTH = 200
"""Longest folder name that is not cut; a longer one is cut here and gets ``-`` and a hash."""

_WORKTREES = re.compile(r"[/\\]\.claude[/\\]worktrees[/\\]([^/\\]+)")
_DRIVE = re.compile(r"([A-Za-z]):(?=[/\\]|$)")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def project_slug(path: str) -> str:
    """Name of the folder under ``projects/`` that Claude Code uses for a working directory.

    Every UTF-16 unit that is no ASCII letter or digit becomes ``-`` (so an emoji becomes two). A name over 200
    characters is its first 200, ``-``, and a base-36 hash; the hash is the one of the Node.js builds. The native
    builds use another, so look folders up with :func:`match_slug`.

    >>> project_slug("/home/a/my_example work.space")
    '-home-a-my-example-work-space'
    """
    name = _dashes(path)
    if len(name) <= SLUG_LENGTH:
        return name
    return f"{name[:SLUG_LENGTH]}-{_base36(abs(_java_hash(path)))}"


def match_slug(path: str, known_dirs: Iterable[str]) -> list[str]:
    """Folders among ``known_dirs`` that may hold transcripts of a working directory, the likeliest first.

    A short path has one possible folder. A long one matches by its first 200 characters, whatever the hash behind them.
    Windows paths compare without case, as Windows does.
    """
    path = unicodedata.normalize("NFC", path)
    fold = str.lower if _is_windows(path) else str
    slug = fold(project_slug(path))
    if len(slug) <= SLUG_LENGTH:
        return sorted(d for d in known_dirs if fold(d) == slug)
    cut = slug[:SLUG_LENGTH] + "-"
    found = (d for d in known_dirs if fold(d).startswith(cut) and re.fullmatch("[0-9A-Za-z]+", d[len(cut) :]))
    return sorted(found, key=lambda d: (fold(d) != slug, d))


def project_of(cwd: str | None, *, fold_worktrees: bool = True) -> tuple[str | None, str | None]:
    """Project and worktree of a working directory.

    A directory inside ``<project>/.claude/worktrees/<name>`` belongs to ``<project>``; the name is the second value
    (``fold_worktrees=False`` leaves such a directory a project of its own). Windows paths are written one way:
    upper-case drive letter, backslashes. A separator at the end is dropped. Case is otherwise kept.

    >>> project_of("/r/app/.claude/worktrees/fix-12")
    ('/r/app', 'fix-12')
    """
    if not cwd:
        return None, None
    path = normalise_cwd(cwd)
    marks = list(_WORKTREES.finditer(path))
    if not marks:
        return path, None
    name = marks[-1][1]
    return normalise_cwd(path[: marks[0].start()]) if fold_worktrees else path, name


def normalise_cwd(cwd: str) -> str:
    """The directory written in one way: see :func:`project_of`."""
    drive = _DRIVE.match(cwd)
    if drive:
        rest = cwd[2:].replace("/", "\\").rstrip("\\")
        return f"{drive[1].upper()}:{rest or chr(92)}"
    if cwd.startswith("\\\\"):
        return cwd.replace("/", "\\").rstrip("\\")
    return cwd.rstrip("/") or "/"


def is_project_wanted(wanted: str, *, project: str | None, slug: str | None) -> bool:
    """True when a wish given by the user (a directory, a folder name, or the project's own name) means this project.

    While ``project`` is not known (nothing was read yet), the folder name alone decides, and says yes in doubt.
    """
    if slug is not None and wanted == slug:
        return True
    path = normalise_cwd(wanted)
    if project is not None:
        return path == project or wanted == project_name(project)
    if slug is None:
        return True
    # A worktree's folder begins with the folder name of its project; a name is the end of one.
    whole, lower = _dashes(path), slug.lower()
    if len(whole) > SLUG_LENGTH:
        return bool(match_slug(path, [slug]))
    ends = whole if whole.startswith("-") else "-" + whole
    main = lower.partition("--claude-worktrees-")[0]
    return main == whole.lower() or main.endswith(ends.lower())


def project_name(project: str) -> str:
    """The last part of a project's path."""
    return re.split(r"[/\\]", project.rstrip("/\\"))[-1] or project


def short_names(projects: Iterable[str]) -> dict[str, str]:
    """A name for each project, no two alike: its last part, with as many parts before it as are needed.

    >>> short_names(["/a/app", "/b/app", "/b/lib"])
    {'/a/app': 'a/app', '/b/app': 'b/app', '/b/lib': 'lib'}
    """
    parts = {p: [x for x in re.split(r"[/\\]", p) if x] or [p] for p in sorted(set(projects))}
    longest = max(map(len, parts.values()), default=0)
    names = {p: p for p in parts}
    waiting = set(parts)
    for n in range(1, longest + 1):
        tails: dict[str, list[str]] = {}
        for p, words in parts.items():
            tails.setdefault("/".join(words[-n:]), []).append(p)
        for tail, owners in tails.items():
            if len(owners) == 1 and owners[0] in waiting:
                names[owners[0]] = tail
                waiting.discard(owners[0])
    return names


def shared_slugs(pairs: Iterable[tuple[str | None, str | None]]) -> dict[str, list[str]]:
    """Folders that hold more than one project, from pairs of folder name and project."""
    found: dict[str, set[str]] = {}
    for slug, project in pairs:
        if slug is not None and project is not None:
            found.setdefault(slug, set()).add(project)
    return {slug: sorted(projects) for slug, projects in sorted(found.items()) if len(projects) > 1}


def safe_name(text: str, *, length: int = 120) -> str:
    """``text`` as a file name that stays in its folder: letters, digits, ``.``, ``_``, ``-`` alone, no leading dot."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", text)[:length].lstrip(".")
    return name or "_"


def _is_windows(path: str) -> bool:
    return bool(_DRIVE.match(path)) or path.startswith("\\\\")


def _dashes(path: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "--" if ord(c) > 0xFFFF else "-" for c in path)


def _java_hash(text: str) -> int:
    """The 32-bit string hash ``h = 31 h + unit`` over UTF-16 units, as a signed number."""
    h = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        h = (31 * h + (high << 8 | low)) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
