"""Kill exports at random moments and see that nothing is lost: ``python -m tests.benchmarks.kills CORPUS [N]``.

A lake holds half of the corpus; an export of all of it is killed (SIGKILL) at a random moment. What is scanned then
must be the old state or the new one, and the next export must make the new one. Too slow for the suite, which has a
few such moments of its own.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from ccanalytics.find import find_files
from ccanalytics.lake.layout import EXPORTED
from ccanalytics.parquet import export_files, scan_parquet


def tables(out: Path) -> dict[str, pl.DataFrame]:
    lake = scan_parquet(out)
    return {name: lake.table(name).collect() for name in EXPORTED}


def is_same(a: dict[str, pl.DataFrame], b: dict[str, pl.DataFrame]) -> bool:
    return all(a[name].equals(b[name]) for name in EXPORTED)


def start(corpus: str, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ccanalytics", "export", corpus, str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(corpus: str, n: int) -> None:
    work = Path(tempfile.mkdtemp(prefix="ccanalytics-kills-"))
    half = [f.path for f in find_files(corpus)][::2]
    export_files(work / "half", half)
    shutil.copytree(work / "half", work / "whole")
    began = time.monotonic()
    start(corpus, work / "whole").wait()
    lasts = time.monotonic() - began
    old, new = tables(work / "half"), tables(work / "whole")
    assert not is_same(old, new)
    counts = {"old": 0, "new": 0}
    rng = random.Random(7)
    for _ in range(n):
        out = work / "lake"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(work / "half", out)
        process = start(corpus, out)
        # The change itself is short: half of the moments are towards the end.
        time.sleep(lasts * (rng.uniform(0.05, 1.05) if rng.random() < 0.5 else rng.uniform(0.75, 1.05)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = tables(out)
        state = "old" if is_same(found, old) else "new" if is_same(found, new) else "mixed"
        assert state != "mixed"
        counts[state] += 1
        start(corpus, out).wait()
        assert is_same(tables(out), new)
    shutil.rmtree(work)
    print(
        f"{n} exports killed: {counts['old']} left the old state, {counts['new']} the new one; every next one was right"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50)
