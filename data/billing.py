"""What made-up requests cost, counted the way Claude Code keeps its own account of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Line = dict[str, Any]

# USD per million tokens: input, output, 5-minute write, 1-hour write, cache read.
PRICES = {
    "claude-opus-5-5": (4.0, 20.0, 5.0, 8.0, 0.2),
    "claude-sonnet-5-5": (2.0, 10.0, 2.5, 4.0, 0.1),
    "claude-haiku-5-5": (0.1, 0.5, 0.125, 0.2, 0.01),
    "claude-sonnet-4-5-20250929": (3.0, 15.0, 3.75, 6.0, 0.3),
}


@dataclass
class Bill:
    """What Claude Code counts for one session, all its agents and internal requests together."""

    answers: list[tuple[datetime, str, Line, float]] = field(default_factory=list)

    def add(self, at: datetime, model: str, usage: Line, seconds: float) -> None:
        """Count one answer."""
        self.answers.append((at, model, usage, seconds))

    def sum(self) -> tuple[float, int, dict[str, Line]]:
        """Cost, time and usage by model, added up in order of completion as the program does."""
        total, api_ms, models = 0.0, 0, dict[str, Line]()
        for _, model, usage, seconds in sorted(self.answers, key=lambda answer: answer[0]):
            cost = cost_of(model, usage)
            row = models.setdefault(model, dict.fromkeys(COST_KEYS, 0) | {"costUSD": 0.0})
            for key, count in zip(COST_KEYS, cost_counts(usage), strict=True):
                row[key] += count
            row["costUSD"] += cost
            total += cost
            api_ms += round(seconds * 1000)
        return total, api_ms, models


def cost_of(model: str, usage: Line) -> float:
    """What the program charges for one answer, in its order of additions."""
    price_in, price_out, price_5m, price_1h, price_read = PRICES[model]
    long = usage["cache_creation"]["ephemeral_1h_input_tokens"]
    short = usage["cache_creation_input_tokens"] - long
    cost = usage["input_tokens"] / 1e6 * price_in + usage["output_tokens"] / 1e6 * price_out
    cost += usage["cache_read_input_tokens"] / 1e6 * price_read
    cost += short / 1e6 * price_5m + long / 1e6 * price_1h
    return float(cost) + 0.01 * float(usage["server_tool_use"]["web_search_requests"])


COST_KEYS = (
    "inputTokens",
    "outputTokens",
    "thinkingTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "cacheCreationEphemeral5mInputTokens",
    "cacheCreationEphemeral1hInputTokens",
    "webSearchRequests",
)


def cost_counts(usage: Line) -> tuple[int, ...]:
    """The counts of one answer in the order of ``COST_KEYS``."""
    split = usage["cache_creation"]
    return (
        usage["input_tokens"],
        usage["output_tokens"],
        0,
        usage["cache_read_input_tokens"],
        usage["cache_creation_input_tokens"],
        split["ephemeral_5m_input_tokens"],
        split["ephemeral_1h_input_tokens"],
        usage["server_tool_use"]["web_search_requests"],
    )


def usage_of(fresh: int, output: int, read: int, written: tuple[int, int], searches: int = 0) -> Line:
    """A usage object; ``written`` is what went to the cache for five minutes and for an hour."""
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": sum(written),
        "cache_read_input_tokens": read,
        "output_tokens": output,
        "server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": written[1], "ephemeral_5m_input_tokens": written[0]},
    }
