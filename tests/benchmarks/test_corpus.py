"""The corpus that benchmarks run on holds what its expected.json says."""

from __future__ import annotations

from pathlib import Path

import orjson

from .corpus import TOKENS, Corpus


def written(folder: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for p in sorted(folder.rglob("*.jsonl")) for line in p.read_bytes().splitlines()]


def test_expected_totals_are_those_of_the_lines(tmp_path: Path) -> None:
    Corpus(tmp_path, seed=3).fill(1_500_000, forks=0.9)
    expected = orjson.loads((tmp_path / "expected.json").read_bytes())
    lines = written(tmp_path)
    usages = {e["message"]["id"]: e["message"]["usage"] for e in lines if e["type"] == "assistant"}  # type: ignore[index]
    assert expected["lines"] == len(lines)
    assert expected["api_messages"] == len(usages)
    assert [expected[k] for k in TOKENS] == [sum(u[k] for u in usages.values()) for k in TOKENS]
    assert expected["sessions"] > 1


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Corpus(tmp_path / name, seed=5).fill(200_000)
    assert written(tmp_path / "one") == written(tmp_path / "two")
