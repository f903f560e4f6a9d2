"""One Chromium for all browser tests. Where there is none they are skipped, unless CCANALYTICS_REQUIRE_BROWSER=1."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from .stage import Watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT_MS = 120_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        sentence = f"no Chromium was found ({', '.join(NAMES)})"
        if os.environ.get("CCANALYTICS_REQUIRE_BROWSER") == "1":
            pytest.fail(sentence)
        pytest.skip(sentence)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as tool:
        chromium = tool.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page that is allowed no errors and no requests to other hosts."""
    context = browser.new_context(viewport={"width": 1000, "height": 900}, color_scheme="light")
    context.set_default_timeout(TIMEOUT_MS)
    opened = context.new_page()
    watch = Watch(opened)
    yield opened
    context.close()
    assert watch.errors == []
    assert watch.strangers == []
