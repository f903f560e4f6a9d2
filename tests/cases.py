"""The recorded cases: what the real program wrote, and what it answered, unpacked once per process.

A folder of a case is shared by all tests of the process: read it, or copy it with :func:`copy_case` to change it.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ARCHIVES = Path(__file__).parent / "cases"
FAMILIES = ("resume", "cost", "money", "listing", "zoo")
_REPEAT = re.compile(rb"@@REP\|([^|]*)\|(\d+)@@")


def case_dir(family: str, name: str) -> Path:
    """The folder of one case: ``config/`` and ``expect.json``."""
    folder = _unpacked(family) / name
    if not folder.is_dir():
        raise KeyError(f"no case {name!r} in {family}")
    return _ready(folder)


def case_names(family: str) -> list[str]:
    """Names of all cases of a family, sorted; those of the zoo are ``version/name``."""
    return list(_names(family))


def copy_case(family: str, name: str, target: Path) -> Path:
    """A copy of the case that a test may change, file times kept."""
    return Path(shutil.copytree(case_dir(family, name), target / name.replace("/", "_")))


def expectation(family: str, name: str, *, file: str = "expect.json") -> dict[str, Any]:
    """What the real program answered."""
    loaded: dict[str, Any] = json.loads((case_dir(family, name) / file).read_bytes())
    return loaded


@cache
def _names(family: str) -> tuple[str, ...]:
    root = _unpacked(family)
    return tuple(sorted(p.parent.relative_to(root).as_posix() for p in root.rglob("expect.json")))


@cache
def _unpacked(family: str) -> Path:
    target = _home() / family
    with tarfile.open(ARCHIVES / f"{family}.tar.xz", "r:xz") as tar:
        tar.extractall(target, filter="data")
    return target


@cache
def _home() -> Path:
    home = tempfile.mkdtemp(prefix="ccanalytics-cases-")
    pid = os.getpid()
    # A forked child inherits the hook but not the folder: only its maker may remove it.
    atexit.register(lambda: shutil.rmtree(home, ignore_errors=True) if os.getpid() == pid else None)
    return Path(home)


@cache
def _ready(folder: Path) -> Path:
    """Write out what is stored shortened, then set the file times the expectation was recorded with."""
    for short in sorted(folder.rglob("*.jsonl.packed")):
        short.with_suffix("").write_bytes(_REPEAT.sub(lambda m: m[1] * int(m[2]), short.read_bytes()))
        short.unlink()
    times: dict[str, float] = json.loads((folder / "expect.json").read_bytes()).get("mtimes", {})
    for name, seconds in times.items():
        ns = round(seconds * 1000) * 1_000_000
        os.utime(folder / "config" / name, ns=(ns, ns))
    return folder
