"""A line of odd types, cleaned field by field: the odd field is null and named, and all others are kept."""

from __future__ import annotations

import json
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import msgspec
import orjson
from msgspec import Raw

from .decode import NO_RAW, Count, Input, Line, decode_input, loads


def line_from_object(obj: dict[str, Any]) -> tuple[Line, list[str]]:
    """A typed line from a decoded object, and the names of the fields whose type was odd (null in the line)."""
    odd: list[str] = []
    line = _clean_struct(obj, Line, "", odd)
    return line, odd


def input_from_raw(raw: Raw) -> Input:
    """The facts of a call's input; fields of odd types are null."""
    try:
        return decode_input(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        obj = loads(bytes(raw))
    except ValueError:
        return Input()
    return _clean_struct(obj, Input, "", []) if isinstance(obj, dict) else Input()


def _clean_struct(obj: dict[str, Any], cls: type[Any], path: str, odd: list[str]) -> Any:
    out = {}
    for name, encoded, kinds in _fields(cls):
        if encoded in obj:
            where = f"{path}{encoded}"
            out[name] = _clean(obj[encoded], kinds, where, odd)
    return cls(**out)


_FIELDS: dict[type[Any], list[tuple[str, str, tuple[Any, ...]]]] = {}


def _fields(cls: type[Any]) -> list[tuple[str, str, tuple[Any, ...]]]:
    if cls not in _FIELDS:
        _FIELDS[cls] = [(f.name, f.encode_name, _kinds(f.type)) for f in msgspec.structs.fields(cls)]
    return _FIELDS[cls]


def _kinds(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, UnionType) or (
        get_origin(annotation) is not None and str(get_origin(annotation)) == "typing.Union"
    ):
        return tuple(k for a in get_args(annotation) for k in _kinds(a))
    return (annotation,)


def _clean(value: Any, kinds: tuple[Any, ...], where: str, odd: list[str]) -> Any:
    for kind in kinds:
        if kind is Raw:
            return _raw(value, where, odd)
        if kind is NoneType:
            if value is None:
                return None
        elif kind is Count or get_origin(kind) is Annotated:
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if type(value) is int and 0 <= value <= 2**53:
                return value
        elif get_origin(kind) is list:
            if isinstance(value, list):
                return _clean_list(value, get_args(kind)[0], where, odd)
        elif kind is float:
            if type(value) in (int, float):
                return _float(value)
        elif kind in (str, bool, int):
            if type(value) is kind:
                return value
        elif isinstance(value, dict):
            return _clean_struct(value, kind, where + ".", odd)
    odd.append(where)
    return Raw(b"") if Raw in kinds else None


def _clean_list(values: list[Any], item: Any, where: str, odd: list[str]) -> list[Any]:
    if item is Raw:
        return [_raw(v, where, odd) for v in values]
    if item is str:
        return [v for v in values if isinstance(v, str)]
    cleaned = []
    for v in values:
        if isinstance(v, dict):
            cleaned.append(_clean_struct(v, item, where + "[].", odd))
        else:
            # A block that is no object still takes its place, so that block numbers stay those of the file.
            odd.append(where + "[]")
            cleaned.append(item(text=v) if isinstance(v, str) and "text" in item.__struct_fields__ else item())
    return cleaned


def _float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _raw(value: Any, where: str, odd: list[str]) -> Raw:
    try:
        return Raw(orjson.dumps(value))
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return Raw(json.dumps(value, ensure_ascii=True).encode())
    except RecursionError:
        odd.append(where)
        return NO_RAW
