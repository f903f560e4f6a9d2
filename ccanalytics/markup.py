"""Text from transcripts on its way out: one escaping place per kind of output.

Whatever a transcript holds reaches HTML, SVG, Markdown, CSV and the terminal as text, never as markup or control.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Marks of CommonMark, and what GitHub makes links of without any mark: addresses of pages and of people.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~$&@-]|:(?=//)|(?<=www)\.)")
# Some spreadsheets take the wide forms for the same.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def plain(text: object) -> str:
    """``text`` on one line for a terminal: control and direction characters shown as ``\\xNN`` escapes."""
    return "".join(_visible(c) for c in str(text))


def _visible(c: str) -> str:
    if c == "\n":
        return "⏎"
    if c in _BIDI or unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp"):
        return " " if c == "\t" else c.encode("unicode_escape").decode("ascii")
    return c


def html_text(text: object) -> str:
    """``text`` for HTML and SVG, in content and in quoted attributes; characters that XML forbids become U+FFFD."""
    return html.escape("".join("\ufffd" if _is_forbidden(c) else c for c in str(text)), quote=True)


def _is_forbidden(c: str) -> bool:
    return c in _BIDI or (unicodedata.category(c) in ("Cc", "Cs", "Cn") and c not in "\t\n\r") or c in "\ufffe\uffff"


def markdown_text(text: object) -> str:
    """``text`` for a Markdown paragraph or table cell, on one line."""
    return _MARKDOWN.sub(r"\\\1", plain(text))


def markdown_fence(text: str) -> str:
    """``text`` as a fenced block, with a fence longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def csv_text(text: str) -> str:
    """``text`` for a CSV cell: control characters shown, what a spreadsheet would take for a formula behind a quote."""
    text = "".join(c if c in "\n\t" else _visible(c) for c in text)
    return "'" + text if text.startswith(_FORMULA) else text


def table_html(
    rows: Iterable[Sequence[object]],
    *,
    header: Sequence[object] = (),
    caption: str = "",
    footer: str = "",
    right: Sequence[bool] = (),
) -> str:
    """A small table with inline styles (style sheets are stripped where notebooks are shown); all cells are text.

    ``right`` tells of each column whether it stands on the right, as numbers do; default: none does.
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        sides = ("right" if i < len(right) and right[i] else "left" for i in range(len(cells)))
        style = "padding:2px 10px 2px 0;vertical-align:top"
        tags = (
            f'<{tag} style="text-align:{s};{style}">{html_text(c)}</{tag}>' for c, s in zip(cells, sides, strict=True)
        )
        return "<tr>" + "".join(tags) + "</tr>"

    out = ['<div><table style="border-collapse:collapse">']
    if caption:
        out.append(f'<caption style="text-align:left;font-weight:bold">{html_text(caption)}</caption>')
    if header:
        out.append(line("th", header))
    out += [line("td", row) for row in rows]
    out.append("</table>")
    if footer:
        out.append(f'<div style="color:#767676">{html_text(footer)}</div>')
    return "".join(out) + "</div>"
