"""Agent runs as a tree with lanes: expand, sort; click a run to see its prompt, its result, its tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import polars as pl
import traitlets

from ..figures.lanes import name_of_run, plot_agents, tree_order, type_of_run
from ..figures.style import colors_of
from ..figures.text import count, shorten, span, usd
from ..markup import plain
from ..tables_of import eager
from .base import Widget, int_of, source, style
from .cells import session_choices, table_view
from .words import LINES_SHOWN, preview_of, raw_entries, whole_of

SORTS = ("time", "own cost", "inclusive cost", "own tokens", "inclusive tokens", "duration")
_BY = {
    "time": ("started_at", False), "own cost": ("own_cost_usd", True), "inclusive cost": ("incl_cost_usd", True),
    "own tokens": ("own_tokens", True), "inclusive tokens": ("incl_tokens", True), "duration": ("duration_ms", True),
}  # fmt: skip
KINDS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
OPEN_AT_FIRST = 200
"""Runs that are all shown at first; of larger trees only the first two levels."""


class AgentTree(Widget):
    """Runs of a session as a tree; ``selection`` has the row of ``t.agents`` of the run chosen.

    Parameters
    ----------
    t
        A loaded object.
    session
        Id of a session; by default the one with most runs.
    sort
        Order of siblings: time, own cost, inclusive cost, own tokens, inclusive tokens, duration.
    live
        Follow a running session.

    Attributes
    ----------
    entries, tools
        Frames of the entries and tool calls of the run chosen.
    """

    _esm = source("agent_tree")
    _css = style()
    table = "agents"
    reactions: ClassVar = {"_changed": ["session"], "_sorted": ["sort"], "_folded": ["closed"], "_choose": ["chosen"]}

    session = traitlets.Unicode("").tag(sync=True)
    sort = traitlets.Enum(SORTS, "time").tag(sync=True)
    closed = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Keys of the runs whose children are folded away."""
    chosen = traitlets.Unicode("").tag(sync=True)
    """Key of the run chosen (its session and agent id); empty for none."""
    questions = frozenset({"rows", "lines"})

    def _start(self) -> None:
        total = [pl.sum_horizontal(f"{p}_{k}" for k in KINDS).alias(f"{p}_tokens") for p in ("own", "incl")]
        self._runs = eager(self.t.agents).with_columns(total)
        if not self.session:
            counts = self._runs.group_by("session_id").len().sort("len", "session_id", descending=[True, False])
            self.session = counts["session_id"][0] if len(counts) else ""
        self._order()

    def _changed(self, _: object) -> None:
        self.chosen = ""
        self.closed = []
        self._order()

    def _sorted(self, _: object) -> None:
        self._order(keep=True)

    def _folded(self, _: object) -> None:
        self._draw()

    def _order(self, *, keep: bool = False) -> None:
        column, descending = _BY[self.sort]
        own = self._runs.filter(pl.col("session_id") == self.session)
        self._tree = tree_order(own, sort=column, descending=descending).with_columns(
            pl.col("path").str.count_matches("/").cast(pl.Int32).alias("level"),
            name_of_run().fill_null("unnamed").alias("label"),
            type_of_run().fill_null("unknown").alias("sort_of"),
        )
        parents = self._tree["parent_key"].drop_nulls().unique()
        self._tree = self._tree.with_columns(pl.col("key").is_in(parents.implode()).alias("has_children"))
        if not keep and len(self._tree) > OPEN_AT_FIRST and not self.closed:
            self.closed = self._tree.filter(pl.col("level") >= 1, "has_children")["key"].to_list()
        self._draw()

    def _draw(self) -> None:
        self._rows = _unfolded(self._tree, set(self.closed))
        types = self._tree["sort_of"].unique(maintain_order=True).to_list()
        self._colors = colors_of(types)
        first, last = self._span()
        self.view = {
            "sessions": session_choices(eager(self.t.sessions), [self.session]),
            "sorts": SORTS,
            "total": len(self._rows),
            "runs": len(self._tree),
            "types": [[t, c] for t, c in list(self._colors.items())[:12]],
            "first": f"{first:%Y-%m-%d %H:%M:%S} UTC" if first is not None else "",
            "last": f"{last:%H:%M:%S}" if last is not None else "",
        }
        self._choose(None)

    def _on_rows(self, question: dict[str, Any]) -> dict[str, Any]:
        start = max(0, int_of(question, "from"))
        rows = self._rows.slice(start, min(200, max(0, int_of(question, "n", 50))))
        return {"from": start, "rows": [self._row(r) for r in rows.iter_rows(named=True)]}

    def _span(self) -> tuple[Any, Any]:
        """From when to when the runs of the session went."""
        return self._tree["started_at"].min(), self._tree["ended_at"].max()

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        first, last = self._span()
        whole = max((last - first).total_seconds(), 0.001) if first is not None and last is not None else 1.0
        start, end = row["started_at"] or first, row["ended_at"] or row["started_at"] or first
        place = (
            ((start - first).total_seconds() / whole, (end - start).total_seconds() / whole) if first else (0.0, 0.0)
        )
        return {
            "key": row["key"], "level": row["level"], "name": shorten(plain(row["label"]), 80),
            "sort_of": shorten(plain(row["sort_of"]), 40),
            "parent": row["has_children"], "open": row["key"] not in self.closed, "color": self._colors[row["sort_of"]],
            "own": usd(row["own_cost_usd"]), "incl": usd(row["incl_cost_usd"]), "tokens": count(row["incl_tokens"]),
            "took": span(row["duration_ms"]), "status": row["status"] or "unknown", "left": place[0], "width": place[1],
        }  # fmt: skip

    def _choose(self, _: object) -> None:
        run = self._tree.filter(pl.col("key") == self.chosen)
        self.selection = run.select(eager(self.t.agents).columns)
        self.detail = self._facts(run.row(0, named=True)) if len(run) else {}

    @property
    def entries(self) -> pl.DataFrame:
        """Entries of the run chosen."""
        return self._of_run(eager(self.t.entries))

    @property
    def tools(self) -> pl.DataFrame:
        """Tool calls of the run chosen."""
        return self._of_run(eager(self.t.tools))

    def _of_run(self, frame: pl.DataFrame) -> pl.DataFrame:
        if not len(self.selection):
            return frame.clear()
        run = self.selection.row(0, named=True)
        same = pl.col("agent_id").eq_missing(pl.lit(run["agent_id"], dtype=pl.String))
        has_file = run["file_id"] is not None and run["agent_id"] is not None and run["layout"] != "inline"
        if has_file and "line_no" in frame.columns:
            return frame.filter(pl.col("file_id") == run["file_id"])
        return frame.filter(pl.col("session_id") == run["session_id"], same)

    def _facts(self, run: dict[str, Any]) -> dict[str, Any]:
        tools = self.tools
        own = f"{usd(run['own_cost_usd'])} · {count(run['own_tokens'])} tokens · {count(run['own_calls'])} calls"
        return {
            "facts": [
                ["run", plain(run["label"])],
                ["type", plain(run["sort_of"])],
                ["models", plain(run["models"] or "none")],
                ["status", run["status"] or "unknown"],
                ["took", span(run["duration_ms"])],
                ["own", own],
                ["inclusive", f"{usd(run['incl_cost_usd'])} · {count(run['incl_tokens'])} tokens"],
                ["entries", count(run["n_entries"])],
            ],
            "entries": len(self.entries),
            "prompt": self._text(run["prompt_entry_id"]),
            "result": self._text(self._result_of(run)),
            "tools": table_view(tools, ("started_at", "name", "outcome", "duration_ms", "command_head", "file_path")),
        }

    def _on_lines(self, question: dict[str, Any]) -> list[list[str]]:
        rows = self.entries.slice(max(0, int_of(question, "from")), LINES_SHOWN)
        raw = raw_entries(self.t, rows["entry_id"].to_list())
        return [[kind or "", preview_of(entry)] for kind, entry in zip(rows["type"], raw, strict=True)]

    def _text(self, entry_id: int | None) -> str:
        return whole_of(raw_entries(self.t, [entry_id])[0]) if entry_id is not None else ""

    def _result_of(self, run: dict[str, Any]) -> int | None:
        """The entry that answers the call which started the run, as its parent saw it."""
        if run["tool_use_id"] is None:
            return None
        tools = eager(self.t.tools).filter(
            pl.col("session_id") == run["session_id"], pl.col("tool_use_id") == run["tool_use_id"]
        )
        return next(iter(tools["result_entry_id"].drop_nulls()), None)

    def _about(self) -> str:
        return f"{len(self._tree):,} runs in the session shown"

    def _still(self) -> tuple[Callable[..., Any] | None, Sequence[str], Sequence[Sequence[object]]]:
        rows = [
            ("\u2003" * r["level"] + shorten(plain(r["label"]), 60), r["sort_of"], usd(r["own_cost_usd"]),
             usd(r["incl_cost_usd"]), span(r["duration_ms"]))
            for r in self._tree.head(30).iter_rows(named=True)
        ]  # fmt: skip
        drawn = self._tree.select(eager(self.t.agents).columns)
        return lambda ax: plot_agents(drawn, top=14, ax=ax), ("run", "type", "own cost", "inclusive", "took"), rows


def _unfolded(tree: pl.DataFrame, closed: set[str]) -> pl.DataFrame:
    """The rows no folded run hides: the tree is in order, so a folded run hides what follows it at a deeper level."""
    shown: list[bool] = []
    hidden_below: int | None = None
    for key, level in tree.select("key", "level").iter_rows():
        if hidden_below is not None and level > hidden_below:
            shown.append(False)
            continue
        hidden_below = level if key in closed else None
        shown.append(True)
    return tree.filter(pl.Series(shown, dtype=pl.Boolean))
