"""Regression tests over transcripts: stable display, comparison, expectations.

Three lines are a cost regression test, in a notebook under nbval or in a test function::

    t = cc.load("runs/")
    cc.expect(t.cost(by="model"), equals="cost.csv", tolerance=0.05)
    cc.expect(t.sessions, at_most={"cost_usd": 0.50, "n_tool_errors": 0})
"""

from __future__ import annotations

from pathlib import Path

from .comparison import compare
from .expectation import expect
from .stability import stable

__all__ = ["compare", "expect", "sanitize_path", "stable"]


def sanitize_path() -> Path:
    """The sanitising file for nbval: ``pytest --nbval --nbval-sanitize-with=<this>``."""
    return Path(__file__).resolve().parent.parent / "nbval_sanitize.cfg"
