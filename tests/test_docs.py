"""Documents that say what the code does: written from it, or run."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import get_args

import polars as pl
import pytest

from ccanalytics.cli import run
from ccanalytics.load import load
from ccanalytics.rescue import Code

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^ccanalytics (.*)$", re.MULTILINE)
CODE_ROW = re.compile(r"^\| `([a-z_0-9]+)` \|", re.MULTILINE)


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_reference_is_current() -> None:
    made = script(ROOT / "docs" / "make_tables.py").reference()
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == made, "run python docs/make_tables.py"


def test_the_overview_in_the_readme_is_current() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert script(ROOT / "docs" / "make_tables.py").with_overview(text) == text, "run python docs/make_tables.py"


@pytest.mark.parametrize(
    "path", [p for p in DOCS if "```python" in p.read_text(encoding="utf-8")], ids=lambda p: p.name
)
def test_the_examples_of_a_page_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in EXAMPLE.findall(path.read_text(encoding="utf-8")):
        exec(compile(example, path.name, "exec"), names)


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(commands) > 2
    for command in commands:
        assert run([*shlex.split(command), "--config-dir", str(ROOT / "data" / "sample")]) == 0, command
    assert (tmp_path / "calls.parquet").exists()


def test_output_shown_in_the_readme_is_current() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example, shown), *_ = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    *setup, last = example.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(setup), names)
    frame = eval(last, names)
    with pl.Config(tbl_hide_dataframe_shape=True, tbl_width_chars=120, fmt_str_lengths=60):
        assert str(frame) == shown.rstrip("\n")


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_ci_runs_the_command_of_the_readme() -> None:
    command = "python3 -m pip install -q uv && uv run pytest"
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def documented_codes() -> set[str]:
    return set(CODE_ROW.findall((ROOT / "docs" / "problems.md").read_text(encoding="utf-8")))


def emitted_codes() -> set[str]:
    """Texts that the source puts into a column or variable named code."""
    found = set(get_args(Code))
    for path in (ROOT / "ccanalytics").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found |= codes_of(node)
    return found


def codes_of(node: ast.AST) -> set[str]:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="alias"), args=[ast.Constant("code")]):
            return texts(made)
        case ast.Call(func=ast.Name("_problem"), args=[_, _, code, *_]):
            return texts(code)
        case ast.Call(keywords=keywords):
            return {text for k in keywords if k.arg == "code" for text in texts(k.value)}
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {t for k, v in pairs if isinstance(k, ast.Constant) and k.value == "code" for t in texts(v)}
        case ast.Assign(targets=[ast.Name("code")], value=value):
            return texts(value)
        case _:
            return set()


def texts(node: ast.AST) -> set[str]:
    found = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return {text for text in found if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", text)}


def test_every_problem_code_is_documented() -> None:
    assert emitted_codes() - documented_codes() == set()


def test_every_documented_problem_code_exists() -> None:
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "ccanalytics").rglob("*.py"))
    assert {code for code in documented_codes() if f'"{code}"' not in source} == set()


def test_codes_met_in_a_damaged_file_are_documented(tmp_path: Path) -> None:
    whole = b'{"type":"user","uuid":"u1","timestamp":"yesterday","message":{"role":"user","content":"x"}}'
    lines = [whole, whole + whole, b"\0" * 9, whole[:40], b"null", b'{"type":"user","message":7}', b"\xff" + whole, b""]
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines))
    codes = set(load(path).problems["code"])
    assert len(codes) > 4
    assert codes <= documented_codes()
