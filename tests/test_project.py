"""What the repository promises about itself: pins, bundled sample, documents in step with the code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_pip_and_uv_are_given_the_same_versions() -> None:
    assert pins() == PROJECT["tool"]["uv"]["constraint-dependencies"]


def test_every_direct_dependency_has_a_tested_version() -> None:
    groups = [
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
    ]
    direct = {re.split(r"[^A-Za-z0-9._-]", text)[0].lower() for group in groups for text in group}
    pinned = {pin.split("==")[0] for pin in pins()}
    assert direct - {"ccanalytics"} <= pinned


def test_nb03_ipywidgets_is_asked_for_in_the_one_major_that_was_tested() -> None:
    asked = [d for d in PROJECT["project"]["optional-dependencies"]["notebook"] if d.startswith("ipywidgets")]
    (tested,) = [pin.split("==")[1] for pin in pins() if pin.startswith("ipywidgets==")]
    assert [re.findall(r"\d+", text)[0] for text in asked] == [tested.split(".")[0]]


def test_pins_name_versions_only() -> None:
    assert all(re.fullmatch(r"[a-z0-9.-]+==[^\s/:]+( ; .+)?", pin) for pin in pins())


def test_a_submodule_never_hides_the_function_of_its_name() -> None:
    code = "import ccanalytics as cc; cc.load_sample(); import ccanalytics.load; assert callable(cc.load)"
    subprocess.run([sys.executable, "-c", code], check=True)
