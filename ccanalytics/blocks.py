"""Content blocks → the columns of ``blocks``, and what of them is counted per entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import astuple

from .decode import Block, Part
from .facts import call_facts, dump_detail
from .schema.base import BLOCKS
from .secrets import mask_secrets

if TYPE_CHECKING:
    from .parse import Content

PREVIEW_CHARS = 200
_AT = {name: k for k, name in enumerate(Block.__struct_fields__)}
_CALLS = ("tool_use", "server_tool_use")
_PERSISTED = "<persisted-output>"


def shown(text: str, content: Content) -> str | None:
    """What of a text stands in a frame: nothing, a masked preview, or all of it."""
    if content == "full":
        return text
    return mask_secrets(text[: PREVIEW_CHARS * 4])[:PREVIEW_CHARS] if content == "preview" else None


class BlockColumns:
    """Cells of blocks as they come; columns when all have come."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._rows: list[int] = []
        self._numbers: list[int] = []
        self._cells: dict[str, list[Any]] = {name: [] for name in (*_AS_WRITTEN, *_COUNTED, "detail", "text_hash")}
        self._n_images: list[tuple[int, int, int]] = []
        """Only of blocks that may have images: number of the block, images, and their bytes."""
        self._texts: list[str | None] = []

    def add(self, rows: list[int], contents: list[Any]) -> None:
        """Add the blocks of the messages that are at ``rows``; a content that is a string is one text block."""
        blocks: list[Block] = []
        for row, content in zip(rows, contents, strict=True):
            if type(content) is list:
                n = len(content)
                self._rows.extend([row] * n)
                self._numbers.extend(range(n))
                blocks.extend(content)
            elif content is not None:
                self._rows.append(row)
                self._numbers.append(0)
                blocks.append(Block(type="text", text=content))
        if blocks:
            self._add_cells(blocks)

    def _add_cells(self, blocks: list[Block]) -> None:
        first = len(self._cells["type"])
        fields = tuple(zip(*map(astuple, blocks), strict=True))
        for name, at in _AS_WRITTEN.items():
            self._cells[name].extend(fields[at])
        texts = [
            t if t is not None else h if h is not None else c if type(c) is str else _joined(c)
            for t, h, c in zip(fields[_AT["text"]], fields[_AT["thinking"]], fields[_AT["content"]], strict=True)
        ]
        cells = self._cells
        cells["n_chars"].extend(map(len, texts))
        cells["n_bytes"].extend(map(len, fields[_AT["input"]]))
        cells["is_blank"].extend([not t or t.isspace() for t in texts])
        cells["is_persisted"].extend([t.startswith(_PERSISTED) for t in texts])
        self._add_facts(blocks, texts, first)
        if self._content != "none":
            inputs = fields[_AT["input"]]
            self._texts.extend(
                shown(t or bytes(i).decode("utf-8", "replace"), self._content)
                for t, i in zip(texts, inputs, strict=True)
            )

    def _add_facts(self, blocks: list[Block], texts: list[str], first: int) -> None:
        n = len(blocks)
        details: list[str | None] = [None] * n
        hashes: list[int | None] = [None] * n
        for i, b in enumerate(blocks):
            kind = b.type
            if kind in _CALLS:
                details[i], hashes[i] = call_facts(b)
            elif kind == "fallback":
                sides = {"from": b.from_.model if b.from_ else None, "to": b.to.model if b.to else None}
                details[i] = dump_detail(sides)
            elif kind == "image":
                self._n_images.append((first + i, 1, _decoded_size(b.source)))
            elif _is_result(kind) and texts[i].startswith(_PERSISTED):
                details[i] = dump_detail({"persisted_path": _persisted_path(texts[i])})
            if type(b.content) is list and kind != "image":
                parts = [p for p in b.content if p.type == "image"]
                if parts:
                    self._n_images.append((first + i, len(parts), sum(_decoded_size(p.source) for p in parts)))
        self._cells["detail"].extend(details)
        self._cells["text_hash"].extend(hashes)

    def frame(self, first_row: int) -> pl.DataFrame:
        """All blocks, their rows counted from ``first_row``."""
        n, plain, cells = len(self._rows), BLOCKS.polars(), self._cells
        types = pl.Series(cells["type"], dtype=pl.String)
        is_call = types.is_in(_CALLS).fill_null(False)
        is_result = ((types == "tool_result") | types.str.ends_with("_tool_result")).fill_null(False)
        is_hiding = types.is_in(("thinking", "redacted_thinking")).fill_null(False)
        chars = pl.Series(cells["n_chars"], dtype=pl.Int64)
        images = np.zeros((2, n), dtype=np.int64)
        for at, number, size in self._n_images:
            images[:, at] = number, size
        columns = {
            "row": pl.Series(np.array(self._rows, dtype=np.int64) + first_row),
            "block_no": pl.Series(self._numbers, dtype=pl.Int32),
            "type": types,
            "tool_use_id": strings(cells["id"]).zip_with(is_call, _only(strings(cells["tool_use_id"]), is_result)),
            "tool_name": _only(strings(cells["name"]), is_call),
            "is_error": _only(pl.Series(cells["is_error"], dtype=pl.Boolean).fill_null(False), is_result),
            "n_chars": chars,
            "n_bytes": _only(pl.Series(cells["n_bytes"], dtype=pl.Int64), is_call),
            "is_blank": _only(pl.Series(cells["is_blank"], dtype=pl.Boolean), (types == "text").fill_null(False)),
            "is_hidden": _only((types == "redacted_thinking") | (chars == 0), is_hiding),
            "n_images": pl.Series(images[0].astype(np.int32)),
            "image_bytes": pl.Series(images[1]),
            "is_persisted": _only(pl.Series(cells["is_persisted"], dtype=pl.Boolean), is_result),
            "text_hash": pl.Series(cells["text_hash"], dtype=pl.UInt64),
            "detail": strings(cells["detail"]),
            "text": pl.Series(self._texts, dtype=pl.String) if self._texts else nulls(n, pl.String),
        }
        return pl.DataFrame({name: columns[name] for name in ("row", *plain.names()[1:])})

    def per_entry(self, n: int) -> dict[str, pl.Series]:
        """The columns of ``n`` entries that count their blocks."""
        rows = np.array(self._rows, dtype=np.int64)
        types = pl.Series(self._cells["type"], dtype=pl.String)
        chars = np.array(self._cells["n_chars"], dtype=np.int64)
        blank = np.array(self._cells["is_blank"], dtype=bool)
        is_text = (types == "text").fill_null(False).to_numpy()

        def count(mask: Any) -> Any:
            return np.bincount(rows[mask], minlength=n)

        n_blocks = np.bincount(rows, minlength=n)
        # Sums of floats below 2**53 are exact, and no file holds so many characters.
        n_chars = np.bincount(rows[is_text], weights=chars[is_text], minlength=n).astype(np.int64)
        return {
            "n_blocks": pl.Series(n_blocks.astype(np.int32)),
            "n_tool_uses": pl.Series(count((types == "tool_use").fill_null(False).to_numpy()).astype(np.int32)),
            "n_tool_results": pl.Series(count((types == "tool_result").fill_null(False).to_numpy()).astype(np.int32)),
            "n_chars": pl.Series(n_chars),
            "is_blank": pl.Series((n_blocks > 0) & (count(is_text & blank) == n_blocks)),
        }


_AS_WRITTEN = {name: _AT[name] for name in ("type", "id", "name", "tool_use_id", "is_error")}
_COUNTED = ("n_chars", "n_bytes", "is_blank", "is_persisted")


def strings(cells: list[str | None]) -> pl.Series:
    """A column of strings; quick when there are none in it."""
    n = len(cells)
    return nulls(n, pl.String) if cells.count(None) == n else pl.Series(cells, dtype=pl.String)


def nulls(n: int, dtype: Any) -> pl.Series:
    """A column of ``n`` nulls."""
    return pl.Series([None], dtype=dtype).new_from_index(0, n) if n else pl.Series([], dtype=dtype)


def _only(values: pl.Series, mask: pl.Series) -> pl.Series:
    """``values`` where ``mask`` holds, else null."""
    return values.zip_with(mask, nulls(len(values), values.dtype))


def _is_result(kind: str | None) -> bool:
    return kind == "tool_result" or (kind is not None and kind.endswith("_tool_result"))


def _joined(content: list[Part] | None) -> str:
    return "".join(p.text for p in content if p.text) if content else ""


def _persisted_path(text: str) -> str | None:
    head = text[:2000]
    at = head.find("saved to: ")
    return head[at + 10 :].split("\n", 1)[0].strip()[:1000] if at >= 0 else None


def _decoded_size(source: Any) -> int:
    # Base64 without its quotes: four characters are three bytes, padding less.
    if source is None or not isinstance(source.data, msgspec.Raw) or len(source.data) < 2:
        return 0
    raw = bytes(source.data)
    return (len(raw) - 2) * 3 // 4 - raw[-3:-1].count(b"=")
