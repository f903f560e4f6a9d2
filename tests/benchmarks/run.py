"""Measure ccanalytics beside the peers that are installed, on the same files, in turn, in one run.

    python -m tests.benchmarks.run [--mb 100 1000] [--corpus DIR] [--rounds 5] [--only a b] [--json FILE]
                                   [--ccusage PATH] [--aiburn PATH]

Sections: (a) usage report, cold; (b) all frames, cold; (c) all frames, warm cache; (d) refresh after one appended line;
(e) export to Parquet; (f) edges, chains and resume after loading; (g) the same lines through a bare JSON decoder;
(h) start-up.
A section whose feature is missing says so and is left out. Times are medians; memory is taken in one extra run.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from .corpus import Corpus
from .measure import Run, RunError, run
from .peers import TOKENS, Peer, ccusage_costs, installed

CLI = (sys.executable, "-m", "ccanalytics")
LOAD = "import ccanalytics as cc; t = cc.load({corpus!r}, cache={cache}); t.files, t.entries, t.blocks, t.problems"


@dataclass(frozen=True)
class Contestant:
    """One of the programs that a section runs in turn."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    before: Callable[[], None] | None = None


@dataclass
class Row:
    """What a contestant took in a section."""

    section: str
    corpus_mb: float
    name: str
    wall: float | None = None
    cpu: float | None = None
    peak_mb: float | None = None
    wall_ratio: float | None = None
    cpu_ratio: float | None = None
    note: str = ""
    values: dict[str, float] = field(default_factory=dict)


def main() -> None:
    """The command line."""
    options = arguments()
    peers = installed(options.ccusage, options.aiburn)
    report: dict[str, Any] = {"machine": machine(), "rows": [], "agreement": []}
    print(f"{report['machine']}; peers: {', '.join(p.name for p in peers) or 'none installed'}")
    with tempfile.TemporaryDirectory() as scratch:
        for corpus in corpora(options, Path(scratch)):
            rows, agreement = bench(corpus, peers, options, Path(scratch))
            report["rows"] += rows
            report["agreement"].append(agreement)
    print_growth(report["rows"])
    if options.json:
        options.json.write_bytes(orjson.dumps(report, default=asdict, option=orjson.OPT_INDENT_2))


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Measure ccanalytics beside its peers.")
    parser.add_argument("--mb", type=float, nargs="*", default=[100.0], help="sizes of made-up corpora, in MB")
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], help="config directories to use instead")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list("abcdefgh"), choices=list("abcdefgh"))
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--ccusage", help="path of ccusage, when it is not on PATH")
    parser.add_argument("--aiburn", help="path of aiburn, when it is not on PATH")
    return parser.parse_args()


def corpora(options: argparse.Namespace, scratch: Path) -> list[Path]:
    """The corpora to measure on, made here unless given."""
    if options.corpus:
        return [path.resolve() for path in options.corpus]
    made: list[Path] = []
    for size in options.mb:
        path = scratch / f"corpus-{size:g}"
        Corpus(path, seed=1).fill(size * 1e6)
        made.append(path)
    return made


def bench(
    corpus: Path, peers: Sequence[Peer], options: argparse.Namespace, scratch: Path
) -> tuple[list[Row], dict[str, Any]]:
    """All sections on one corpus; prints each as it is done."""
    size = sum(p.stat().st_size for p in corpus.rglob("*.jsonl")) / 1e6
    print(f"\n{size:,.0f} MB, {sum(1 for _ in corpus.rglob('*.jsonl')):,} files, medians of {options.rounds} rounds")
    rows: list[Row] = []
    outputs: dict[str, str] = {}
    for section, title, contestants in sections(corpus, peers, scratch):
        if section not in options.only:
            continue
        print(f"({section}) {title}")
        for row, output in compete(section, size, contestants, options.rounds):
            print_row(row)
            rows.append(row)
            outputs.setdefault(f"{section}:{row.name}", output)
    agreement = agreement_of(corpus, peers, outputs)
    if text := outputs.get("a:ccusage"):
        agreement["cost_as_ccusage"] = cost_as_ccusage(corpus, text)
    return rows, agreement


def sections(corpus: Path, peers: Sequence[Peer], scratch: Path) -> list[tuple[str, str, list[Contestant]]]:
    """What is run, in order; the first contestant of a section is the one the others are compared with."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "CLAUDE_CONFIG_DIR": str(corpus)}
    cold = env | {"CCANALYTICS_CACHE": "0"}
    them = [Contestant(peer.name, peer.command, env) for peer in peers]
    report = (*CLI, "report", "--config-dir", str(corpus), "--by", "model", "--format", "json")
    out = scratch / "lake"
    export = (*CLI, "export", str(out), "--config-dir", str(corpus))

    def python(name: str, code: str, use: Mapping[str, str] = cold, **names: Any) -> Contestant:
        return Contestant(name, (sys.executable, "-c", code.format(corpus=str(corpus), **names)), use)

    version = Contestant("--version", (*CLI, "--version"), cold)
    exporting = Contestant("export", export, cold, lambda: remove(out))
    return [
        ("a", "usage report, cold", [*them, Contestant("ccanalytics", report, cold)]),
        ("b", "all frames, cold", [*them, python("ccanalytics", LOAD, cache=False)]),
        ("c", "all frames, warm cache", [*them, python("ccanalytics", LOAD, env, cache=True)]),
        ("d", "refresh after one appended line", [python("load and refresh", REFRESH, env)]),
        ("e", "export to Parquet, beside loading all frames", [python("all frames", LOAD, cache=False), exporting]),
        ("f", "edges, chains, resume, after loading", [python("graph", GRAPH)]),
        ("g", "one process, beside a bare JSON decoder", [python("orjson.loads", BARE), python("all frames", ALONE)]),
        ("h", "start-up", [python("python alone", "pass"), python("import", "import ccanalytics"), version]),
    ]


REFRESH = """
import ccanalytics as cc, os, pathlib, time
path = pathlib.Path({corpus!r}, "projects", "-bench", "5b1d2a4e-0000-4000-8000-000000000000.jsonl")
line = '{{"parentUuid":null,"type":"user","uuid":"%s","timestamp":"2026-11-01T00:00:00.000Z","isSidechain":false,'
line += '"sessionId":"%s","cwd":"/bench","message":{{"role":"user","content":"x"}}}}\\n' % path.stem
path.parent.mkdir(exist_ok=True)
try:
    path.write_text(line % 0)
    t = cc.load({corpus!r}); n = t.entries.height
    with path.open("a") as f: f.write(line % 1)
    begun, cpu = time.perf_counter(), time.process_time()
    u = t.refresh() or t
    took = time.perf_counter() - begun
    assert u.entries.height == n + 1, (u.entries.height, n)
    print("refresh_ms", 1000 * took)
finally:
    path.unlink(); path.parent.rmdir()
"""

GRAPH = """
import ccanalytics as cc, time
t = cc.load({corpus!r}, cache=False); t.entries, t.blocks
for name in ("edges", "chains", "resume"):
    begun, cpu = time.perf_counter(), time.process_time()
    found = getattr(t, name)
    found = found() if callable(found) else found
    print(name + "_cpu_s", time.process_time() - cpu)
"""

BARE = """
import gc, orjson, pathlib
gc.disable(); n = 0
for path in pathlib.Path({corpus!r}).rglob("*.jsonl"):
    for line in path.read_bytes().split(b"\\n"):
        if line: orjson.loads(line); n += 1
print("lines", n)
"""

ALONE = """
import ccanalytics as cc
t = cc.load({corpus!r}, cache=False, workers=1); t.files, t.entries, t.blocks, t.problems
print("frames_mb", sum(f.estimated_size() for f in (t.files, t.entries, t.blocks, t.problems)) / 1e6)
"""


def compete(section: str, size: float, contestants: Sequence[Contestant], rounds: int) -> list[tuple[Row, str]]:
    """Rows of a section: the contestants take turns, once for memory and warming up, then ``rounds`` times."""
    runs: dict[int, list[Run]] = {}
    notes: dict[int, str] = {}
    for no in range(rounds + 1):
        for index, contestant in enumerate(contestants):
            if index in notes:
                continue
            if contestant.before:
                contestant.before()
            try:
                runs.setdefault(index, []).append(run(contestant.command, contestant.env, memory=no == 0))
            except RunError as error:
                notes[index] = f"not measured: {error}"[:160]
    rows: list[tuple[Row, str]] = []
    for index, contestant in enumerate(contestants):
        if index in notes:
            rows.append((Row(section, size, contestant.name, note=notes[index]), ""))
        else:
            rows.append((summary(section, size, contestant.name, runs[index], rows), runs[index][-1].output))
    return rows


def summary(section: str, size: float, name: str, runs: Sequence[Run], before: Sequence[tuple[Row, str]]) -> Row:
    """Medians of the timed runs, and their ratio to the first contestant that could be measured."""
    wall = statistics.median(r.wall for r in runs[1:])
    cpu = statistics.median(r.cpu for r in runs[1:])
    row = Row(section, size, name, wall, cpu, runs[0].peak_mb, values=printed(runs[1:]))
    first = next((r for r, _ in before if r.wall), None)
    if first and first.wall and first.cpu:
        row.wall_ratio, row.cpu_ratio = wall / first.wall, cpu / first.cpu
    return row


def printed(runs: Sequence[Run]) -> dict[str, float]:
    """Medians of what a measuring script printed itself, as lines of a name and a number."""
    found: dict[str, list[float]] = {}
    for one in runs:
        for line in one.output.splitlines():
            name, _, number = line.partition(" ")
            if name.isidentifier() and re.fullmatch(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", number):
                found.setdefault(name, []).append(float(number))
    return {name: statistics.median(numbers) for name, numbers in found.items()}


def agreement_of(corpus: Path, peers: Sequence[Peer], outputs: Mapping[str, str]) -> dict[str, Any]:
    """Whether the totals of all reports are the same, and the same as expected; prints what differs."""
    expected_file = corpus / "expected.json"
    expected = orjson.loads(expected_file.read_bytes()) if expected_file.exists() else None
    found: dict[str, Any] = {}
    if text := outputs.get("a:ccanalytics"):
        totals = orjson.loads(text)["totals"]
        found["ccanalytics"] = {k: totals[k] for k in (*TOKENS, "calls", "ephemeral_1h_input_tokens")}
    for peer in peers:
        if text := outputs.get(f"a:{peer.name}"):
            found[peer.name] = peer.totals(text)
    truth = expected_totals(expected) if expected else found.get("ccanalytics", {})
    for name, totals in found.items():
        wrong = {k: (v, truth.get(k)) for k, v in totals.items() if k in truth and v != truth[k]}
        print(f"totals of {name}: {'as expected' if not wrong else f'differ (found, expected): {wrong}'}")
    return {"expected": truth, "found": found}


def cost_as_ccusage(corpus: Path, text: str) -> dict[str, Any]:
    """Cost by model as ccusage shows it and as policy "ccusage" computes it; prints what differs by a cent."""
    theirs = ccusage_costs(text)
    try:
        ours = orjson.loads(run((sys.executable, "-c", COST.format(corpus=str(corpus))), {}).output)
    except RunError as error:
        print(f'cost by policy "ccusage" not measured: {error}')
        return {"ccusage": theirs}
    wrong = {m: (ours.get(m), cost) for m, cost in theirs.items() if abs((ours.get(m) or 0.0) - cost) >= 0.005}
    print(f'cost by policy "ccusage": {"the same to the cent" if not wrong else f"differs (ours, theirs): {wrong}"}')
    return {"ccusage": theirs, "ccanalytics": ours}


COST = """
import ccanalytics as cc, json
rows = cc.load({corpus!r}, cache=False).cost(by=["model"], policy="ccusage")
print(json.dumps(dict(rows.select("model", "cost_usd").iter_rows())))
"""


def expected_totals(expected: Mapping[str, Any]) -> dict[str, int]:
    """``expected.json`` under the names the reports use."""
    truth = {k: expected[k] for k in TOKENS}
    truth |= {"calls": expected["api_messages"], "ephemeral_1h_input_tokens": expected["cache_1h"]}
    return truth | {"cache_tokens": truth["cache_read_input_tokens"] + truth["cache_creation_input_tokens"]}


def print_row(row: Row) -> None:
    """One line of the table."""
    if row.wall is None:
        print(f"    {row.name:<18} {row.note}")
        return
    ratios = f"  {row.wall_ratio:5.2f}x wall  {row.cpu_ratio:5.2f}x CPU" if row.wall_ratio else ""
    own = "".join(f"  {name}={value:,.3g}" for name, value in row.values.items())
    print(f"    {row.name:<18} {row.wall:7.3f} s wall  {row.cpu:7.3f} s CPU  {row.peak_mb:7.0f} MB{ratios}{own}")


def print_growth(rows: Sequence[Row]) -> None:
    """How time and memory grow from the smallest corpus to the largest."""
    sizes = sorted({row.corpus_mb for row in rows})
    if len(sizes) < 2:
        return
    print(f"\ngrowth from {sizes[0]:,.0f} to {sizes[-1]:,.0f} MB ({sizes[-1] / sizes[0]:.1f}x the bytes)")
    small = {(r.section, r.name): r for r in rows if r.corpus_mb == sizes[0] and r.wall}
    for row in rows:
        first = small.get((row.section, row.name))
        if row.corpus_mb != sizes[-1] or not first or not (row.wall and first.wall and row.peak_mb and first.peak_mb):
            continue
        grown = f"{row.wall / first.wall:5.1f}x wall  {row.peak_mb / first.peak_mb:5.1f}x memory"
        print(f"    ({row.section}) {row.name:<18} {grown}")


def machine() -> str:
    """What was measured on, and when."""
    today = datetime.now(UTC).date()
    return f"{today}, {os.cpu_count()} cores, {platform.machine()}, CPython {platform.python_version()}"


def remove(folder: Path) -> None:
    """Remove a folder of an earlier round."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
