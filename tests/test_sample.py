"""The bundled sample: written by its script, complete in what it shows, small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "data" / "sample"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def lines() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for path in SAMPLE.rglob("*.jsonl"):
        rows += [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return rows


def test_the_script_writes_the_sample_byte_for_byte(tmp_path: Path) -> None:
    script = ROOT / "data" / "make_sample.py"
    subprocess.run([sys.executable, "-B", str(script), str(tmp_path / "sample")], check=True)
    assert contents(tmp_path / "sample") == contents(SAMPLE)


def test_the_sample_is_small() -> None:
    assert sum(len(data) for data in contents(SAMPLE).values()) < 400_000


def test_the_sample_ends_in_a_torn_line() -> None:
    torn = [path for path in SAMPLE.rglob("*.jsonl") if not path.read_bytes().endswith(b"\n")]
    assert len(torn) == 1


def test_the_sample_shows_what_transcripts_can_hold() -> None:
    rows = lines()
    types = {str(row.get("type")) for row in rows}
    subtypes = {str(row.get("subtype")) for row in rows}
    assert {"progress", "queue-operation", "file-history-snapshot", "cost-state", "custom-title", "ai-title"} <= types
    assert {"compact_boundary", "api_error", "turn_duration"} <= subtypes
    assert {"2.1.88", "2.1.332"} == {str(row["version"]) for row in rows if "version" in row}
