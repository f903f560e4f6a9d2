"""Frames on their way out of the command line: terminal, JSON, CSV, Markdown, HTML. Cells are text, never markup."""

from __future__ import annotations

import csv
import io
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

import orjson
import polars as pl

from .markup import csv_text, markdown_text, plain, table_html

MAX_CELL = 60


def write_out(text: str) -> None:
    """Write to standard output as UTF-8, whatever the console is set to."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(text)
    else:
        sys.stdout.flush()
        stream.write(text.encode("utf-8", "replace"))
        stream.flush()


def note(text: str) -> None:
    """One line to standard error."""
    sys.stderr.write(f"ccanalytics: {plain(text)}\n")


def cell(value: Any, *, name: str = "") -> str:
    """A value for people: numbers with separators, money with four digits, times to the second."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4f}" if name.endswith("_usd") or name == "cost" else f"{value:,.6g}"
    if isinstance(value, int):
        return f"{value:,}" if not name.endswith(("_id", "_no", "offset")) else str(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, (list, dict)):
        return orjson.dumps(value, default=str).decode()
    return str(value)


def terminal_width() -> int:
    """The columns of the terminal; wide where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


def fitting(frame: pl.DataFrame, width: int, totals: dict[str, Any] | None = None) -> list[str]:
    """The first columns of ``frame`` that stand side by side in ``width`` without a value being folded."""
    room, names = width - 1, list[str]()
    for name in frame.columns:
        cells = (cell(v, name=name) for v in [*frame[name], (totals or {}).get(name)])
        room -= max(len(name), min(max(map(len, cells)), MAX_CELL)) + 3
        if names and room < 0:
            break
        names.append(name)
    return names


def print_table(
    frame: pl.DataFrame, *, title: str = "", footer: Sequence[str] = (), totals: dict[str, Any] | None = None
) -> None:
    """Print a frame as a table as wide as the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(plain(title)) if title else None, box=box.SIMPLE_HEAD, title_justify="left", show_footer=bool(totals)
    )
    for name, dtype in frame.schema.items():
        foot = Text(cell(totals[name], name=name)) if totals and totals.get(name) is not None else Text("")
        table.add_column(
            Text(name),
            foot,
            justify="right" if dtype.is_numeric() else "left",
            overflow="fold",
            no_wrap=dtype.is_numeric(),
        )
    for row in frame.iter_rows():
        cells = (cell(v, name=n) for n, v in zip(frame.columns, row, strict=True))
        table.add_row(*(Text(plain(c if len(c) <= MAX_CELL else c[: MAX_CELL - 1] + "…")) for c in cells))
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        force_terminal=sys.stdout.isatty(),
        highlight=False,
        markup=False,
        emoji=False,
        width=terminal_width(),
    )
    console.print(table)
    for line in footer:
        console.print(Text(plain(line)))
    write_out(buffer.getvalue())


def json_text(value: Any) -> str:
    """JSON for people and programs: indented, times as ISO 8601."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, default=_plain_value, option=options).decode() + "\n"


def _plain_value(value: Any) -> Any:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)


def ndjson_text(frame: pl.DataFrame) -> str:
    """One JSON object per row."""
    options = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
    return b"".join(orjson.dumps(r, default=_plain_value, option=options) for r in frame.iter_rows(named=True)).decode()


def csv_out(frame: pl.DataFrame) -> str:
    """CSV with a header; text that a spreadsheet would take for a formula gets a quote in front."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in frame.iter_rows():
        writer.writerow([_csv_cell(v) for v in row])
    return buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str):
        return csv_text(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (list, dict)):
        return csv_text(orjson.dumps(value, default=str).decode())
    return value


def markdown_out(frame: pl.DataFrame, totals: dict[str, Any] | None = None) -> str:
    """A Markdown table."""
    right = [d.is_numeric() for d in frame.dtypes]
    lines = [
        "| " + " | ".join(markdown_text(c) for c in frame.columns) + " |",
        "|" + "|".join(" ---: " if r else " --- " for r in right) + "|",
    ]
    rows = [*frame.iter_rows()]
    if totals:
        rows.append(tuple(totals.get(c) for c in frame.columns))
    for row in rows:
        cells = (_markdown_cell(v, n) for n, v in zip(frame.columns, row, strict=True))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _markdown_cell(value: Any, name: str) -> str:
    text = cell(value, name=name)
    return text if isinstance(value, (int, float)) else markdown_text(text)


def html_out(
    frame: pl.DataFrame, *, title: str, notes: Sequence[str] = (), totals: dict[str, Any] | None = None
) -> str:
    """A whole HTML page with one table, readable without any other file."""
    rows = [[cell(v, name=n) for n, v in zip(frame.columns, row, strict=True)] for row in frame.iter_rows()]
    if totals:
        rows.append([cell(totals.get(c), name=c) for c in frame.columns])
    right = [d.is_numeric() for d in frame.dtypes]
    body = table_html(rows, header=frame.columns, caption=title, footer=" · ".join(notes), right=right)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<title>ccanalytics</title></head><body style="font-family:system-ui,sans-serif">{body}</body></html>\n'
    )


def progress_bar(what: str) -> Callable[[int, int], None]:
    """A progress callback that shows a line on standard error once the work has taken two seconds."""
    started = time.monotonic()
    is_tty = sys.stderr.isatty()

    def show(done: int, total: int) -> None:
        if not is_tty or time.monotonic() - started < 2:
            return
        end = "\r\x1b[K" if done >= total else ""
        sys.stderr.write(f"\r{what} {done * 100 // max(total, 1)} %{end}")
        sys.stderr.flush()

    return show
