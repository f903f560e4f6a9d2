"""Cost by project, session, agent and tool as an icicle: each row divides the one above."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb

from .style import COLORS, OTHER, OTHER_NAME, finish, new_axes, remark, say_empty, text_on
from .text import label, number_axis
from .usage import left_out

LEVELS = ("project", "session", "agent", "tool")
ANSWER = "answer without a tool"


def cost_shares(calls: pl.DataFrame, tools: pl.DataFrame) -> pl.DataFrame:
    """Cost by ``project``, ``session``, ``agent`` (type), ``tool``: ``cost_usd`` of the calls that asked for the tool.

    A call that asks for several tools is divided among them in equal parts, so the sum is that of ``calls``.
    """
    asked = tools.select("call_id", pl.col("name").alias("tool")).drop_nulls("call_id")
    parts = asked.group_by("call_id", "tool").agg(pl.len().alias("n"))
    parts = parts.with_columns((pl.col("n") / pl.col("n").sum().over("call_id")).alias("share"))
    named = calls.filter(pl.col("cost_usd").is_not_null()).select(
        "call_id",
        pl.col("project").fill_null("unknown").alias("project"),
        pl.col("session_id").fill_null("unknown").alias("session"),
        pl.col("agent_type" if "agent_type" in calls.columns else "agent_id").fill_null("main thread").alias("agent"),
        "cost_usd",
    )
    joined = named.join(parts, on="call_id", how="left", validate="1:m", maintain_order="left")
    cost = pl.col("cost_usd") * pl.col("share").fill_null(1.0)
    return (
        joined.with_columns(pl.col("tool").fill_null(ANSWER))
        .group_by(*LEVELS)
        .agg(cost.sum().alias("cost_usd"))
        .sort(*LEVELS)
    )


def icicle_boxes(shares: pl.DataFrame, *, smallest: float = 0.004) -> pl.DataFrame:
    """One row per box: ``level``, ``key``, ``left``, ``width`` (USD), ``root`` (its project); larger boxes first.

    Boxes narrower than ``smallest`` of the whole are summed up as "other" within their parent.
    """
    total = float(shares["cost_usd"].sum())
    boxes: list[pl.DataFrame] = []
    paths = pl.DataFrame({"path": [""], "left": [0.0], "width": [total]})
    for depth, level in enumerate(LEVELS):
        path = pl.concat_str(LEVELS[:depth], separator="\n") if depth else pl.lit("")
        sums = shares.group_by(path.alias("parent"), pl.col(level).alias("key"), pl.col(LEVELS[0]).alias("root")).agg(
            pl.col("cost_usd").sum()
        )
        small = pl.col("cost_usd") < smallest * total
        sums = sums.with_columns(pl.when(small).then(pl.lit(OTHER_NAME)).otherwise("key").alias("key"))
        sums = sums.group_by("parent", "key", "root").agg(pl.col("cost_usd").sum())
        sums = sums.join(paths.rename({"path": "parent"}), on="parent", how="inner", validate="m:1")
        is_other = pl.col("key") == OTHER_NAME
        sums = sums.with_columns(is_other.alias("is_other")).sort(
            "left", "is_other", "cost_usd", "key", descending=[False, False, True, False]
        )
        before = pl.col("cost_usd").cum_sum().over("parent") - pl.col("cost_usd")
        row = sums.select(
            pl.lit(depth, dtype=pl.Int32).alias("level"), "key", (pl.col("left") + before).alias("left"),
            pl.col("cost_usd").alias("width"), "root", "parent",
        )  # fmt: skip
        boxes.append(row)
        whole = pl.when(pl.col("parent") == "").then("key").otherwise(pl.concat_str("parent", "key", separator="\n"))
        paths = row.filter(pl.col("key") != OTHER_NAME).select(whole.alias("path"), "left", "width")
    return pl.concat(boxes).drop("parent")


def plot_icicle(calls: pl.DataFrame, tools: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Cost by project, then session, then agent type, then tool; the width of a box is its cost.

    ``calls`` may have the columns ``agent_type`` and ``title`` (see ``with_names``), which are shown then.
    """
    shares = cost_shares(calls, tools)
    ax = new_axes(ax, width=10.0, height=3.4)
    if not len(shares) or not shares["cost_usd"].sum() > 0:
        say_empty(ax, "no priced calls")
        return finish(ax, "Cost by project, session, agent, tool", grid="none")
    boxes = icicle_boxes(shares)
    _draw(ax, boxes)
    _write(ax, boxes, _titles(calls))
    ax.set_xlim(0, float(shares["cost_usd"].sum()))
    ax.set_ylim(len(LEVELS), 0)
    ax.set_yticks([i + 0.5 for i in range(len(LEVELS))], LEVELS)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("USD")
    number_axis(ax.xaxis, "cost")
    remark(ax, left_out(calls, "cost"))
    finish(ax, "Cost by project, session, agent, tool", grid="none")
    ax.spines["left"].set_visible(False)
    return ax


def _colors(boxes: pl.DataFrame) -> list[tuple[float, float, float]]:
    roots = boxes.filter(level=0)["key"].to_list()
    palette = {r: COLORS[i % len(COLORS)] for i, r in enumerate(roots)}
    rows = boxes.select("level", "key", "root").iter_rows()
    return [_paler(OTHER if key == OTHER_NAME else palette.get(root, OTHER), level) for level, key, root in rows]


def _paler(color: str, level: int) -> tuple[float, float, float]:
    share = 0.16 * level
    return tuple((1 - share) * c + share for c in to_rgb(color))  # type: ignore[return-value]


def _draw(ax: Axes, boxes: pl.DataFrame) -> None:
    corners = [
        [(x, y + 0.02), (x + w, y + 0.02), (x + w, y + 0.98), (x, y + 0.98)]
        for y, x, w in boxes.select("level", "left", "width").iter_rows()
    ]
    ax.add_collection(PolyCollection(corners, facecolors=_colors(boxes), edgecolors=ax.get_facecolor(), linewidths=1.2))


def _write(ax: Axes, boxes: pl.DataFrame, titles: dict[str, str]) -> None:
    total = float(boxes.filter(level=0)["width"].sum())
    figure = ax.figure.get_figure(root=True)
    inches = (figure.get_figwidth() if figure else 10.0) * ax.get_position().width
    for (level, key, left, width), color in zip(
        boxes.select("level", "key", "left", "width").rows(), _colors(boxes), strict=True
    ):
        room = int(width / total * inches * 72 / 5.2) - 1
        name = titles.get(key, key) if level == 1 else key.rstrip("/").rsplit("/", 1)[-1] if level == 0 else key
        if room < 6:
            continue
        ax.text(
            left + width / 2,
            level + 0.5,
            label(name, room),
            ha="center",
            va="center",
            fontsize=8.5,
            color=text_on(color),
        )


def _titles(calls: pl.DataFrame) -> dict[str, str]:
    if "title" not in calls.columns:
        return {}
    rows = calls.select("session_id", "title").drop_nulls().unique("session_id").iter_rows()
    return dict(rows)
