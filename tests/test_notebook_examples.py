"""Examples in the docstrings of figures, widgets and regression tests run."""

from __future__ import annotations

import doctest
import importlib

import pytest

TESTING = ("comparison", "expectation", "stability")
MODULES = ["figures.style", "figures.text", "plot", "widgets", *(f"testing.{m}" for m in TESTING)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name: str) -> None:
    import matplotlib.pyplot as plt

    result = doctest.testmod(importlib.import_module(f"ccanalytics.{name}"))
    plt.close("all")
    assert result.attempted > 0
    assert result.failed == 0
