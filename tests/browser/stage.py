"""A widget's ES module in a page, its model joined to the real Python widget without a kernel between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page, Request

ARTIFACTS = Path(__file__).resolve().parent.parent / "artifacts"

MODEL = r"""
async (start) => {
  const { esm, css, state, theme } = JSON.parse(start);
  class Model {
    constructor(state) {
      this.state = state; this.handlers = new Map(); this.changed = {}; this.queue = Promise.resolve();
    }
    get(name) { return this.state[name]; }
    set(name, value) { this.state[name] = value; this.changed[name] = value; this.fire(`change:${name}`); }
    save_changes() { const state = this.changed; this.changed = {}; this.tell({ state }); }
    send(message) { this.tell({ message }); }
    tell(what) { this.queue = this.queue.then(async () => this.take(JSON.parse(await window.toPython(what)))); }
    take({ state, messages }) {
      Object.assign(this.state, state);
      for (const name of Object.keys(state)) this.fire(`change:${name}`);
      for (const message of messages) this.fire("msg:custom", message);
    }
    on(name, handler) { this.handlers.set(name, [...(this.handlers.get(name) || []), handler]); }
    off(name, handler) { this.handlers.set(name, (this.handlers.get(name) || []).filter((h) => h !== handler)); }
    fire(name, value) { for (const handler of this.handlers.get(name) || []) handler(value); }
  }
  const sheet = document.createElement("style");
  sheet.textContent = css;
  document.head.append(sheet);
  for (const [name, value] of Object.entries(theme)) document.documentElement.style.setProperty(name, value);
  const module = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
  const el = document.createElement("div");
  document.body.append(el);
  window.model = new Model(state);
  window.stop = module.default.render({ model: window.model, el });
}
"""


class Watch:
    """Errors of a page, and requests it made to another host."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.strangers: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._said)
        page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _asked(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("http", "https", "ws", "wss") and url.hostname not in ("127.0.0.1", "localhost"):
            self.strangers.append(request.url)


class Stage:
    """``Stage(page, widget)`` draws the widget; what is done on the page reaches it and its answers come back."""

    def __init__(self, page: Page, widget: Any, *, theme: dict[str, str] | None = None) -> None:
        self.page, self.widget = page, widget
        self._messages: list[Any] = []
        widget.send = lambda content, buffers=None: self._messages.append(content)
        self._known = self._state()
        page.set_content("<!doctype html><title>stage</title><body></body>")
        page.expose_function("toPython", self._take)
        start = {"esm": widget._esm, "css": widget._css, "state": self._known, "theme": theme or {}}
        page.evaluate(MODEL, json.dumps(start, default=str))

    def _state(self) -> dict[str, Any]:
        keys = [k for k in self.widget.keys if not k.startswith("_") and k not in ("layout", "tabbable", "tooltip")]
        return dict(self.widget.get_state(keys))

    def _take(self, what: dict[str, Any]) -> str:
        if "state" in what:
            self.widget.set_state(what["state"])
            self._known |= what["state"]
        else:
            self.widget._answer(self.widget, what["message"], [])
        return json.dumps(self._news())

    def _news(self) -> dict[str, Any]:
        now = self._state()
        news = {k: v for k, v in now.items() if v != self._known.get(k)}
        self._known = now
        messages, self._messages = self._messages, []
        return {"state": news, "messages": messages}

    def push(self) -> None:
        """Tell the page what Python changed."""
        self.page.evaluate("(news) => window.model.take(news)", self._news())

    def settle(self) -> None:
        """Wait until everything the page said has been answered and drawn."""
        self.page.evaluate("async () => { await window.model.queue; await new Promise(requestAnimationFrame); }")
        self.page.evaluate("async () => { await window.model.queue; await new Promise(requestAnimationFrame); }")

    def shot(self, name: str) -> Path:
        """A picture of the page in the folder of artifacts."""
        ARTIFACTS.mkdir(exist_ok=True)
        path = ARTIFACTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path
