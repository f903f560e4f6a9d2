"""The map in docs/architecture.md is the package: no module is missing, none is made up, imports go downward."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ccanalytics"


def layers() -> list[list[str]]:
    rows = re.findall(r"^\| ([a-z ]+) \| (`.*?`) \|", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    return [re.findall(r"`([\w]+)`", cell) for _, cell in rows]


def modules() -> set[str]:
    files = {p.stem for p in PACKAGE.glob("*.py")} - {"__init__"}
    return files | {p.parent.name for p in PACKAGE.glob("*/__init__.py")}


def test_every_module_is_on_the_map() -> None:
    assert {m for layer in layers() for m in layer} == modules()


def test_parsing_knows_no_files_and_no_tables_built_later() -> None:
    allowed = {m for layer in layers()[:1] for m in layer} | set(layers()[2])
    for name in layers()[2]:
        text = (PACKAGE / f"{name}.py").read_text()
        found = set(re.findall(r"^(?:from|import) \.(\w+)", text, re.MULTILINE))
        # Unknown fields are counted by reading the files again; the lean reading takes the columns that calls need.
        found -= {"unknown": {"jobs"}, "lean": {"usage_lines"}}.get(name, set())
        assert found <= allowed, f"{name} imports {sorted(found - allowed)}"


def test_the_graph_knows_no_transcripts() -> None:
    assert not re.findall(r"^(?:from|import) \.(?!errors)(\w+)", (PACKAGE / "graph.py").read_text(), re.MULTILINE)
