"""The palette: apart in grey, and for colour-blind readers; labels that matplotlib takes for nothing but text."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ccanalytics.figures.style import COLORS, colors_of, still_axes, theme
from ccanalytics.figures.text import count, label, span, usd, width_of

Vector = npt.NDArray[np.float64]

# Machado, Oliveira & Fernandes 2009, severity 1.0, for linear RGB.
BLINDNESS = {
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def linear(color: str) -> Vector:
    c = np.array(to_rgb(color))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: Vector) -> Vector:
    xyz = TO_XYZ @ rgb / np.array([0.9505, 1.0, 1.0888])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_colours_stay_apart_in_grey() -> None:
    lightness = sorted(lab(linear(c))[0] for c in COLORS)
    assert min(np.diff(lightness)) > 8


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_stay_apart_for_colour_blind_readers(kind: str) -> None:
    seen = [lab(np.clip(np.array(BLINDNESS[kind]) @ linear(c), 0, 1)) for c in COLORS]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 12


def test_every_name_has_a_colour_and_token_kinds_keep_theirs() -> None:
    names = ["output_tokens", *(f"g{i}" for i in range(20)), "other"]
    colors = colors_of(names)
    assert list(colors) == names
    assert colors["output_tokens"] == colors_of(["output_tokens"])["output_tokens"]
    assert colors["g0"] != colors["output_tokens"]


def test_se02_dollars_and_underscores_and_strange_characters_are_drawn_as_text() -> None:
    ax = still_axes()
    for i, text in enumerate(["$\\frac{", "_hidden", "日本語 and 🙂", "a$b$c", "", "\x1b[31mred", "line\nbreak"]):
        ax.barh([i], [1], label=label(text))
    ax.set_yticks(range(2), [label("$x^2$"), label("costs $5 or $6")])
    ax.legend()
    figure = ax.figure
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    assert label("_hidden") == " _hidden"
    assert label("a$b") == r"a\$b"
    assert label("x" * 60, 10) == "xxxxxxxxx…"
    assert label("/home/dev/some/project", 12) == "…ome/project"


def test_numbers_are_short_and_have_units() -> None:
    assert [usd(v) for v in (None, 0, 0.0123, 0.7, 12.5, 12345.0)] == [
        "?",
        "$0",
        "$0.012",
        "$0.70",
        "$12.50",
        "$12,345.00",
    ]
    assert [count(v) for v in (None, 0, 999, 1_500, 2_000_000)] == ["?", "0", "999", "1.5k", "2M"]
    assert [span(v) for v in (None, 5, 61_000, 5_400_000)] == ["?", "5 ms", "1 min 1 s", "1 h 30 min"]
    assert width_of("wide text") > width_of("i") > 0


def test_a_dark_page_gets_light_text_and_nothing_stays_changed() -> None:
    before = still_axes().get_facecolor()
    with theme("dark"):
        ax = still_axes()
        assert sum(to_rgb(ax.get_facecolor())) < 0.5
        assert sum(to_rgb(ax.xaxis.label.get_color())) > 2
    assert still_axes().get_facecolor() == before
