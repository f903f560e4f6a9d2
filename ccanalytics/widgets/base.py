"""What all widgets share: their source, questions from the page, the selection, following, and the still picture."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import date
from importlib import resources
from typing import Any, ClassVar

import anywidget
import polars as pl
import traitlets

from ..errors import CCAnalyticsError, UsageError
from ..tables_of import eager
from .still import still_html

LIVE_SECONDS = 2.0


def source(*names: str) -> str:
    """Shared helpers and one widget's module as one ES module: nothing is fetched from anywhere."""
    folder = resources.files(__package__) / "js"
    return "\n".join((folder / f"{name}.js").read_text("utf-8") for name in ("shared", *names))


def style() -> str:
    """The style sheet of all widgets."""
    return (resources.files(__package__) / "js" / "widgets.css").read_text("utf-8")


class FrameTrait(traitlets.TraitType[pl.DataFrame, pl.DataFrame]):  # type: ignore[misc]
    """A polars frame; every assignment counts as a change, frames are not compared."""

    info_text = "a polars DataFrame"

    def validate(self, obj: Any, value: Any) -> pl.DataFrame:
        """The value, if it is a frame."""
        if isinstance(value, pl.DataFrame):
            return value
        self.error(obj, value)
        raise AssertionError("error() raises")

    def set(self, obj: Any, value: Any) -> None:
        """Assign and tell whoever observes, without comparing."""
        new = self._validate(obj, value)
        old = obj._trait_values.get(self.name, self.default_value)
        obj._trait_values[self.name] = new
        obj._notify_trait(self.name, old, new)


class Day(traitlets.Unicode[str, str]):  # type: ignore[misc]
    """A day as ``2026-03-01``; empty for none."""

    def validate(self, obj: Any, value: Any) -> str:
        """The day in its usual form."""
        del obj
        text = str(value).strip()
        try:
            return date.fromisoformat(text).isoformat() if text else ""
        except ValueError:
            raise traitlets.TraitError(f"{self.name} is {text!r}; use a day like 2026-03-01") from None


class Shown:
    """How a widget shows itself: live where a front end runs, a still picture and a table everywhere else."""

    def _ipython_display_(self) -> None:
        from IPython.display import display, publish_display_data

        # The view and its stand-in are outputs of their own. A front end that draws the view hides the stand-in; one
        # that cannot (a trusted notebook without the widget's state) says so and shows it.
        bundle = self._repr_mimebundle_()  # type: ignore[attr-defined]
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        live = {k: v for k, v in (data or {}).items() if k != "text/html"}
        publish_display_data({"text/plain": repr(self), **live}, metadata)
        display({"text/html": self._repr_html_(), "text/plain": ""}, raw=True)

    def _repr_html_(self) -> str:
        return still_html(repr(self), *self._still())

    def _still(self) -> tuple[Callable[..., Any] | None, Sequence[str], Sequence[Sequence[object]]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._about()})"

    def _about(self) -> str:
        raise NotImplementedError


class Widget(Shown, anywidget.AnyWidget):  # type: ignore[misc]
    """One view of a loaded object.

    ``selection`` is the frame of the rows chosen (no rows when nothing is). ``refresh()`` shows what the tables hold
    now; with ``live=True`` the widget reads what was appended every two seconds until ``close()``.
    """

    view = traitlets.Dict().tag(sync=True)
    """What the page draws."""
    detail = traitlets.Dict().tag(sync=True)
    """What the page shows of the selection."""
    selection: Any = FrameTrait()

    reactions: ClassVar[dict[str, list[str]]]
    """Methods to call when one of these traits changes, from the page or from Python."""
    table: ClassVar[str]
    """Name of the table that the selection has rows of."""

    def __init__(self, t: Any, *, live: bool = False, **options: Any) -> None:
        self.t = t
        self._follower: Follower | None = None
        super().__init__(selection=eager(getattr(t, self.table)).clear(), **options)
        self._start()
        watch(t, self)
        self.on_msg(self._answer)
        for reaction, names in self.reactions.items():
            self.observe(getattr(self, reaction), names)
        if live:
            self.follow()

    def _start(self) -> None:
        """Compute what is shown and observe what the page changes."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Show what the tables hold now (after ``t.refresh()``)."""
        self._start()

    def follow(self, seconds: float = LIVE_SECONDS) -> None:
        """Read what is appended to the transcripts every so many seconds, until ``close()``."""
        if self._follower is None:
            self._follower = Follower(self.t, seconds)

    def close(self) -> None:
        """End the widget, and stop following."""
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        getattr(self.t, "watchers", set()).discard(self)
        super().close()

    def _answer(self, _: Any, question: Any, buffers: Any = None) -> None:
        """Answer a question of the page by the method ``_on_<what>``; the page waits for the same ``id``."""
        del buffers
        if not isinstance(question, dict) or not isinstance(what := question.get("ask"), str):
            return
        handler = getattr(self, f"_on_{what}", None) if what.isidentifier() else None
        if handler is None or what not in self.questions:
            return
        self.send({"answer": question.get("id"), "data": handler(question)})

    questions: ClassVar[frozenset[str]] = frozenset()
    """What the page may ask."""


def watch(t: Any, widget: Any) -> None:
    """Have the widget told when ``t`` reads something new (an object made of Parquet never does)."""
    if hasattr(t, "watchers"):
        t.watchers.add(widget)


class Follower:
    """Refreshes transcripts every so many seconds: on the kernel's loop where there is one, else in a thread.

    Reading tells every widget that shows these transcripts.
    """

    def __init__(self, t: Any, seconds: float) -> None:
        if not hasattr(t, "refresh"):
            raise UsageError("what was read from Parquet does not grow; live=True follows what cc.load() gave")
        t.refresh()
        self._t, self._seconds = t, seconds
        self._stopped = threading.Event()
        try:
            self._task: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(self._in_loop())
        except RuntimeError:
            self._task = None
            threading.Thread(target=self._in_thread, daemon=True, name="ccanalytics-follow").start()

    async def _in_loop(self) -> None:
        while not self._stopped.is_set():
            await asyncio.sleep(self._seconds)
            self._read()

    def _in_thread(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._read()

    def _read(self) -> None:
        try:
            self._t.refresh()
        except CCAnalyticsError:
            # A file that is being replaced cannot be read for a moment; the next round finds it again.
            return

    def stop(self) -> None:
        """No more calls after this one."""
        self._stopped.set()
        if self._task is not None:
            self._task.cancel()


def int_of(question: dict[str, Any], name: str, default: int = 0) -> int:
    """A whole number the page sent; ``default`` when it is none."""
    value = question.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
