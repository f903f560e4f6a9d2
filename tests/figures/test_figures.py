"""Figures through their Axes: what is drawn adds up to the table, with one row, with many, and with none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ccanalytics.errors import UsageError
from ccanalytics.figures import (
    plot_agents,
    plot_blocks,
    plot_branches,
    plot_calendar,
    plot_context,
    plot_icicle,
    plot_ranking,
    plot_tools,
    plot_usage,
)
from ccanalytics.figures.blocks import five_hour_blocks
from ccanalytics.figures.branches import branch_tracks
from ccanalytics.figures.context import context_series, thinned
from ccanalytics.figures.icicle import cost_shares, icicle_boxes
from ccanalytics.figures.lanes import tree_order
from ccanalytics.figures.ranking import ranked
from ccanalytics.figures.tools import tool_stats
from ccanalytics.figures.usage import usage_bins, with_names
from ccanalytics.schema import tables
from tests.frames import conform, make_agents, make_calls, make_chains, make_compactions, make_sessions, make_tools


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(ax: Axes) -> Axes:
    """The axes after everything on them was really drawn (warnings are errors)."""
    ax.figure.canvas.draw()
    return ax


def boxes(ax: Axes) -> list[Rectangle]:
    return [p for p in ax.patches if isinstance(p, Rectangle)]


def every_figure(n: int) -> dict[str, Callable[[], Axes]]:
    calls = make_calls(n)
    sessions, agents, tools = make_sessions(calls), make_agents(min(n, 500) - 1), make_tools(n, calls)
    named = with_names(calls, agents, sessions)
    marks = make_compactions([n // 2], calls)
    chains = make_chains([(0, n, True), (n // 2, 3, False)])
    return {
        "usage": lambda: plot_usage(named, by="model"),
        "usage by kind": lambda: plot_usage(named, measure="tokens", by="kind", every="hour"),
        "calendar": lambda: plot_calendar(calls),
        "ranking": lambda: plot_ranking(named),
        "context": lambda: plot_context(calls, marks, window=200_000),
        "agents": lambda: plot_agents(agents),
        "icicle": lambda: plot_icicle(named, tools),
        "tools": lambda: plot_tools(tools),
        "branches": lambda: plot_branches(chains, marks),
        "blocks": lambda: plot_blocks(calls),
    }


@pytest.mark.parametrize("name", every_figure(1))
@pytest.mark.parametrize("n", [1, 700])
def test_every_figure_names_its_axes_and_draws_one_and_many(name: str, n: int) -> None:
    ax = drawn(every_figure(n)[name]())
    assert ax.get_title(loc="left")
    assert ax.get_xlabel() or name == "calendar"
    assert ax.has_data()


def test_every_figure_draws_a_hundred_thousand() -> None:
    for figure in every_figure(100_000).values():
        ax = drawn(figure())
        assert len(ax.patches) + sum(len(c.get_paths()) for c in ax.collections) < 5000
        plt.close("all")


def test_every_figure_says_that_there_is_nothing() -> None:
    t = {name: table.empty() for name, table in tables().items()}
    axes = [
        plot_usage(t["calls"]), plot_calendar(t["calls"]), plot_ranking(t["calls"]),
        plot_context(t["calls"], t["compactions"]), plot_agents(t["agents"]), plot_icicle(t["calls"], t["tools"]),
        plot_tools(t["tools"]), plot_branches(t["chains"]), plot_blocks(t["calls"]),
    ]  # fmt: skip
    assert all(drawn(ax).texts[0].get_text().startswith("no ") for ax in axes)


def test_a_figure_draws_into_the_axes_it_is_given() -> None:
    _, (left, right) = plt.subplots(1, 2)
    assert plot_usage(make_calls(20), ax=left) is left
    assert plot_tools(make_tools(20, make_calls(20)), ax=right) is right
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize(
    ("measure", "by"),
    [("cost", "none"), ("tokens", "model"), ("calls", "project"), ("cost", "session"), ("cost", "agent_type")],
)
def test_bars_of_usage_add_up_to_the_calls(measure: str, by: str) -> None:
    calls = make_calls(400)
    named = with_names(calls, make_agents(3), make_sessions(calls))
    ax = plot_usage(named, measure=measure, by=by)  # type: ignore[arg-type]
    total = {"cost": calls["cost_usd"].sum(), "tokens": calls["total_tokens"].sum(), "calls": len(calls)}[measure]
    assert sum(p.get_height() for p in boxes(ax)) == pytest.approx(total)


def test_tokens_by_kind_add_up_kind_by_kind() -> None:
    calls = make_calls(300)
    bins = usage_bins(calls, measure="tokens", by="kind")
    for kind in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
        assert bins.filter(series=kind)["value"].sum() == calls[kind].sum()


def test_kinds_of_cost_add_up_to_the_price() -> None:
    from ccanalytics.policies import price_calls

    calls = make_calls(300)
    bins = usage_bins(calls, by="kind")
    assert bins["value"].sum() == pytest.approx(price_calls(calls)["cost_usd"].sum())


def test_a_day_is_the_day_of_the_zone() -> None:
    at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    late = conform("calls", {"call_id": ["a"], "first_at": [at], "cost_usd": [1.0]})
    days = [usage_bins(late, every="day", tz=tz)["bin_start"].dt.date()[0].isoformat() for tz in ("UTC", "Asia/Tokyo")]
    assert days == ["2026-03-01", "2026-03-02"]


def test_calls_without_price_or_time_are_told_of() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    calls = conform("calls", {"call_id": ["a", "b"], "first_at": [at, None], "cost_usd": [None, 1.0]})
    texts = [t.get_text() for t in plot_usage(calls).texts]
    assert texts == ["1 calls of models without a price are not in it; 1 calls have no time that could be drawn"]


def test_groups_beyond_the_top_are_summed_up() -> None:
    calls = make_calls(200)
    bins = usage_bins(calls, by="session", top=3)
    assert bins["series"].unique(maintain_order=True).to_list()[-1] == "other"
    assert bins["series"].n_unique() == 4
    assert bins["value"].sum() == pytest.approx(calls["cost_usd"].sum())


def test_a_wrong_name_is_answered_with_the_allowed_ones() -> None:
    with pytest.raises(UsageError, match="allowed are cost, tokens, calls"):
        plot_usage(make_calls(1), measure="money")  # type: ignore[arg-type]
    for draw in (plot_usage, plot_calendar, plot_blocks):
        with pytest.raises(UsageError, match="no time zone is called"):
            draw(make_calls(1), tz="Mars/Olympus")
    with pytest.raises(UsageError, match="measure is 'tokens' or 'cost'"):
        plot_usage(make_calls(1), measure="calls", by="kind")


def test_ranking_is_sorted_and_shows_each_figure() -> None:
    calls = make_calls(100)
    rows = ranked(calls, by="project")
    assert rows["value"].is_sorted(descending=True)
    ax = plot_ranking(calls, by="project")
    assert [p.get_width() for p in boxes(ax)] == rows["value"].to_list()


def test_a_cache_miss_is_marked_unless_a_compaction_explains_it() -> None:
    reads, prompts = [0, 50_000, 0, 0], [50_000, 60_000, 61_000, 9_000]
    calls = make_calls(4).with_columns(
        pl.Series("cache_read_input_tokens", reads), pl.Series("context_tokens", prompts, dtype=pl.Int64)
    )
    series = context_series(calls, make_compactions([3], calls))
    assert series["is_miss"].to_list() == [False, False, True, False]
    assert series["boundary_id"].is_not_null().to_list() == [False, False, False, True]


def test_thinning_keeps_the_largest_and_every_mark() -> None:
    series = context_series(make_calls(5000))
    few = thinned(series, 200)
    assert len(few) <= 400
    assert few["context_tokens"].max() == series["context_tokens"].max()
    assert few["call_no"].is_sorted()


def test_runs_stand_under_what_started_them() -> None:
    agents = make_agents(60)
    order = tree_order(agents)
    assert len(order) == len(agents)
    place = {k: i for i, k in enumerate(order["key"])}
    assert all(place[p] < place[k] for k, p in order.select("key", "parent_key").iter_rows() if p)


def test_runs_that_start_one_another_in_a_circle_are_shown_too() -> None:
    agents = conform(
        "agents", {"session_id": ["s"] * 2, "agent_id": ["a", "b"], "parent_agent_id": ["b", "a"], "depth": [1, 1]}
    )
    assert sorted(tree_order(agents)["agent_id"]) == ["a", "b"]


def test_icicle_rows_each_hold_the_whole_cost() -> None:
    calls = make_calls(300)
    shares = cost_shares(calls, make_tools(500, calls))
    assert shares["cost_usd"].sum() == pytest.approx(calls["cost_usd"].sum())
    boxes = icicle_boxes(shares, smallest=0.0)
    per_level = boxes.group_by("level").agg(pl.col("width").sum())["width"]
    assert np.allclose(per_level.to_numpy(), float(calls["cost_usd"].sum()))


def test_tool_statistics_count_failures() -> None:
    tools = conform(
        "tools", {"name": ["A", "A", "B"], "outcome": ["ok", "error", "unanswered"], "duration_ms": [10, 30, None]}
    )
    assert tool_stats(tools).select("name", "n", "n_failed", "p90_ms").rows() == [("A", 2, 1, 30.0), ("B", 1, 0, None)]


def test_branches_leave_where_their_parent_is() -> None:
    tracks = branch_tracks(make_chains([(0, 10, True), (4, 3, False)]))
    assert tracks.select("branch_no", "first", "last", "from_place", "on_resume").rows() == [
        (0, 0, 9, None, 10),
        (1, 10, 12, 4, 0),
    ]


def test_blocks_are_those_of_the_cost_report() -> None:
    calls = make_calls(200)
    blocks = five_hour_blocks(calls)
    assert blocks["cost"].sum() == pytest.approx(calls["cost_usd"].sum())
    assert (blocks["block_end"] - blocks["block_start"]).dt.total_hours().unique().to_list() == [5]


@pytest.mark.parametrize("year", [1, 1969, 9999])
@pytest.mark.parametrize("tz", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_years_that_no_calendar_has_are_left_out_and_told_of(year: int, tz: str) -> None:
    edge = datetime(year, 12, 31, 23, 59, tzinfo=UTC) if year > 1 else datetime(1, 1, 1, tzinfo=UTC)
    calls = make_calls(3)
    is_first = pl.col("call_id") == calls["call_id"][0]
    odd = pl.lit(edge).dt.cast_time_unit("ms").dt.convert_time_zone("UTC")
    calls = calls.with_columns(pl.when(is_first).then(odd).otherwise("first_at").alias("first_at"))
    drawn(plot_usage(calls, tz=tz))
    drawn(plot_calendar(calls, tz=tz))
    ax = drawn(plot_blocks(calls, tz=tz))
    assert any("1 calls have no time that could be drawn" in t.get_text() for t in ax.texts)
    drawn(plot_agents(make_agents(2).with_columns(odd.alias("started_at")), tz=tz))
