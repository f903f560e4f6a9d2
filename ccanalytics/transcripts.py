"""What ``load`` returns: the base tables, and every other table computed from them when it is first asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import polars as pl

from .decode import loads
from .errors import NotFoundError, ReadError, UsageError
from .jobs import Piece, read_piece
from .parse import Content
from .place import UNREADABLE
from .schema.base import PROBLEMS

if TYPE_CHECKING:
    from pathlib import Path

    from .beside import Beside
    from .conversations import Conversations, View
    from .cost import Detail, Moment
    from .load import Source
    from .policies import Policy
    from .prices import Overrides, PriceTable
    from .resume import Apply, RulesChoice
    from .resume.reading import LargeFiles
    from .state import State
    from .usage_lines import Usage
    from .work import Work


class Transcripts:
    """Claude Code transcripts as frames.

    ``files``, ``entries``, ``blocks`` are eager frames; the other tables are computed once, when first asked for.
    """

    def __init__(
        self,
        files: pl.DataFrame,
        entries: pl.DataFrame,
        blocks: pl.DataFrame,
        read_problems: pl.DataFrame,
        *,
        content: Content = "none",
        unread_places: Sequence[tuple[str, str]] = (),
        beside: Beside | None = None,
        source: Source | None = None,
    ) -> None:
        self._source = source
        self.watchers: WeakSet[Any] = WeakSet()
        """Widgets and whatever else has ``refresh()``: told when something new was read."""
        self.beside = beside
        """What stands beside the transcripts, where it is not to be read from their folders."""
        self.files = files
        self.entries = entries
        self.blocks = blocks
        self.read_problems = read_problems
        """Problems met while reading; ``problems`` also has those met while linking."""
        self.content: Content = content
        self.unread_places = tuple(unread_places)
        """Folders that could not be listed, with the reason."""

    def refresh(self) -> Transcripts:
        """These transcripts, with what was written since: files that grew are read from where they ended.

        Tables are computed anew when next asked for; frames taken before stay as they are.
        """
        self.read_on()
        return self

    def read_on(self) -> bool:
        """As ``refresh``; whether anything had changed."""
        from .load import read_on

        if self._source is None:
            raise UsageError("these transcripts were not loaded from files; only what load() gave can be refreshed")
        before, source = self._source, read_on(self._source)
        if source is None:
            return False
        self._source = source
        # So soon after a write a file is read again whatever its times say.
        if source.found == before.found and source.read.is_same(before.read):
            return False
        tables = source.request.tables(source.read)
        for name in [n for n in vars(self) if isinstance(getattr(type(self), n, None), cached_property)]:
            delattr(self, name)
        self.files, self.entries, self.blocks, self.read_problems = tables
        self._source = source
        for watcher in [*self.watchers]:
            watcher.refresh()
        return True

    @cached_property
    def _usage(self) -> Usage:
        from .usage_lines import read_usage

        return read_usage(self.entries, self.files)

    @cached_property
    def calls(self) -> pl.DataFrame:
        """One row per API request (table ``calls``); see :func:`ccanalytics.calls.build_calls`."""
        from .calls import calls_of, name_progress_agents

        return name_progress_agents(calls_of(self._usage), self.entries)

    @cached_property
    def ledger(self) -> pl.DataFrame:
        """Why each line with usage counts or not (table ``ledger``); see :func:`ccanalytics.ledger.build_ledger`."""
        from .ledger import ledger_of

        return ledger_of(self._usage)

    def cost(
        self,
        by: str | Sequence[str] | None = None,
        *,
        tz: str | None = None,
        policy: Policy = "list",
        prices: Overrides | PriceTable | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        detail: Detail = "plain",
    ) -> pl.DataFrame:
        """Tokens, calls and cost by any keys, in a named zone; see :func:`ccanalytics.cost.build_cost`."""
        from .cost import build_cost

        options = {"tz": tz, "prices": prices, "since": since, "until": until}
        calls, tables = self.cost_tables(by)
        return build_cost(calls, by, policy=policy, detail=detail, **options, **tables)  # type: ignore[arg-type]

    def cost_tables(self, by: str | Sequence[str] | None) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
        """``calls``, placed in turns and agents where the keys need it, and the other tables that the keys need."""
        from .cost_keys import key_names, with_folders

        keys = set(key_names(by))
        placed = keys & {"turn", "agent", "agent_type"}
        tables = {"agents": ("agent_type",), "tools": ("tool",)}
        calls = self._work.turned_calls if placed else self.calls
        return (
            with_folders(calls, self.files) if "project" in keys else calls,
            {name: getattr(self, name) for name, needed in tables.items() if keys & {*needed}},
        )

    def cost_blocks(self, *, tz: str | None = None, policy: Policy = "list") -> pl.DataFrame:
        """Five-hour windows, the running one with its projection; see :func:`ccanalytics.windows.build_windows`."""
        from .windows import build_windows

        return build_windows(self.calls, tz=tz, policy=policy)

    def reconcile(self) -> pl.DataFrame:
        """Recorded cost beside the transcript's, the gap explained; see :mod:`ccanalytics.reconcile`."""
        from .reconcile import build_reconciliation

        return build_reconciliation(self.calls, self.entries, self.blocks, self.files)

    @cached_property
    def problems(self) -> pl.DataFrame:
        """Everything that could not be read or placed (table ``problems``)."""
        found = pl.concat([self.read_problems, self._work.problems, self.conversations.problems])
        return found.sort(PROBLEMS.order, nulls_last=True, maintain_order=True)

    @cached_property
    def _work(self) -> Work:
        from .work import Work

        words = self.content != "none"
        return Work(
            self.files,
            self.entries,
            self.blocks,
            self.calls,
            self.ledger,
            with_words=words,
            raw=self.raw,
            beside=self.beside,
        )

    @property
    def tools(self) -> pl.DataFrame:
        """One row per tool call (table ``tools``); see :func:`ccanalytics.tools.build_tools`."""
        return self._work.tools

    @property
    def agents(self) -> pl.DataFrame:
        """One row per agent run (table ``agents``); see :func:`ccanalytics.agents.build_agents`."""
        return self._work.agents

    @property
    def team_members(self) -> pl.DataFrame:
        """One row per member of a team, as the folders under ``teams/`` say; see :mod:`ccanalytics.teams`."""
        return self._work.team_members

    @property
    def turns(self) -> pl.DataFrame:
        """One row per human prompt (table ``turns``); see :func:`ccanalytics.turns.build_turns`."""
        return self._work.turns

    @property
    def compactions(self) -> pl.DataFrame:
        """One row per compaction (table ``compactions``); see :func:`ccanalytics.compactions.build_compactions`."""
        return self._work.compactions

    @cached_property
    def sessions(self) -> pl.DataFrame:
        """One row per session (table ``sessions``); see :func:`ccanalytics.sessions.build_sessions`."""
        return self._work.build_sessions(self.problems)

    @property
    def events(self) -> pl.DataFrame:
        """Hooks, permissions, queue, API errors (table ``events``); see :func:`ccanalytics.events.build_events`."""
        return self._work.events

    @property
    def parallelism(self) -> pl.DataFrame:
        """Time with so many agents at work (table ``parallelism``); see :mod:`ccanalytics.parallelism`."""
        return self._work.parallelism

    @cached_property
    def conversations(self) -> Conversations:
        """What is derived from the links between entries; ``edges``, ``chains``, ``resume`` … ask it."""
        from .conversations import Conversations

        return Conversations(self.files, self.entries, self.blocks, self.read_problems, raw=self.raw)

    @property
    def edges(self) -> pl.DataFrame:
        """Links between entries (table ``edges``); see :func:`ccanalytics.edges.build_edges`."""
        return self.conversations.edges

    @property
    def chains(self) -> pl.DataFrame:
        """Every entry's place in its conversation (table ``chains``); see :func:`ccanalytics.chains.build_chains`."""
        return self.conversations.chains

    def resume(
        self,
        session_id: str | None = None,
        *,
        rules: RulesChoice = "2.1.332",
        view: View = "entries",
        apply: Collection[Apply] = (),
        large_files: LargeFiles = "rules",
        cwd: str | None = None,
        model: str | None = None,
    ) -> Any:
        """The entries that Claude Code would load on ``--resume``, in its order.

        Parameters
        ----------
        session_id
            One session (the beginning of its id will do); without one, all sessions in one pass (those that would be
            refused have no rows).
        rules : {"2.1.332", "2.1.88", "auto"}
            The generation of the program; ``auto`` takes that of the session's last writer.
        view : {"entries", "api"}
            ``entries``: table ``resume``, with the step that brought each entry in and made-up entries marked, as a
            fork would write them (under 2.1.88 without attachments).
            ``api``: the messages sent to the API, a list of ``{"role", "blocks"}``.
        apply
            ``"snip"``, ``"replacement"``, ``"collapse"``: read these lines as they were meant; the program did not.
        large_files : {"rules", "whole"}
            ``whole`` reads files over 5 MiB as if they were small.
        cwd
            Working directory whose folder is looked in first.
        model
            ``view="api"``: the model now in use; thinking of another one is left out. Default: the last one.

        Raises
        ------
        NothingToResumeError
            The program would refuse; ``facts["reason"]`` says why.
        """
        return self.conversations.resume(
            session_id, rules=rules, view=view, apply=apply, large_files=large_files, cwd=cwd, model=model
        )

    def history(self, session_id: str) -> pl.DataFrame:
        """The whole story of a session; see :func:`ccanalytics.story.build_history`."""
        return self.conversations.history(session_id)

    def continued(self, cwd: str, *, rules: str = "2.1.332") -> str:
        """The session id that ``--continue`` would take in a directory; ``NothingToResumeError`` without one."""
        return self.conversations.continued(cwd, rules=rules)

    def state(self, session_id: str, at: int | str | None = None) -> State:
        """What a resume restores of a session beside the conversation, at its end or at an entry (id or uuid)."""
        return self._work.state(session_id, at)

    def write_parquet(self, out: str | Path) -> None:
        """Write every table to a folder of Parquet files, or add to one; see :mod:`ccanalytics.parquet`."""
        from .parquet import write_parquet

        write_parquet(self, out)

    def raw(self, entry_ids: int | Iterable[int]) -> list[dict[str, Any]]:
        """The original objects of these entries, in the order given, read again from their files.

        Parameters
        ----------
        entry_ids
            One id or several.

        Raises
        ------
        NotFoundError
            There is no entry with such an id.
        ReadError
            A file is gone or has changed since it was loaded.
        """
        ids = [entry_ids] if isinstance(entry_ids, int) else [int(i) for i in entry_ids]
        bad = [i for i in ids if not 0 <= i < len(self.entries)]
        if bad:
            raise NotFoundError(
                f"no entry has the id {bad[0]}; ids go from 0 to {len(self.entries) - 1}", entry_ids=bad
            )
        places = self.entries.select("file_id", "byte_offset", "byte_length")[ids].rows()
        paths = self.files["path"].to_list()
        unpacked: dict[str, bytes] = {}
        return [_read_object(paths[f], offset, length, unpacked) for f, offset, length in places]

    @property
    def unknown_types(self) -> dict[str, int]:
        """Entry types that this version does not know, with how often they occur."""
        counts = Counter(dict(self.entries["type"].drop_nulls().value_counts().iter_rows()))
        return {k: counts[k] for k in sorted(counts) if k not in KNOWN_TYPES}

    def unknown_fields(self) -> pl.DataFrame:
        """Top-level fields that no column or detail is made of: ``type``, ``field``, ``n``; reads every line again."""
        from .unknown import count_unknown_fields

        return count_unknown_fields(self.files["path"].to_list())

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        from .markup import table_html

        return table_html(facts_of(self), caption="Claude Code transcripts", footer=HINT)


HINT = "Tables: t.entries, t.calls, t.sessions … (all: ccanalytics table --help); cost: t.cost(by='day')."


def facts_of(t: Transcripts) -> list[tuple[str, str]]:
    """What was loaded, as names and values to show."""
    sessions = t.files.filter(pl.col("kind") == "session")["session_id"].n_unique()
    agents = t.files.filter(pl.col("kind") == "agent").height
    span = t.files.select(pl.col("first_at").min(), pl.col("last_at").max()).row(0)
    when = f"{span[0]:%Y-%m-%d} to {span[1]:%Y-%m-%d} (UTC)" if span[0] is not None else "no times"
    by_code = t.read_problems["code"].value_counts().sort("count", "code", descending=[True, False])
    trouble = ", ".join(f"{n} {code}" for code, n in by_code.iter_rows()) or "none"
    rows = [
        ("files", f"{len(t.files):,} ({int(t.files['size_bytes'].sum()) / 1e6:,.1f} MB)"),
        ("sessions", f"{sessions:,}"),
        ("agent files", f"{agents:,}"),
        ("entries", f"{len(t.entries):,}"),
        ("span", when),
        ("problems", trouble),
    ]
    unknown = t.unknown_types
    if unknown:
        rows.append(("unknown types", ", ".join(f"{n} {k}" for k, n in list(unknown.items())[:8])))
    if t.unread_places:
        rows.append(("unreadable folders", f"{len(t.unread_places)}"))
    return rows


def describe(t: Transcripts) -> str:
    """What was loaded, as a few lines of text."""
    if not len(t.files):
        return "Transcripts: nothing was found; cc.load(path) takes a folder, cc.load_sample() the bundled sample"
    from .markup import plain

    width = max(len(k) for k, _ in facts_of(t))
    return "Transcripts\n" + "\n".join(f"  {k:<{width}}  {plain(v)}" for k, v in facts_of(t)) + f"\n  {HINT}"


def _read_object(path: str, offset: int, length: int, unpacked: dict[str, bytes]) -> dict[str, Any]:
    if path.endswith(".jsonl"):
        data = _read_bytes(path, offset, length)
    else:
        if path not in unpacked:
            unpacked[path] = _read_whole(path)
        data = unpacked[path][offset : offset + length]
    try:
        value = loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ReadError(f"{path} has changed since it was loaded: no entry at byte {offset}; load again", path=path)
    return value


def _read_bytes(path: str | Path, offset: int, length: int) -> bytes:
    try:
        return read_piece(Piece(str(path), offset, length))
    except OSError as e:
        raise ReadError(f"cannot read {path}: {e.strerror or e}", path=str(path)) from e


def _read_whole(path: str) -> bytes:
    try:
        return read_piece(Piece(path))
    except (*UNREADABLE, ImportError) as e:
        raise ReadError(f"cannot read {path}: {e}", path=path) from e


def check_choice(name: str, got: object, allowed: Iterable[str]) -> None:
    """Raise ``UsageError`` unless ``got`` is one of ``allowed``."""
    choices = list(allowed)
    if got not in choices:
        raise UsageError(f"{name} is {got!r}; allowed are {', '.join(map(repr, choices))}", got=got, allowed=choices)


_KNOWN = """
user assistant system attachment progress summary custom-title ai-title last-prompt tag agent-name agent-color
agent-setting mode permission-mode pr-link worktree-state file-history-snapshot file-history-delta attribution-snapshot
content-replacement marble-origami-commit marble-origami-snapshot marble-origami-reset queue-operation
speculation-accept task-summary relocated bridge-session fork-context-ref cost-state continued-in ended-by-model
observer-ref history-suppression isolation-latch atis-latch frame-link artifact-comment-monitor
artifact-autoreact-ledger tombstone agent_metadata saved_hook_context api-request api-request-blob api-request-shape
tools-used snip
"""
KNOWN_TYPES = frozenset(_KNOWN.split())
