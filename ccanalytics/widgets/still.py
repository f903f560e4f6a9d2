"""What stands where no front end runs: a picture as a data URI and a table with inline styles, both plain HTML."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any

from ..markup import html_text, table_html

HIDDEN_BY = "ccanalytics-still"
"""Class of the stand-in; a drawn widget's style sheet hides it within the same output."""


def still_html(
    about: str, draw: Callable[..., Any] | None, header: Sequence[str], rows: Sequence[Sequence[object]]
) -> str:
    """A picture and a table, without style sheets, scripts or inline SVG: notebook viewers strip those."""
    picture = picture_html(draw, about) if draw is not None else ""
    return f'<div class="{HIDDEN_BY}">{picture}{table_html(rows, header=header)}</div>'


def picture_html(draw: Callable[..., Any], alt: str) -> str:
    """An ``<img>`` with the figure that ``draw(ax=…)`` makes, on white."""
    from ..figures.style import still_axes, theme

    with theme("light"):
        ax = still_axes(width=8.0, height=3.2)
        draw(ax=ax)
        page = io.BytesIO()
        figure = ax.figure.get_figure(root=True)
        assert figure is not None
        figure.savefig(page, format="png", dpi=80, metadata={"Software": None})
    data = base64.b64encode(page.getvalue()).decode("ascii")
    return f'<img alt="{html_text(alt)}" style="max-width:100%" src="data:image/png;base64,{data}">'
