"""Names and numbers as they stand in pictures: short, plain, and never taken for mathematics or markup."""

from __future__ import annotations

from functools import lru_cache

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..markup import plain

MEASURE_UNITS = {"cost": "USD", "tokens": "tokens", "calls": "calls"}


def label(text: object, width: int = 40) -> str:
    """``text`` as a label of at most ``width`` characters.

    A path keeps its end, other texts their beginning. ``$`` and a leading ``_`` mean something to matplotlib, and a
    character its fonts lack would end in a warning: all three are made harmless.
    """
    short = shorten(plain(text).strip(), width) or " "
    drawn = "".join(c if c.isascii() or ord(c) in _drawable(_families()) else "□" for c in short)
    return (" " if drawn.startswith("_") else "") + drawn.replace("$", r"\$")


def shorten(text: str, width: int) -> str:
    """At most ``width`` characters; what is left out is marked by an ellipsis."""
    if len(text) <= width:
        return text
    if text.startswith(("/", "~")) or text[1:3] == ":\\":
        return "…" + text[-(width - 1) :]
    return text[: width - 1].rstrip() + "…"


def _families() -> tuple[str, ...]:
    return tuple(mpl.rcParams["font.family"])


@lru_cache(maxsize=8)
def _drawable(families: tuple[str, ...]) -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = {findfont(FontProperties(family=[name])) for name in families}
    return frozenset().union(*(get_font(path).get_charmap() for path in fonts))


def amount(value: float, measure: str) -> str:
    """A number with its unit: ``$1.25``, ``1.2M``, ``12``."""
    return usd(value) if measure == "cost" else count(value)


def usd(value: float | None) -> str:
    """Money: two figures that count, and cents from a dollar on; ``?`` where the price is unknown.

    >>> usd(0.0123), usd(3.456), usd(1234.5), usd(0)
    ('$0.012', '$3.46', '$1,234.50', '$0')
    """
    if value is None:
        return "?"
    if value == 0:
        return "$0"
    if abs(value) >= 1:
        return f"${value:,.2f}"
    return f"${value:#.2g}" if abs(value) >= 1e-4 else f"${value:.1e}"


def count(value: float | None) -> str:
    """A number in three figures with k, M, G.

    >>> count(12), count(1234), count(5_300_000)
    ('12', '1.23k', '5.3M')
    """
    if value is None:
        return "?"
    for step, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= step * 0.9995:
            return f"{value / step:.3g}{unit}"
    return f"{value:.3g}"


def span(ms: float | None) -> str:
    """A length of time.

    >>> span(850), span(12_300), span(3_725_000), span(90_000_000)
    ('850 ms', '12 s', '1 h 2 min', '1 d 1 h')
    """
    if ms is None:
        return "?"
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s" if minutes < 10 else f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def width_of(text: str, size: float = 9.0) -> float:
    """Width of a text in points, as the default font draws it."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    font.set_size(size, 72)
    font.set_text(text, 0.0)
    return font.get_width_height()[0] / 64


def number_axis(axis: Axis, measure: str) -> None:
    """Ticks of an axis that shows a measure."""
    axis.set_major_locator(MaxNLocator(nbins=6, integer=measure != "cost"))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.6g}" if measure == "cost" else count(v)))
