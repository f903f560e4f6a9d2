"""Your Claude Code history as data frames: exact conversations, exact cost, pictures you can click, Parquet you can keep.

>>> import ccanalytics as cc
>>> t = cc.load_sample()
>>> sorted(t.files["kind"].unique())
['agent', 'session']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are found on first use, so that `import ccanalytics` loads neither matplotlib nor ipywidgets nor dask.
_WHERE = {
    "load": "load",
    "load_sample": "sample",
    "Transcripts": "transcripts",
    "list_sessions": "listing",
    "read_history": "history",
    "find_files": "find",
    "project_slug": "projects",
    "project_of": "projects",
}
_MODULES = {"errors", "schema", "plot", "widgets", "testing"}

__all__ = ["__version__", "errors", "schema", *_WHERE]

if TYPE_CHECKING:
    from . import errors, schema
    from .find import find_files
    from .history import read_history
    from .listing import list_sessions
    from .load import load
    from .projects import project_of, project_slug
    from .sample import load_sample
    from .transcripts import Transcripts


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_MODULES})
