"""Write docs/tables.md and the overview in README.md from the declared tables.

    python docs/make_tables.py

A test fails when either is not current.
"""

from __future__ import annotations

import re
from pathlib import Path

from ccanalytics.schema import Column, Table, tables

ROOT = Path(__file__).resolve().parent.parent
OVERVIEW = re.compile(r"(<!-- tables: .*? -->\n).*?(\n<!-- end of tables -->)", re.DOTALL)


def main() -> None:
    """Write both."""
    (ROOT / "docs" / "tables.md").write_text(reference(), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(with_overview(readme.read_text(encoding="utf-8")), encoding="utf-8")


def reference() -> str:
    """The text of docs/tables.md: every table with its columns."""
    head = (
        "# Tables\n\n"
        "Every table is declared once, in `ccanalytics/schema/`; this page is written from there by "
        "`python docs/make_tables.py`.\n\n"
        "Dtypes: `str`, `bool`, `i32`, `i64`, `u64`, `f64`, and `ts`, a UTC time in milliseconds. A column with a "
        "closed set of values is an `Enum` in polars and a plain string in Arrow and Parquet. A null means: not known, "
        "or does not apply; it is never a zero in disguise.\n"
    )
    return head + "".join(section(table) for table in tables().values())


def section(table: Table) -> str:
    """One table."""
    order = ", ".join(f"`{name}`" for name in table.order)
    key = ", ".join(f"`{name}`" for name in table.key)
    lines = [f"\n## {table.name}\n", f"One row per {table.grain}. Key: {key}. Sorted by {order}.\n"]
    lines += ["| column | dtype | meaning | source |", "| --- | --- | --- | --- |"]
    lines += [row(column) for column in table.columns]
    return "\n".join(lines) + "\n"


def row(column: Column) -> str:
    """One column."""
    meaning = column.meaning + (f" ({column.unit})" if column.unit else "")
    if column.values:
        meaning += ": " + ", ".join(f"`{value}`" for value in column.values)
    if column.is_text:
        meaning += "; null unless text was asked for"
    source = f"`{column.source}`" if column.source else ""
    return f"| `{column.name}` | {column.dtype} | {cell(meaning)} | {cell(source)} |"


def cell(text: str) -> str:
    """Text as it may stand in a Markdown cell."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def overview() -> str:
    """The tables in short: name, grain, key."""
    lines = ["| table | one row per | key |", "| --- | --- | --- |"]
    for table in tables().values():
        key = ", ".join(f"`{name}`" for name in table.key)
        lines.append(
            f"| [`{table.name}`](docs/tables.md#{table.name.replace(' ', '-')}) | {cell(table.grain)} | {key} |"
        )
    return "\n".join(lines)


def with_overview(text: str) -> str:
    """README.md with its overview renewed."""
    return OVERVIEW.sub(lambda m: f"{m.group(1)}\n{overview()}\n{m.group(2)}", text, count=1)


if __name__ == "__main__":
    main()
