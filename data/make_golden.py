"""Write data/golden: every table of the sample as text that reads well in a diff.

    python data/make_golden.py [OUT]

One line per row, one file per table. Columns that are null or the same throughout are named once above; ids are
shortened where that keeps them apart. A test compares; when a change is meant, run this and read the diff.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

import ccanalytics as cc
from ccanalytics.sample import sample_path
from ccanalytics.schema import tables

HERE = Path(__file__).resolve().parent
NOT_FROM_THE_SAMPLE = {"prices"}
NOT_REPRODUCIBLE = {"modified_at"}
"""Columns that say when the files were checked out."""
LAST = ("path", "meta", "detail")
"""Columns of very different length; they stand at the end of a line."""


def main(out: Path) -> None:
    """Write every table below ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.txt"):
        old.unlink()
    for name, frame in frames().items():
        (out / f"{name}.txt").write_text(render(name, frame), encoding="utf-8", newline="\n")


def frames() -> dict[str, pl.DataFrame]:
    """The tables of the sample by name, and some reports."""
    t: Any = cc.load_sample()
    special: dict[str, Callable[[], pl.DataFrame]] = {
        "resume": lambda: t.resume(),
        "session_list": lambda: cc.list_sessions(sample_path()).sort("session_id"),
        "prompt_history": lambda: cc.read_history(sample_path()),
    }
    reports: dict[str, Callable[[], pl.DataFrame]] = {
        "cost_by_day": lambda: t.cost(by=["day"], tz="UTC"),
        "cost_by_project_and_model": lambda: t.cost(by=["project", "model"]),
        "reconcile": lambda: t.reconcile(),
    }
    wanted: dict[str, Callable[[], pl.DataFrame]] = {
        name: special.get(name, partial(getattr, t, name)) for name in tables() if name not in NOT_FROM_THE_SAMPLE
    }
    return {name: make() for name, make in (wanted | reports).items()}


def render(name: str, frame: pl.DataFrame) -> str:
    """A table as text: columns that most rows fill stand in columns, the others behind them as ``name=value``."""
    frame = frame.drop([c for c in frame.columns if c in NOT_REPRODUCIBLE])
    null = [c for c in frame.columns if frame[c].null_count() == frame.height]
    rest = [c for c in frame.columns if c not in null]
    same = [c for c in rest if frame.height > 1 and frame[c].n_unique() == 1]
    cells = {c: short(c, list(map(text, frame[c].to_list()))) for c in rest}
    head = [f"{name}: {frame.height} rows"]
    head += [f"null throughout: {', '.join(null)}"] if null else []
    head += [f"the same throughout: {', '.join(f'{c}={cells[c][0]}' for c in same)}"] if same else []
    often = [c for c in rest if c not in same and c not in LAST and 2 * frame[c].null_count() <= frame.height]
    seldom = [c for c in rest if c not in same and c not in often]
    columns = [padded([c, *cells[c]]) for c in often]
    columns.append(["", *facts({c: cells[c] for c in seldom}, frame.height)])
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join(head) + "\n\n" + "\n".join(lines) + "\n"


def padded(cells: list[str]) -> list[str]:
    """Cells of one width."""
    width = max(map(len, cells))
    return [cell.ljust(width) for cell in cells]


def facts(cells: Mapping[str, list[str]], height: int) -> list[str]:
    """The filled cells of each row with their names."""
    return ["  ".join(f"{c}={values[no]}" for c, values in cells.items() if values[no] != ".") for no in range(height)]


def text(value: object) -> str:
    """A value in few characters; null is a dot."""
    match value:
        case None:
            return "."
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6f}".rstrip("0").rstrip(".")
        case datetime():
            return f"{value:%m-%d %H:%M:%S}.{value.microsecond // 1000:03d}"
        case _:
            return str(value).replace(f"{sample_path()}/", "").replace(str(sample_path()), ".").replace("\n", "\\n")


def short(column: str, values: list[str]) -> list[str]:
    """Ids cut to their beginning where that keeps all of them apart."""
    if not (column.endswith(("uuid", "_id"))):
        return values
    for length in (8, 14, 20):
        if len({v[:length] for v in values}) == len(set(values)):
            return [v[:length] for v in values]
    return values


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "golden")
