"""Write a made-up Claude Code config directory of a given size, and what a right reader finds in it.

    python -m tests.benchmarks.corpus OUT --mb 200 [--seed 1]

The shapes are those of Claude Code 2.1: one line per content block, parallel calls whose results hang on their own
block, progress lines, file snapshots, compactions, forks that copy history, subagents with their sidecars. The totals
that a right reader finds are written to ``OUT/expected.json``. Same seed, same bytes.
"""

from __future__ import annotations

import argparse
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

Line = dict[str, Any]
MODELS = (
    "claude-opus-4-8",
    "claude-sonnet-5-5",
    "claude-haiku-4-5-20251001",
    "claude-opus-5-5",
    "claude-sonnet-4-5-20250929",
)
TOOLS = ("Bash", "Read", "Edit", "Grep", "Write", "mcp__db__query")
TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Totals:
    """What was written, as far as a reader must find it again."""

    counts: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """The content of ``expected.json``."""
        return {**self.counts, "entries_by_type": dict(self.types)}


class Words:
    """Random text, put together from a stock of sentences so that making it costs little."""

    def __init__(self, rng: random.Random) -> None:
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        self.words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(4000)]
        ends = ["\n", ".\n", ' {\n\t"k": 1\n}\n', " — café ✓\n"]
        self.chunks = [" ".join(rng.choices(self.words, k=60)) + rng.choice(ends) for _ in range(2000)]
        self.rng = rng

    def text(self, length: int) -> str:
        """``length`` characters."""
        count = length // 300 + 1
        return "".join(self.rng.choices(self.chunks, k=count))[:length]


class Corpus:
    """A config directory being written."""

    def __init__(self, out: Path, seed: int) -> None:
        self.out = out
        self.rng = random.Random(seed)
        self.words = Words(self.rng)
        self.totals = Totals()

    def fill(self, target_bytes: float, *, forks: float = 0.08) -> None:
        """Write sessions until there are that many bytes, then ``expected.json``."""
        while self.totals.counts["bytes"] < target_bytes:
            self.session(forks)
        (self.out / "expected.json").write_bytes(orjson.dumps(self.totals.as_dict(), option=orjson.OPT_INDENT_2))

    def session(self, forks: float) -> None:
        """One session, its agents, and now and then a fork that copies its beginning."""
        rng = self.rng
        slug = f"-home-dev-proj{rng.randint(1, 12)}"
        folder = self.out / "projects" / slug
        talk = Talk(self, self.uuid(), slug.replace("-", "/"), rng.choice(MODELS))
        talk.at = BEGIN + timedelta(minutes=rng.uniform(0, 60 * 24 * 250))
        talk.on_agent = lambda call: self.agent(talk, folder, call)
        talk.turns(max(1, int(rng.expovariate(1 / 40))))
        self.write(folder / f"{talk.session}.jsonl", talk.lines)
        self.totals.counts["sessions"] += 1
        if rng.random() < forks and len(talk.lines) > 20:
            fork = self.uuid()
            head = talk.lines[: rng.randint(10, len(talk.lines) - 1)]
            self.write(folder / f"{fork}.jsonl", [e | {"sessionId": fork} if "sessionId" in e else e for e in head])
            self.totals.counts["sessions"] += 1

    def agent(self, parent: Talk, folder: Path, call: str) -> str:
        """The transcript of an agent that ``call`` started; its id."""
        own = self.hex(17)
        self.totals.counts["agents"] += 1
        talk = Talk(self, parent.session, parent.cwd, self.rng.choice(MODELS), agent=own)
        talk.at = parent.at
        talk.turns(self.rng.randint(1, 3))
        parent.at = talk.at
        path = folder / parent.session / "subagents" / f"agent-{own}.jsonl"
        self.write(path, talk.lines)
        meta = {"agentType": "general-purpose", "description": "task", "toolUseId": call}
        path.with_suffix(".meta.json").write_bytes(orjson.dumps(meta))
        return own

    def write(self, path: Path, lines: list[Line]) -> None:
        """One transcript."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        path.write_bytes(data)
        self.totals.counts.update(lines=len(lines), bytes=len(data), files=1)
        self.totals.types.update(line["type"] for line in lines)

    def uuid(self) -> str:
        """A new uuid."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def hex(self, digits: int) -> str:
        """That many hexadecimal digits."""
        return f"{self.rng.getrandbits(4 * digits):0{digits}x}"


class Talk:
    """One conversation, of a session's main thread or of an agent."""

    def __init__(self, corpus: Corpus, session: str, cwd: str, model: str, *, agent: str = "") -> None:
        self.corpus, self.rng, self.words = corpus, corpus.rng, corpus.words
        self.session, self.cwd, self.model, self.agent = session, cwd, model, agent
        self.at = BEGIN
        self.lines: list[Line] = []
        self.parent: str | None = None
        self.on_agent: Callable[[str], str] | None = None
        envelope = {"isSidechain": bool(agent), "userType": "external", "entrypoint": "cli", "cwd": cwd}
        envelope |= {"sessionId": session, "version": f"2.1.{self.rng.randint(20, 330)}", "gitBranch": "main"}
        self.envelope: Line = envelope | ({"agentId": agent} if agent else {})

    def turns(self, count: int) -> None:
        """That many prompts, each with its answers, and a compaction now and then."""
        for turn in range(count):
            text = self.words.text(int(self.rng.expovariate(1 / 300)) + 20)
            self.put("user", message={"role": "user", "content": text}, promptId=self.corpus.uuid())
            if not self.agent:
                self.snapshot()
            for _ in range(self.rng.randint(1, 6)):
                if not self.answer():
                    break
            if not self.agent and self.rng.random() < 0.02 and turn > 3:
                self.compact()

    def answer(self) -> int:
        """One API message, its tool calls and their results; how many calls there were."""
        rng, words = self.rng, self.words
        message = {"model": self.model, "id": "msg_" + self.corpus.hex(24), "type": "message", "role": "assistant"}
        usage, request = self.usage(), "req_" + self.corpus.hex(24)
        rest = {"stop_reason": "tool_use", "stop_sequence": None, "usage": usage}

        def block(content: Line) -> str:
            return self.put("assistant", requestId=request, message={**message, "content": [content], **rest})

        if rng.random() < 0.3:
            signature = self.corpus.hex(200)
            block({"type": "thinking", "thinking": words.text(rng.randint(100, 3000)), "signature": signature})
        block({"type": "text", "text": words.text(rng.randint(20, 1500))})
        calls: list[tuple[str, str, str]] = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            own, name = "toolu_" + self.corpus.hex(20), rng.choice(TOOLS)
            if self.on_agent and rng.random() < 0.03:
                name = "Task"
            given = {"command": words.text(rng.randint(10, 2000)), "description": "d"}
            calls.append((block({"type": "tool_use", "id": own, "name": name, "input": given}), own, name))
        self.corpus.totals.counts["tool_uses"] += len(calls)
        for line, own, name in rng.sample(calls, len(calls)):
            self.result(line, own, name, usage)
        return len(calls)

    def usage(self) -> Line:
        """What one API message used, counted as expected."""
        rng = self.rng
        short, long = (rng.randint(0, 4000), 0) if rng.random() < 0.7 else (0, rng.randint(0, 9000))
        usage: Line = {
            "input_tokens": rng.randint(1, 2000),
            "cache_creation_input_tokens": short + long,
            "cache_read_input_tokens": rng.randint(0, 180_000),
            "output_tokens": rng.randint(5, 4000),
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        }
        self.corpus.totals.counts.update({k: usage[k] for k in TOKENS} | {"api_messages": 1, "cache_1h": long})
        return usage

    def result(self, line: str, call: str, name: str, usage: Line) -> None:
        """Progress lines and the result of one call."""
        rng = self.rng
        if rng.random() < 0.5:
            for _ in range(rng.randint(1, 3)):
                self.progress(call)
        body = self.words.text(min(int(rng.paretovariate(1.1) * 300), 120_000))
        found: Line = {"stdout": body, "stderr": "", "interrupted": False, "isImage": False}
        if name == "Task" and self.on_agent:
            body = body[:2000]
            found = {"status": "completed", "agentId": self.on_agent(call), "content": [{"type": "text", "text": body}]}
            found |= {"totalDurationMs": 1000, "totalTokens": 12_345, "totalToolUseCount": 3, "usage": usage}
        block = {"tool_use_id": call, "type": "tool_result", "content": body, "is_error": rng.random() < 0.04}
        message = {"role": "user", "content": [block]}
        self.put("user", parent=line, message=message, sourceToolAssistantUUID=line, toolUseResult=found)

    def progress(self, call: str) -> None:
        """A progress line; it hangs on the chain, nothing hangs on it."""
        before = self.parent
        data = {"type": "hook_progress", "hookEvent": "PreToolUse"}
        self.put("progress", data=data, toolUseID=call, parentToolUseID=call)
        self.parent = before

    def snapshot(self) -> None:
        """A file-history snapshot of the prompt just typed."""
        files = {
            f"src/{self.rng.choice(self.words.words)}.py": {
                "backupFileName": f"{self.corpus.hex(16)}@v{self.rng.randint(1, 9)}",
                "version": self.rng.randint(1, 9),
                "backupTime": self.tick(),
            }
            for _ in range(self.rng.randint(0, 5))
        }
        shot = {"messageId": self.parent, "trackedFileBackups": files, "timestamp": self.tick()}
        line = {"type": "file-history-snapshot", "messageId": self.parent, "snapshot": shot, "isSnapshotUpdate": False}
        self.lines.append(line)

    def compact(self) -> None:
        """A plain compaction: boundary and summary."""
        self.corpus.totals.counts["compactions"] += 1
        before, self.parent = self.parent, None
        facts = {"trigger": self.rng.choice(("auto", "manual")), "preTokens": self.rng.randint(90_000, 180_000)}
        fields: Line = {
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "level": "info",
            "isMeta": False,
        }
        self.put("system", **fields, logicalParentUuid=before, compactMetadata=facts)
        text = "This session is being continued. " + self.words.text(4000)
        message = {"role": "user", "content": text}
        self.put("user", isCompactSummary=True, isVisibleInTranscriptOnly=True, message=message)

    def put(self, kind: str, *, parent: str | None = None, **fields: Any) -> str:
        """Write a conversation line and return its uuid."""
        own = self.corpus.uuid()
        line = {"parentUuid": parent or self.parent, "type": kind, "uuid": own, "timestamp": self.tick()}
        self.lines.append(line | self.envelope | fields)
        self.parent = own
        return own

    def tick(self) -> str:
        """Some seconds later, as written on a line."""
        self.at += timedelta(seconds=self.rng.uniform(0.05, 20))
        return self.at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.at.microsecond // 1000:03d}Z"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write a made-up Claude Code config directory.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--mb", type=float, default=50, help="how much to write, in millions of bytes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    corpus = Corpus(options.out, options.seed)
    corpus.fill(options.mb * 1e6)
    print(orjson.dumps(corpus.totals.as_dict(), option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()
