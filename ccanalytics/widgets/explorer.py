"""The four views in one, sharing one selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets
import traitlets

from ..tables_of import eager
from .agent_tree import AgentTree
from .base import LIVE_SECONDS, Follower, FrameTrait, Shown, Widget
from .compactions import Compactions
from .conversation import Conversation
from .usage import Usage

VIEWS: dict[str, type[Widget]] = {
    "Usage": Usage, "Compactions": Compactions, "Agents": AgentTree, "Conversation": Conversation
}  # fmt: skip


class Explorer(Shown, ipywidgets.VBox):  # type: ignore[misc]
    """Usage, compactions, agents and conversation of ``t``; what is chosen in one view sets the session of the others.

    Parameters
    ----------
    t
        A loaded object.
    tab
        View shown first: Usage, Compactions, Agents, Conversation.
    live
        Follow a running session.

    Attributes
    ----------
    selection
        Frame of the rows chosen last, in whichever view.
    """

    selection: Any = FrameTrait()
    tab = traitlets.Enum(tuple(VIEWS), "Usage")

    def __init__(self, t: Any, *, tab: str = "Usage", live: bool = False) -> None:
        self.t = t
        self._views: dict[str, Widget] = {}
        self._session = ""
        self._agent = ""
        self._follower: Follower | None = None
        self._buttons = ipywidgets.ToggleButtons(options=list(VIEWS), value=tab, style={"button_width": "auto"})
        super().__init__(selection=eager(t.calls).clear(), tab=tab)
        traitlets.link((self._buttons, "value"), (self, "tab"))
        self._show(None)
        self.observe(self._show, "tab")
        if live:
            self._follower = Follower(t, LIVE_SECONDS)

    def view(self, name: str) -> Widget:
        """The view of that name; made when it is first asked for."""
        if name not in self._views:
            options: dict[str, Any] = {"session": self._session} if self._session and name != "Usage" else {}
            made = VIEWS[name](self.t, **options)
            made.observe(self._chosen, "selection")
            self._views[name] = made
        return self._views[name]

    def _show(self, _: object) -> None:
        shown = self.view(self.tab)
        self._focus(shown)
        self.children = [self._buttons, shown]

    def _chosen(self, change: Any) -> None:
        rows = change["new"]
        self.selection = rows
        if len(rows) and "session_id" in rows.columns:
            # Rows of several sessions: the one that most of them belong to.
            self._session = rows["session_id"].drop_nulls().mode().sort().to_list()[0]
            agents = rows["agent_id"].unique().to_list()
            self._agent = agents[0] or "" if len(agents) == 1 and change["owner"] is self._views.get("Agents") else ""

    def _focus(self, shown: Widget) -> None:
        if not self._session or isinstance(shown, Usage):
            return
        if shown.session != self._session:
            shown.session = self._session
        if isinstance(shown, Conversation) and self._agent:
            shown.agent = self._agent

    def refresh(self) -> None:
        """Show what the tables hold now."""
        for made in self._views.values():
            made.refresh()

    def close(self) -> None:
        """End the widget and its views, and stop following."""
        if self._follower is not None:
            self._follower.stop()
        for made in self._views.values():
            made.close()
        super().close()

    def _about(self) -> str:
        sessions = eager(self.t.sessions)
        return f"{len(sessions):,} sessions, {len(eager(self.t.calls)):,} calls"

    def _still(self) -> tuple[Callable[..., Any] | None, Sequence[str], Sequence[Sequence[object]]]:
        return self.view(self.tab)._still()
