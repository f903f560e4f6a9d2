"""A lake read back: lazy tables, and the methods of loaded transcripts on top of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ccanalytics.beside import Beside
from ccanalytics.errors import NotFoundError, WriteError
from ccanalytics.transcripts import Transcripts

from .files import scan_files
from .ids import Numbering, numbering_of
from .journal import is_unfinished, locked, read_state, recover
from .layout import EXPORTED, in_order, lazily_in_order, table_of
from .manifest import Manifest

if TYPE_CHECKING:
    from ccanalytics.cost import Detail, Moment
    from ccanalytics.policies import Policy
    from ccanalytics.prices import Overrides, PriceTable
    from ccanalytics.state import State


class Lake:
    """Exported transcripts: the tables of loaded ones as lazy frames, and the same methods.

    Every table is an attribute (``lake.calls``), sorted by its key when collected. Methods collect what they need;
    ``raw``, ``state``, ``resume(view="api")`` read the original files again and need them in place.
    """

    files: pl.LazyFrame
    entries: pl.LazyFrame
    blocks: pl.LazyFrame
    problems: pl.LazyFrame
    edges: pl.LazyFrame
    chains: pl.LazyFrame
    calls: pl.LazyFrame
    ledger: pl.LazyFrame
    tools: pl.LazyFrame
    agents: pl.LazyFrame
    turns: pl.LazyFrame
    compactions: pl.LazyFrame
    sessions: pl.LazyFrame
    events: pl.LazyFrame
    parallelism: pl.LazyFrame
    team_members: pl.LazyFrame

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser()
        self.copied_to: object = None
        """Keeps a temporary copy alive."""
        self._manifest, self._where = _opened(self.root)
        self.content = self._manifest.content

    def refresh(self) -> Lake:
        """The same lake as it is now; tables taken before were those of their time."""
        self._manifest, self._where = _opened(self.root)
        self.content = self._manifest.content
        for name in ("loaded", "_numbers"):
            self.__dict__.pop(name, None)
        return self

    def write_parquet(self, out: str | Path) -> None:
        """Write the same tables to another folder, or add them to one; ids are those of a load."""
        self.loaded.write_parquet(out)

    def unknown_fields(self) -> pl.DataFrame:
        """See :meth:`ccanalytics.transcripts.Transcripts.unknown_fields`; reads the original files."""
        return self.loaded.unknown_fields()

    def table(self, name: str) -> pl.LazyFrame:
        """One of the tables by name; ``resume`` is had only here, as the method of that name has arguments.

        Raises
        ------
        NotFoundError
            There is no such table.
        """
        if name not in EXPORTED:
            raise NotFoundError(f"no table is called {name!r}; there are {', '.join(EXPORTED)}", table=name)
        return lazily_in_order(name, self._scan(name))

    def _scan(self, name: str) -> pl.LazyFrame:
        places = self._manifest.places_of(name)
        return scan_files(name, [self._where[p] for p in places]) if places else table_of(name).empty().lazy()

    def __getattr__(self, name: str) -> pl.LazyFrame:
        if name not in EXPORTED:
            raise AttributeError(f"a lake has no attribute {name!r}")
        return self.table(name)

    @property
    def read_problems(self) -> pl.LazyFrame:
        """Problems met while reading; ``problems`` also has those met while linking."""
        return lazily_in_order("read_problems", self._scan("read_problems"))

    @cached_property
    def _numbers(self) -> Numbering:
        columns = ("entry_id", "file_id", "line_no", "byte_offset")
        return numbering_of(self._scan("files").collect(), self._scan("entries").select(columns).collect())

    @cached_property
    def loaded(self) -> Transcripts:
        """The same as loaded transcripts, all base tables in memory; ids are without gaps, as after a load."""
        base = ("files", "entries", "blocks", "read_problems")
        frames = [self._numbers.to_plain(n, in_order(n, self._scan(n).collect())) for n in base]
        headings = {p: h for p, n in self._manifest.files.items() if (h := n.heading) is not None}
        beside = Beside(self.team_members.collect(), headings)
        return Transcripts(*frames, content=self.content, beside=beside)

    def collect(self) -> Transcripts:
        """The same as loaded transcripts."""
        return self.loaded

    def cost(
        self,
        by: str | Sequence[str] | None = None,
        *,
        tz: str | None = None,
        policy: Policy = "list",
        prices: Overrides | PriceTable | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        detail: Detail = "plain",
    ) -> pl.DataFrame:
        """See :meth:`ccanalytics.transcripts.Transcripts.cost`."""
        from ccanalytics.cost import build_cost

        calls, tables = self.cost_tables(by)
        options = {"tz": tz, "prices": prices, "since": since, "until": until}
        return build_cost(calls, by, policy=policy, detail=detail, **options, **tables)  # type: ignore[arg-type]

    def cost_tables(self, by: str | Sequence[str] | None) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
        """See :meth:`ccanalytics.transcripts.Transcripts.cost_tables`."""
        from ccanalytics.cost_keys import key_names, with_folders

        keys = set(key_names(by))
        if keys & {"turn", "agent", "agent_type"}:
            return self.loaded.cost_tables(by)
        calls = self.calls.collect()
        if "project" in keys:
            calls = with_folders(calls, self.files.collect())
        return calls, {"tools": self.tools.collect()} if "tool" in keys else {}

    def cost_blocks(self, *, tz: str | None = None, policy: Policy = "list") -> pl.DataFrame:
        """See :meth:`ccanalytics.transcripts.Transcripts.cost_blocks`."""
        from ccanalytics.windows import build_windows

        return build_windows(self.calls.collect(), tz=tz, policy=policy)

    def reconcile(self) -> pl.DataFrame:
        """See :meth:`ccanalytics.transcripts.Transcripts.reconcile`."""
        return self.loaded.reconcile()

    def resume(self, session_id: str | None = None, **options: Any) -> Any:
        """See :meth:`ccanalytics.transcripts.Transcripts.resume`; ``view="api"`` needs the original files."""
        found = self.loaded.resume(session_id, **options)
        return self._numbers.to_lake("resume", found) if isinstance(found, pl.DataFrame) else found

    def history(self, session_id: str) -> pl.DataFrame:
        """See :meth:`ccanalytics.transcripts.Transcripts.history`."""
        return self._in_lake(self.loaded.history(session_id))

    def continued(self, cwd: str, *, rules: str = "2.1.332") -> str:
        """See :meth:`ccanalytics.transcripts.Transcripts.continued`."""
        return self.loaded.continued(cwd, rules=rules)

    def state(self, session_id: str, at: int | str | None = None) -> State:
        """See :meth:`ccanalytics.transcripts.Transcripts.state`; needs the original files."""
        if isinstance(at, int):
            at = self._plain_ids([at])[0]
        return self.loaded.state(session_id, at)

    def raw(self, entry_ids: int | Iterable[int]) -> list[dict[str, Any]]:
        """See :meth:`ccanalytics.transcripts.Transcripts.raw`; ``ReadError`` where the original file is gone."""
        ids = [entry_ids] if isinstance(entry_ids, int) else [int(i) for i in entry_ids]
        return self.loaded.raw(self._plain_ids(ids))

    @property
    def conversations(self) -> Any:
        """See :attr:`ccanalytics.transcripts.Transcripts.conversations`."""
        return self.loaded.conversations

    @property
    def unknown_types(self) -> dict[str, int]:
        """See :attr:`ccanalytics.transcripts.Transcripts.unknown_types`."""
        return self.loaded.unknown_types

    def _plain_ids(self, ids: list[int]) -> list[int]:
        plain = self._numbers.plain_entry_ids(pl.Series(ids, dtype=pl.Int64))
        if plain.null_count():
            bad = [i for i, p in zip(ids, plain, strict=True) if p is None]
            raise NotFoundError(f"no entry has the id {bad[0]}; lake.entries lists them", entry_ids=bad)
        return plain.to_list()

    def _in_lake(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame of another shape than a table's: its columns of ids translated, its order kept."""
        if self._numbers.is_same:
            return frame
        entries, files = pl.Series(self._numbers.entry_ids), pl.Series(self._numbers.file_ids)
        ids = [c for c in frame.columns if c.endswith("_id")]
        return frame.with_columns(
            *(entries.gather(frame[c]).alias(c) for c in ids if frame.schema[c] == pl.Int64),
            *(files.gather(frame[c]).alias(c) for c in ids if frame.schema[c] == pl.Int32),
        )

    def __len__(self) -> int:
        return sum(self._manifest.parts[p].n_rows for p in self._manifest.places_of("entries"))

    def __repr__(self) -> str:
        return f"Lake {self.root}\n" + "\n".join(f"  {name:<12} {n:>12,} rows" for name, n in self._sizes())

    def _repr_html_(self) -> str:
        from ccanalytics.markup import table_html

        rows = [(name, f"{n:,} rows") for name, n in self._sizes()]
        return table_html(rows, caption=f"Exported transcripts in {self.root}", footer="")

    def _sizes(self) -> list[tuple[str, int]]:
        parts = self._manifest.parts
        return [(n, sum(parts[p].n_rows for p in self._manifest.places_of(n))) for n in EXPORTED]


def _opened(root: Path) -> tuple[Manifest, dict[str, Path]]:
    _finish(root)
    manifest, where = read_state(root)
    if manifest is None:
        raise NotFoundError(f"{root} holds no export; ccanalytics export {root} makes one", path=str(root))
    return manifest, where


def _finish(root: Path) -> None:
    """Complete a change that was cut off, where this process may; else it is read where it was left."""
    if not is_unfinished(root):
        return
    try:
        with locked(root):
            recover(root)
    except (WriteError, OSError):
        return
