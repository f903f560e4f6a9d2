"""The tables of work over one load: each computed once, from the same placing of lines, calls and turns."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from .agents import build_agents
from .beside import Beside
from .compactions import build_compactions
from .errors import UsageError
from .events import build_events
from .links import build_links, build_runs, read_notices
from .members import build_members
from .parallelism import build_intervals, build_parallelism, sum_parallelism
from .sessions import ReadRaw, build_sessions, read_titles
from .state import State, build_state
from .teams import read_teams
from .tools import build_tools, pair_results
from .turns import build_entry_turns, build_prompts, build_turns

RUN = ["session_id", "agent_id"]


class Work:
    """Agents, tools, turns, compactions, sessions, events and parallelism of one load.

    Parameters
    ----------
    files, entries, blocks, calls, ledger
        The tables of these names.
    with_words
        Whether words of the conversation were asked for: then shell commands are named too.
    raw
        Reads entries again by their ids (``Transcripts.raw``); titles and states need words that no table holds.
    beside
        What stands beside the transcripts, where it is not to be read from their folders.
    """

    def __init__(
        self,
        files: pl.DataFrame,
        entries: pl.DataFrame,
        blocks: pl.DataFrame,
        calls: pl.DataFrame,
        ledger: pl.DataFrame,
        *,
        with_words: bool = False,
        raw: ReadRaw | None = None,
        beside: Beside | None = None,
    ) -> None:
        self.files = files
        self.entries = entries
        self.blocks = blocks
        self.calls = calls
        self.entry_calls = ledger.filter((pl.col("iteration_no") == 0) & pl.col("call_id").is_not_null()).select(
            "entry_id", "call_id"
        )
        self.with_words = with_words
        self.raw = raw
        self.beside = beside

    @cached_property
    def members(self) -> pl.DataFrame:
        """Session and agent of every entry; see :func:`~ccanalytics.members.build_members`."""
        return build_members(self.entries, self.files, calls=self.calls, entry_calls=self.entry_calls)

    @cached_property
    def _paired(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        return pair_results(self.entries, self.blocks, self.members, self.entry_calls)

    @property
    def pairs(self) -> pl.DataFrame:
        """Tool calls with the facts of their results."""
        return self._paired[0]

    @property
    def problems(self) -> pl.DataFrame:
        """Results without a call, as rows of ``problems``."""
        return self._paired[1]

    @cached_property
    def placed_calls(self) -> pl.DataFrame:
        """``calls`` with the agent (and turn) each belongs to."""
        return place_calls(self.calls, self.members)

    @cached_property
    def runs(self) -> pl.DataFrame:
        """Agent runs other than main threads."""
        return build_runs(self.entries, self.files, self.members, pairs=self.pairs, placed_calls=self.placed_calls)

    @cached_property
    def links(self) -> pl.DataFrame:
        """Which call started which run."""
        return build_links(self.runs, self.entries, self.members, self.pairs)

    @cached_property
    def prompts(self) -> pl.DataFrame:
        """Human prompts, numbered within their session."""
        return build_prompts(self.entries, self.members)

    @cached_property
    def entry_turns(self) -> pl.DataFrame:
        """The turn of every entry."""
        return build_entry_turns(self.entries, self.members, self.prompts, self.links)

    @cached_property
    def turned_calls(self) -> pl.DataFrame:
        """``placed_calls`` with ``turn_no``."""
        turned = self.placed_calls.join(
            self.entry_turns, on="entry_id", how="left", validate="m:1", maintain_order="left"
        )
        return turned.with_columns(pl.col("turn_no").fill_null(0))

    @cached_property
    def notices(self) -> pl.DataFrame:
        """Lines that tell how a background task went."""
        return read_notices(self.entries, self.members)

    @cached_property
    def tools(self) -> pl.DataFrame:
        """One row per tool call (table ``tools``)."""
        return build_tools(self.pairs, self.entry_turns, _spawns(self.links), with_commands=self.with_words)

    @cached_property
    def agents(self) -> pl.DataFrame:
        """One row per agent run (table ``agents``)."""
        return build_agents(
            self.entries,
            self.members,
            runs=self.runs,
            links=self.links,
            pairs=self.pairs,
            notices=self.notices,
            prompts=self.prompts,
            placed_calls=self.placed_calls,
            tools=self.tools,
            teams=self.team_members,
        )

    @cached_property
    def team_members(self) -> pl.DataFrame:
        """Members of teams; see :func:`~ccanalytics.teams.read_teams`."""
        if self.beside is not None:
            return self.beside.team_members
        return read_teams(self.files["root"].drop_nulls().unique(maintain_order=True))

    @cached_property
    def turns(self) -> pl.DataFrame:
        """One row per human prompt (table ``turns``)."""
        return build_turns(
            self.entries,
            self.members,
            self.prompts,
            placed_calls=self.turned_calls,
            tools=self.tools,
            links=self.links,
            entry_turns=self.entry_turns,
        )

    @cached_property
    def compactions(self) -> pl.DataFrame:
        """One row per compaction (table ``compactions``)."""
        return build_compactions(
            self.entries, self.members, calls=self.placed_calls, agents=self.agents, entry_turns=self.entry_turns
        )

    @cached_property
    def events(self) -> pl.DataFrame:
        """Hooks, permissions, queue, API errors (table ``events``)."""
        return build_events(self.entries, self.blocks, self.members, self.entry_turns)

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """Stretches of work of every run."""
        return build_intervals(self.entries, self.members, self.pairs)

    @cached_property
    def parallelism(self) -> pl.DataFrame:
        """Time with so many agents at work, per session (table ``parallelism``)."""
        own = self.members.filter(~pl.col("is_inherited")).select("entry_id", "session_id")
        times = self.entries.select("entry_id", "timestamp").join(own, on="entry_id", how="inner", validate="1:1")
        span = (pl.col("timestamp").max() - pl.col("timestamp").min()).dt.total_milliseconds()
        spans = times.drop_nulls("session_id").group_by("session_id").agg(span_ms=span)
        return build_parallelism(self.intervals, spans)

    def build_sessions(self, problems: pl.DataFrame) -> pl.DataFrame:
        """One row per session (table ``sessions``); ``problems`` are those of reading and linking."""
        return build_sessions(
            self.entries,
            self.files,
            self.members,
            placed_calls=self.placed_calls,
            agents=self.agents,
            tools=self.tools,
            prompts=self.prompts,
            compactions=self.compactions,
            problems=problems,
            parallel=sum_parallelism(self.parallelism, self.intervals, self.agents, self.pairs),
            titles=read_titles(
                self.files,
                self.entries,
                self.members,
                self.raw,
                headings=self.beside.headings if self.beside is not None else None,
            ),
        )

    def state(self, session_id: str, at: int | str | None = None) -> State:
        """What a resume restores of a session beside the conversation; see :func:`~ccanalytics.state.build_state`."""
        if self.raw is None:
            raise UsageError("the state of a session is read from its files, which are not at hand here")
        return build_state(self.entries, self.blocks, self.files, self.members, session_id, raw=self.raw, at=at)


def place_calls(calls: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """``calls`` with the agent of their line: sidechains inside a session's file have one too."""
    place = members.select("entry_id", line_session="session_id", line_agent="agent_id")
    told = pl.col("source") == "progress"
    return (
        calls.join(place, on="entry_id", how="left", validate="m:1", maintain_order="left")
        .with_columns(
            session_id=pl.coalesce("session_id", "line_session"),
            agent_id=pl.when(told).then(pl.col("agent_id")).otherwise(pl.coalesce("line_agent", "agent_id")),
        )
        .drop("line_session", "line_agent")
    )


def _spawns(links: pl.DataFrame) -> pl.DataFrame:
    """Which call started or woke which run; one run per call, the first told."""
    started = links.filter(pl.col("tool_use_entry_id").is_not_null())
    return (
        started.select("tool_use_id", entry_id="tool_use_entry_id", spawned_agent_id="agent_id")
        .sort("entry_id", "tool_use_id", "spawned_agent_id", maintain_order=True)
        .unique(["entry_id", "tool_use_id"], keep="first", maintain_order=True)
    )
