"""End to end in a real JupyterLab: run all, click in each widget, see what Python has chosen, in light and dark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ccanalytics as cc

from .lab import environment, running_lab, write_notebook
from .stage import ARTIFACTS, Watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

COMMITTED = Path(__file__).resolve().parent.parent.parent / "notebooks" / "03_where_did_the_context_go.ipynb"
OPENED = """() => {
  const panel = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  return Boolean(panel && panel.content && panel.content.widgets && panel.content.widgets.length > 5);
}"""
HEAD = """
import ccanalytics as cc
t = cc.load_sample()

def watched(w, name):
    from pathlib import Path
    def write(change):
        rows = change["new"]
        Path(f"{name}.txt").write_text(f"{len(rows)} {rows.columns[0]}")
    w.observe(write, "selection")
    return w
"""
CELLS = [HEAD] + [
    f'watched(cc.widgets.{name}(t), "{name}")'
    for name in ("Usage", "Compactions", "AgentTree", "Conversation", "Explorer")
]
READY = """() => {
  const panel = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  const kernel = panel && panel.sessionContext && panel.sessionContext.session && panel.sessionContext.session.kernel;
  return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
IS_DARK = """() => {
  const color = getComputedStyle(document.querySelector('.cca')).backgroundColor;
  return color.match(/\\d+/g).slice(0, 3).every((c) => Number(c) < 80);
}"""
COMMAND = "([name, args]) => { window.jupyterapp.commands.execute(name, args); }"


@pytest.fixture(scope="module")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("lab")
    write_notebook(folder / "notebooks" / "widgets.ipynb", CELLS)
    with running_lab(folder) as url:
        yield url, folder / "notebooks"


def chosen(folder: Path, name: str, page: Page, action: object) -> str:
    """What Python wrote of its selection after an action on the page."""
    path = folder / f"{name}.txt"
    path.unlink(missing_ok=True)
    assert callable(action)
    action()
    for _ in range(600):
        if path.is_file() and path.read_text():
            return path.read_text()
        page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => done(true)))")
    raise AssertionError(f"{name}: Python's selection did not change")


def test_every_widget_works_in_jupyterlab(lab: tuple[str, Path], browser: Browser) -> None:
    from playwright.sync_api import expect

    url, folder = lab
    context = browser.new_context(viewport={"width": 1250, "height": 1000}, color_scheme="light")
    context.set_default_timeout(120_000)
    page = context.new_page()
    watch = Watch(page)
    page.goto(f"{url}/lab/tree/widgets.ipynb?reset")
    page.wait_for_function(READY)
    page.evaluate(COMMAND, ["notebook:run-all-cells", {}])
    widgets = page.locator(".jp-OutputArea .cca")
    expect(widgets).to_have_count(5)
    page.wait_for_function(READY)

    def at(i: int) -> Locator:
        found = widgets.nth(i)
        found.scroll_into_view_if_needed()
        return found

    usage = at(0)
    expect(page.locator(".ccanalytics-still").first).to_be_hidden()
    usage.locator(".cca-box").first.wait_for()
    assert chosen(folder, "Usage", page, usage.locator(".cca-box").first.click) == f"{behind_first_box()} call_id"
    shot(page, usage, "lab_usage")

    compactions = at(1)
    assert chosen(folder, "Compactions", page, compactions.locator(".cca-buttons button").first.click) == "1 entry_id"
    shot(page, compactions, "lab_compactions")

    tree = at(2)
    row = tree.locator(".cca-row", has_text="Move the parser")
    row.wait_for()
    assert chosen(folder, "AgentTree", page, row.click) == "1 session_id"
    shot(page, tree, "lab_agent_tree")

    conversation = at(3)
    line = conversation.locator(".cca-line").nth(1)
    line.wait_for()
    assert chosen(folder, "Conversation", page, line.click) == "1 entry_id"
    shot(page, conversation, "lab_conversation")

    explorer = at(4)
    explorer.locator(".cca-box").first.wait_for()
    assert chosen(folder, "Explorer", page, explorer.locator(".cca-box").first.click) == f"{behind_first_box()} call_id"
    page.get_by_role("button", name="Agents", exact=True).click()
    expect(page.locator(".cca[aria-label='Agent tree']")).to_have_count(2)
    page.get_by_role("button", name="Usage", exact=True).click()
    explorer.locator(".cca-box.cca-pale").first.wait_for()
    shot(page, page.locator(".jp-OutputArea").last, "lab_explorer")

    page.evaluate(COMMAND, ["apputils:change-theme", {"theme": "JupyterLab Dark"}])
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    page.wait_for_function(IS_DARK)
    shot(page, at(0), "lab_usage_dark")
    shot(page, at(3), "lab_conversation_dark")

    assert watch.errors == []
    assert watch.strangers == []
    context.close()


@pytest.mark.parametrize("is_trusted", [False, True], ids=["untrusted", "trusted"])
def test_a_committed_notebook_shows_the_stand_ins_before_it_is_run(
    lab: tuple[str, Path], browser: Browser, is_trusted: bool
) -> None:
    from playwright.sync_api import expect

    url, folder = lab
    name = f"committed_{is_trusted}.ipynb"
    shutil.copy(COMMITTED, folder / name)
    if is_trusted:
        command = [sys.executable, "-m", "jupyter", "trust", str(folder / name)]
        subprocess.run(command, env=environment(folder.parent), check=True, capture_output=True)
    context = browser.new_context(viewport={"width": 1250, "height": 1000})
    context.set_default_timeout(120_000)
    page = context.new_page()
    watch = Watch(page)
    page.goto(f"{url}/lab/tree/{name}?reset")
    page.wait_for_function(OPENED)
    picture = page.locator(".ccanalytics-still img")
    picture.scroll_into_view_if_needed()
    expect(picture).to_be_visible()
    assert picture.evaluate("(img) => img.naturalWidth") > 300
    expect(page.locator(".ccanalytics-still table")).to_be_visible()
    shot(page, page.locator(".jp-OutputArea", has=picture), f"lab_committed_{is_trusted}")
    assert watch.strangers == []
    context.close()


def behind_first_box() -> int:
    """Calls behind the first box drawn: of the largest series, in the first bin that has some."""
    w = cc.widgets.Usage(cc.load_sample())
    series = w.view["series"][0]
    first = next(i for i, value in enumerate(series["values"]) if value > 0)
    w.chosen = {"from": first, "to": first, "series": series["key"]}
    return len(w.selection)


def shot(page: Page, what: Locator, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    what.scroll_into_view_if_needed()
    what.screenshot(path=ARTIFACTS / f"{name}.png")
