"""A coverage-guided attack on the parser: ``python tests/fuzz/parse_atheris.py -max_total_time=600 CORPUS``.

Needs ``pip install atheris`` (Linux, outside the project's environment). Beside "nothing raises" it holds the parser
to the plain reading: each good line is exactly one entry at its place. docs/fuzzing.md says what was found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

with atheris.instrument_imports(include=["ccanalytics.parse", "ccanalytics.rescue", "ccanalytics.decode",
                                         "ccanalytics.facts", "ccanalytics.columns", "ccanalytics.blocks",
                                         "ccanalytics.timestamps"]):  # fmt: skip
    from ccanalytics.parse import Content, Stretch, parse_stretches
    from ccanalytics.rescue import rescue_line

from tests.reference_load import good_lines

CONTENTS: tuple[Content, ...] = ("none", "preview", "full")


def attack(data: bytes) -> None:
    """The first byte chooses what is done with the rest."""
    if not data:
        return
    choice, data = data[0], data[1:]
    rescue_line(data.replace(b"\n", b" "), is_open=bool(choice & 8))
    found = parse_stretches([Stretch(data)], content=CONTENTS[choice % 3])
    places = found.entries.select("line_no", "byte_offset", "byte_length").rows()
    for line in good_lines(data):
        assert places.count((line.line_no, line.byte_offset, line.byte_length)) == 1, line
    for _, offset, length in places:
        assert data[offset : offset + 1] == b"{"
        assert data[offset + length - 1 : offset + length] == b"}"


def write_seeds(folder: Path) -> None:
    """A corpus to begin with: lines of every kind and the rubbish between them."""
    import random

    from tests.strategies import GARBAGE, make_folder

    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(60):
        lines = [line for part in make_folder(random.Random(seed), most=3).files.values() for line in part]
        (folder / f"folder-{seed}").write_bytes(bytes([seed]) + b"\n".join(lines[:4]))
    for number, line in enumerate(GARBAGE):
        (folder / f"garbage-{number}").write_bytes(b"\0" + line)


if __name__ == "__main__":
    places_given = [Path(a) for a in sys.argv[1:] if not a.startswith("-")]
    if places_given and not any(places_given[0].glob("*")):
        write_seeds(places_given[0])
    atheris.Setup(sys.argv, attack)
    atheris.Fuzz()
