"""Every promise of docs/guarantees.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_named_exists() -> None:
    found = NAMED.findall(PAGE)
    assert len(found) > 40
    for path, name in found:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not name or name in names, f"{path}::{name}"


def test_every_promise_has_a_test() -> None:
    rows = [line for line in PAGE.split("\n") if line.startswith("| ") and "| fact |" not in line]
    promises = [row for row in rows if not row.startswith(("| promise", "| ---")) and "tests/" not in row]
    # The table of facts names columns in place of tests.
    assert all(re.search(r"`\w+\.[\w*]+`", row) for row in promises)
