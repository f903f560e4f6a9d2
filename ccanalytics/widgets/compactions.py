"""Compactions of a session: context over time; click a boundary to see what was kept, dropped, said and paid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import polars as pl
import traitlets

from ..details import parse_details
from ..figures.context import context_series, plot_context, thinned
from ..figures.text import count, span, usd
from ..plot import session_to_show, window_of
from ..tables_of import eager
from .base import Widget, int_of, source, style
from .cells import session_choices
from .words import LINES_SHOWN, preview_of, raw_entries, whole_of


class Compactions(Widget):
    """Context over the calls of one session; ``selection`` has the compaction chosen.

    Parameters
    ----------
    t
        A loaded object.
    session
        Id of a session; by default the one with most compactions.
    chosen
        Entry of the compaction chosen; -1 for none.
    live
        Follow a running session.

    Attributes
    ----------
    kept, dropped
        Frames of the entries that the compaction chosen kept word for word, and of those it put away.
    """

    _esm = source("compactions")
    _css = style()
    table = "compactions"
    reactions: ClassVar = {"_changed": ["session"], "_choose": ["chosen"]}

    session = traitlets.Unicode("").tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)
    questions = frozenset({"lines"})

    def _start(self) -> None:
        self._marks = eager(self.t.compactions)
        self._calls = eager(self.t.calls)
        if not self.session:
            self.session = session_to_show(self._calls, self._marks) or ""
        self._draw()

    def _changed(self, _: object) -> None:
        self.chosen = -1
        self._draw()

    def _draw(self) -> None:
        main = pl.col("agent_id").is_null()
        calls = self._calls.filter(main, pl.col("session_id") == self.session)
        self._own = self._marks.filter(main, pl.col("session_id") == self.session).sort("timestamp", "entry_id")
        series = context_series(calls, self._own)
        points = thinned(series.filter(pl.col("context_tokens").is_not_null()))
        columns = ("call_no", "context_tokens", "cache_read_input_tokens", "is_miss")
        self._own_calls = calls
        self.view = {
            "sessions": self._choices(),
            "points": [list(row) for row in points.select(columns).iter_rows()],
            "times": [f"{at:%Y-%m-%d %H:%M:%S}" if at else "" for at in points["first_at"]],
            "boundaries": self._boundaries(series),
            "window": window_of(calls),
        }
        self._choose(None)

    def _choices(self) -> list[list[str]]:
        counts = self._marks.group_by("session_id").len().sort("len", "session_id", descending=[True, False])
        return session_choices(eager(self.t.sessions), [*counts["session_id"].to_list(), self.session])

    def _boundaries(self, series: pl.DataFrame) -> list[dict[str, Any]]:
        at = dict(series.drop_nulls("boundary_id").select("boundary_id", "call_no").iter_rows())
        last = int(series["call_no"].max() or 0)  # type: ignore[arg-type]
        return [
            {
                "id": row["entry_id"],
                "at": at.get(row["entry_id"], last + 1) - 0.5,
                "label": f"{row['kind']} · {row['trigger'] or 'unknown trigger'} · "
                f"{count(_before(row))} → {count(_after(row))} tokens",
            }
            for row in self._own.iter_rows(named=True)
        ]

    def _choose(self, _: object) -> None:
        self.selection = self._own.filter(pl.col("entry_id") == self.chosen)
        self.detail = self._facts() if len(self.selection) else {}

    def _facts(self) -> dict[str, Any]:
        row = self.selection.row(0, named=True)
        self.kept, self.dropped = self._lines(row)
        summary = row["summary_entry_id"]
        return {
            "facts": [
                ["when", f"{row['timestamp']:%Y-%m-%d %H:%M:%S} UTC" if row["timestamp"] else "unknown"],
                ["trigger", row["trigger"] or "not said"],
                ["prompt before", f"{count(_before(row))} tokens"],
                ["prompt after", f"{count(_after(row))} tokens"],
                ["took", span(row["duration_ms"]) if row["duration_ms"] is not None else "not said"],
                ["cost of the summary", _cost(row)],
                ["lines kept", count(row["messages_kept"])],
                ["lines dropped", count(row["messages_dropped"])],
            ],
            "summary": whole_of(raw_entries(self.t, [summary])[0]) if summary is not None else "",
            "kept": len(self.kept),
            "dropped": len(self.dropped),
        }

    def _lines(self, boundary: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Messages of the thread since the compaction before: those kept, and those put away."""
        entries = eager(self.t.entries)
        place = entries.filter(pl.col("entry_id") == boundary["entry_id"])
        if not len(place):
            return entries.clear(), entries.clear()
        before = self._own.filter(pl.col("kind").cast(pl.String) == "compact")["entry_id"].to_list()
        since = max((e for e in before if e < boundary["entry_id"]), default=-1)
        said = entries.filter(
            pl.col("file_id") == place["file_id"][0],
            pl.col("entry_id").is_between(since, boundary["entry_id"], closed="none"),
            pl.col("type").is_in(["user", "assistant"]), ~pl.col("is_sidechain").fill_null(False),
        )  # fmt: skip
        named = _named(place["detail"])
        if named is not None:
            kept = pl.col("uuid").is_in(named)
        else:
            head, tail = (_place(said, boundary[f"segment_{end}_uuid"]) for end in ("head", "tail"))
            kept = pl.lit(False) if head is None or tail is None else pl.col("entry_id").is_between(head, tail)
        return said.filter(kept), said.filter(~kept)

    kept = pl.DataFrame()
    dropped = pl.DataFrame()

    def _on_lines(self, question: dict[str, Any]) -> list[list[str]]:
        frame = self.kept if question.get("which") == "kept" else self.dropped
        rows = frame.slice(max(0, int_of(question, "from")), LINES_SHOWN)
        raw = raw_entries(self.t, rows["entry_id"].to_list() if len(rows) else [])
        return [
            [kind or "", preview_of(entry)] for kind, entry in zip(rows["type"] if len(rows) else [], raw, strict=True)
        ]

    def _about(self) -> str:
        return f"{len(self._own)} in the session shown, {len(self._marks)} in all"

    def _still(self) -> tuple[Callable[..., Any] | None, Sequence[str], Sequence[Sequence[object]]]:
        header = ("compaction", "trigger", "before", "after", "lines dropped", "cost of the summary")
        rows = [
            (f"{r['timestamp']:%Y-%m-%d %H:%M}" if r["timestamp"] else "", r["trigger"] or "",
             count(_before(r)), count(_after(r)), count(r["messages_dropped"]), _cost(r))
            for r in self._own.head(30).iter_rows(named=True)
        ]  # fmt: skip
        return lambda ax: plot_context(self._own_calls, self._own, window=self.view["window"], ax=ax), header, rows


def _place(said: pl.DataFrame, uuid: str | None) -> int | None:
    """Entry id of the line with that uuid."""
    return next(iter(said.filter(pl.col("uuid") == uuid)["entry_id"]), None) if uuid is not None else None


def _named(detail: pl.Series) -> list[str] | None:
    """The uuids that the boundary lists as kept, if it lists them."""
    facts = next(iter(parse_details(detail)), None)
    meta = facts.get("compactMetadata") if isinstance(facts, dict) else None
    named = meta.get("preservedMessages") if isinstance(meta, dict) else None
    uuids = (named.get("uuids") or named.get("allUuids")) if isinstance(named, dict) else None
    return [u for u in uuids if isinstance(u, str)] if isinstance(uuids, list) else None


def _before(row: dict[str, Any]) -> Any:
    return row["pre_tokens"] if row["pre_tokens"] is not None else row["context_before_tokens"]


def _after(row: dict[str, Any]) -> Any:
    return row["post_tokens"] if row["post_tokens"] is not None else row["context_after_tokens"]


def _cost(row: dict[str, Any]) -> str:
    return usd(row["summary_cost_usd"]) if row["summary_cost_usd"] is not None else "not in the transcript"
