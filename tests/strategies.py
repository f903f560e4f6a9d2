"""Transcripts for attack: valid conversations, then damaged at byte, line, field and graph level.

Everything is drawn from one source of chance, so that a test gets it from hypothesis (:func:`folders`) and a long
campaign from a seed (:func:`make_folder`).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.build import (
    assistant,
    attachment,
    boundary,
    chain,
    compact_summary,
    dump,
    meta,
    progress,
    segment,
    summary,
    system,
    text,
    thinking,
    tool_result_block,
    tool_use,
    tool_use_block,
    uid,
    usage,
    user,
)

Line = dict[str, Any]
MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5", "<synthetic>", "made-up-model")


@dataclass
class Folder:
    """Files of a configuration folder: path below ``projects/`` to lines, and what was done to them."""

    files: dict[str, list[bytes]]
    metas: dict[str, bytes] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def write(self, config: Path, *, end: bytes = b"\n") -> Path:
        """Write it all below ``config/projects``."""
        for name, lines in self.files.items():
            path = config / "projects" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(line + end for line in lines))
        for name, body in self.metas.items():
            path = config / "projects" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        return config


# Valid transcripts


class Conversation:
    """A conversation as Claude Code would write it, of so many steps."""

    def __init__(self, rng: random.Random, session: str) -> None:
        self.rng, self.session = rng, session
        self.lines: list[Line] = []
        self.agents: dict[str, list[Line]] = {}
        self.names: list[str] = []
        self.n = 0

    def name(self, kind: str) -> str:
        self.n += 1
        made = f"{self.session}-{kind}{self.n}"
        self.names.append(made)
        return made

    def used(self) -> Line:
        r = self.rng
        extra: Line = {}
        if r.random() < 0.1:
            extra["server_tool_use"] = {"web_search_requests": r.randint(0, 3), "web_fetch_requests": 0}
        if r.random() < 0.1:
            first = {"type": "message", "input_tokens": 1, "output_tokens": 2}
            extra["iterations"] = [first, first | {"type": "advisor_message", "model": MODELS[0]}]
        return usage(
            input=r.randint(0, 900),
            output=r.randint(1, 5000),
            read=r.randint(0, 150_000),
            write_5m=r.randint(0, 2000),
            write_1h=r.choice((0, 0, 700)),
            **extra,
        )

    def prompt(self) -> None:
        words = self.rng.choice(
            ("mend the harbour", "<command-name>/clear</command-name>", "über 漢字 🌊", "a\u2028b", "agentId: abc", " ")
        )
        self.lines.append(user(self.name("u"), words))

    def answer(self) -> None:
        r, message = self.rng, f"msg_{self.session}{self.n}"
        shared: Line = {"message_id": message, "model": r.choice(MODELS), "usage": self.used()}
        if r.random() < 0.3:
            self.lines.append(assistant(self.name("t"), [thinking("hm")], **shared, stop_reason=None))
        self.lines.append(assistant(self.name("a"), "I see.", **shared))

    def tool(self) -> None:
        r, call = self.rng, f"{self.session}c{self.n}"
        tool, given = r.choice(
            (
                ("Bash", {"command": "ls -l"}),
                ("Read", {"file_path": "/home/dev/app/a.py"}),
                ("Edit", {"file_path": "C:\\dev\\a.py", "old_string": "a", "new_string": "b"}),
                ("WebFetch", {"url": "https://example.org/x?y"}),
                ("TodoWrite", {"todos": [{"content": "x", "status": "pending", "activeForm": "x"}]}),
                ("mcp__weather__now", {}),
            )
        )
        message = f"msg_{self.session}{self.n}"
        self.lines.append(tool_use(self.name("a"), tool, given, call=call, message_id=message, usage=self.used()))
        if r.random() < 0.9:
            parts = r.choice(("done", [text("a"), text("b")], [{"type": "image", "source": {"data": "AAAA"}}]))
            facts: Line = {"durationMs": r.randint(1, 999), "stdout": "x"}
            block = tool_result_block(call, parts, is_error=r.random() < 0.2)
            self.lines.append(user(self.name("r"), [block], toolUseResult=facts))

    def agent(self) -> None:
        r, call = self.rng, f"{self.session}c{self.n}"
        agent = f"a{r.randrange(16**8):08x}"
        given = {"subagent_type": "Explore", "description": "look", "prompt": f"look {agent}"}
        message = f"msg_{self.session}{self.n}"
        self.lines.append(tool_use(self.name("a"), "Task", given, call=call, message_id=message, usage=self.used()))
        inner = Conversation(r, f"{self.session}{agent}")
        inner.lines.append(user(inner.name("u"), f"look {agent}"))
        for _ in range(r.randint(1, 3)):
            r.choice((inner.answer, inner.tool))()
        self.agents[agent] = inner.lines
        if r.random() < 0.3:
            self.lines.append(progress(self.name("p"), "agent_progress", {"agentId": agent}, call=call))
        facts = {"status": "completed", "agentId": agent, "totalTokens": 10, "totalDurationMs": 10}
        self.lines.append(user(self.name("r"), [tool_result_block(call)], toolUseResult=facts))

    def compaction(self) -> None:
        last = self.names[-1] if self.names else None
        extra: Line = {}
        if len(self.names) > 2 and self.rng.random() < 0.5:
            extra["preservedSegment"] = segment(self.names[-2], f"{self.session}-k{self.n + 2}", self.names[-1])
        self.lines.append(boundary(self.name("b"), logical=last, **extra))
        self.lines.append(compact_summary(self.name("k")))

    def other(self) -> None:
        r = self.rng
        last = uid(self.names[-1]) if self.names else None
        self.lines.append(
            r.choice(
                (
                    meta("custom-title", customTitle="Harbour"),
                    meta("ai-title", aiTitle="A harbour"),
                    meta("tag", tag="x"),
                    meta("mode", mode="plan"),
                    meta("last-prompt", lastPrompt="x", leafUuid=last),
                    meta("queue-operation", operation="enqueue", content="x"),
                    meta("file-history-snapshot", messageId=last, snapshot={"trackedFileBackups": {}}),
                    meta("attribution-snapshot", surface="cli", fileStates={}, promptCount=1),
                    meta("content-replacement", replacements=[{"toolUseId": "t", "kind": "x"}]),
                    meta("cost-state", totalCostUSD=0.25, modelUsage={}),
                    meta("pr-link", prNumber=3, prUrl="https://example.org/3", prRepository="a/b"),
                    meta("worktree-state", worktreeSession=None),
                    meta("zz-new", value=1),
                    summary("A harbour", self.names[-1] if self.names else "x"),
                    system(self.name("s"), "turn_duration", durationMs=5),
                    system(self.name("s"), "api_error", error={"status": 529}, retryAttempt=1, maxRetries=10),
                    attachment(self.name("x"), "queued_command", {"prompt": "and the quay", "commandMode": "prompt"}),
                    attachment(self.name("x"), "hook_success", {"hookName": "Stop", "hookEvent": "Stop"}),
                    progress(self.name("p"), "bash_progress", {"elapsedTimeSeconds": 3}),
                )
            )
        )

    def fork(self) -> None:
        """A prompt that hangs on an earlier entry."""
        if self.names:
            self.lines.append(user(self.name("u"), "no, this way", parent=self.rng.choice(self.names)))

    def build(self, steps: int) -> Conversation:
        self.prompt()
        actions: list[Callable[[], None]] = [self.prompt, self.answer, self.answer, self.tool, self.tool]
        actions += [self.agent, self.compaction, self.other, self.other, self.fork]
        for _ in range(steps):
            self.rng.choice(actions)()
        return self


def make_valid(rng: random.Random, *, sessions: int | None = None, steps: int = 12) -> Folder:
    """A folder without faults: one to three sessions, their agents in several layouts."""
    files: dict[str, list[bytes]] = {}
    metas: dict[str, bytes] = {}
    for number in range(sessions or rng.choice((1, 1, 2, 3))):
        session = f"s{number}"
        project = rng.choice(("-home-dev-app", "-home-dev-web", "C--dev-app"))
        cwd = {"-home-dev-app": "/home/dev/app", "-home-dev-web": "/home/dev/web"}.get(project, "C:\\dev\\app")
        made = Conversation(rng, session).build(rng.randint(0, steps))
        start = rng.randint(0, 10**7)
        lines = chain(*made.lines, session=session, cwd=cwd, start=start)
        files[f"{project}/{uid(session)}.jsonl"] = [dump(line) for line in lines]
        for agent, inner in made.agents.items():
            folder = project if rng.random() < 0.2 else f"{project}/{uid(session)}/subagents"
            inner_lines = chain(*inner, session=session, agent=agent, cwd=cwd, start=start + 1)
            files[f"{folder}/agent-{agent}.jsonl"] = [dump(line) for line in inner_lines]
            if rng.random() < 0.4:
                metas[f"{folder}/agent-{agent}.meta.json"] = dump({"agentType": "Explore", "description": "look"})
    return Folder(files, metas)


# Odd values


def nested(depth: int, *, in_object: bool) -> str:
    """Stands for a value so deep (an encoder would give up on the value itself); :func:`encode` writes it out."""
    return f"@deep-{depth}-{'object' if in_object else 'array'}@"


DEEP = re.compile(rb'"@deep-(\d+)-(object|array)@"')


def dig(match: re.Match[bytes]) -> bytes:
    start, end = (b'{"a":', b"}") if match[2] == b"object" else (b"[", b"]")
    return start * int(match[1]) + b"1" + end * int(match[1])


TIMES = (
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999-14:00", "0000-00-00T00:00:00.000Z",
    "2026-02-30T00:00:00.000Z", "2026-02-29T25:00:00.000Z", "2026-01-02T03:04:60.000Z", "2026-01-02T24:00:00.000Z",
    "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05+14:00", "20260102T030405Z", "2026-W01-1",
    "２０２６-01-02T03:04:05.000Z", "2026-01-02t03:04:05z", "2026-01-02 03:04:05", "2026-01-02", "yesterday",
    "1700000000000", 1_700_000_000_000, -1, 1.5e300, "", " 2026-01-02T03:04:05.000Z ", "2026-01-02T03:04:05.000Z\n",
    "-001-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "2026-03-29T02:30:00+01:00[Europe/Berlin]",
)  # fmt: skip
IDS = (
    "", " ", "x", "../../etc/passwd", "..\\..\\a", "/etc/passwd", "C:\\Windows\\win.ini", "CON", "a\x00b",
    "\x1b[31mred", "<script>alert(1)</script>", "=1+1", "\ud800", "é" * 300, "x" * 70_000,
    "00000000-0000-0000-0000-000000000000", "null", "__proto__", "msg_x:advisor:1", "%s%n", "a,b", '"', "'",
    "\u202e", "\u2028", "*",
    "[a]", "{}",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 1.0, 1.5, -0.5, -0.0, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400, -(10**30), 1e308, -1e308,
    1e-320, 10.0**15,
)  # fmt: skip
SHAPES: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], [1, "a", {}], {"a": 1}, {"": ""}, {"\x00k\x1b": 1}, [{}],
    [{"type": "text"}], [{"type": 7, "text": 7}], [{"type": "tool_use"}],
    [{"type": "tool_result", "content": [None, 3, {"type": "image"}]}], {"kind": {"x": []}}, [[["a"]]],
    {"type": "text", "text": "x"}, [{"type": "tool_use", "id": "t", "input": "text"}],
)  # fmt: skip


def odd_value(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(TIMES)
    if kind < 0.4:
        return rng.choice(IDS)
    if kind < 0.6:
        return rng.choice(NUMBERS)
    if kind < 0.95:
        return rng.choice(SHAPES)
    return nested(rng.choice((5, 60, 120, 1000)), in_object=rng.random() < 0.5)


def encode(value: Any, rng: random.Random) -> bytes:
    """JSON in one of the spellings a writer may choose."""
    ascii_only = rng.random() < 0.3
    made = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":") if rng.random() < 0.7 else (", ", ": "))
    return DEEP.sub(dig, made.encode("utf-8", "surrogatepass"))


# Faults: each changes a folder in place


def pick_file(rng: random.Random, folder: Folder) -> list[bytes]:
    return folder.files[rng.choice(sorted(folder.files))]


def pick_object(rng: random.Random, lines: list[bytes]) -> tuple[int, Line] | None:
    if not lines:
        return None
    at = rng.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return None
    return (at, value) if isinstance(value, dict) else None


NOISE = (b"\0", b"\0" * 50, b"\xff", b"\xc3", b"\r", b"\x1b[31m", b"{", b"}", b'"', b"\\", b",", b"1" * 500)


def byte_fault(rng: random.Random, folder: Folder) -> str:
    lines = pick_file(rng, folder)
    if not lines:
        return "nothing"
    at = rng.randrange(len(lines))
    line = lines[at]
    i = rng.randrange(len(line) + 1)
    j = min(len(line), i + rng.choice((1, 2, 7, 40)))
    kind = rng.choice(("cut", "cut front", "flip", "insert", "delete", "repeat", "swap"))
    noise = rng.choice(NOISE)
    if kind == "cut":
        lines[at] = line[:i]
    elif kind == "cut front":
        lines[at] = line[i:]
    elif kind == "flip" and line:
        k = rng.randrange(len(line))
        lines[at] = line[:k] + bytes([line[k] ^ (1 << rng.randrange(8))]) + line[k + 1 :]
    elif kind == "insert":
        lines[at] = line[:i] + noise + line[i:]
    elif kind == "delete":
        lines[at] = line[:i] + line[j:]
    elif kind == "repeat":
        lines[at] = line[:j] + line[i:j] * rng.choice((1, 3)) + line[j:]
    else:
        lines[at] = line[i:j] + line[:i] + line[j:]
    # A newline from chance would make two lines: fair, but the folder counts lines.
    lines[at] = lines[at].replace(b"\n", b" ")
    return f"byte: {kind}"


GARBAGE = (
    b"", b" ", b"null", b"[]", b'"x"', b"3", b"{}", b"{", b"}", b"\xef\xbb\xbf", b"\0" * 200, b"\xff\xfe", b"NaN",
    b'{"type":"user","n":NaN}', b'{"type":' * 300, b"[" * 5000, b'{"a":' * 1200 + b"1" + b"}" * 1200, b"<<<<<<< HEAD",
    b'{"type":"user"}', b'{"uuid":null,"type":null}', b'{"type":"assistant","message":{"usage":{}}}', b'{"' * 600,
)  # fmt: skip


def line_fault(rng: random.Random, folder: Folder) -> str:
    lines = pick_file(rng, folder)
    if not lines:
        lines.append(rng.choice(GARBAGE))
        return "line: garbage"
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kinds = ("drop", "repeat", "swap", "glue", "glue torn", "garbage", "copy to other file", "shuffle", "blanks")
    kind = rng.choice(kinds)
    if kind == "drop":
        del lines[at]
    elif kind == "repeat":
        lines.insert(other, lines[at])
    elif kind == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "glue":
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    elif kind == "glue torn":
        cut = lines[at][: rng.randrange(len(lines[at]) + 1)]
        lines[at] = cut + lines[other]
    elif kind == "garbage":
        lines.insert(at, rng.choice(GARBAGE))
    elif kind == "copy to other file":
        pick_file(rng, folder).append(lines[at])
    elif kind == "shuffle":
        rng.shuffle(lines)
    else:
        lines[at] = rng.choice((b" ", b"\t", b"\r", b"\xef\xbb\xbf")) + lines[at] + rng.choice((b"", b" ", b"\r"))
    return f"line: {kind}"


def places(value: Any, path: tuple[Any, ...] = (), depth: int = 0) -> list[tuple[Any, ...]]:
    """Paths of all values inside, down to six levels."""
    found: list[tuple[Any, ...]] = []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        found.append((*path, key))
        if depth < 6:
            found += places(item, (*path, key), depth + 1)
    return found


MORE_KEYS = (
    "message", "toolUseResult", "attachment", "data", "costUSD", "origin", "forkedFrom", "leafUuid", "compactMetadata",
    "snipMetadata", "isCompactSummary", "agentId", "teamName", "content", "supersedes", "permissionDecision", "error",
    "logicalParentUuid", "requestId", "isMeta", "isSidechain", "sourceToolAssistantUUID", "toolUseID", "iterations",
    "usage", "modelUsage", "snapshot", "replacements", "operation", "prompt", "todos", "input", "summary",
    "microcompactMetadata",
)  # fmt: skip


def field_fault(rng: random.Random, folder: Folder) -> str:
    lines = pick_file(rng, folder)
    found = pick_object(rng, lines)
    if found is None:
        return "nothing"
    at, line = found
    paths = places(line)
    path = rng.choice(paths) if paths else ()
    holder: Any = line
    for key in path[:-1]:
        holder = holder[key]
    kind = rng.choice(("value", "value", "value", "delete", "wrap", "add", "odd key", "many blocks", "double key"))
    if kind == "value" and path:
        holder[path[-1]] = odd_value(rng)
    elif kind == "delete" and path:
        del holder[path[-1]]
    elif kind == "wrap" and path:
        holder[path[-1]] = rng.choice(([holder[path[-1]]], {"value": holder[path[-1]]}, str(holder[path[-1]])))
    elif kind == "add":
        line[rng.choice(MORE_KEYS)] = odd_value(rng)
    elif kind == "odd key":
        line[rng.choice(("\x00", "\x1b]0;x\x07", "", "uuid ", "\ud83d", "a" * 3000))] = odd_value(rng)
    elif kind == "many blocks" and isinstance(line.get("message"), dict):
        block = rng.choice((text("x"), tool_use_block("m"), tool_result_block("m"), {}, {"type": None}))
        line["message"]["content"] = [block] * rng.choice((100, 100, 10_000))
    lines[at] = encode(line, rng)
    if kind == "double key":
        lines[at] = lines[at][:-1] + b',"uuid":' + encode(odd_value(rng), rng) + b',"type":"user"}'
    return f"field: {kind} at {'.'.join(map(str, path))[:60]!r}"


def graph_fault(rng: random.Random, folder: Folder) -> str:
    lines = pick_file(rng, folder)
    found, other = pick_object(rng, lines), pick_object(rng, pick_file(rng, folder))
    if found is None or other is None:
        return "nothing"
    (at, line), donor = found, other[1]
    kinds = ("parent", "self", "cycle", "uuid", "logical", "session", "agent", "message id", "call id", "time",
             "segment", "fork", "leaf", "sidechain", "request")  # fmt: skip
    kind = rng.choice(kinds)
    message = line.get("message")
    if kind == "parent":
        line["parentUuid"] = donor.get("uuid")
    elif kind == "self":
        line["parentUuid"] = line.get("uuid")
    elif kind == "cycle":
        donor_at = other[0]
        if donor_at < len(lines):
            line["parentUuid"] = donor.get("uuid")
            lines[donor_at] = encode(donor | {"parentUuid": line.get("uuid")}, rng)
    elif kind == "uuid":
        line["uuid"] = donor.get("uuid")
    elif kind == "logical":
        line |= {"logicalParentUuid": donor.get("uuid"), "type": "system", "subtype": "compact_boundary"}
    elif kind == "session":
        line["sessionId"] = rng.choice((donor.get("sessionId"), *IDS))
    elif kind == "agent":
        line["agentId"] = rng.choice((donor.get("agentId"), "a1", *IDS))
    elif kind == "message id" and isinstance(message, dict) and isinstance(donor.get("message"), dict):
        message["id"] = donor["message"].get("id")
    elif kind == "call id" and isinstance(message, dict):
        message["content"] = [tool_use_block("m"), tool_result_block("m"), tool_use_block("m")]
    elif kind == "time":
        line["timestamp"] = rng.choice((donor.get("timestamp"), *TIMES))
    elif kind == "segment":
        names = [donor.get("uuid"), line.get("uuid"), "x"]
        kept = dict(zip(("headUuid", "anchorUuid", "tailUuid"), names, strict=True))
        line["compactMetadata"] = {"preservedSegment": kept}
        line["snipMetadata"] = {"removedUuids": names}
    elif kind == "fork":
        line["forkedFrom"] = {"sessionId": donor.get("sessionId"), "messageUuid": donor.get("uuid")}
    elif kind == "leaf":
        line |= {"type": rng.choice(("last-prompt", "summary")), "leafUuid": donor.get("uuid"), "summary": "x"}
    elif kind == "sidechain":
        line["isSidechain"] = not line.get("isSidechain")
    elif kind == "request":
        line["requestId"] = donor.get("requestId")
    lines[at] = encode(line, rng)
    return f"graph: {kind}"


def meta_fault(rng: random.Random, folder: Folder) -> str:
    agents = [name for name in sorted(folder.files) if "agent-" in name]
    if not agents:
        return "nothing"
    odd = (b'{"agentType":7}', b'{"agentType":"\\ud800","description":{}}', b'{"toolUseId":[]}')
    bodies = (b"", b"null", b"{", b"\xff", *odd)
    folder.metas[rng.choice(agents).replace(".jsonl", ".meta.json")] = rng.choice(bodies)
    return "meta"


FAULTS: tuple[Callable[[random.Random, Folder], str], ...] = (
    byte_fault, line_fault, field_fault, field_fault, field_fault, graph_fault, graph_fault, meta_fault,
)  # fmt: skip


def damage(rng: random.Random, folder: Folder, faults: int) -> Folder:
    """The same folder, with so many faults in it."""
    for _ in range(faults):
        folder.done.append(rng.choice(FAULTS)(rng, folder))
    return folder


def make_folder(rng: random.Random, *, steps: int = 12, most: int = 8) -> Folder:
    """A folder with one to ``most`` faults."""
    return damage(rng, make_valid(rng, steps=steps), rng.randint(1, most))


@st.composite
def valid_folders(draw: st.DrawFn) -> Folder:
    """Folders without faults."""
    return make_valid(draw(st.randoms(use_true_random=False)), steps=8)


@st.composite
def folders(draw: st.DrawFn) -> Folder:
    """Folders with one to eight faults."""
    return make_folder(draw(st.randoms(use_true_random=False)), steps=8)
