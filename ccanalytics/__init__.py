"""Your Claude Code history as data frames.

Exact conversations, exact cost, pictures you can click, Parquet you can keep.

>>> import ccanalytics as cc
>>> t = cc.load_sample()
>>> sorted(t.files["kind"].unique())
['agent', 'session']
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are found on first use, so that `import ccanalytics` loads neither matplotlib nor ipywidgets nor dask.
_WHERE = {
    "load": "load",
    "load_sample": "sample",
    "follow": "follow",
    "Transcripts": "transcripts",
    "scan_parquet": "parquet",
    "list_sessions": "listing",
    "read_history": "history",
    "prices": "prices",
    "find_files": "find",
    "project_slug": "projects",
    "project_of": "projects",
    "TranscriptWriter": "write.writer",
    "Recorder": "write.recorder",
    "remove_entry": "write.remove",
    "append_history": "write.prompt_log",
    "doctor": "write.doctor",
    "repair": "write.repair",
    "redact": "write.redact",
    "explore": "widgets",
    "stable": "testing",
    "compare": "testing",
    "expect": "testing",
}
_MODULES = {"errors", "schema", "plot", "widgets", "testing"}

__all__ = ["__version__", "errors", "schema", *_WHERE]

if TYPE_CHECKING:
    from . import errors as errors
    from . import schema as schema
    from .find import find_files as find_files
    from .follow import follow as follow
    from .history import read_history as read_history
    from .listing import list_sessions as list_sessions
    from .load import load as load
    from .parquet import scan_parquet as scan_parquet
    from .prices import prices as prices
    from .projects import project_of as project_of
    from .projects import project_slug as project_slug
    from .sample import load_sample as load_sample
    from .testing import compare as compare
    from .testing import expect as expect
    from .testing import stable as stable
    from .transcripts import Transcripts as Transcripts
    from .widgets import explore as explore
    from .write.doctor import doctor as doctor
    from .write.prompt_log import append_history as append_history
    from .write.recorder import Recorder as Recorder
    from .write.redact import redact as redact
    from .write.remove import remove_entry as remove_entry
    from .write.repair import repair as repair
    from .write.writer import TranscriptWriter as TranscriptWriter


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
    # Submodules and imports stay out of what completion offers.
    return sorted({*__all__, *_MODULES, *(n for n in globals() if n.startswith("__"))})


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # Whoever imports the submodule `load` first would otherwise put it in place of the function `load`.
        if not (name in _WHERE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
