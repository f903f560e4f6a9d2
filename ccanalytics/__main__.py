"""The command line's front door: answers ``--version`` and ``--help`` without loading a data frame library."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    args = sys.argv[1:] if argv is None else argv
    if args[:1] in (["--version"], ["-V"]):
        from . import __version__

        sys.stdout.write(f"ccanalytics {__version__}\n")
        return 0
    from .cli import run

    return run(args)


if __name__ == "__main__":
    sys.exit(main())
