"""Widgets: look, click, and have the rows in a frame.

Every widget takes a loaded object and has ``.selection``, a frame of the rows chosen, which can be observed::

    w = cc.widgets.Usage(t)
    w.observe(lambda change: print(len(change["new"])), "selection")

They work offline in JupyterLab, Notebook 7 and VS Code; where no front end runs they show a picture and a table.
"""

from __future__ import annotations

from typing import Any

from ..errors import MissingExtraError

try:
    import anywidget as _anywidget
except ModuleNotFoundError as e:
    raise MissingExtraError("widgets need anywidget: pip install 'ccanalytics[notebook]'", extra="notebook") from e

from .agent_tree import AgentTree
from .compactions import Compactions
from .conversation import Conversation
from .explorer import Explorer
from .usage import Usage

__all__ = ["AgentTree", "Compactions", "Conversation", "Explorer", "Usage", "explore"]

del _anywidget


def explore(t: Any = None, **options: Any) -> Explorer:
    """All views of ``t`` in one widget; without ``t``, of your own history (options are those of ``cc.load``).

    >>> import ccanalytics as cc
    >>> cc.explore(cc.load_sample())
    Explorer(10 sessions, 90 calls)
    """
    if t is None:
        from ..load import load

        t = load(**options)
        options = {}
    return Explorer(t, **options)
