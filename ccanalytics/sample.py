"""The bundled sample: small transcripts made for this project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import NotFoundError
from .load import load
from .transcripts import Transcripts


def sample_path() -> Path:
    """Folder of the bundled sample, a Claude Code configuration folder."""
    here = Path(__file__).resolve().parent
    for folder in (here / "data" / "sample", here.parent / "data" / "sample"):
        if (folder / "projects").is_dir():
            return folder
    raise NotFoundError("the bundled sample is not part of this installation; install ccanalytics again")


def load_sample(**options: Any) -> Transcripts:
    """The bundled sample as frames; takes the options of :func:`ccanalytics.load`."""
    return load(sample_path(), **options)
