"""Random transcripts of many families, for comparing the fast resume with the plain one.

They are contrived on purpose: every damage that real files show, and combinations that they seldom show.
"""

from __future__ import annotations

import random
from typing import Any

from tests.build import Line, at

ODDITIES = (
    "unknown_parent", "cycle", "sidechain", "progress", "shuffle", "duplicate", "hint", "boundary", "thinking", "blank",
    "api_error", "open_calls", "clock", "no_clock", "snip", "reused_ids", "foreign_result", "no_message_id",
    "null_parent", "empty_content", "second_result",
)  # fmt: skip


class Maker:
    """Grows one session line by line."""

    def __init__(self, seed: int, oddities: frozenset[str]) -> None:
        self.rng = random.Random(seed)
        self.odd = oddities
        self.seed = seed
        self.lines: list[Line] = []
        self.uuids: list[str] = []
        self.time = 0.0
        self.n = 0
        self.calls: list[str] = []

    def has(self, name: str, chance: float) -> bool:
        return name in self.odd and self.rng.random() < chance

    def put(self, parent: str | None, kind: str, **fields: Any) -> str:
        rng = self.rng
        self.n += 1
        uuid = f"{self.seed:x}-{self.n}"
        self.time += rng.choice((0, 0.5, 0.5, 1, 1, 2, 4.5, 30))
        if self.has("unknown_parent", 0.12):
            parent = f"ghost-{rng.randint(0, 3)}"
        if self.has("null_parent", 0.04):
            parent = None
        line: Line = {
            "parentUuid": parent,
            "isSidechain": False,
            "type": kind,
            "uuid": uuid,
            "timestamp": at(self.time),
        }
        if self.has("sidechain", 0.12):
            line["isSidechain"] = True
        if self.has("clock", 0.2):
            line["timestamp"] = at(max(0.0, self.time - rng.choice((1, 3, 20))))
        if self.has("no_clock", 0.1):
            line["timestamp"] = rng.choice(("yesterday", "", None))
        line |= fields
        self.lines.append(line)
        self.uuids.append(uuid)
        if self.has("progress", 0.25):
            return self.progress(uuid)
        return uuid

    def progress(self, parent: str | None) -> str:
        self.n += 1
        uuid = f"{self.seed:x}-p{self.n}"
        self.lines.append({"parentUuid": parent, "type": "progress", "uuid": uuid, "data": {"type": "hook_progress"}})
        return uuid if self.rng.random() < 0.7 or parent is None else parent

    def prompt(self, parent: str | None) -> str:
        meta = {"isMeta": True} if self.rng.random() < 0.12 else {}
        content: Any = f"«m{self.n}» words"
        if self.has("empty_content", 0.1):
            content = []
        elif self.rng.random() < 0.2:
            content = [{"type": "text", "text": content}]
        return self.put(parent, "user", message={"role": "user", "content": content}, **meta)

    def answer_line(self, parent: str | None, message_id: str | None, block: Line) -> str:
        message: Line = {"role": "assistant", "model": "claude-opus-5-5", "content": [block]}
        if message_id is not None:
            message["id"] = message_id
        extra: Line = {"isApiErrorMessage": True} if self.has("api_error", 0.15) else {}
        return self.put(parent, "assistant", message=message, **extra)

    def message_id(self) -> str | None:
        if self.has("no_message_id", 0.3):
            return None
        return (
            f"msg_{self.seed}_{self.n}" if self.rng.random() < 0.93 or self.n < 9 else f"msg_{self.seed}_{self.n - 8}"
        )

    def text(self) -> Line:
        if self.has("blank", 0.3):
            return {"type": "text", "text": self.rng.choice(("", " \n"))}
        return {"type": "text", "text": f"«m{self.n}» answer"}

    def call(self) -> Line:
        ident = (
            f"t{self.rng.randint(0, 3)}"
            if "reused_ids" in self.odd
            else f"toolu_{self.seed}_{self.n}_{len(self.calls)}"
        )
        self.calls.append(ident)
        return {"type": "tool_use", "id": ident, "name": "Bash", "input": {}}

    def answer(self, parent: str) -> str:
        message_id = self.message_id()
        last = parent
        if self.has("thinking", 0.5):
            last = self.answer_line(
                last, message_id, {"type": "thinking", "thinking": f"«m{self.n}»", "signature": "x"}
            )
            if self.rng.random() < 0.2:
                return last
        return self.answer_line(last, message_id, self.text())

    def result(self, parent: str, calls: list[str]) -> str:
        blocks = [{"type": "tool_result", "tool_use_id": c, "content": f"«m{self.n}» {c}"} for c in calls]
        return self.put(parent, "user", message={"role": "user", "content": blocks})

    def round(self, parent: str) -> str:
        """A message with calls, block by line or in one line, and what comes back."""
        rng, message_id = self.rng, self.message_id()
        last = parent
        if rng.random() < 0.4:
            last = self.answer_line(last, message_id, self.text())
        lines: list[tuple[str, list[str]]] = []
        shape = rng.choice(("chain", "chain", "fan", "one", "stream"))
        if shape == "one":
            blocks = [self.call() for _ in range(rng.randint(1, 3))]
            uuid = self.put(
                last, "assistant", message={"id": message_id, "model": "claude-opus-5-5", "content": blocks}
            )
            lines = [(uuid, [b["id"]]) for b in blocks]
            last = uuid
        elif shape == "stream":
            for _ in range(rng.randint(1, 3)):
                block = self.call()
                last = self.answer_line(last, message_id, block)
                last = self.result(last, [block["id"]]) if rng.random() < 0.8 else last
            return last
        else:
            top = last
            for _ in range(rng.randint(1, 3)):
                block = self.call()
                last = self.answer_line(top if shape == "fan" else last, message_id, block)
                lines.append((last, [block["id"]]))
        return self.results(lines, last)

    def results(self, lines: list[tuple[str, list[str]]], last: str) -> str:
        rng = self.rng
        order = list(lines)
        rng.shuffle(order)
        for uuid, calls in order:
            if self.has("open_calls", 0.4):
                continue
            parent = rng.choice((uuid, uuid, uuid, lines[0][0], lines[-1][0], last))
            if self.has("foreign_result", 0.2):
                parent = rng.choice(self.uuids)
            if rng.random() < 0.2:
                self.beside(uuid)
            last = self.result(parent, calls)
            if self.has("second_result", 0.2):
                self.result(parent, calls)
            if rng.random() < 0.15:
                self.beside(last)
            if rng.random() < 0.1:
                return last
        return last

    def beside(self, parent: str) -> str:
        """Passive entries that hang beside or in the chain."""
        kind = self.rng.choice(("attachment", "system", "attachment"))
        return (
            self.passive(self.passive(parent, kind), "system")
            if self.rng.random() < 0.2
            else self.passive(parent, kind)
        )

    def passive(self, parent: str | None, kind: str) -> str:
        if kind == "attachment":
            body: Line = {"attachment": {"type": "edited_text_file", "filename": "a", "snippet": f"«m{self.n}»"}}
        else:
            body = {"subtype": "informational", "content": "x"}
        return self.put(parent, kind, **body)

    def boundary(self, last: str) -> str:
        rng = self.rng
        meta: Line = {"trigger": "auto", "preTokens": 5}
        anchor = rng.choice((f"{self.seed:x}-{self.n + 2}", f"{self.seed:x}-{self.n + 1}", "ghost-anchor"))
        near = self.uuids[-8:]
        if rng.random() < 0.35:
            meta["preservedSegment"] = {"headUuid": rng.choice(near), "anchorUuid": anchor, "tailUuid": last}
        if rng.random() < 0.3:
            picked = sorted(rng.sample(near, min(len(near), rng.randint(0, 4))), key=self.uuids.index)
            meta["preservedMessages"] = {"anchorUuid": anchor, "uuids": picked}
            if rng.random() < 0.1:
                meta["preservedMessages"]["uuids"] = [*picked, "ghost-kept"]
        parent = last if rng.random() < 0.15 else None
        uuid = self.put(parent, "system", subtype="compact_boundary", compactMetadata=meta)
        return self.put(
            uuid, "user", isCompactSummary=True, message={"role": "user", "content": f"«m{self.n}» summary"}
        )

    def session(self, n_steps: int) -> list[Line]:
        rng = self.rng
        last = self.prompt(None)
        for _ in range(n_steps):
            if rng.random() < 0.12:
                last = rng.choice(self.uuids)
            step = rng.random()
            if step < 0.25:
                last = self.prompt(last)
            elif step < 0.5:
                last = self.answer(last)
            elif step < 0.8:
                last = self.round(last)
            elif step < 0.9:
                below = self.beside(last)
                last = below if rng.random() < 0.6 else last
            elif self.has("boundary", 0.5) and self.uuids:
                last = self.boundary(self.uuids[-1])
            if self.has("hint", 0.12):
                leaf: Line = {"leafUuid": rng.choice(self.uuids)} if rng.random() < 0.85 else {}
                self.lines.append({"type": "last-prompt", "lastPrompt": "x", **leaf})
            if self.has("snip", 0.1):
                names = rng.sample(self.uuids, min(len(self.uuids), 2))
                self.put(last, "system", subtype="snip_boundary", snipMetadata={"removedUuids": names})
        return self.disturb(self.lines)

    def disturb(self, lines: list[Line]) -> list[Line]:
        rng = self.rng
        if self.has("cycle", 0.8):
            line = rng.choice(lines)
            line["parentUuid"] = rng.choice(self.uuids)
        if self.has("duplicate", 0.8):
            for _ in range(rng.randint(1, 3)):
                copy = dict(rng.choice(lines))
                if copy.get("type") == "user" and rng.random() < 0.5:
                    copy["parentUuid"] = rng.choice(self.uuids)
                lines.insert(rng.randint(0, len(lines)), copy)
        if self.has("shuffle", 0.8):
            for _ in range(rng.randint(1, 4)):
                i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
        return lines


def random_session(seed: int) -> list[Line]:
    """A session of 3 to 40 steps with up to four kinds of oddity (often none)."""
    rng = random.Random(seed)
    oddities = frozenset(rng.sample(ODDITIES, rng.choice((0, 1, 1, 2, 2, 3, 4))))
    return Maker(seed, oddities).session(rng.choice((3, 6, 10, 10, 20, 40)))
