"""The tables of the sample, as text that was read and found right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "data" / "golden"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("golden")
    subprocess.run([sys.executable, "-B", str(ROOT / "data" / "make_golden.py"), str(out)], check=True)
    return out


def test_every_table_has_its_golden_text(made: Path) -> None:
    assert sorted(p.name for p in made.iterdir()) == sorted(p.name for p in GOLDEN.iterdir())


@pytest.mark.parametrize("name", sorted(p.name for p in GOLDEN.iterdir()))
def test_golden(name: str, made: Path) -> None:
    now, then = (made / name).read_text(encoding="utf-8"), (GOLDEN / name).read_text(encoding="utf-8")
    assert now == then, "if this is meant: python data/make_golden.py, and read the diff"
