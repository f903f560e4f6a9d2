"""Draw the pictures of README and docs from the sample: figures with matplotlib, widgets in headless Chromium.

    python docs/make_pictures.py

Run it from the repository with the development packages installed; it writes ``docs/img/*.png``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import ccanalytics as cc  # noqa: E402
from tests.browser.conftest import FLAGS, NAMES  # noqa: E402
from tests.browser.stage import Stage  # noqa: E402
from tests.browser.test_modules import DARK  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = ROOT / "docs" / "img"


def main() -> None:
    """Write all pictures."""
    mpl.use("Agg")
    FOLDER.mkdir(exist_ok=True)
    t = cc.load_sample()
    figures(t)
    widgets(t)
    explorer()


def figures(t: Any) -> None:
    """The figures."""
    import matplotlib.pyplot as plt

    rewound = t.chains.filter(off_reason="abandoned")["session_id"][0]
    drawn: dict[str, Callable[[], Any]] = {
        "usage": lambda: cc.plot.usage(t, by="model"),
        "kinds": lambda: cc.plot.usage(t, measure="tokens", by="kind"),
        "context": lambda: cc.plot.context(t),
        "agents": lambda: cc.plot.agents(t),
        "icicle": lambda: cc.plot.icicle(t),
        "tools": lambda: cc.plot.tools(t),
        "branches": lambda: cc.plot.branches(t, rewound),
        "sessions": lambda: cc.plot.cost(t),
        "calendar": lambda: cc.plot.calendar(t),
        "blocks": lambda: cc.plot.blocks(t),
    }
    for name, draw in drawn.items():
        path = FOLDER / f"figure_{name}.png"
        draw().figure.savefig(path, dpi=100, bbox_inches="tight", pad_inches=0.08)
        plt.close("all")
        shrink(path)


def widgets(t: Any) -> None:
    """The widgets, with something chosen in each; the conversation in the dark too."""
    clicks = {
        "Usage": ".cca-box[data-bin='3']",
        "Compactions": ".cca-buttons button:last-child",
        "AgentTree": ".cca-list .cca-row:has-text('Move the parser')",
        "Conversation": ".cca-list .cca-row:has-text('tool call')",
    }
    with page_maker() as new_page:
        for name, target in clicks.items():
            for theme in ("light", "dark") if name == "Conversation" else ("light",):
                stage = Stage(new_page(), getattr(cc.widgets, name)(t), theme=DARK if theme == "dark" else {})
                stage.settle()
                stage.page.locator(target).first.click()
                stage.settle()
                stage.page.mouse.move(0, 0)
                save(stage.page, name.lower() + ("_dark" if theme == "dark" else ""))


@contextmanager
def page_maker() -> Iterator[Callable[[], Page]]:
    """A function that opens an empty page."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise SystemExit("no Chromium was found; install it, or draw the figures alone")
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=path, args=FLAGS)
        yield lambda: browser.new_page(viewport={"width": 1000, "height": 700})
        browser.close()


def explorer() -> None:
    """The explorer in JupyterLab, as the end-to-end test left it."""
    shot = ROOT / "tests" / "artifacts" / "lab_explorer.png"
    if shot.exists():
        shutil.copy(shot, FOLDER / "widget_explorer.png")
        shrink(FOLDER / "widget_explorer.png")


def save(page: Page, name: str) -> None:
    """A picture of the widget alone."""
    path = FOLDER / f"widget_{name}.png"
    page.locator(".cca").screenshot(path=path)
    shrink(path)


def shrink(path: Path) -> None:
    """The same picture in fewer bytes; fewer colours would change those of small legends."""
    Image.open(path).convert("RGB").save(path, optimize=True)


if __name__ == "__main__":
    main()
