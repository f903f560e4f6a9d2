"""Examples in the docstrings of figures, widgets and regression tests run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "figures.style", "figures.text", "plot", "testing.comparison", "testing.expectation", "testing.stability", "widgets",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name: str) -> None:
    import matplotlib.pyplot as plt

    result = doctest.testmod(importlib.import_module(f"ccanalytics.{name}"))
    plt.close("all")
    assert result.attempted > 0
    assert result.failed == 0
