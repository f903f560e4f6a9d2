"""`doctor`: what is damaged, what it does to a resume and to the numbers, and what will be deleted soon."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from ccanalytics.schema import Column, Table

from .findings import LEVELS, meaning_of
from .retention import retention_findings

if TYPE_CHECKING:
    from ccanalytics.transcripts import Transcripts

PathLike = str | os.PathLike[str]

RUNNING_MS = 10 * 60_000
"""A session that was written to less than ten minutes ago may still be running: what it lacks may yet come."""

FINDINGS = Table(
    "findings",
    "kind of finding in a file",
    ("session_id", "path", "code"),
    (
        Column("session_id", "str", "session concerned; null when it is none"),
        Column("path", "str", "file concerned; null when it is none"),
        Column("code", "str", "what was found: a code of `problems`, or one of the doctor's own"),
        Column("level", "str", "damage: something is wrong; note: worth knowing", values=LEVELS),
        Column("n", "i64", "how many"),
        Column("line_no", "i32", "first line concerned"),
        Column(
            "ids", "str", "uuids of the lines, or ids of the calls or agents concerned, comma-separated, at most 50"
        ),
        Column("area", "str", "what it touches", values=("reading", "resume", "numbers", "retention")),
        Column("effect", "str", "what it does, in words"),
        Column("remedy", "str", "what mends it; null when nothing does"),
    ),
    sort=("session_id", "path", "level", "code"),
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor found."""

    findings: pl.DataFrame
    """One row per kind of finding in a file; columns as in `FINDINGS`."""
    n_sessions: int
    n_entries: int

    @property
    def is_healthy(self) -> bool:
        """True when nothing is damaged; notes do not count."""
        return self.findings.filter(pl.col("level") == "damage").is_empty()

    @property
    def totals(self) -> dict[str, int]:
        """How many of each code."""
        by_code = self.findings.group_by("code").agg(pl.col("n").sum()).sort("code")
        return dict(by_code.iter_rows())

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "healthy": self.is_healthy,
            "sessions": self.n_sessions,
            "entries": self.n_entries,
            "totals": self.totals,
            "findings": self.findings.to_dicts(),
        }

    def text(self) -> str:
        """The same for people: by session, damage first."""
        head = f"{self.n_sessions:,} session{'s' * (self.n_sessions != 1)}, {self.n_entries:,} entries: "
        lines = [head + ("nothing is damaged" if self.is_healthy else "something is damaged")]
        due = pl.col("code") == "deleted_soon"
        for key, group in self.findings.filter(~due).group_by("session_id", "path", maintain_order=True):
            lines += ["", f"session {key[0]}" if key[0] else "everywhere", *([f"  {key[1]}"] if key[1] else [])]
            for row in group.iter_rows(named=True):
                where = f", first on line {row['line_no']}" if row["line_no"] else ""
                lines.append(f"  {row['level']}: {row['n']:,} {row['code']}{where}: {row['effect']}")
                lines += [f"    -> {row['remedy']}"] if row["remedy"] else []
        leaving = self.findings.filter(due)["path"].n_unique()
        if leaving:
            _, _, effect, remedy = meaning_of("deleted_soon")
            lines += ["", f"{leaving:,} sessions (deleted_soon) {effect}", f"  -> {remedy}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.text())}</pre>"


def doctor(
    source: Transcripts | PathLike | Sequence[PathLike] | None = None,
    *,
    session: str | None = None,
    project: str | None = None,
    now: datetime | None = None,
) -> Diagnosis:
    """Look for damage in transcripts and say what it does.

    Parameters
    ----------
    source
        Loaded transcripts, or what `load` takes.
    session, project
        Only this session (id or its beginning), this project.
    now
        Time to compare with; default: now.

    Returns
    -------
    Diagnosis
        ``findings`` is a frame; ``text()`` and ``to_dict()`` say the same; ``is_healthy`` says whether all is well.
    """
    from ccanalytics.load import load
    from ccanalytics.transcripts import Transcripts

    t = source if isinstance(source, Transcripts) else load(source, sessions=session, projects=project)
    moment = now or datetime.now(UTC)
    found = pl.concat(
        [
            _read_and_linked(t),
            _bridged_late(t),
            _unfinished(t, moment),
            _resume(t),
            _unanswered(t, moment),
            _repeated(t),
            _unlinked(t),
            _numbers(t),
            retention_findings(t.files, moment),
        ],
        how="diagonal_relaxed",
    )
    findings = _explain(found, t.files)
    if session is not None:
        findings = findings.filter(pl.col("session_id").str.starts_with(session))
    n_sessions = t.files.filter(pl.col("kind") == "session")["session_id"].n_unique()
    return Diagnosis(findings, n_sessions, len(t.entries))


def _explain(found: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """The findings with level, effect and remedy in words."""
    owners = files.select("file_id", "path", owner="session_id")
    placed = found.join(owners, on="file_id", how="left", validate="m:1", maintain_order="left")
    placed = placed.with_columns(pl.coalesce("session_id", "owner").alias("session_id"))
    codes = sorted(set(placed["code"].to_list()))
    meanings = [(code, *meaning_of(code)) for code in codes]
    words = pl.DataFrame(meanings, schema=["code", "usual", "area", "words", "remedy"], orient="row")
    words = words.cast(dict.fromkeys(words.columns, pl.String))
    explained = placed.join(words, on="code", how="left", validate="m:1", maintain_order="left")
    running = pl.col("is_running").fill_null(False)
    return FINDINGS.conform(
        explained.select(
            "session_id",
            "path",
            "code",
            "n",
            "line_no",
            pl.when(pl.col("ids") != "").then("ids"),
            "area",
            pl.when(running).then(pl.lit("note")).otherwise("usual").alias("level"),
            pl.concat_str("words", pl.coalesce(pl.lit(" (") + pl.col("detail") + ")", pl.lit(""))).alias("effect"),
            pl.when(running)
            .then(None)
            .otherwise(pl.col("remedy").str.replace("SESSION", pl.col("session_id").fill_null("SESSION"), literal=True))
            .alias("remedy"),
        )
    ).sort(FINDINGS.order, nulls_last=True, maintain_order=True)


def _read_and_linked(t: Transcripts) -> pl.DataFrame:
    """Every code of ``problems``, counted by file; lines inherited by a fork or an old resume are told from strays."""
    lines = t.entries.select("entry_id", "session_id")
    shown = t.chains.select("entry_id", "on_resume")
    main = t.files.filter(pl.col("kind") == "session")
    homes = main.select("session_id", "file_id").drop_nulls().unique("session_id", maintain_order=True)
    there = t.entries.select("file_id", "uuid").drop_nulls().unique(maintain_order=True)
    placed = (
        t.problems.join(lines, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .join(shown, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .join(homes.rename({"file_id": "home"}), on="session_id", how="left", validate="m:1", maintain_order="left")
        .join(
            there.with_columns(is_there=pl.lit(True)),
            left_on=["home", "uuid"],
            right_on=["file_id", "uuid"],
            how="left",
            validate="m:1",
            maintain_order="left",
        )
    )
    at_home = pl.col("home").is_null() | pl.col("is_there").fill_null(False)
    inherited = (pl.col("code") == "foreign_session") & pl.col("on_resume").fill_null(False) & at_home
    return _counted(placed, pl.when(inherited).then(pl.lit("inherited_line")).otherwise("code"))


def _bridged_late(t: Transcripts) -> pl.DataFrame:
    """Entries that hang on a line that is no entry and that Claude Code does not pass over."""
    shown = pl.col("type").is_in(["user", "assistant"]) & pl.col("has_message") | pl.col("type").is_in(
        ["system", "attachment"]
    )
    lines = t.entries.filter(pl.col("uuid").is_not_null()).select(
        "entry_id", "file_id", "line_no", "uuid", "parent_uuid", "type", is_shown=shown.fill_null(False)
    )
    ends = lines.unique(["file_id", "uuid"], keep="last", maintain_order=True)
    ends = ends.select("file_id", parent_uuid="uuid", parent_id="entry_id", parent_type="type", parent_shown="is_shown")
    linked = lines.filter("is_shown").join(
        ends, on=["file_id", "parent_uuid"], how="inner", validate="m:1", maintain_order="left"
    )
    # Progress lines are passed over, but only those that were read before.
    passed = (pl.col("parent_type") == "progress") & (pl.col("parent_id") < pl.col("entry_id"))
    return _counted(linked.filter(~pl.col("parent_shown") & ~passed), pl.lit("hangs_on_no_entry"))


def _counted(rows: pl.DataFrame, code: str | pl.Expr) -> pl.DataFrame:
    """Rows that have ``file_id``, ``line_no`` and ``uuid``, counted by file and code."""
    named = rows.with_columns(code=pl.col(code) if isinstance(code, str) else code)
    ordered = named.sort("file_id", "code", "line_no", nulls_last=True, maintain_order=True)
    return ordered.group_by("file_id", "code", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"), pl.col("line_no").first(), _ids("uuid")
    )


def _ids(column: str) -> pl.Expr:
    return pl.col(column).drop_nulls().unique(maintain_order=True).head(50).str.join(",").alias("ids")


def _is_running(at: pl.Expr, now: datetime) -> pl.Expr:
    age = pl.lit(now).dt.cast_time_unit("ms") - at
    return (age.dt.total_milliseconds() < RUNNING_MS).fill_null(False)


def _unfinished(t: Transcripts, now: datetime) -> pl.DataFrame:
    """Last lines that were begun and not ended."""
    return t.files.filter(pl.col("n_pending_bytes") > 0).select(
        "file_id",
        pl.lit("unfinished_line").alias("code"),
        pl.lit(1, pl.Int64).alias("n"),
        (pl.col("n_lines") + 1).cast(pl.Int32).alias("line_no"),
        _is_running(pl.col("modified_at"), now).alias("is_running"),
    )


_OFF = {
    "orphan": "unreachable",
    "not_read": "not_read_on_resume",
    "rescued": "unseen_by_claude_code",
    "unanswered": "hidden_by_open_call",
    "refused": "not_resumed",
    "abandoned": "on_abandoned_branch",
}


def _resume(t: Transcripts) -> pl.DataFrame:
    """Messages that a resume does not load, by the reason why."""
    kinds = t.entries.select("entry_id", "line_no", "uuid", "type")
    off = t.chains.filter(pl.col("off_reason").cast(pl.String).is_in(list(_OFF)))
    lost = off.select("entry_id", "file_id", "off_reason").join(kinds, on="entry_id", how="inner", validate="1:1")
    lost = lost.filter(pl.col("type").is_in(["user", "assistant"]))
    return _counted(lost, pl.col("off_reason").cast(pl.String).replace(_OFF))


def _unanswered(t: Transcripts, now: datetime) -> pl.DataFrame:
    """Calls without a result."""
    places = t.entries.select("entry_id", "file_id", "line_no")
    last = t.files.select("file_id", "last_at")
    calls = t.tools.filter(pl.col("outcome") == "unanswered").select("entry_id", uuid="tool_use_id")
    placed = calls.join(places, on="entry_id", how="inner", validate="m:1")
    counted = _counted(placed, pl.lit("unanswered_call"))
    timed = counted.join(last, on="file_id", how="left", validate="m:1", maintain_order="left")
    return timed.with_columns(_is_running(pl.col("last_at"), now).alias("is_running")).drop("last_at")


def _repeated(t: Transcripts) -> pl.DataFrame:
    """Calls with more than one result."""
    places = t.entries.select("entry_id", "file_id", "line_no")
    calls = t.tools.filter(pl.col("n_results") > 1).select("entry_id", uuid="tool_use_id")
    return _counted(calls.join(places, on="entry_id", how="inner", validate="m:1"), pl.lit("repeated_result"))


def _unlinked(t: Transcripts) -> pl.DataFrame:
    """Agents of which it is not known what started them."""
    agents = t.agents.filter(pl.col("link_rule").cast(pl.String) == "unlinked")
    return agents.group_by("session_id", "file_id", maintain_order=True).agg(
        pl.lit("unlinked_agent").alias("code"),
        pl.len().cast(pl.Int64).alias("n"),
        _ids("agent_id"),
    )


def _numbers(t: Transcripts) -> pl.DataFrame:
    """Calls whose figures are not whole."""
    kinds = {
        "uncertain_output": pl.col("is_partial"),
        "progress_only_call": pl.col("source").cast(pl.String) == "progress",
        "unpriced_call": pl.col("cost_usd").is_null(),
    }
    rows = []
    for code, is_so in kinds.items():
        some = t.calls.filter(is_so)
        rows.append(
            some.group_by("session_id", "file_id", maintain_order=True).agg(
                pl.lit(code).alias("code"),
                pl.len().cast(pl.Int64).alias("n"),
                _ids("call_id"),
                pl.col("model").unique(maintain_order=True).drop_nulls().str.join(", ").alias("detail"),
            )
        )
    return pl.concat(rows)
