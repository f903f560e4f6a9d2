"""The HTML report in a real browser: what transcripts say is shown as written, and nothing in it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ccanalytics as cc
from tests.exercise import report_text
from tests.payloads import ENTITY, MARKUP, PAYLOADS, write_hostile

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
SCRIPT = "javascript:window.hacked=1//</title></style>"
ALL = " ".join((MARKUP, PAYLOADS["image"], ENTITY, PAYLOADS["markdown"], SCRIPT))


def test_se02_se03_hostile_text_is_shown_and_does_not_run(page: Page, tmp_path: Path) -> None:
    t = cc.load(write_hostile(tmp_path / "config", ALL))
    path = tmp_path / "report.html"
    path.write_text(report_text(t, "html", "session,model,project,branch,version,entrypoint"), encoding="utf-8")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.goto(path.as_uri())
    assert page.evaluate("window.hacked") is None
    assert page.locator(".payload, script, img, svg, a, iframe, form").count() == 0
    assert dialogs == []
    cells = page.locator("td").all_inner_texts()
    assert any(MARKUP in c and "a &lt;b&gt; & c" in c for c in cells)


def test_the_report_of_the_sample_is_one_readable_table(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_text(cc.load_sample(), "html", "model"), encoding="utf-8")
    page.goto(path.as_uri())
    assert page.locator("table").count() == 1
    assert page.locator("tr").count() > 3
    assert page.title()
    # A page is read on its own: it must fit without a script and without another file.
    assert page.evaluate("document.scripts.length + document.styleSheets.length") == 0
