"""Renew the tested versions: resolve anew, write constraints.txt and the list in pyproject.toml.

Both lists say the same, one for ``pip -c constraints.txt``, one for ``uv``; neither names a registry.
Run it as ``python .ci/pins.py`` with uv installed, then run all tests before committing the result.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = re.compile(r"^constraint-dependencies = \[.*?^\]$", re.MULTILINE | re.DOTALL)
HEAD = "# Versions the tests passed with, for `pip install . -c constraints.txt`; renewed by .ci/pins.py.\n"


def main() -> None:
    """Write both lists."""
    pins = resolve()
    (ROOT / "constraints.txt").write_text(HEAD + "\n".join(pins) + "\n")
    rows = "\n".join(f'  "{p}",' for p in pins)
    project = ROOT / "pyproject.toml"
    project.write_text(LIST.sub(lambda _: f"constraint-dependencies = [\n{rows}\n]", project.read_text(), count=1))


def resolve() -> list[str]:
    """The newest versions that fit together, with the markers that choose among them."""
    with tempfile.TemporaryDirectory() as folder:
        free = LIST.sub("constraint-dependencies = []", (ROOT / "pyproject.toml").read_text(), count=1)
        Path(folder, "pyproject.toml").write_text(free)
        for name in ("README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        options = ["--no-hashes", "--no-header", "--no-annotate", "--no-emit-project", "--all-extras", "--quiet"]
        out = subprocess.run(["uv", "export", *options], cwd=folder, check=True, capture_output=True, text=True).stdout
    return [line.strip() for line in out.splitlines() if "==" in line and "'never'" not in line]


if __name__ == "__main__":
    main()
