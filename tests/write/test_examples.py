"""The examples in the docstrings of the write side run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from ccanalytics.write.writer import TranscriptWriter


@pytest.mark.parametrize("name", ["writer", "recorder"])
def test_the_examples_run(name: str, tmp_path: Path) -> None:
    module = import_module(f"ccanalytics.write.{name}")
    known = {"config": tmp_path / "a", "writer": TranscriptWriter(tmp_path / "b", cwd="/home/dev/app")}
    result = doctest.testmod(module, extraglobs=known)
    assert result.attempted >= 2
    assert result.failed == 0
