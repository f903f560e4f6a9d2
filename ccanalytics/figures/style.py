"""What all pictures share: one palette, one look, and axes to draw on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

COLORS = ("#2b80c4", "#e6a23c", "#33419f", "#9bd0f0", "#b23a48", "#4aa38f", "#f2e394")
"""Colours of categories, in order of use. Their lightness differs by at least 8 of 100 from one another, so that they
stay apart in grey, and they stay apart for the three common kinds of colour blindness (a test computes both)."""

OTHER = "#bdbdbd"
"""Colour of what is summed up as "other"."""

KIND_COLORS = {
    "cache_read_input_tokens": COLORS[3],
    "cache_creation_input_tokens": COLORS[0],
    "input_tokens": COLORS[1],
    "output_tokens": COLORS[2],
}
KIND_NAMES = {
    "cache_read_input_tokens": "cache reads",
    "cache_creation_input_tokens": "cache writes",
    "input_tokens": "uncached input",
    "output_tokens": "output",
}
OTHER_NAME = "other"

SEQUENCE = LinearSegmentedColormap.from_list("ccanalytics", ["#d8ecf8", "#9bd0f0", "#2b80c4", "#33419f", "#1d2459"])

_THEMES = {
    "light": {"figure.facecolor": "white", "axes.facecolor": "white", "text.color": "#1f1f1f", "faint": "#d9d9d9"},
    "dark": {"figure.facecolor": "#161616", "axes.facecolor": "#161616", "text.color": "#e8e8e8", "faint": "#4a4a4a"},
}


@contextmanager
def theme(name: Literal["light", "dark"] = "light") -> Iterator[None]:
    """Within this context pictures are drawn for a light or a dark page.

    >>> import ccanalytics as cc
    >>> with cc.plot.theme("dark"):
    ...     ax = cc.plot.usage(cc.load_sample())
    """
    look = dict(_THEMES[name])
    look["grid.color"] = look.pop("faint")
    text = look["text.color"]
    more = {"axes.edgecolor": text, "axes.labelcolor": text, "xtick.color": text, "ytick.color": text}
    rc: Any = {**look, **more, "savefig.facecolor": look["figure.facecolor"]}
    with mpl.rc_context(rc):
        yield


def new_axes(ax: Axes | None, *, width: float = 8.0, height: float = 3.6) -> Axes:
    """``ax``, or axes of a new figure of that size in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def still_axes(*, width: float = 8.0, height: float = 3.6) -> Axes:
    """Axes of a figure that no notebook shows by itself and nobody has to close."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def finish(ax: Axes, title: str, *, grid: Literal["x", "y", "none"] = "y") -> Axes:
    """The last touches: title at the left, faint grid behind, no box."""
    ax.set_title(title, loc="left", fontsize=11)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_axisbelow(True)
    if grid != "none":
        ax.grid(axis=grid, linewidth=0.6, color=faint())
    return ax


def ink() -> str:
    """Colour of text and lines."""
    return str(mpl.rcParams["text.color"])


def faint() -> str:
    """Colour of grid lines and of what is in the background."""
    return str(mpl.rcParams["grid.color"])


def muted() -> str:
    """Colour of remarks: readable, but behind the text."""
    return "#a5a5a5" if is_dark() else "#666666"


def is_dark() -> bool:
    """The pages drawn on are dark."""
    return _lightness(str(mpl.rcParams["figure.facecolor"])) < 0.4


def text_on(color: str | tuple[float, float, float]) -> str:
    """Black or white, whichever reads better on ``color``."""
    return "#111111" if _lightness(color) > 0.5 else "#ffffff"


def _lightness(color: str | tuple[float, float, float]) -> float:
    r, g, b = to_rgb(color)
    return 0.299 * r + 0.587 * g + 0.114 * b


def colors_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, in order; token kinds have their own, "other" is grey."""
    taken = {KIND_COLORS[n] for n in names if n in KIND_COLORS}
    free = iter([c for c in COLORS if c not in taken] * (len(names) // 3 + 1))
    return {n: KIND_COLORS.get(n) or (OTHER if n == OTHER_NAME else next(free)) for n in names}


def add_legend(ax: Axes, colors: dict[str, str], *, points_aside: float = 0.0) -> None:
    """A legend beside the picture, its rows in the order of the stack from the top."""
    from .text import label

    aside = ScaledTranslation(points_aside / 72, 0, ax.figure.dpi_scale_trans)
    names = list(reversed(colors))
    patches = [Patch(facecolor=colors[n], edgecolor=ink(), linewidth=0.4) for n in names]
    labels = [label(KIND_NAMES.get(n, n), 30) for n in names]
    ax.legend(
        patches, labels, loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, fontsize=9, handlelength=1.2,
        bbox_transform=ax.transAxes + aside,
    )  # fmt: skip


def side_columns(ax: Axes, heads: Sequence[str], rows: Sequence[Sequence[str]], *, step: float = 46.0) -> None:
    """Columns of figures at the right of lanes: ``rows[i]`` beside the lane at height ``i``."""
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right"}
    for column, head in enumerate(heads, 1):
        at = (step * column, 0)
        ax.annotate(head, (1, -0.85), at, va="center", fontsize=8.5, color=muted(), annotation_clip=False, **place)
        for lane, row in enumerate(rows):
            text = ax.annotate(row[column - 1], (1, lane), at, va="center", fontsize=8.5, annotation_clip=False,
                               parse_math=False, **place)  # fmt: skip
            # The heads hold the room; measuring every figure would take longer than drawing them.
            text.set_in_layout(False)


def in_calendar(column: str) -> pl.Expr:
    """Whether a time can be drawn: a transcript may hold any year, a calendar cannot."""
    return pl.col(column).dt.year().is_between(1971, 2900)


def days_of(times: pl.Series) -> npt.NDArray[np.float64]:
    """Times as matplotlib counts them: days since 1970."""
    return times.dt.epoch("ms").to_numpy() / 86_400_000.0


def time_axis(ax: Axes, tz: str, *, most: int = 9) -> None:
    """Dates below, as short as they can be told apart."""
    locator = AutoDateLocator(minticks=3, maxticks=most)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    ax.set_xlabel(f"time ({tz})", loc="left")


def say_empty(ax: Axes, why: str) -> None:
    """A sentence in the middle of axes that have nothing to show."""
    ax.text(0.5, 0.5, why, ha="center", va="center", transform=ax.transAxes, color=muted(), parse_math=False)
    ax.set_xticks([])
    ax.set_yticks([])


def remark(ax: Axes, text: str) -> None:
    """A small remark under the picture's right end."""
    if text:
        ax.annotate(
            text, (1, 0), (0, -37), xycoords="axes fraction", textcoords="offset points", ha="right", va="top",
            fontsize=8, color=muted(), annotation_clip=False, parse_math=False,
        )  # fmt: skip
