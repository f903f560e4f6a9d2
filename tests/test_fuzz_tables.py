"""Resume, cost, report and figures on damaged transcripts: the package's own errors or none."""

from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

import ccanalytics as cc
from tests.exercise import (
    FORMATS,
    KEYS,
    POLICIES,
    WIDGETS,
    check_cost,
    check_figures,
    check_report,
    check_resume,
    check_tables,
    check_widgets,
    figures,
)
from tests.strategies import make_folder, make_valid

mpl.use("agg")
SEEDS = range(100, 112)


@pytest.fixture(params=SEEDS)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[random.Random, Any]:
    rng = random.Random(request.param)
    make_folder(rng, most=16).write(tmp_path)
    return rng, cc.load(tmp_path)


def test_all_tables_and_conversations(damaged: tuple[random.Random, Any]) -> None:
    check_tables(damaged[1])
    check_resume(damaged[1])


def test_cost_is_the_same_sum_however_it_is_sliced(damaged: tuple[random.Random, Any]) -> None:
    rng, t = damaged
    check_cost(t, keys=(None, *rng.sample(KEYS, 5)), policies=(rng.choice(POLICIES),))


def test_report_in_every_format(damaged: tuple[random.Random, Any]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        check_report(damaged[1], keys=("day,session,model",))


def test_figures_of_damaged_transcripts(damaged: tuple[random.Random, Any]) -> None:
    rng, t = damaged
    check_figures(t, tuple(rng.sample(sorted(figures(t)), 2)))


def test_widgets_of_damaged_transcripts(damaged: tuple[random.Random, Any]) -> None:
    rng, t = damaged
    check_widgets(t, (rng.choice(WIDGETS),))


def test_everything_of_one_sound_folder(tmp_path: Path) -> None:
    make_valid(random.Random(5), sessions=2, steps=25).write(tmp_path)
    t = cc.load(tmp_path)
    check_tables(t)
    check_resume(t)
    check_cost(t)
    with contextlib.redirect_stdout(io.StringIO()):
        check_report(t, formats=FORMATS)
    check_figures(t)
    check_widgets(t)


def test_everything_of_an_empty_folder(tmp_path: Path) -> None:
    t = cc.load(tmp_path)
    check_tables(t)
    check_resume(t)
    check_cost(t)
    with contextlib.redirect_stdout(io.StringIO()):
        check_report(t)
    check_figures(t)
    check_widgets(t)
