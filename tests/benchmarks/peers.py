"""Other programs that report usage from the same transcripts, if they are installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

Totals = dict[str, int]
TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(frozen=True)
class Peer:
    """A program, how its usage report is called, and how totals are read from what it prints."""

    name: str
    command: tuple[str, ...]
    totals: Callable[[str], Totals]


def installed(ccusage: str | None, aiburn: str | None) -> list[Peer]:
    """The peers found on PATH or at the paths given; npm's script for ccusage is resolved to its native program."""
    found: list[Peer] = []
    if path := native_ccusage(ccusage):
        found.append(Peer("ccusage", (path, "claude", "daily", "--json", "--offline"), ccusage_totals))
    if path := aiburn or shutil.which("aiburn"):
        found.append(Peer("aiburn", (path, "daily", "--claude", "--json"), aiburn_totals))
    return found


def native_ccusage(given: str | None) -> str | None:
    """The compiled program, without the Node start-up of the script npm puts on PATH."""
    path = given or shutil.which("ccusage")
    if path is None:
        return None
    packages = [p for p in Path(path).resolve().parents if p.name == "node_modules"]
    natives = sorted(packages[0].glob("@ccusage/*/bin/ccusage")) if packages else []
    return str(natives[0]) if natives else path


def ccusage_totals(text: str) -> Totals:
    """Totals of ``ccusage … --json``."""
    totals = orjson.loads(text)["totals"]
    names = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
    return {ours: totals[theirs] for ours, theirs in zip(TOKENS, names, strict=True)}


def aiburn_totals(text: str) -> Totals:
    """Totals of ``aiburn … --json``, which has one number for cache reads and writes."""
    rows: list[dict[str, Any]] = next(v for v in orjson.loads(text).values() if isinstance(v, list))
    sums = {key: sum(row[key] for row in rows) for key in ("input", "output", "cache")}
    return {"input_tokens": sums["input"], "output_tokens": sums["output"], "cache_tokens": sums["cache"]}


def ccusage_costs(text: str) -> dict[str, float]:
    """Cost by model of ``ccusage … --json``; models it has no price for are left out."""
    report = orjson.loads(text)
    unpriced = set(report["totals"].get("unpricedModels") or ())
    costs: dict[str, float] = {}
    for day in report["daily"]:
        for row in day["modelBreakdowns"]:
            if row["modelName"] not in unpriced:
                costs[row["modelName"]] = costs.get(row["modelName"], 0.0) + row["cost"]
    return costs
