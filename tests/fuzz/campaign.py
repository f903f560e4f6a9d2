"""A long attack by hand: ``python -m tests.fuzz.campaign --seconds 1800 --seed 7``.

Makes folders with faults, asks everything of them, and prints each kind of finding once with the seed that shows it.
``--only SEED`` repeats one folder and keeps it in a folder of that name.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("CCANALYTICS_CACHE", "0")

import ccanalytics as cc
from ccanalytics.parse import Content
from tests.exercise import (
    FORMATS,
    KEYS,
    POLICIES,
    WIDGETS,
    check_cost,
    check_figures,
    check_lines,
    check_report,
    check_resume,
    check_tables,
    check_views,
    check_widgets,
    figures,
    only_own_errors,
)
from tests.strategies import make_folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    findings: Counter[str] = Counter()
    faults, seed, end = 0, options.seed, time.monotonic() + options.seconds
    while time.monotonic() < end:
        faults += attack(options.only if options.only is not None else seed, findings, keep=options.only is not None)
        seed += 1
        if options.only is not None:
            break
    print(f"{seed - options.seed} folders, {faults} faults, {len(findings)} kinds of finding")
    for what, n in findings.most_common():
        print(f"{n:6} {what}")
    return 1 if findings else 0


def attack(seed: int, findings: Counter[str], *, keep: bool) -> int:
    rng = random.Random(seed)
    folder = make_folder(rng, most=rng.choice((1, 8, 20)), steps=rng.choice((4, 12, 40)))
    with tempfile.TemporaryDirectory() as made:
        place = Path(f"seed-{seed}") if keep else Path(made)
        folder.write(place, end=rng.choice((b"\n", b"\n", b"\n", b"\r\n")))
        content: Content = rng.choice(("none", "preview", "full"))
        started = time.process_time()
        loaded: list[Any] = []
        run(lambda: loaded.append(cc.load(place, content=content)), "load", seed, findings, folder.done)
        for name, check in checks(rng).items() if loaded else ():
            run(lambda check=check: check(loaded[0]), name, seed, findings, folder.done)  # type: ignore[misc]
        spent = time.process_time() - started
        if spent > 20:
            findings["slow"] += 1
            print(f"seed {seed}: {spent:.1f} s", folder.done, flush=True)
    return len(folder.done)


def checks(rng: random.Random) -> dict[str, Callable[[Any], object]]:
    keys, policies, formats = tuple(rng.sample(KEYS, 3)), (rng.choice(POLICIES),), (rng.choice(FORMATS),)
    found: dict[str, Callable[[Any], object]] = {
        "lines": check_lines,
        "tables": check_tables,
        "resume": check_resume,
        "cost": lambda t: check_cost(t, keys=keys, policies=policies),
        "report": lambda t: check_report(t, formats=formats),
        "views": check_views,
    }
    if rng.random() < 0.1:
        found["figures"] = lambda t: check_figures(t, (rng.choice(sorted(figures(t))),))
        found["widgets"] = lambda t: check_widgets(t, (rng.choice(WIDGETS),))
    return found


def run(check: Callable[[], object], name: str, seed: int, findings: Counter[str], done: list[str]) -> None:
    try:
        with only_own_errors(name), contextlib.redirect_stdout(io.StringIO()):
            check()
    except AssertionError as e:
        first: BaseException = e
        while first.__cause__ is not None:
            first = first.__cause__
        trail = [f"{Path(f.filename).name}:{f.lineno}:{f.name}" for f in traceback.extract_tb(first.__traceback__)]
        what = f"{name}: {type(first).__name__} at {trail[-1]}"
        findings[what] += 1
        if findings[what] == 1:
            print(f"seed {seed}: {e}\n    {' > '.join(trail[-6:])}\n    {done}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
