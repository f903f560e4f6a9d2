"""Pictures and widgets at 100,000 calls: how long a figure, a first paint and an answer take, and their sizes.

    python -m tests.benchmarks.pictures [--calls 100000] [--no-browser]

Figures are drawn and saved as PNG; widgets are made, drawn in headless Chromium and clicked, joined to Python without a
kernel. Each figure is the best of three.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import matplotlib as mpl

from tests.widgets_data import made_up

LIMITS = {"figure": 1.5, "first paint": 1.0, "answer": 0.3}


def main() -> None:
    """Print a table: what, seconds, limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    mpl.use("Agg")
    t = made_up(options.calls, entries=20_000)
    figures(t)
    stand_ins(t)
    if not options.no_browser:
        widgets(t)


def best(call: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest of so many runs."""
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        took.append(time.perf_counter() - begun)
    return min(took)


def say(kind: str, name: str, seconds: float) -> None:
    limit = LIMITS[kind]
    print(f"{kind:12} {name:28} {seconds:6.3f} s  limit {limit} s  {'ok' if seconds < limit else 'OVER'}")


def figures(t: Any) -> None:
    """Each figure, from tables to PNG."""
    import matplotlib.pyplot as plt

    import ccanalytics as cc

    session = t.sessions["session_id"][0]
    drawn: dict[str, Callable[[], Any]] = {
        "usage by model": lambda: cc.plot.usage(t, by="model"),
        "usage by kind, hourly": lambda: cc.plot.usage(t, measure="tokens", by="kind", every="hour"),
        "cost by kind": lambda: cc.plot.usage(t, by="kind"),
        "calendar": lambda: cc.plot.calendar(t),
        "cost by session": lambda: cc.plot.cost(t),
        "context": lambda: cc.plot.context(t, session),
        "agents": lambda: cc.plot.agents(t, session),
        "icicle": lambda: cc.plot.icicle(t),
        "tools": lambda: cc.plot.tools(t),
        "branches": lambda: cc.plot.branches(t, session),
        "blocks": lambda: cc.plot.blocks(t),
    }

    def save(draw: Callable[[], Any]) -> None:
        draw().figure.savefig(BytesIO(), format="png", dpi=100)
        plt.close("all")

    for name, draw in drawn.items():
        say("figure", name, best(lambda draw=draw: save(draw)))  # type: ignore[misc]


def stand_ins(t: Any) -> None:
    """What the five widgets put into a notebook."""
    import ccanalytics as cc

    names = ("Usage", "Compactions", "AgentTree", "Conversation", "Explorer")
    sizes = {name: len(getattr(cc.widgets, name)(t)._repr_html_()) for name in names}
    print(
        "stand-ins:",
        ", ".join(f"{k} {v / 1000:.0f} kB" for k, v in sizes.items()),
        f"= {sum(sizes.values()) / 1000:.0f} kB",
    )


def widgets(t: Any) -> None:
    """First paint (made in Python, sent, drawn) and the answer to a click or a change."""
    from playwright.sync_api import sync_playwright

    import ccanalytics as cc
    from tests.browser.conftest import FLAGS, NAMES
    from tests.browser.stage import Stage

    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as tool:
        chromium = tool.chromium.launch(executable_path=path, args=FLAGS)

        def fresh(name: str) -> Stage:
            stage = Stage(chromium.new_page(viewport={"width": 1000, "height": 900}), getattr(cc.widgets, name)(t))
            stage.settle()
            return stage

        for name in ("Usage", "Compactions", "AgentTree", "Conversation"):
            say("first paint", name, best(lambda name=name: fresh(name)))  # type: ignore[misc]
        answers(fresh)
        chromium.close()


def answers(fresh: Callable[[str], Any]) -> None:
    """Changes made on the page until they are drawn."""
    changes = {
        ("Usage", "choose a bar"): {"chosen": {"from": 3, "to": 3, "series": None}},
        ("Usage", "choose all bars"): {"chosen": {"from": 0, "to": 999, "series": None}},
        ("Usage", "by session"): {"by": "session"},
        ("Usage", "tokens by kind"): {"measure": "tokens", "by": "kind"},
        ("Usage", "since a day"): {"since": "2026-03-20"},
        ("AgentTree", "sort"): {"sort": "own cost"},
        ("AgentTree", "choose a run"): {"chosen": None},
        ("Conversation", "kinds"): {"kinds": ["prompt"]},
        ("Conversation", "search"): {"search": "line 1234"},
        ("Conversation", "search again"): {"search": "line 999"},
    }
    stages: dict[str, Any] = {}
    put = "(state) => { for (const [k, v] of Object.entries(state)) model.set(k, v); model.save_changes(); }"
    for (name, what), state in changes.items():
        stage = stages.setdefault(name, None) or stages.update({name: fresh(name)}) or stages[name]
        if state == {"chosen": None}:
            state = {"chosen": stage.widget._tree["key"][3]}
        begun = time.perf_counter()
        stage.page.evaluate(put, state)
        stage.settle()
        say("answer", f"{name}: {what}", time.perf_counter() - begun)


if __name__ == "__main__":
    main()
