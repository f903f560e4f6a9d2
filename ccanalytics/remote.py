"""Files at places with a scheme (``s3://…``, ``gs://…``, ``memory://…``), read and written through fsspec."""

from __future__ import annotations

import gzip
import io
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from .errors import MissingExtraError, NotFoundError, ReadError
from .find import FoundFile, PathLike, find_files
from .jobs import Piece
from .place import HEAD_BYTES, SUFFIXES, is_uuid, stem_of

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_LISTING_BYTES = 65_536


def is_remote(path: object) -> bool:
    """True for text that begins with a scheme."""
    return isinstance(path, str) and _SCHEME.match(path) is not None


def filesystem_of(url: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it.

    Raises
    ------
    MissingExtraError
        fsspec, or what it needs for this scheme, is not installed.
    """
    try:
        import fsspec

        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError as e:
        raise MissingExtraError(
            f"{url.partition('://')[0]}:// needs more packages ({e}); pip install 'ccanalytics[cloud]'", url=url
        ) from e


def read_remote(piece: Piece) -> bytes:
    """The bytes of a piece; ``OSError`` when they cannot be had."""
    files, path = filesystem_of(piece.path)
    if piece.path.endswith((".gz", ".zst")):
        packed = io.BytesIO(files.cat_file(path))
        if piece.path.endswith(".gz"):
            return gzip.GzipFile(fileobj=packed).read()
        raise OSError("compressed with zstd: such files are read on local disks only")
    stop = piece.offset + piece.length if piece.length >= 0 else None
    data: bytes = files.cat_file(path, start=piece.offset, end=stop)
    return data


def copy_of_ends(url: str, folder: Path) -> Path:
    """A local file with the beginning and the end of a remote one: what the list of sessions looks at."""
    files, path = filesystem_of(url)
    size = files.info(path)["size"]
    data = files.cat_file(path, start=0, end=_LISTING_BYTES)
    if size > _LISTING_BYTES:
        data += files.cat_file(path, start=size - _LISTING_BYTES, end=size)
    target = folder / path.rpartition("/")[2]
    target.write_bytes(data)
    return target


class Mirror:
    """A local folder that shows which files a remote place has: empty ones, with the few small ones that say more.

    Everything that looks at names and places works on it as it does on the real folder.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._files, path = filesystem_of(url)
        self._scheme = url[: url.index("://") + 3]
        self._top = folder.resolve() / self._scheme.partition(":")[0]
        self._sizes: dict[str, int] = {}
        self._place = self._local(path)
        try:
            listed = self._files.find(path, detail=True)
        except Exception as e:
            # What a service raises (no credentials, no such bucket) is of its own library's making.
            raise ReadError(f"cannot list {url}: {e}", url=url) from e
        if not listed:
            raise NotFoundError(f"there is nothing at {url}", path=url)
        for name, info in listed.items():
            self._add(name, info)

    def find(self, **options: Any) -> list[FoundFile]:
        """Transcript files, with their remote paths; sidecars stay where their copies are."""
        return [
            replace(
                f,
                path=self.remote(f.path),
                root=self.remote(f.root) if f.root is not None else None,
                size=self._sizes.get(f.path, f.size),
            )
            for f in find_files(str(self._place), **options)
        ]

    def remote(self, local: str) -> str:
        """The address of what a path in the mirror stands for."""
        return self._scheme + Path(local).relative_to(self._top).as_posix()

    def local(self, url: str | None) -> str | None:
        """The path in the mirror that stands for an address; other text as it is."""
        return str(self._local(url[len(self._scheme) :])) if url and url.startswith(self._scheme) else url

    def _local(self, path: str) -> Path:
        parts = [p for p in path.split("/") if p not in ("", ".", "..")]
        return self._top.joinpath(*parts)

    def _add(self, name: str, info: Mapping[str, Any]) -> None:
        local = self._local(name)
        if not local.is_relative_to(self._top) or name.endswith("/"):
            return
        data = self._content(name)
        if data is None:
            return
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(data)
        self._sizes[str(local)] = int(info.get("size") or 0)
        at = info.get("LastModified") or info.get("mtime") or info.get("created")
        seconds = at.timestamp() if isinstance(at, datetime) else at
        if isinstance(seconds, int | float):
            os.utime(local, (seconds, seconds))

    def _content(self, name: str) -> bytes | None:
        """What the mirror holds of a file; None to leave it out."""
        base = name.rpartition("/")[2]
        if base.endswith(SUFFIXES):
            tells = is_uuid(stem_of(base)) or stem_of(base).startswith("agent-")
            head: bytes = b"" if tells else self._files.cat_file(name, start=0, end=HEAD_BYTES)
            return head
        if base.endswith(".meta.json") or base == "sessions-index.json" or "/teams/" in name:
            whole: bytes = self._files.cat_file(name)
            return whole
        return None


@contextmanager
def local_places(sources: Sequence[PathLike] | None) -> Iterator[tuple[list[PathLike] | None, list[Mirror]]]:
    """The local ones of these places, and mirrors of the others, which are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ccanalytics-") as folder:
        remote = [s for s in sources or () if is_remote(s)]
        local = [s for s in sources if not is_remote(s)] if sources is not None else None
        mirrors = [Mirror(Path(folder, str(i)), str(url)) for i, url in enumerate(remote)]
        yield local, mirrors
