"""A conversation as a list of lines: the resumed one or the whole history, with search, filters and raw JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import polars as pl
import traitlets

from ..errors import CCAnalyticsError
from ..figures.branches import plot_branches
from ..figures.text import count, usd
from ..markup import plain
from ..plot import main_file
from ..tables_of import eager
from .base import Widget, int_of, source, style
from .cells import session_choices
from .words import found_in, json_of, preview_of, raw_entries, whole_of

MODES = ("history", "resume")
KINDS = ("prompt", "answer", "tool call", "tool result", "system", "other")
MENDED = {
    "bridged": "link bridged",
    "logical": "after a compaction",
    "relinked": "relinked",
    "spliced": "spliced in",
    "recovered": "recovered",
}
MOST_ROWS = 200


class Conversation(Widget):
    """Lines of one session; ``selection`` has the rows of ``t.entries`` chosen.

    Parameters
    ----------
    t
        A loaded object.
    session, agent
        Whose lines; by default the session with most entries, and its main thread.
    mode
        "history": every line, left-behind branches marked; "resume": what Claude Code would load on --resume.
    kinds
        Kinds of lines shown, all by default: prompt, answer, tool call, tool result, system, other.
    search
        Only lines that say this (upper and lower case alike).
    live
        Follow a running session.
    """

    _esm = source("conversation")
    _css = style()
    table = "entries"
    reactions: ClassVar = {
        "_changed": ["session"],
        "_read_again": ["agent", "mode"],
        "_filtered": ["kinds", "search"],
        "_choose": ["chosen"],
    }

    session = traitlets.Unicode("").tag(sync=True)
    agent = traitlets.Unicode("").tag(sync=True)
    mode = traitlets.Enum(MODES, "history").tag(sync=True)
    kinds = traitlets.List(traitlets.Enum(KINDS)).tag(sync=True)
    search = traitlets.Unicode("").tag(sync=True)
    chosen = traitlets.List(traitlets.Int()).tag(sync=True)
    """Entry ids chosen."""
    questions = frozenset({"rows", "raw"})

    def _start(self) -> None:
        self._words: dict[int, str] = {}
        if not self.session:
            counts = eager(self.t.entries).group_by("session_id").len().drop_nulls("session_id")
            counts = counts.sort("len", "session_id", descending=[True, False])
            self.session = counts["session_id"][0] if len(counts) else ""
        self._read()

    def _changed(self, _: object) -> None:
        self._words = {}
        self.agent = ""
        self.chosen = []
        self._read()

    def _read_again(self, _: object) -> None:
        self._read()

    def _filtered(self, _: object) -> None:
        self._draw()

    def _read(self) -> None:
        chains = eager(self.t.chains)
        entries = eager(self.t.entries)
        self._note = ""
        if self.mode == "resume":
            rows = self._resumed(entries)
        else:
            rows = self._history(entries, chains)
        marks = chains.select("entry_id", "branch_no", "on_resume", "off_reason", "is_leaf")
        rows = rows.join(marks, on="entry_id", how="left", validate="m:1", maintain_order="left")
        self._lines = _described(rows, self._mended(), self._left_at())
        self._draw()

    def _history(self, entries: pl.DataFrame, chains: pl.DataFrame) -> pl.DataFrame:
        own = self._own_files()
        rows = entries.filter(pl.col("file_id").is_in(own))
        is_said = pl.col("entry_id").is_in(chains["entry_id"].implode())
        return rows.filter(is_said | pl.col("type").is_in(["summary", "system"])).with_columns(_no_synthetic())

    def _own_files(self) -> list[int]:
        files = eager(self.t.files).filter(pl.col("session_id") == self.session)
        whose = pl.col("agent_id") == self.agent if self.agent else pl.col("agent_id").is_null()
        return files.filter(whose)["file_id"].to_list()

    def _resumed(self, entries: pl.DataFrame) -> pl.DataFrame:
        try:
            plan: pl.DataFrame = self.t.resume(self.session)
        except CCAnalyticsError as e:
            self._note = str(e)
            return entries.clear().with_columns(_no_synthetic())
        plan = plan.select("entry_id", pl.col("synthetic").cast(pl.String))
        return plan.join(entries, on="entry_id", how="left", validate="m:1", maintain_order="left")

    def _mended(self) -> pl.DataFrame:
        edges = eager(self.t.edges).with_columns(pl.col("kind").cast(pl.String))
        found = edges.filter(pl.col("kind").is_in(list(MENDED)), pl.col("session_id") == self.session)
        text = (
            pl.col("kind").replace_strict(MENDED, return_dtype=pl.String) + " (" + pl.col("rule").cast(pl.String) + ")"
        )
        return found.select(pl.col("child_id").alias("entry_id"), text.alias("mended")).unique("entry_id", keep="first")

    def _left_at(self) -> pl.DataFrame:
        """Entries where branches part: more than one message hangs on them."""
        chains = eager(self.t.chains).filter(pl.col("session_id") == self.session)
        heads = chains.group_by("parent_id").agg(pl.col("branch_no").n_unique().alias("n_branches"))
        heads = heads.filter(pl.col("parent_id").is_not_null(), pl.col("n_branches") > 1)
        return heads.select(pl.col("parent_id").alias("entry_id"), pl.col("n_branches").cast(pl.Int64))

    def _draw(self) -> None:
        rows = self._lines
        if self.kinds:
            rows = rows.filter(pl.col("kind").is_in(self.kinds))
        if self.search.strip():
            rows = rows.filter(self._says(rows, self.search.strip()))
        self._rows = rows
        agents = (
            eager(self.t.files).filter(pl.col("session_id") == self.session)["agent_id"].drop_nulls().unique().sort()
        )
        self.view = {
            "sessions": session_choices(eager(self.t.sessions), [self.session]),
            "agents": agents.head(200).to_list(),
            "kinds": KINDS,
            "modes": MODES,
            "total": len(rows),
            "lines": len(self._lines),
            "note": self._note,
        }
        self._choose(None)

    def _says(self, rows: pl.DataFrame, text: str) -> pl.Series:
        ids = rows["entry_id"].to_list()
        missing = [i for i in dict.fromkeys(ids) if i is not None and i not in self._words]
        self._words.update(zip(missing, found_in(raw_entries(self.t, missing)), strict=True))
        said = pl.Series([self._words.get(i, "") for i in ids], dtype=pl.String)
        return said.str.to_lowercase().str.contains(text.lower(), literal=True)

    def _on_rows(self, question: dict[str, Any]) -> dict[str, Any]:
        start = max(0, int_of(question, "from"))
        rows = self._rows.slice(start, min(MOST_ROWS, max(0, int_of(question, "n", 50))))
        raw = iter(raw_entries(self.t, rows["entry_id"].drop_nulls().to_list()))
        return {
            "from": start,
            "rows": [_row(r, next(raw) if r["entry_id"] is not None else None) for r in rows.iter_rows(named=True)],
        }

    def _on_raw(self, question: dict[str, Any]) -> str:
        entry_id = int_of(question, "of", -1)
        known = entry_id in self._lines["entry_id"]
        return json_of(raw_entries(self.t, [entry_id])[0]) if known else ""

    def _choose(self, _: object) -> None:
        entries = eager(self.t.entries)
        self.selection = entries.filter(pl.col("entry_id").is_in(self.chosen))
        last = self.chosen[-1] if len(self.selection) else None
        self.detail = self._facts(last) if last is not None else {}

    def _facts(self, entry_id: int) -> dict[str, Any]:
        row = eager(self.t.entries).filter(pl.col("entry_id") == entry_id)
        if not len(row):
            return {}
        r = row.row(0, named=True)
        file = eager(self.t.files).filter(pl.col("file_id") == r["file_id"])
        where = plain(str(file["path"][0]).replace("\\", "/").rsplit("/", 1)[-1]) if len(file) else "?"
        call = eager(self.t.calls).filter(pl.col("message_id") == r["message_id"]) if r["message_id"] else None
        facts = [
            ["line", f"{r['line_no']} of {where}"],
            ["when", f"{r['timestamp']:%Y-%m-%d %H:%M:%S} UTC" if r["timestamp"] else "no time"],
            ["model", plain(r["model"] or "")],
            ["version", plain(r["version"] or "")],
        ]
        if call is not None and len(call):
            c = call.row(0, named=True)
            sizes = f"prompt {count(c['context_tokens'])} · output {count(c['output_tokens'])} tokens"
            facts.append(["call", f"{usd(c['cost_usd'])} · {sizes}"])
        return {
            "id": entry_id,
            "facts": [f for f in facts if f[1]],
            "text": whole_of(raw_entries(self.t, [entry_id])[0]),
        }

    def _about(self) -> str:
        return f"{len(self._rows):,} lines, {self.mode}"

    def _still(self) -> tuple[Callable[..., Any] | None, Sequence[str], Sequence[Sequence[object]]]:
        shown = self._rows.filter(pl.col("kind") != "other").head(12)
        raw = iter(raw_entries(self.t, shown["entry_id"].drop_nulls().to_list()))
        lines = [_row(r, next(raw) if r["entry_id"] is not None else None) for r in shown.iter_rows(named=True)]
        rows = [(line["kind"], line["text"][:110], "; ".join(line["marks"])) for line in lines]
        chains = eager(self.t.chains).filter(pl.col("session_id") == self.session)
        own = main_file(chains, eager(self.t.files))
        marks, edges = eager(self.t.compactions), eager(self.t.edges)
        return lambda ax: plot_branches(own, marks, edges, ax=ax), ("line", "text", "marks"), rows


def _no_synthetic() -> pl.Expr:
    return pl.lit(None, dtype=pl.String).alias("synthetic")


def _described(rows: pl.DataFrame, mended: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """Each line's kind and marks."""
    said = pl.col("prompt_kind").cast(pl.String)
    is_result, is_call = pl.col("n_tool_results") > 0, pl.col("n_tool_uses") > 0
    kind = (
        pl.when(pl.col("synthetic").is_not_null()).then(pl.lit("system"))
        .when((pl.col("type") == "user") & is_result).then(pl.lit("tool result"))
        .when((pl.col("type") == "user") & said.is_in(["typed", "command"])).then(pl.lit("prompt"))
        .when(pl.col("type") == "user").then(pl.lit("system"))
        .when((pl.col("type") == "assistant") & is_call).then(pl.lit("tool call"))
        .when(pl.col("type") == "assistant").then(pl.lit("answer"))
        .when(pl.col("type") == "system").then(pl.lit("system"))
        .otherwise(pl.lit("other"))
    )  # fmt: skip
    columns = (
        "entry_id", "type", "subtype", "timestamp", "model", "prompt_kind", "is_compact_summary", "is_rescued",
        "synthetic", "branch_no", "on_resume", "off_reason", "output_tokens",
    )  # fmt: skip
    out = rows.with_columns(kind.alias("kind")).select(*columns, "kind")
    for extra in (mended, parts):
        out = out.join(extra, on="entry_id", how="left", validate="m:1", maintain_order="left")
    return out


def _row(r: dict[str, Any], entry: dict[str, Any] | None) -> dict[str, Any]:
    text = preview_of(entry) if entry is not None else f"(a line of {r['synthetic']} that Claude Code makes up)"
    if r["entry_id"] is not None and entry is None:
        text = "(the line cannot be read any more)"
    return {
        "id": r["entry_id"] if r["entry_id"] is not None else -1,
        "kind": r["kind"],
        "type": plain(" / ".join(filter(None, [r["type"], r["subtype"]]))),
        "time": f"{r['timestamp']:%H:%M:%S}" if r["timestamp"] else "",
        "branch": r["branch_no"] or 0,
        "faded": r["on_resume"] is False,
        "text": text,
        "marks": list(_marks(r)),
    }


def _marks(r: dict[str, Any]) -> list[str]:
    marks = []
    if r["subtype"] == "compact_boundary":
        marks.append("compaction")
    if r["is_compact_summary"]:
        marks.append("summary")
    if r["n_branches"]:
        marks.append(f"{r['n_branches']} branches part here")
    if r["mended"]:
        marks.append(r["mended"])
    if r["is_rescued"]:
        marks.append("rescued from damage")
    if r["on_resume"] is False and r["off_reason"]:
        marks.append(str(r["off_reason"]).replace("_", " "))
    if r["synthetic"]:
        marks.append("made up")
    return marks
