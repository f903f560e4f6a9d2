"""Markup, script and control characters in every field of a transcript stay text: in widgets and in stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ccanalytics as cc
from tests.build import assistant as said
from tests.build import (
    attachment,
    boundary,
    chain,
    compact_summary,
    meta,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    usage,
    user,
    write_agent,
    write_session,
)

from .stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PAYLOADS = (
    "<script>window.hacked = 1</script><b class=payload>x</b>",
    "<img class=payload src=x onerror='window.hacked = 1'>",
    '"><svg class=payload onload=window.hacked=1>',
    "javascript:window.hacked=1//</textarea></style></script><i class=payload>",
    "a &lt;b&gt; & c \x1b[31m \u202e $x^2$ ```",
)
ALL = " ".join(PAYLOADS)
WIDGETS = ["Usage", "Compactions", "AgentTree", "Conversation", "Explorer"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A session with an agent, a compaction and tools, every field of free text a payload."""
    config = tmp_path_factory.mktemp("hostile")
    spot = {"gitBranch": ALL, "version": ALL, "entrypoint": ALL, "slug": ALL}
    lines = chain(
        user("u1", ALL, **spot),
        said("a1", [text(ALL), thinking(ALL)], model=ALL, usage=usage(input=9000, read=8000), **spot),
        tool_use("a2", ALL, {"command": ALL, "file_path": ALL, ALL: ALL}, call="t1"),
        tool_result("r1", "t1", ALL, is_error=True, toolUseResult={"filePath": ALL, "status": ALL}),
        tool_use("a3", "Agent", {"subagent_type": ALL, "description": ALL, "prompt": ALL}, call="t2"),
        tool_result("r2", "t2", ALL, toolUseResult={"agentId": "a1", "agentType": ALL, "status": "completed"}),
        system("s1", ALL, content=ALL),
        attachment("x1", ALL, {"content": ALL, "hookName": ALL}),
        boundary("b1", logical="x1", trigger=ALL, pre_tokens=9000),
        compact_summary("c1", ALL),
        said("a4", ALL, usage=usage(input=10)),
        meta("custom-title", customTitle=ALL),
        meta("tag", tag=ALL),
        cwd="/home/" + ALL,
    )
    write_session(config, lines)
    run = chain(user("p1", ALL), said("q1", ALL, model=ALL), agent="a1")
    write_agent(config, "a1", run, meta={"agentType": ALL, "description": ALL, "name": ALL, "toolUseId": "toolu_t2"})
    return cc.load(config, cache=False)


def is_clean(page: Page) -> bool:
    return bool(page.evaluate("() => window.hacked === undefined && !document.querySelector('.payload, img[src=x]')"))


@pytest.mark.parametrize("name", WIDGETS[:4])
def test_se02_se03_payloads_in_a_widget_are_shown_as_text(page: Page, hostile: Any, name: str) -> None:
    w = getattr(cc.widgets, name)(hostile)
    stage = Stage(page, w)
    stage.settle()
    for target in (".cca-key", ".cca-buttons button", ".cca-list .cca-row"):
        for i in range(min(page.locator(target).count(), 8)):
            # Rows are drawn anew at every change: a click that waits for them to stand still may lose them.
            click = "([css, i]) => document.querySelectorAll(css)[i].dispatchEvent(new MouseEvent('click', BUBBLES))"
            click = click.replace("BUBBLES", "{ bubbles: true }")
            page.evaluate(click, [target, i])
            stage.settle()
            page.evaluate("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            stage.settle()
            assert is_clean(page)
    if name != "Usage":
        assert "<script>window.hacked = 1</script>" in page.locator(".cca").inner_text()
    if name == "Conversation":
        assert "a &lt;b&gt; & c" in page.locator(".cca").inner_text()


@pytest.mark.parametrize("name", WIDGETS)
def test_se02_payloads_in_a_stand_in_are_shown_as_text(page: Page, hostile: Any, name: str) -> None:
    w = getattr(cc.widgets, name)(hostile)
    page.set_content(w._repr_html_())
    assert is_clean(page)
    assert page.locator("img").count() == 1
    assert page.locator("img").evaluate("(img) => img.decode().then(() => img.naturalWidth)") > 300


def test_the_payloads_would_do_harm_as_markup(page: Page) -> None:
    page.evaluate("(html) => { document.body.innerHTML = html; }", json.dumps(ALL).replace("src=x", "src=data:,"))
    assert not is_clean(page)


def test_se07_a_tool_call_without_input_is_drawn(page: Page, tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash"}
    write_session(tmp_path, chain(user("u1", "```\n``` ````"), said("a1", [call]), said("a2", [{"type": "text"}])))
    t = cc.load(tmp_path, cache=False)
    w = cc.widgets.Conversation(t)
    stage = Stage(page, w)
    stage.settle()
    page.locator(".cca-row").nth(1).click()
    stage.settle()
    assert page.locator(".cca-words").inner_text().strip() == "Bash"
