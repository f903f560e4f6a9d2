"""Packs a folder of recorded cases into ``tests/cases/<family>.tar.xz``, the same bytes for the same input.

Not needed to run the tests: ``python tests/pack_cases.py FOLDER`` is for whoever renews the cases.
"""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
from pathlib import Path

FILE_TIME = 1_772_366_400
KEEP_OUT = {"RULES.md", "unpack.py"}


def main(folder: Path) -> None:
    for family in sorted(p for p in folder.iterdir() if p.is_dir()):
        target = Path(__file__).parent / "cases" / f"{family.name}.tar.xz"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(pack(family))


def pack(family: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(family.rglob("*")):
            name = path.relative_to(family).as_posix()
            if path.is_dir() and not any(path.iterdir()):
                tar.addfile(_entry(name, tarfile.DIRTYPE, 0o755))
            elif path.is_file() and name not in KEEP_OUT:
                data = path.read_bytes()
                entry = _entry(name, tarfile.REGTYPE, 0o644)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return lzma.compress(out.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, FILE_TIME
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]))
