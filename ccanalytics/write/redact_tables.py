"""Redacting the files of a Parquet export: one mapping per distinct value of each column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ccanalytics.schema import tables

from .files import make_private_dirs
from .lines import loads
from .redactor import Redactor

_JSON_COLUMNS = ("detail", "meta", "iterations")
_WORD_COLUMNS = ("code", "rule", "step", "price_source", "policy", "role", "trigger", "currency", "timezone")


def copy_table(root: Path, path: Path, target: Path, redactor: Redactor) -> None:
    """Copy one file of an export, with its place, redacted."""
    place = path.relative_to(root)
    new = target / new_place(place, redactor)
    make_private_dirs(new.parent)
    table = pq.read_table(path, partitioning=None)
    name = next((part for part in (*place.parts[:-1], place.stem) if part in tables()), "")
    columns = [_new_column(table.column(c), c, name, redactor) for c in table.column_names]
    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k.startswith(b"ccanalytics")}
    schema = pa.schema([f.with_type(c.type) for f, c in zip(table.schema, columns, strict=True)], metadata=metadata)
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), new, compression="zstd")


def new_place(place: PurePath, redactor: Redactor) -> PurePath:
    """Where a file of an export lies in the copy: values in the names of folders are replaced."""
    return PurePath(*(_new_part(part, redactor) for part in place.parts[:-1]), place.name)


def copy_manifest(root: Path, target: Path, redactor: Redactor) -> None:
    """Copy what an export says about itself, so that the copy is read like the export.

    The prints of its parts are left out: they are of the original rows, and serve only to add to an export.
    """
    name = Path("_ccanalytics", "manifest.json")
    manifest = loads((root / name).read_bytes()) if (root / name).is_file() else None
    if not isinstance(manifest, dict):
        return
    files, parts = manifest.get("files", {}), manifest.get("parts", {})
    manifest["files"] = {redactor.path(path): _new_note(note, redactor) for path, note in files.items()}
    manifest["parts"] = {new_place(PurePath(p), redactor).as_posix(): [part[0], ""] for p, part in parts.items()}
    make_private_dirs((target / name).parent)
    (target / name).write_bytes(orjson.dumps(manifest))


def _new_note(note: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    words: dict[str, Any] = {key: redactor.value(note[key], key) for key in ("heading", "summaries") if key in note}
    return {**note, **words, "rows_print": ""}


def _new_part(part: str, redactor: Redactor) -> str:
    key, equals, value = part.partition("=")
    return f"{key}={redactor.string(value, key)}" if equals and not _is_plain(value) else part


def _is_plain(value: str) -> bool:
    return value.replace("-", "").isdigit() or value in ("undated", "none", "__HIVE_DEFAULT_PARTITION__")


def _new_column(column: Any, name: str, table: str, redactor: Redactor) -> Any:
    if name == "text_hash":
        return _mapped(column, redactor.number)
    if not _is_text(column.type) or _is_closed(table, name):
        return column
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        rows = [
            None if row is None else [redactor.string(v, name) for v in row if v is not None]
            for row in column.to_pylist()
        ]
        return pa.chunked_array([pa.array(rows, type=column.type)])
    if name in _JSON_COLUMNS:
        return _mapped(column, lambda text: _new_json(text, table, redactor))
    if name in ("type", "subtype"):
        return _mapped(column, redactor.kind)
    return _mapped(column, lambda text: redactor.string(text, name))


def _new_json(text: str, table: str, redactor: Redactor) -> str:
    value = loads(text.encode())
    if isinstance(value, dict | list):
        return orjson.dumps(redactor.value(value)).decode()
    # Details of problems are sentences of this package about the shape of a line.
    return text if table == "problems" else redactor.text(text)


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


@cache
def _closed() -> frozenset[tuple[str, str]]:
    return frozenset((table.name, c.name) for table in tables().values() for c in table.columns if c.values)


def _is_closed(table: str, name: str) -> bool:
    return (table, name) in _closed() or name in _WORD_COLUMNS


def _mapped(column: Any, change: Callable[[Any], Any]) -> Any:
    """The column with each distinct value changed once."""
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    old = pc.unique(plain).drop_null()
    new = pa.array([change(v) for v in old.to_pylist()], type=plain.type)
    return pc.take(new, pc.index_in(plain, value_set=old))


def strings_of_table(path: Path) -> set[str]:
    """Every distinct string in a Parquet file, those inside JSON texts too."""
    table, found = pq.read_table(path, partitioning=None), set[str]()
    for name in table.column_names:
        if not _is_text(table.column(name).type) or name in _WORD_COLUMNS:
            continue
        for value in (
            table.column(name).unique().to_pylist() if not _is_list(table, name) else table.column(name).to_pylist()
        ):
            found.update(_texts(value, is_json=name in _JSON_COLUMNS))
    return found


def _is_list(table: Any, name: str) -> bool:
    kind = table.column(name).type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _texts(value: Any, *, is_json: bool) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, is_json=is_json)
    elif isinstance(value, str):
        whole = loads(value.encode()) if is_json else None
        yield from _inner(whole) if isinstance(whole, dict | list) else [value] if not is_json else []


def _inner(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _inner(item)
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _inner(item)
