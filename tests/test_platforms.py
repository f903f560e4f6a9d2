"""What would break on Windows or macOS is guarded: POSIX modules, file names, paths in transcripts."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ccanalytics as cc
from tests.build import assistant, chain, user, write_session

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "ccanalytics").rglob("*.py"))
POSIX_ONLY = {"fcntl", "pwd", "grp", "resource", "termios", "posix", "pty", "readline", "syslog"}
POSIX_CALLS = {
    "fork",
    "getuid",
    "geteuid",
    "mkfifo",
    "setsid",
    "killpg",
    "getpgid",
    "chown",
    "sched_getaffinity",
    "nice",
}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_posix_modules_and_calls_are_guarded(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for node in tree.body:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not POSIX_ONLY & set(names), f"{path.name} imports {names} at the top"
    calls = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & POSIX_CALLS
    assert not calls or "os.name" in source or "hasattr(os" in source, f"{path.name} calls {calls} anywhere"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_text_files_are_opened_with_a_named_encoding(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
            name = node.func.attr
            assert name != "read_text" or node.args, f"{path.name}:{node.lineno}"
            assert name != "write_text" or len(node.args) > 1, f"{path.name}:{node.lineno}"


WITHOUT = r"""
import sys
for name in ("fcntl", "pwd", "grp", "resource"):
    sys.modules[name] = None
import ccanalytics as cc
config = sys.argv[1]
for _ in range(2):
    t = cc.load(config, cache=True)
print(len(t.entries), len(t.calls), len(t.sessions))
with cc.TranscriptWriter(config, cwd="/home/dev/app") as writer:
    writer.user("hello")
print(len(cc.load(config, cache=True).entries))
"""


def test_everything_works_without_the_modules_that_windows_lacks(tmp_path: Path) -> None:
    write_session(tmp_path / "config", chain(user("u1"), assistant("a1")))
    env = os.environ | {"PYTHONPATH": str(ROOT), "CCANALYTICS_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path / "config")],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:3] == ["2", "1", "1"]
    assert int(done.stdout.split()[3]) > 2


@pytest.mark.parametrize(
    ("cwds", "n_projects"),
    [
        (("C:\\Lab\\Tool", "c:\\Lab\\Tool", "c:/Lab/Tool/"), 1),
        (("\\\\server\\share\\x", "\\\\server\\share\\x\\"), 1),
        (("/srv/App", "/srv/app"), 2),
        (("D:\\r\\app", "D:\\r\\app\\.claude\\worktrees\\x"), 1),
        (("C:\\", "/", "C:", "\\\\", "//"), None),
    ],
)
def test_pt06_windows_paths_are_projects(cwds: tuple[str, ...], n_projects: int | None, tmp_path: Path) -> None:
    for i, cwd in enumerate(cwds):
        write_session(tmp_path, chain(user(f"u{i}"), session=f"s{i}", cwd=cwd), session=f"s{i}", project=f"p{i}")
    t = cc.load(tmp_path)
    assert n_projects is None or t.files["project"].n_unique() == n_projects
    assert t.sessions.height == len(cwds)


def test_names_made_of_windows_paths_hold_for_characters_outside_the_first_plane() -> None:
    # A slug replaces UTF-16 units: what lies outside the first plane are two of them.
    assert cc.project_slug("C:\\dev\\🌊") == "C--dev---"
