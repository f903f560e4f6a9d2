"""The tables of work over one load: each computed once, from the same placing of lines, calls and turns."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from .agents import build_agents
from .links import build_links, build_runs, read_notices
from .members import build_members
from .tools import build_tools, pair_results
from .turns import build_entry_turns, build_prompts, build_turns

RUN = ["session_id", "agent_id"]


class Work:
    """Agents, tools, turns, compactions, sessions, events and parallelism of one load.

    Parameters
    ----------
    files, entries, blocks, calls
        The tables of these names.
    """

    def __init__(self, files: pl.DataFrame, entries: pl.DataFrame, blocks: pl.DataFrame, calls: pl.DataFrame) -> None:
        self.files = files
        self.entries = entries
        self.blocks = blocks
        self.calls = calls

    @cached_property
    def members(self) -> pl.DataFrame:
        """Session and agent of every entry; see :func:`~ccanalytics.members.build_members`."""
        return build_members(self.entries, self.files, self.calls)

    @cached_property
    def _paired(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        return pair_results(self.entries, self.blocks, self.members)

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
        return build_tools(self.pairs, self.calls, self.entry_turns, _spawns(self.links))

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
        )

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
