"""The ES modules in a real browser, joined to the real Python widgets: clicking, keys, searching, folding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import ccanalytics as cc
from tests.widgets_data import made_up

from .stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
DARK = {
    "--jp-ui-font-color1": "rgba(255,255,255,0.87)", "--jp-ui-font-color2": "rgba(255,255,255,0.6)",
    "--jp-layout-color1": "#212121", "--jp-layout-color2": "#424242", "--jp-border-color2": "#616161",
    "--jp-brand-color1": "#42a5f5",
}  # fmt: skip


@pytest.fixture(scope="module")
def sample() -> Any:
    return cc.load_sample()


def test_usage_click_key_and_brush(page: Page, sample: Any) -> None:
    w = cc.widgets.Usage(sample)
    stage = Stage(page, w)
    box = page.locator(".cca-box").first
    series, bin_no = box.get_attribute("data-series"), int(box.get_attribute("data-bin") or 0)
    box.click()
    stage.settle()
    assert w.chosen == {"from": bin_no, "to": bin_no, "series": series}
    assert page.locator(".cca-table tbody tr").count() == len(w.selection) > 0
    page.keyboard.press("Escape")
    stage.settle()
    assert len(w.selection) == 0
    page.locator("svg[tabindex]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    stage.settle()
    assert w.chosen == {"from": 0, "to": 0, "series": None}
    chart = page.locator("svg[tabindex]").bounding_box()
    assert chart
    y = chart["y"] + chart["height"] / 2
    page.mouse.move(chart["x"] + chart["width"] * 0.1, y)
    page.mouse.down()
    page.mouse.move(chart["x"] + chart["width"] * 0.5, y)
    page.mouse.up()
    stage.settle()
    assert w.chosen["to"] > w.chosen["from"]
    stage.shot("usage")


def test_usage_measure_group_and_dates_are_those_of_the_page(page: Page, sample: Any) -> None:
    w = cc.widgets.Usage(sample)
    stage = Stage(page, w)
    page.get_by_label("measure", exact=True).select_option("tokens")
    page.get_by_label("by", exact=True).select_option("kind")
    page.get_by_label("since").fill("2026-11-05")
    stage.settle()
    assert (w.measure, w.by, w.since) == ("tokens", "kind", "2026-11-05")
    assert page.locator(".cca-key").all_inner_texts()[0] in ("uncached input", "output")
    w.by = "model"
    stage.push()
    assert page.get_by_label("by", exact=True).input_value() == "model"


def test_compactions_click_a_boundary(page: Page, sample: Any) -> None:
    w = cc.widgets.Compactions(sample)
    stage = Stage(page, w)
    page.locator(".cca-boundary .cca-catch").last.click()
    stage.settle()
    assert w.selection["entry_id"].to_list() == [w.view["boundaries"][-1]["id"]]
    assert "This session is being continued" in page.locator(".cca-text").first.inner_text()
    page.locator("summary", has_text="dropped").click()
    page.locator(".cca-lines li").first.wait_for()
    stage.shot("compactions")
    page.locator(".cca-boundary").first.focus()
    page.keyboard.press("Enter")
    stage.settle()
    assert w.selection["entry_id"].to_list() == [w.view["boundaries"][0]["id"]]


def test_agent_tree_choose_fold_and_sort(page: Page, sample: Any) -> None:
    w = cc.widgets.AgentTree(sample)
    stage = Stage(page, w)
    page.locator(".cca-list .cca-row", has_text="Move the parser").click()
    stage.settle()
    assert w.selection["description"].to_list() == ["Move the parser"]
    stage.shot("agent_tree")
    n = page.locator(".cca-list .cca-row").count()
    page.locator(".cca-toggle").first.click()
    stage.settle()
    assert page.locator(".cca-list .cca-row").count() == 1 < n
    page.get_by_label("agent runs").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    stage.settle()
    assert page.locator(".cca-list .cca-row").count() == n
    page.get_by_label("sort by").select_option("own cost")
    stage.settle()
    assert w.sort == "own cost"


def test_conversation_is_fluent_with_twenty_thousand_lines(page: Page) -> None:
    t = made_up()
    w = cc.widgets.Conversation(t)
    stage = Stage(page, w)
    page.locator(".cca-line", has_text="a line 0").wait_for()
    t.n_raw = 0
    took = page.evaluate(
        """async () => {
          const list = document.querySelector(".cca-list"), begun = performance.now();
          list.scrollTop = list.scrollHeight;
          while (!list.textContent.includes("a line 19999")) await new Promise(requestAnimationFrame);
          return performance.now() - begun;
        }"""
    )
    assert t.n_raw < 100
    assert page.locator(".cca-list .cca-row").count() < 30
    page.locator(".cca-line", has_text="a line 19999").click()
    stage.settle()
    assert w.selection["entry_id"].to_list() == [19_999]
    assert took < 5_000


def test_conversation_search_kinds_raw_and_keys(page: Page, sample: Any) -> None:
    w = cc.widgets.Conversation(sample)
    stage = Stage(page, w)
    page.locator(".cca-line").first.wait_for()
    page.get_by_label("lines of the conversation").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    stage.settle()
    assert len(w.selection) == 1
    page.locator("summary", has_text="raw JSON").click()
    page.locator("pre", has_text='"sessionId"').wait_for()
    stage.shot("conversation")
    page.get_by_label("tool result").uncheck()
    stage.settle()
    assert "tool result" not in w.kinds
    page.get_by_label("search", exact=True).fill("zzz-not-there")
    page.keyboard.press("Enter")
    stage.settle()
    assert page.locator(".cca-about").inner_text().startswith("0 of")
    w.search, w.kinds, w.mode = "", [], "resume"
    stage.push()
    stage.settle()
    assert page.locator(".cca-about").inner_text() == f"{w.view['total']:,} of {w.view['total']:,} lines"


@pytest.mark.parametrize("name", ["Usage", "Compactions", "AgentTree", "Conversation"])
def test_a_dark_page_has_light_text_on_dark(page: Page, name: str, sample: Any) -> None:
    stage = Stage(page, getattr(cc.widgets, name)(sample), theme=DARK)
    stage.settle()
    stage.shot(f"{name.lower()}_dark")
    colors = page.evaluate(
        "() => { const s = getComputedStyle(document.querySelector('.cca')); return [s.color, s.backgroundColor]; }"
    )
    assert colors == ["rgba(255, 255, 255, 0.87)", "rgb(33, 33, 33)"]


def test_without_jupyter_the_page_follows_the_system(page: Page, sample: Any) -> None:
    page.emulate_media(color_scheme="dark")
    stage = Stage(page, cc.widgets.Usage(sample))
    stage.settle()
    assert page.evaluate("() => getComputedStyle(document.querySelector('.cca')).backgroundColor") == "rgb(22, 22, 22)"


def test_everything_to_press_can_be_reached_with_tab(page: Page, sample: Any) -> None:
    stage = Stage(page, cc.widgets.Compactions(sample))
    stage.settle()
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.tagName + (document.activeElement.dataset.id || '')"))
    ids = {str(b["id"]) for b in stage.widget.view["boundaries"]}
    assert {"SELECT", *(f"g{i}" for i in ids), *(f"BUTTON{i}" for i in ids)} <= reached


def test_a_view_that_is_taken_away_stops_listening(page: Page, sample: Any) -> None:
    w = cc.widgets.Usage(sample)
    stage = Stage(page, w)
    page.evaluate("() => window.stop()")
    w.by = "project"
    stage.push()
    assert page.locator(".cca-key").all_inner_texts() != [s["name"] for s in w.view["series"]][::-1]
    assert isinstance(w.selection, pl.DataFrame)
