"""Content blocks → the columns of ``blocks``, and what of them is counted per entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl

from .decode import Block, Part
from .facts import call_facts, dump_detail
from .schema.base import BLOCKS
from .secrets import mask_secrets

if TYPE_CHECKING:
    from .parse import Content

PREVIEW_CHARS = 200
_PERSISTED = "<persisted-output>"


def shown(text: str, content: Content) -> str | None:
    """What of a text stands in a frame: nothing, a masked preview, or all of it."""
    if content == "full":
        return text
    return mask_secrets(text[: PREVIEW_CHARS * 4])[:PREVIEW_CHARS] if content == "preview" else None


class BlockColumns:
    """Cells of blocks as they come; columns when all have come."""

    def __init__(self, content: Content, *, only_counts: bool = False) -> None:
        self._content = content
        self._only_counts = only_counts
        self._rows: list[int] = []
        self._numbers: list[int] = []
        self._cells: dict[str, list[Any]] = {name: [] for name in _CELLS}
        self._n_images: list[tuple[int, int, int]] = []
        """Only of blocks that have images: number of the block, images, and their bytes."""

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
        texts = [
            b.text if b.text is not None else b.thinking if b.thinking is not None else _content_text(b.content)
            for b in blocks
        ]
        kinds = [_KINDS.get(b.type) or _kind(b.type) for b in blocks]
        if not self._only_counts:
            self._add_facts(blocks, texts, kinds)
            self._add_words(blocks, texts, kinds)
        cells = self._cells
        cells["type"].extend([b.type for b in blocks])
        cells["kind"].extend(kinds)
        cells["n_chars"].extend(map(len, texts))
        cells["is_blank"].extend([not t or t.isspace() for t in texts])

    def _add_words(self, blocks: list[Block], texts: list[str], kinds: list[int]) -> None:
        cells = self._cells
        pairs = list(zip(blocks, kinds, strict=True))
        cells["tool_use_id"].extend([b.id if k == _CALL else b.tool_use_id if k >= _RESULT else None for b, k in pairs])
        cells["tool_name"].extend([b.name if k == _CALL else None for b, k in pairs])
        cells["is_error"].extend([b.is_error is True for b in blocks])
        cells["n_bytes"].extend([len(b.input) for b in blocks])
        cells["is_persisted"].extend([t.startswith(_PERSISTED) for t in texts])
        if self._content != "none":
            cells["text"].extend(
                shown(t or bytes(b.input).decode("utf-8", "replace"), self._content)
                for t, b in zip(texts, blocks, strict=True)
            )

    def _add_facts(self, blocks: list[Block], texts: list[str], kinds: list[int]) -> None:
        first = len(self._cells["type"])
        details: list[str | None] = [None] * len(blocks)
        hashes: list[int | None] = [None] * len(blocks)
        for i, (b, kind) in enumerate(zip(blocks, kinds, strict=True)):
            if kind == _TEXT:
                continue
            if kind == _CALL:
                details[i], hashes[i] = call_facts(b)
            elif kind >= _RESULT:
                if texts[i].startswith(_PERSISTED):
                    details[i] = dump_detail({"persisted_path": _persisted_path(texts[i])})
            elif b.type == "fallback":
                sides = {"from": b.from_.model if b.from_ else None, "to": b.to.model if b.to else None}
                details[i] = dump_detail(sides)
            elif b.type == "image":
                self._n_images.append((first + i, 1, _decoded_size(b.source)))
                continue
            if type(b.content) is list:
                parts = [p for p in b.content if p.type == "image"]
                if parts:
                    self._n_images.append((first + i, len(parts), sum(_decoded_size(p.source) for p in parts)))
        self._cells["detail"].extend(details)
        self._cells["text_hash"].extend(hashes)

    def frame(self, first_row: int) -> pl.DataFrame:
        """All blocks, their rows counted from ``first_row``."""
        n, cells = len(self._rows), self._cells
        nulls = Nulls(n)
        kinds = np.array(cells["kind"], dtype=np.uint8)
        chars = np.array(cells["n_chars"], dtype=np.int64)
        is_call, is_result = kinds == _CALL, kinds >= _RESULT
        is_hidden = (kinds == _REDACTED) | (chars == 0)
        images = np.zeros((2, n), dtype=np.int64)
        for at, number, size in self._n_images:
            images[:, at] = number, size
        columns = {
            "row": pl.Series(np.array(self._rows, dtype=np.int64) + first_row),
            "block_no": pl.Series(self._numbers, dtype=pl.Int32),
            "is_error": nulls.only(np.array(cells["is_error"], dtype=bool), is_result),
            "n_chars": pl.Series(chars),
            "n_bytes": nulls.only(np.array(cells["n_bytes"], dtype=np.int64), is_call),
            "is_blank": nulls.only(np.array(cells["is_blank"], dtype=bool), kinds == _TEXT),
            "is_hidden": nulls.only(is_hidden, (kinds == _THINKING) | (kinds == _REDACTED)),
            "n_images": pl.Series(images[0].astype(np.int32)),
            "image_bytes": pl.Series(images[1]),
            "is_persisted": nulls.only(np.array(cells["is_persisted"], dtype=bool), is_result),
        }
        for name in ("type", "tool_use_id", "tool_name", "text_hash", "detail", "text"):
            dtype = BLOCKS.polars()[name]
            columns[name] = nulls.column(cells[name], dtype)
        return pl.DataFrame({name: columns[name] for name in ("row", *BLOCKS.names[1:])})

    def per_entry(self, n: int) -> dict[str, pl.Series]:
        """The columns of ``n`` entries that count their blocks."""
        rows = np.array(self._rows, dtype=np.int64)
        kinds = np.array(self._cells["kind"], dtype=np.uint8)
        chars = np.array(self._cells["n_chars"], dtype=np.int64)
        blank = np.array(self._cells["is_blank"], dtype=bool)
        is_call = np.array([t == "tool_use" for t in self._cells["type"]], dtype=bool)
        is_text = kinds == _TEXT

        def count(mask: Any) -> Any:
            return np.bincount(rows[mask], minlength=n).astype(np.int32)

        n_blocks = np.bincount(rows, minlength=n).astype(np.int32)
        # Sums of floats below 2**53 are exact, and no file holds so many characters.
        n_chars = np.bincount(rows[is_text], weights=chars[is_text], minlength=n).astype(np.int64)
        return {
            "n_blocks": pl.Series(n_blocks),
            "n_tool_uses": pl.Series(count(is_call)),
            "n_tool_results": pl.Series(count(kinds == _TOOL_RESULT)),
            "n_chars": pl.Series(n_chars),
            "is_blank": pl.Series((n_blocks > 0) & (count(is_text & blank) == n_blocks)),
        }


_CELLS = (
    *("type", "kind", "tool_use_id", "tool_name", "is_error", "n_chars", "n_bytes", "is_blank", "is_persisted"),
    *("text_hash", "detail", "text"),
)
_OTHER, _TEXT, _THINKING, _REDACTED, _CALL, _RESULT, _TOOL_RESULT = 1, 2, 3, 4, 5, 6, 7
_KINDS: dict[str | None, int] = {
    "text": _TEXT,
    "thinking": _THINKING,
    "redacted_thinking": _REDACTED,
    "tool_use": _CALL,
    "server_tool_use": _CALL,
    "tool_result": _TOOL_RESULT,
}


def _kind(block_type: str | None) -> int:
    return _RESULT if block_type is not None and block_type.endswith("_tool_result") else _OTHER


def is_void(cells: Sequence[Any]) -> bool:
    """True when all cells are null."""
    # To compare a string with None is slow; most columns that are not void have something true in them early on.
    return not any(cells) and cells.count(None) == len(cells)


class Nulls:
    """Columns of ``n`` nulls, made once for each dtype: many columns have nothing in them and share the memory."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._made: dict[pl.DataType, pl.Series] = {}

    def of(self, dtype: pl.DataType) -> pl.Series:
        """``n`` nulls."""
        if dtype not in self._made:
            one = pl.Series([None], dtype=dtype)
            self._made[dtype] = one.new_from_index(0, self._n) if self._n else one.clear()
        return self._made[dtype]

    def column(self, cells: Sequence[Any], dtype: pl.DataType) -> pl.Series:
        """A column of these cells; quick when there is nothing in it."""
        return self.of(dtype) if is_void(cells) else pl.Series(cells, dtype=dtype)

    def only(self, values: Any, mask: Any) -> pl.Series:
        """The numpy array ``values`` where ``mask`` holds, else null."""
        whole = pl.Series(values)
        return whole.zip_with(pl.Series(mask), self.of(whole.dtype)) if mask.any() else self.of(whole.dtype)


def _content_text(content: str | list[Part] | None) -> str:
    if type(content) is str:
        return content
    return "".join([p.text for p in content if p.text]) if content else ""  # type: ignore[union-attr]


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
