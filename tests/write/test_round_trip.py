"""What the writer writes, the loader loads without problems, and every link, call and agent is as it was meant."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from ccanalytics.load import load
from ccanalytics.transcripts import Transcripts
from ccanalytics.write.conversation import Conversation
from ccanalytics.write.writer import AgentWriter, TranscriptWriter

CWD = "/home/dev/app"
START = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Intended:
    """What was written on purpose."""

    writer: TranscriptWriter
    draw: st.DataObject
    parents: dict[str, str | None] = field(default_factory=dict)
    output_tokens: dict[str, int] = field(default_factory=dict)
    tools: dict[str, bool] = field(default_factory=dict)
    agents: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    compactions: int = 0
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def prompt(self, on: Conversation) -> None:
        before = on.last_uuid
        receipt = on.user(f"prompt {next(self.numbers)}")
        self.parents[receipt.uuid] = before

    def answer(self, on: Conversation, *, depth: int) -> None:
        number = next(self.numbers)
        calls = [f"toolu_{number}_{i}" for i in range(self.draw.draw(st.integers(0, 3), label="calls"))]
        kinds = {call: self.draw.draw(st.sampled_from(["Bash", "Agent"])) if depth < 2 else "Bash" for call in calls}
        blocks: list[dict[str, Any]] = (
            [{"type": "text", "text": "hm"}] if self.draw.draw(st.booleans()) or not calls else []
        )
        blocks += [{"type": "tool_use", "id": c, "name": kinds[c], "input": {"prompt": f"errand {c}"}} for c in calls]
        before = on.last_uuid
        usage = {"input_tokens": 3, "output_tokens": number, "cache_read_input_tokens": 10}
        message = {"id": f"msg_{number}", "model": "claude-opus-4-5", "stop_reason": "end_turn", "usage": usage}
        receipt = on.assistant({**message, "content": blocks}, request_id=f"req_{number}")
        self.parents |= dict(zip(receipt.uuids, [before, *receipt.uuids[:-1]], strict=True))
        self.output_tokens[f"msg_{number}"] = number
        line_of = dict(zip(calls, receipt.uuids[len(blocks) - len(calls) :], strict=True))
        for call in self.draw.draw(st.permutations(calls), label="order of results"):
            self.tools[call] = True
            if kinds[call] == "Agent":
                self.run_agent(on, call, depth=depth, caller=line_of[call])
            else:
                self.parents[on.tool_result(call, "ok").uuid] = line_of[call]

    def run_agent(self, on: Conversation, call: str, *, depth: int, caller: str) -> None:
        assert isinstance(on, TranscriptWriter | AgentWriter)
        agent = on.agent(call, description="errand")
        assert agent.agent_id is not None
        self.agents[agent.agent_id] = (call, on.agent_id)
        before = agent.last_uuid
        self.parents[agent.user(f"errand {call}").uuid] = before
        self.answer(agent, depth=depth + 1)
        self.parents[agent.finish("done").uuid] = caller

    def compact(self) -> None:
        receipt = self.writer.compact("summary", pre_tokens=100)
        self.parents |= {receipt.uuids[0]: None, receipt.uuids[1]: receipt.uuids[0]}
        self.compactions += 1

    def rewind(self) -> None:
        main = [u for u in self.parents if u in self.written_on_main]
        if main:
            self.writer.rewind(self.draw.draw(st.sampled_from(main), label="rewind to"))

    @property
    def written_on_main(self) -> set[str]:
        self.writer.flush()
        t = load(self.writer.path, cache=False, workers=1)
        return set(t.entries.filter(pl.col("type") == "user")["uuid"].drop_nulls().to_list())


def clock() -> Any:
    seconds = itertools.count()
    return lambda: START + timedelta(seconds=next(seconds))


STEPS = st.lists(st.sampled_from(["turn", "turn", "turn", "compact", "rewind", "reopen"]), min_size=1, max_size=6)


@settings(max_examples=25)
@given(steps=STEPS, draw=st.data(), with_fork=st.booleans())
def test_random_conversations_come_back_as_intended(steps: list[str], draw: st.DataObject, with_fork: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tick = clock()
        options: dict[str, Any] = {"cwd": CWD, "session_id": SESSION, "sync": "system", "window_ms": 1, "clock": tick}
        meant = Intended(TranscriptWriter(folder, **options), draw)
        for step in steps:
            if step == "turn":
                meant.prompt(meant.writer)
                meant.answer(meant.writer, depth=0)
            elif step == "compact" and meant.writer.last_uuid:
                meant.compact()
            elif step == "rewind":
                meant.rewind()
            elif step == "reopen":
                last = meant.writer.last_uuid
                meant.writer.close()
                meant.writer = TranscriptWriter(folder, **options)
                # What was written last goes on, not what a rewind had chosen.
                meant.writer.rewind(last)
        last = meant.writer.last_uuid
        meant.writer.close()
        check(load(folder, cache=False, workers=1), meant, last)
        if with_fork and last:
            with meant.writer.fork() as fork:
                fork.user("in the fork")
            check_fork(load(folder, cache=False, workers=1), meant, fork.session_id)


SESSION = "5bc8fbbc-0000-4000-8000-000000000001"


def check(t: Transcripts, meant: Intended, last: str | None) -> None:
    # Going back to before a compaction is told, as what is resumed is longer than it was.
    assert set(t.problems["code"]) <= {"skips_compaction"}
    written = dict(t.entries.filter(pl.col("uuid").is_not_null()).select("uuid", "parent_uuid").iter_rows())
    assert written == meant.parents
    assert dict(t.calls.select("call_id", "output_tokens").iter_rows()) == meant.output_tokens
    assert dict(t.tools.select("tool_use_id", pl.col("outcome") == "ok").iter_rows()) == meant.tools
    agents = t.agents.filter(pl.col("kind") != "main").select("agent_id", "tool_use_id", "parent_agent_id")
    assert {a: (call, parent) for a, call, parent in agents.iter_rows()} == meant.agents
    assert len(t.compactions) == meant.compactions
    if last is not None:
        shown = t.resume(SESSION)
        assert isinstance(shown, pl.DataFrame)
        assert path_to(last, meant.parents) <= set(shown["uuid"].drop_nulls().to_list())


def path_to(uuid: str | None, parents: dict[str, str | None]) -> set[str]:
    path = set[str]()
    while uuid is not None:
        path.add(uuid)
        uuid = parents[uuid]
    return path


def check_fork(t: Transcripts, meant: Intended, fork: str) -> None:
    assert set(t.problems["code"]) <= {"skips_compaction"}
    assert dict(t.calls.select("call_id", "output_tokens").iter_rows()) == meant.output_tokens
    copies = t.entries.filter((pl.col("session_id") == fork) & pl.col("forked_from_uuid").is_not_null())
    assert set(copies["forked_from_session_id"]) == {SESSION}
    assert set(copies["forked_from_uuid"]) <= set(meant.parents)
    assert len(copies) >= 1
