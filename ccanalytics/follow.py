"""Running sessions, followed: what is appended is read, and nothing else."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .find import PathLike
from .load import load
from .transcripts import Transcripts

INTERVAL_S = 1.0


def follow(
    path: PathLike | Sequence[PathLike] | None = None, *, interval: float = INTERVAL_S, **options: Any
) -> Iterator[Transcripts]:
    """Transcripts now, and again each time something was appended; the same object, refreshed.

    Parameters
    ----------
    path, **options
        As for :func:`ccanalytics.load`.
    interval : float
        Seconds between looks at the files.

    Examples
    --------
    >>> import ccanalytics as cc
    >>> t = next(cc.follow(cc.sample.sample_path(), cache=False))
    >>> len(t.files)
    9
    """
    t = load(path, **options)
    yield t
    while True:
        time.sleep(interval)
        if t.read_on():
            yield t


def follow_report(args: argparse.Namespace) -> int:
    """``report --live``: the report, printed anew when it has changed, until stopped."""
    from .report_command import render
    from .show import write_out
    from .table_command import load_from

    is_terminal = sys.stdout.isatty()
    t = load_from(args)
    is_new = True
    try:
        while True:
            if is_new:
                write_out(_CLEAR if is_terminal else "")
                write_out(render(t, args))
            time.sleep(INTERVAL_S)
            is_new = t.read_on()
    except KeyboardInterrupt:
        return 0


_CLEAR = "\x1b[2J\x1b[H"
