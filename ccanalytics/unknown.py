"""Fields that no column or detail is made of: counted on request, by reading every line again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import polars as pl

from .decode import Line, loads
from .jobs import Piece, read_piece

SCHEMA = {"type": pl.String, "field": pl.String, "n": pl.Int64}
_KNOWN = frozenset(f.encode_name for f in msgspec.structs.fields(Line)) | frozenset(
    ("userType", "session_id", "isReplay", "todos", "thinkingMetadata", "level", "compactMetadata")
)


def count_unknown_fields(paths: Iterable[str]) -> pl.DataFrame:
    """Top-level fields of user, assistant, attachment and progress entries that are in no column, with how often.

    One row per type and field, most frequent first; lines that cannot be read are passed over here.
    """
    shapes: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for path in paths:
        for line in read_piece(Piece(path)).split(b"\n"):
            try:
                obj = loads(line)
            except ValueError:
                continue
            if isinstance(obj, dict) and obj.get("type") in ("user", "assistant", "attachment", "progress"):
                shapes[obj["type"], tuple(obj)] += 1
    counts: Counter[tuple[str, str]] = Counter()
    for (kind, keys), n in shapes.items():
        for key in keys:
            if key not in _KNOWN:
                counts[kind, key] += n
    rows = [(kind, key, n) for (kind, key), n in counts.items()]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("n", "type", "field", descending=[True, False, False])
