"""Usage over time: choose dates, grouping and measure; click or brush bars to have the calls behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, ClassVar

import polars as pl
import traitlets

from ..cost_keys import local
from ..figures.style import KIND_NAMES, colors_of, in_calendar
from ..figures.text import MEASURE_UNITS, count, usd
from ..figures.usage import (
    BYS,
    COLUMNS,
    EVERYS,
    KIND_COSTS,
    MEASURES,
    STEPS,
    bin_of,
    chosen_step,
    every_bin,
    plot_usage,
    usage_bins,
    with_names,
)  # fmt: skip
from ..policies import price_calls
from ..tables_of import eager
from .base import Day, Widget, source, style
from .cells import table_view

MOST_BINS = 1500

SHOWN = (
    "first_at", "model_family", "agent_type", "title", "cost_usd", "output_tokens", "cache_read_input_tokens",
    "cache_creation_input_tokens", "input_tokens", "project",
)  # fmt: skip


class Usage(Widget):
    """Bars of usage over time; ``selection`` has the calls behind the bars chosen.

    Parameters
    ----------
    t
        A loaded object.
    measure, by, every, tz
        As for ``cc.plot.usage``; the first three can be changed on the page or by assignment (``w.by = "model"``).
    since, until
        Days as ``"2026-03-01"``, both included; empty for no limit.
    filters
        Values that calls must have, by column: ``{"project": "/home/dev/app"}`` (project, model, agent_type).
    live
        Follow a running session.
    """

    _esm = source("usage")
    _css = style()
    table = "calls"
    reactions: ClassVar = {
        "_changed": ["measure", "by", "every", "tz", "since", "until", "filters"],
        "_choose": ["chosen"],
    }

    measure = traitlets.Enum(MEASURES, "cost").tag(sync=True)
    by = traitlets.Enum(BYS, "model").tag(sync=True)
    every = traitlets.Enum(EVERYS, "auto").tag(sync=True)
    tz = traitlets.Unicode("UTC").tag(sync=True)
    since = Day("").tag(sync=True)
    until = Day("").tag(sync=True)
    filters = traitlets.Dict(value_trait=traitlets.Unicode()).tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    """Bars chosen: ``{"from": 0, "to": 2, "series": None}``, bins counted from 0; empty for none."""

    def _start(self) -> None:
        self._calls = with_names(eager(self.t.calls), eager(self.t.agents), eager(self.t.sessions))
        self._draw()

    def _changed(self, _: object) -> None:
        self.chosen = {}
        self._draw()

    def _choose(self, _: object) -> None:
        self.selection = self._chosen_calls()
        self._tell()

    def _draw(self) -> None:
        self._shown = self._calls.filter(self._limits())
        measure = self._measure_shown()
        self._step, self._bins = self._fitting()
        bins = usage_bins(self._shown, measure=measure, by=self.by, every=self._step, tz=self.tz)
        names = bins["series"].unique(maintain_order=True).to_list()
        step = self._step
        self.view = {
            "labels": [_moment(b, step) for b in self._bins],
            "series": [self._series(bins, n, color) for n, color in colors_of(names).items()],
            "measure": measure,
            "unit": MEASURE_UNITS[measure],
            "step": step,
            "choices": {"measure": MEASURES, "by": BYS, "every": EVERYS},
            "filters": self._filter_choices(),
            "about": _about_calls(self._shown),
        }
        self._tell()

    def _fitting(self) -> tuple[Any, pl.Series]:
        """The step asked for, or the next that needs no more than ``MOST_BINS`` bars, and where its bars begin."""
        asked = chosen_step(self._shown, self.every)
        for step in STEPS:
            starts = self._shown.filter(in_calendar("first_at")).select(bin_of(self._shown, step, self.tz).alias("b"))[
                "b"
            ]
            bins = every_bin(starts.unique().sort(), STEPS[step], most=MOST_BINS)
            if EVERYS.index(step) >= EVERYS.index(asked) and len(bins) <= MOST_BINS:
                break
        return step, bins

    def _measure_shown(self) -> Any:
        return "tokens" if self.by == "kind" and self.measure == "calls" else self.measure

    def _limits(self) -> pl.Expr:
        day = local("first_at", self.tz).dt.date()
        tests = [pl.lit(True)]
        if self.since:
            tests.append(day >= date.fromisoformat(self.since))
        if self.until:
            tests.append(day <= date.fromisoformat(self.until))
        tests += [pl.col(COLUMNS[k]) == v for k, v in self.filters.items() if k in COLUMNS and v]
        return pl.all_horizontal(tests)

    def _series(self, bins: pl.DataFrame, name: str, color: str) -> dict[str, Any]:
        rows = bins.filter(pl.col("series") == name)
        values = [0.0] * len(self._bins)
        places = self._bins.search_sorted(rows["bin_start"]).to_list()
        for place, value in zip(places, rows["value"].to_list(), strict=True):
            values[place] = value
        return {"key": name, "name": self._title_of(name), "color": color, "values": values}

    def _title_of(self, name: str) -> str:
        if self.by == "session":
            found = self._shown.filter(pl.col("session_id") == name)["title"]
            return f"{found[0]} · {name[:8]}" if len(found) and found[0] else name
        return KIND_NAMES.get(name, name)

    def _filter_choices(self) -> dict[str, list[str]]:
        """Values to choose from, by column; those of most calls, a hundred at most."""
        out = {}
        for key in ("project", "model", "agent_type"):
            values = self._calls[COLUMNS[key]].drop_nulls().value_counts(sort=True)
            out[key] = values[COLUMNS[key]].head(100).to_list()
        return out

    def _chosen_calls(self) -> pl.DataFrame:
        first, last = self.chosen.get("from"), self.chosen.get("to")
        plain = eager(self.t.calls)
        if not isinstance(first, int) or not isinstance(last, int) or not len(self._bins):
            return plain.clear()
        edge = [self._bins[min(max(i, 0), len(self._bins) - 1)] for i in (min(first, last), max(first, last))]
        rows = self._shown.with_columns(bin_of(self._shown, self._step, self.tz).alias("bin_start"))
        rows = rows.filter(pl.col("bin_start").is_between(*edge))
        series = self.chosen.get("series")
        if isinstance(series, str) and series:
            rows = self._of_series(rows, series)
        return rows.select(plain.columns)

    def _of_series(self, rows: pl.DataFrame, series: str) -> pl.DataFrame:
        if self.by == "kind":
            if series not in KIND_COSTS:
                return rows.clear()
            if series not in KIND_NAMES:
                parts = price_calls(rows).select(pl.sum_horizontal(KIND_COSTS[series]).alias("part"))
                return rows.filter(parts["part"].fill_null(0) != 0)
            return rows.filter(pl.col(series) > 0)
        if self.by not in COLUMNS:
            return rows
        value = pl.col(COLUMNS[self.by]).fill_null("unknown")
        if series == "other":
            return rows.filter(~value.is_in([s["key"] for s in self.view["series"]]))
        return rows.filter(value == series)

    def _tell(self) -> None:
        named = self.selection.select("call_id").join(
            self._calls, on="call_id", how="left", validate="1:1", maintain_order="left"
        )
        self.detail = {"about": _about_calls(self.selection), "table": table_view(named, SHOWN)}

    def _about(self) -> str:
        return f"{len(self._calls):,} calls, by {self.by}"

    def _still(self) -> tuple[Callable[..., Any] | None, Sequence[str], Sequence[Sequence[object]]]:
        options: Any = {"measure": self._measure_shown(), "by": self.by, "every": self._step, "tz": self.tz}
        rows = [
            (s["name"], usd(sum(s["values"])) if self.view["measure"] == "cost" else count(sum(s["values"])))
            for s in self.view["series"]
        ]
        return lambda ax: plot_usage(self._shown, ax=ax, **options), (self.by, self.view["measure"]), rows


def _moment(start: Any, step: str) -> str:
    return f"{start:%Y-%m-%d %H:%M}" if step == "hour" else f"{start:%Y-%m}" if step == "month" else f"{start:%Y-%m-%d}"


def _about_calls(calls: pl.DataFrame) -> str:
    cost = float(calls["cost_usd"].sum()) if calls["cost_usd"].count() else (0.0 if not len(calls) else None)
    unpriced = calls["cost_usd"].null_count()
    more = f" ({unpriced:,} without a price)" if unpriced and cost is not None else ""
    return f"{len(calls):,} calls · {usd(cost)}{more} · {count(int(calls['total_tokens'].sum()))} tokens"
