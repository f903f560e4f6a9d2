"""The notebooks: executed as committed, free of machine facts, and the same when nbval runs them again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ccanalytics.testing import sanitize_path

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
CELL_SECONDS = 120
MACHINE_FACTS = re.compile(
    r"/root|/Users/|/tmp/|\\\\Users|ipykernel_\d|0x[0-9a-f]{8,}|site-packages|Traceback|Warning:"
)


def read(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((FOLDER / name).read_text("utf-8"))
    return notebook


def outputs(name: str) -> list[dict[str, Any]]:
    return [o for c in read(name)["cells"] if c["cell_type"] == "code" for o in c["outputs"]]


def text_of(output: dict[str, Any]) -> str:
    """What an output says, pictures left out."""
    kept = {k: v for k, v in output.get("data", {}).items() if not k.startswith("image/")}
    said = json.dumps([output.get("text", ""), kept], ensure_ascii=False)
    return re.sub(r"base64,[A-Za-z0-9+/=]+", "", said)


def test_there_is_a_notebook_for_each_question() -> None:
    assert len(NOTEBOOKS) >= 7


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nb04_nb05_a_notebook_is_committed_executed_without_widget_state_or_machine_facts(name: str) -> None:
    notebook = read(name)
    assert "widgets" not in notebook["metadata"]
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    assert not [o for o in outputs(name) if o["output_type"] == "error" or o.get("name") == "stderr"]
    said = "\n".join(map(text_of, outputs(name)))
    assert not MACHINE_FACTS.findall(said)
    assert (FOLDER / name).stat().st_size < 1_000_000


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nb07_every_picture_is_followed_by_its_numbers(name: str) -> None:
    code = [c for c in read(name)["cells"] if c["cell_type"] == "code"]
    pictured = [any("image/png" in o.get("data", {}) for o in c["outputs"]) for c in code]
    assert not pictured[-1]
    assert all(any(not p for p in pictured[i + 1 : i + 3]) for i in range(len(code) - 1) if pictured[i])


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nb02_nb06_nbval_finds_the_same_outputs(name: str, home: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_", "COVERAGE"))}
    env |= {
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home),
        "JUPYTER_DATA_DIR": str(home / "data"),
    }
    options = [
        "--nbval", "--nbval-current-env", f"--nbval-sanitize-with={sanitize_path()}",
        f"--nbval-cell-timeout={CELL_SECONDS}", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest",
    ]  # fmt: skip
    command = [sys.executable, "-m", "pytest", *options, str(FOLDER / name)]
    run = subprocess.run(command, env=env, cwd=FOLDER, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
