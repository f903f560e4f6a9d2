"""Export to Parquet and back: nothing changes on the way, nothing unchanged is written, nothing is lost."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import ccanalytics as cc
from ccanalytics.errors import NotFoundError, ReadError, UsageError, WriteError
from ccanalytics.lake import base
from ccanalytics.lake.files import stored_schema
from ccanalytics.lake.journal import locked
from ccanalytics.lake.layout import EXPORTED, entry_id_columns, file_id_columns, project_key, table_of
from ccanalytics.parquet import Lake, export_files, scan_parquet, write_parquet
from ccanalytics.sample import sample_path
from ccanalytics.transcripts import Transcripts

from .build import assistant, chain, tool_result, tool_use, uid, usage, user, write_agent, write_session
from .cases import case_dir, case_names

# Files of one conversation, forks and copies among them; a group of files is then as small as it can be.
CASES = [("zoo", n) for n in case_names("zoo")[::17]] + [("cost", n) for n in case_names("cost")[::9]]


def loaded_table(t: Transcripts, name: str) -> pl.DataFrame:
    found = t.resume() if name == "resume" else getattr(t, name)
    assert isinstance(found, pl.DataFrame)
    return found


def tables(lake: Lake) -> dict[str, pl.DataFrame]:
    return {name: lake.table(name).collect() for name in EXPORTED}


def assert_same(lake: Lake, t: Transcripts) -> None:
    for name, frame in tables(lake).items():
        want = loaded_table(t, name)
        assert frame.schema == want.schema, name
        assert frame.equals(want), name


def contents(out: Path) -> dict[str, tuple[int, bytes]]:
    """Every Parquet file with its time and bytes."""
    return {str(p.relative_to(out)): (p.stat().st_mtime_ns, p.read_bytes()) for p in out.rglob("*.parquet")}


def talk(name: str = "", *, n: int = 3, start: float = 0, **fields: Any) -> list[dict[str, Any]]:
    lines = [
        line
        for i in range(n)
        for line in (
            user(f"{name}u{i}", f"question {i}"),
            tool_use(f"{name}t{i}", "Bash", {}, call=f"{name}c{i}"),
            tool_result(f"{name}r{i}", f"{name}c{i}"),
            assistant(f"{name}a{i}", usage=usage(output=7 + i)),
        )
    ]
    return chain(*lines, start=start, **fields)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two sessions with an agent between them, in two projects."""
    home = tmp_path / "config"
    write_session(home, talk("x"), session="s1")
    write_agent(home, "a1", talk("g", agent="a1", start=40), session="s1")
    write_session(
        home, talk("y", session="s2", start=86_400 * 40, cwd="/home/dev/lib"), session="s2", project="-home-dev-lib"
    )
    return home


# The same tables


def test_the_tables_of_a_lake_are_the_loaded_ones(tmp_path: Path) -> None:
    t = cc.load_sample()
    t.write_parquet(tmp_path / "lake")
    assert_same(cc.scan_parquet(tmp_path / "lake"), t)


def test_a_streaming_export_writes_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = cc.load_sample()
    t.write_parquet(tmp_path / "whole")
    monkeypatch.setattr(base, "GROUP_ROWS", 1)
    monkeypatch.setattr("ccanalytics.parquet.BATCH_BYTES", 1)
    export_files(tmp_path / "parts", sample_path())
    whole, parts = contents(tmp_path / "whole"), contents(tmp_path / "parts")
    assert {k: v[1] for k, v in whole.items()} == {k: v[1] for k, v in parts.items()}


@pytest.mark.parametrize(("family", "name"), CASES)
def test_groups_of_files_give_the_tables_of_all(
    family: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "GROUP_ROWS", 1)
    path = case_dir(family, name)
    export_files(tmp_path / "lake", path, workers=1)
    assert_same(scan_parquet(tmp_path / "lake"), cc.load(path, cache=False, workers=1))


def test_text_is_exported_when_asked_for(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config, content="full")
    assert_same(scan_parquet(tmp_path / "lake"), cc.load(config, content="full"))


# Other readers


def arrow_type(dtype: pl.DataType) -> pa.DataType:
    kinds: dict[Any, pa.DataType] = {
        pl.String: pa.large_string(), pl.Boolean: pa.bool_(), pl.Int32: pa.int32(), pl.Int64: pa.int64(),
        pl.Float64: pa.float64(),
    }  # fmt: skip
    return kinds.get(type(dtype)) or pa.timestamp("ms", "UTC")


@pytest.mark.parametrize("is_empty", [False, True])
def test_sc08_every_column_has_its_declared_type_in_other_readers(is_empty: bool, config: Path, tmp_path: Path) -> None:
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    if is_empty:
        shutil.rmtree(config / "projects")
        (config / "projects").mkdir()
    export_files(tmp_path / "lake", config)
    sql_types = {
        pl.String: "VARCHAR", pl.Boolean: "BOOLEAN", pl.Int32: "INTEGER", pl.Int64: "BIGINT", pl.Float64: "DOUBLE",
    }  # fmt: skip
    lake = scan_parquet(tmp_path / "lake")
    for name in EXPORTED:
        want = stored_schema(table_of(name))
        n_rows = lake.table(name).select(pl.len()).collect().item()
        paths = sorted((tmp_path / "lake" / name).rglob("*.parquet"))
        for path in paths:
            schema = pq.read_schema(path)
            assert dict(zip(schema.names, schema.types, strict=True)) == {n: arrow_type(d) for n, d in want.items()}
        folder = ds.dataset(tmp_path / "lake" / name, partitioning=None)
        assert folder.count_rows() == n_rows
        rows = duckdb.sql(f"select * from read_parquet('{tmp_path}/lake/{name}/**/*.parquet', hive_partitioning=false)")
        assert [str(x) for x in rows.types] == [
            sql_types.get(type(d), "TIMESTAMP WITH TIME ZONE") for d in want.values()
        ]
        assert rows.columns == list(want)
        assert len(rows.fetchall()) == n_rows
        frame = pandas.read_parquet(paths[0])
        assert list(frame.columns) == list(want)
        times = [c for c, d in want.items() if isinstance(d, pl.Datetime)]
        assert all(str(frame[c].dtype) == "datetime64[ms, UTC]" for c in times)
        everything = pandas.read_parquet(tmp_path / "lake" / name)
        assert len(everything) == n_rows
        assert {*everything.columns} >= {*want}


def test_folders_do_not_hide_a_column_of_the_table(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    names = {part.split("=")[0] for p in (tmp_path / "lake").rglob("*.parquet") for part in p.parts if "=" in part}
    assert names == {"month", "project_key"}
    assert not names & {c.name for n in EXPORTED for c in table_of(n).columns}


def test_sc07_empty_tool_inputs_come_back_equal(config: Path, tmp_path: Path) -> None:
    t = cc.load(config)
    assert set(t.blocks.filter(pl.col("type") == "tool_use")["n_bytes"]) == {2}
    t.write_parquet(tmp_path / "lake")
    assert_same(scan_parquet(tmp_path / "lake"), t)


def test_pa07_a_field_that_one_file_of_many_has(tmp_path: Path) -> None:
    for i in range(14):
        lines = talk(f"f{i}", n=1, session=f"s{i}", cwd=f"/home/dev/p{i}")
        if i == 9:
            lines[0]["slug"] = "a-plan"
        write_session(tmp_path / "c", lines, session=f"s{i}", project=f"-home-dev-p{i}")
    export_files(tmp_path / "lake", tmp_path / "c")
    lake = scan_parquet(tmp_path / "lake")
    assert lake.entries.collect()["slug"].drop_nulls().to_list() == ["a-plan"]
    assert_same(lake, cc.load(tmp_path / "c"))


def test_pt15_projects_of_one_name_have_folders_of_their_own(tmp_path: Path) -> None:
    for drive in "CD":
        lines = talk(drive, session=drive, cwd=f"{drive}:\\p\\app")
        write_session(tmp_path / "c", lines, session=drive, project=f"{drive}--p-app")
    export_files(tmp_path / "lake", tmp_path / "c")
    folders = {p.parent.name for p in (tmp_path / "lake" / "entries").rglob("*.parquet")}
    assert len(folders) == 2
    assert all(f.startswith("project_key=app-") for f in folders)
    assert scan_parquet(tmp_path / "lake").sessions.collect()["project"].to_list() == ["C:\\p\\app", "D:\\p\\app"]


@pytest.mark.parametrize("project", ["/../../etc", "/a/..", "/", "/x/\0\n", "/" + "é" * 300, "CON", "/a/.hidden"])
def test_a_project_names_no_other_place(project: str) -> None:
    key = project_key(project)
    assert key not in (".", "..")
    assert not set(key) & set("/\\\0\n:=")
    assert len(key) < 80
    assert not key.startswith(".")


def test_files_tell_version_and_meaning_of_their_columns(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    for name in EXPORTED:
        for path in (tmp_path / "lake" / name).rglob("*.parquet"):
            told = pq.read_metadata(path).metadata
            assert told[b"ccanalytics.schema_version"] == str(cc.schema.SCHEMA_VERSION).encode()
            columns = json.loads(told[b"ccanalytics.columns"])
            assert [(c["name"], c["meaning"]) for c in columns] == [(c.name, c.meaning) for c in table_of(name).columns]


def test_files_are_compressed_with_statistics_and_private(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    for path in (tmp_path / "lake").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    path = next((tmp_path / "lake" / "entries").rglob("*.parquet"))
    group = pq.read_metadata(path).row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {"ZSTD"}
    assert group.column(0).statistics.has_min_max


# Again and again


def test_a_second_export_writes_nothing(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    before, manifest = contents(tmp_path / "lake"), (tmp_path / "lake/_ccanalytics/manifest.json").stat().st_mtime_ns
    done = export_files(tmp_path / "lake", config)
    cc.load(config).write_parquet(tmp_path / "lake")
    assert contents(tmp_path / "lake") == before
    assert (tmp_path / "lake/_ccanalytics/manifest.json").stat().st_mtime_ns == manifest
    assert (done.files_written, done.files_deleted) == (0, 0)
    assert done.files_unchanged == len(before)


def by_place(lake: Lake) -> dict[str, pl.DataFrame]:
    """Tables without the lake's own numbers: entries and files stand there by their place."""
    files, entries = lake.files.collect(), lake.entries.collect()
    paths = dict(zip(files["file_id"], files["path"], strict=True))
    lines = {e: f"{paths[f]}:{n}" for e, f, n in entries.select("entry_id", "file_id", "line_no").iter_rows()}
    found = {}
    for name, frame in tables(lake).items():
        named = frame.with_columns(
            *(pl.col(c).replace_strict(lines, return_dtype=pl.String) for c in entry_id_columns(name)),
            *(pl.col(c).replace_strict(paths, return_dtype=pl.String) for c in file_id_columns(name)),
        )
        found[name] = named.sort(named.columns, nulls_last=True)
    return found


def test_an_export_that_grew_is_one_made_at_once(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    before = {n: f for n, f in tables(scan_parquet(tmp_path / "lake")).items() if n in ("entries", "files")}
    old = contents(tmp_path / "lake")
    session = config / "projects" / "-home-dev-app" / f"{uid('s1')}.jsonl"
    more = talk("z", start=500, parent="xa2")
    session.write_bytes(session.read_bytes() + b"".join(json.dumps(o).encode() + b"\n" for o in more))
    write_session(config, talk("w", session="s0", start=900), session="s0")
    export_files(tmp_path / "lake", config)
    export_files(tmp_path / "fresh", config)
    lake = scan_parquet(tmp_path / "lake")
    for name, frame in by_place(scan_parquet(tmp_path / "fresh")).items():
        assert by_place(lake)[name].equals(frame), name
    after = lake.entries.collect()
    assert after.join(before["entries"], on="entry_id", how="semi").equals(before["entries"])
    assert after["entry_id"].is_unique().all()
    written = {p for p, v in contents(tmp_path / "lake").items() if old.get(p) != v}
    assert not any("project_key=lib" in p for p in written)


def test_methods_speak_of_the_ids_of_the_lake(config: Path, tmp_path: Path) -> None:
    test_an_export_that_grew_is_one_made_at_once(config, tmp_path)
    lake, fresh = scan_parquet(tmp_path / "lake"), cc.load(config)
    uuids = dict(lake.entries.select("entry_id", "uuid").collect().iter_rows())
    shown = lake.resume(uid("s1"))
    assert shown["uuid"].to_list() == [uuids[i] for i in shown["entry_id"]]
    assert shown["uuid"].equals(fresh.resume(uid("s1"))["uuid"])
    assert [o["uuid"] for o in lake.raw(shown["entry_id"])] == shown["uuid"].to_list()
    assert lake.resume(uid("s1"), view="api") == fresh.resume(uid("s1"), view="api")
    story = lake.history(uid("s1"))
    assert story.drop(pl.selectors.ends_with("_id")).equals(
        fresh.history(uid("s1")).drop(pl.selectors.ends_with("_id"))
    )
    assert lake.state(uid("s1"), shown["entry_id"][3]).session_id == uid("s1")


def test_what_is_deleted_stays_in_the_export(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    before = tables(scan_parquet(tmp_path / "lake"))
    shutil.rmtree(config / "projects" / "-home-dev-lib")
    done = export_files(tmp_path / "lake", config)
    assert done.files_written == 0
    shutil.rmtree(config / "projects")
    (config / "projects").mkdir()
    export_files(tmp_path / "lake", config)
    lake = scan_parquet(tmp_path / "lake")
    for name, frame in tables(lake).items():
        assert frame.equals(before[name]), name
    assert lake.cost()["calls"].item() > 0
    with pytest.raises(ReadError):
        lake.raw(0)


def test_a_file_written_anew_replaces_its_rows(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    before = scan_parquet(tmp_path / "lake").entries.collect()
    write_session(config, talk("v", n=2), session="s1")
    export_files(tmp_path / "lake", config)
    export_files(tmp_path / "fresh", config)
    lake = scan_parquet(tmp_path / "lake")
    for name, frame in by_place(scan_parquet(tmp_path / "fresh")).items():
        assert by_place(lake)[name].equals(frame), name
    new = lake.entries.filter(pl.col("uuid") == uid("vu0")).collect()
    assert new["entry_id"].item() > before["entry_id"].max()


def test_a_part_of_the_sources_leaves_the_rest(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    before = contents(tmp_path / "lake")
    export_files(tmp_path / "lake", config, sessions=uid("s2"))
    export_files(tmp_path / "lake", config, projects="/home/dev/app")
    assert contents(tmp_path / "lake") == before


def test_titles_stay_when_transcripts_go(tmp_path: Path) -> None:
    config = tmp_path / "c"
    write_session(config, talk("o", n=1), session="s1")
    write_session(config, [{"type": "summary", "summary": "Garden walls", "leafUuid": uid("oa0")}], session="s9")
    write_session(
        config,
        [*talk("p", n=1, session="s2"), {"type": "custom-title", "customTitle": "Pond", "sessionId": uid("s2")}],
        session="s2",
    )
    export_files(tmp_path / "lake", config)
    want = cc.load(config).sessions
    assert set(want["title"]) >= {"Garden walls", "Pond"}
    shutil.rmtree(config / "projects")
    write_session(config, talk("q", n=1, session="s3", start=9), session="s3")
    export_files(tmp_path / "lake", config)
    held = scan_parquet(tmp_path / "lake").refresh().sessions.filter(pl.col("session_id") != uid("s3")).collect()
    titles = ["session_id", "title", "title_source"]
    assert held.select(titles).equals(want.select(titles))


def test_a_file_that_cannot_be_read_leaves_its_rows(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    before = tables(scan_parquet(tmp_path / "lake"))
    session = config / "projects" / "-home-dev-app" / f"{uid('s1')}.jsonl"
    packed = session.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(session.read_bytes()))
    session.unlink()
    export_files(tmp_path / "packed", config)
    held = tables(scan_parquet(tmp_path / "packed"))
    packed.write_bytes(b"no gzip at all")
    export_files(tmp_path / "packed", config)
    after = tables(scan_parquet(tmp_path / "packed"))
    assert all(after[n].equals(held[n]) for n in held)
    assert len(after["entries"]) == len(before["entries"])


# Interrupted


CUTS = (1, 2, 5, 9, 14, 20, 27, 35, 44, 60)


@pytest.mark.parametrize("n", CUTS)
def test_a_cut_off_export_leaves_one_state_or_the_other(
    n: int, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_files(tmp_path / "lake", config)
    old = tables(scan_parquet(tmp_path / "lake"))
    write_session(config, talk("n", session="s3", start=99), session="s3")
    export_files(tmp_path / "fresh", config)
    new = by_place(scan_parquet(tmp_path / "fresh"))
    with monkeypatch.context() as m:
        _stop_at(m, n)
        with contextlib.suppress(_Killed):
            export_files(tmp_path / "lake", config)
    lake = scan_parquet(tmp_path / "lake")
    now, named = tables(lake), by_place(lake)
    assert all(now[k].equals(old[k]) for k in old) or all(named[k].equals(new[k]) for k in new)
    export_files(tmp_path / "lake", config)
    after = by_place(scan_parquet(tmp_path / "lake"))
    assert all(after[k].equals(new[k]) for k in new)
    assert not (tmp_path / "lake/_ccanalytics/staging").exists()


class _Killed(BaseException):
    pass


def _stop_at(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """The n-th step of the commit that touches the disk does not come to be."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kw: Any) -> Any:
            nonlocal count
            count += 1
            if count >= n:
                raise _Killed
            return real(*args, **kw)

        return step

    monkeypatch.setattr("ccanalytics.lake.journal.os.fsync", counted(os.fsync))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))


def test_a_lake_that_cannot_be_written_is_read_through_its_journal(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_files(tmp_path / "lake", config)
    write_session(config, talk("n", session="s3", start=99), session="s3")
    with monkeypatch.context() as m:
        m.setattr("ccanalytics.lake.journal.recover", lambda root: None)
        export_files(tmp_path / "lake", config)
    assert (tmp_path / "lake/_ccanalytics/journal").exists()
    # The lock is held, as by an export that is just finishing: the files are found where they wait.
    with locked(tmp_path / "lake"):
        held = tables(scan_parquet(tmp_path / "lake"))
    assert (tmp_path / "lake/_ccanalytics/journal").exists()
    now = tables(scan_parquet(tmp_path / "lake"))
    assert not (tmp_path / "lake/_ccanalytics/journal").exists()
    assert all(held[k].equals(now[k]) for k in now)
    assert uid("s3") in now["sessions"]["session_id"]


@pytest.mark.parametrize("seconds", [0.4, 0.9])
def test_a_killed_export_loses_nothing(seconds: float, config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    old = tables(scan_parquet(tmp_path / "lake"))
    write_session(config, talk("n", session="s3", start=99), session="s3")
    command = [sys.executable, "-m", "ccanalytics", "export", str(config), str(tmp_path / "lake")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()
    now = tables(scan_parquet(tmp_path / "lake"))
    assert all(now[k].equals(old[k]) for k in old) or uid("s3") in now["sessions"]["session_id"]
    export_files(tmp_path / "lake", config)
    export_files(tmp_path / "fresh", config)
    after, fresh = (by_place(scan_parquet(tmp_path / n)) for n in ("lake", "fresh"))
    assert all(after[k].equals(fresh[k]) for k in fresh)


def test_two_exports_at_once_are_refused(config: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "lake"), pytest.raises(WriteError, match="another export"):
        export_files(tmp_path / "lake", config)
    export_files(tmp_path / "lake", config)


# Refused


def test_an_export_with_less_text_is_refused(config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config, content="preview")
    before = contents(tmp_path / "lake")
    with pytest.raises(UsageError, match="content"):
        cc.load(config).write_parquet(tmp_path / "lake")
    export_files(tmp_path / "lake", config)
    assert contents(tmp_path / "lake") == before


def test_a_folder_with_something_else_is_left_alone(config: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match="something else"):
        export_files(tmp_path / "mine", config)
    with pytest.raises(UsageError, match="is a file"):
        export_files(tmp_path / "mine" / "thesis.txt", config)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_folder_without_an_export_cannot_be_scanned(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no export"):
        scan_parquet(tmp_path)


@pytest.mark.parametrize("text", ["{", '{"format": 2}', '{"schema_version": 999}'])
def test_a_manifest_that_cannot_be_understood_is_an_error(text: str, config: Path, tmp_path: Path) -> None:
    export_files(tmp_path / "lake", config)
    (tmp_path / "lake/_ccanalytics/manifest.json").write_text(text)
    with pytest.raises(ReadError):
        scan_parquet(tmp_path / "lake")
    with pytest.raises(ReadError):
        export_files(tmp_path / "lake", config)


# What works on it


@pytest.fixture(scope="module")
def sample_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    out = tmp_path_factory.mktemp("sample") / "lake"
    write_parquet(cc.load_sample(), out)
    return scan_parquet(out)


def test_cost_of_a_lake(sample_lake: Lake) -> None:
    t = cc.load_sample()
    for by in (None, ["day", "model"], "agent_type", "tool", "turn"):
        assert sample_lake.cost(by, tz="UTC").equals(t.cost(by, tz="UTC"))
    assert sample_lake.cost_blocks(tz="UTC").equals(t.cost_blocks(tz="UTC"))
    assert sample_lake.reconcile().equals(t.reconcile())


def test_conversations_of_a_lake(sample_lake: Lake) -> None:
    t = cc.load_sample()
    session = t.resume()["session_id"][0]
    assert sample_lake.resume(session).equals(t.resume(session))
    assert sample_lake.resume(session, view="api") == t.resume(session, view="api")
    assert sample_lake.history(session).equals(t.history(session))
    assert sample_lake.raw([3, 1]) == t.raw([3, 1])
    assert len(sample_lake) == len(t)
    assert "entries" in repr(sample_lake)
    assert "<table" in sample_lake._repr_html_()


def test_tables_of_a_lake_are_lazy(sample_lake: Lake) -> None:
    assert isinstance(sample_lake.calls, pl.LazyFrame)
    assert sample_lake.calls.select(pl.col("cost_usd").sum()).collect().item() > 0
    with pytest.raises(NotFoundError):
        sample_lake.table("recipes")
    with pytest.raises(AttributeError):
        _ = sample_lake.recipes


def test_pictures_widgets_and_comparison_of_a_lake(sample_lake: Lake) -> None:
    t = cc.load_sample()
    lake: Any = sample_lake
    session = t.sessions.sort("cost_usd", descending=True, nulls_last=True)["session_id"][0]
    import matplotlib.pyplot as plt

    draws: list[Callable[[Any], Any]] = [
        lambda x: cc.plot.usage(x, tz="UTC"), cc.plot.calendar, lambda x: cc.plot.context(x, session),
        lambda x: cc.plot.agents(x, session), cc.plot.tools, cc.plot.cost,
    ]  # fmt: skip
    for draw in draws:
        assert draw(lake).get_title() == draw(t).get_title()
        plt.close("all")
    assert cc.widgets.Usage(lake).selection.equals(cc.widgets.Usage(t).selection)
    for widget in (cc.widgets.Compactions, cc.widgets.AgentTree, cc.widgets.Conversation):
        assert widget(lake).selection.schema == widget(t).selection.schema
    assert cc.compare(lake, t)["difference"].drop_nulls().abs().sum() == 0


# The command


def run(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ccanalytics", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_exports_and_says_what_it_did(config: Path, tmp_path: Path) -> None:
    done = run("export", "--config-dir", config, "--format", "json", tmp_path / "lake")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rows"]["sessions"] == 2
    assert_same(scan_parquet(tmp_path / "lake"), cc.load(config))


def test_the_command_without_transcripts_says_so(tmp_path: Path) -> None:
    done = run("export", tmp_path / "lake")
    assert done.returncode == 0
    assert "no transcripts were found" in done.stdout + done.stderr
    lake = scan_parquet(tmp_path / "lake")
    assert all(len(f) == 0 and f.schema == table_of(n).polars() for n, f in tables(lake).items())
