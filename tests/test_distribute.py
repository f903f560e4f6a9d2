"""The export over a Dask cluster of several processes, from and to an S3 stand-in on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccanalytics.distribute import export_distributed
from ccanalytics.errors import NotFoundError, UsageError, WriteError
from ccanalytics.lake import base, journal
from ccanalytics.lake.far import checked_out
from ccanalytics.lake.layout import EXPORTED
from ccanalytics.lake.scan import Lake
from ccanalytics.parquet import export_files, scan_parquet
from ccanalytics.remote import Mirror, is_remote
from ccanalytics.sample import sample_path

from .build import chain, user, write_session

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def s3(request: pytest.FixtureRequest) -> Iterator[str]:
    """An S3 service on a loopback port; its address is in the environment, which worker processes inherit."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as m:
        for name, value in settings.items():
            m.setenv(name, value)
        import fsspec

        files = fsspec.filesystem("s3")
        files.mkdir("logs")
        yield "s3://logs"
    server.stop()


@pytest.fixture(scope="module")
def client(s3: str) -> Iterator[Any]:
    """Two worker processes and their scheduler; they know the address of the S3 service."""
    del s3
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, env={"POLARS_MAX_THREADS": "1"}
        ) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "GROUP_ROWS", 100)
    monkeypatch.setattr("ccanalytics.parquet.BATCH_BYTES", 100_000)
    monkeypatch.setattr("ccanalytics.distribute.JOB_BYTES", 30_000)


def contents(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*.parquet")}


def test_the_cluster_writes_the_same_bytes_as_this_process(client: Any, tmp_path: Path) -> None:
    export_files(tmp_path / "here", sample_path())
    export_distributed(tmp_path / "there", [sample_path()], client=client)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    again = export_distributed(tmp_path / "there", [sample_path()], client=client)
    assert again.files_written == 0


def test_a_worker_lost_in_the_middle_costs_its_tasks_alone(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "died"
    real = __import__("ccanalytics.lake.derive", fromlist=["derive"]).derive

    def die_once(group: Any) -> Any:
        # Packed with the task and run in a worker: that process is gone in the middle of its work.
        if not mark.exists():
            mark.write_text("x")
            os._exit(9)
        return real(group)

    monkeypatch.setattr("ccanalytics.distribute.derive", die_once)
    export_distributed(tmp_path / "there", [sample_path()], client=client)
    assert mark.exists()
    export_files(tmp_path / "here", sample_path())
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def upload(s3: str, name: str, source: Path) -> str:
    import fsspec

    fsspec.filesystem("s3").put(str(source), f"{s3}/{name}", recursive=True)
    return f"{s3}/{name}"


def without_places(lake: Lake) -> dict[str, pl.DataFrame]:
    """The tables, without the columns that say on which disk their sources lie."""
    tables = {name: lake.table(name).collect() for name in EXPORTED}
    return tables | {"files": tables["files"].drop("path", "root", "modified_at")}


def test_from_s3_to_s3_the_tables_are_those_of_this_machine(client: Any, s3: str, tmp_path: Path) -> None:
    source = upload(s3, "config", sample_path())
    export_distributed(f"{s3}/lake", [source], client=client)
    export_files(tmp_path / "here", sample_path())
    here, there = without_places(scan_parquet(tmp_path / "here")), without_places(scan_parquet(f"{s3}/lake"))
    for name, frame in here.items():
        assert there[name].equals(frame), name
    assert scan_parquet(f"{s3}/lake").raw([0, 5]) == scan_parquet(tmp_path / "here").raw([0, 5])
    again = export_distributed(f"{s3}/lake", [source], client=client)
    assert (again.files_written, again.files_deleted) == (0, 0)


def test_a_lake_on_s3_grows_and_outlives_its_sources(client: Any, s3: str, tmp_path: Path) -> None:
    import fsspec

    write_session(tmp_path / "a", chain(user("u1"), session="s1"), session="s1")
    source = upload(s3, "grows", tmp_path / "a")
    export_distributed(f"{s3}/grown", [source], client=client)
    fsspec.filesystem("s3").rm(f"{source}/projects", recursive=True)
    write_session(tmp_path / "b", chain(user("u2"), session="s2"), session="s2")
    upload(s3, "grows2", tmp_path / "b")
    export_distributed(f"{s3}/grown", [f"{s3}/grows2"], client=client)
    assert len(scan_parquet(f"{s3}/grown").sessions.collect()) == 2
    names = fsspec.filesystem("s3").find(f"{s3}/grown")
    assert not [n for n in names if "staging" in n or n.endswith("journal")]


def test_a_change_on_s3_that_was_cut_off_is_whole(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_session(tmp_path / "a", chain(user("u1"), session="s1"), session="s1")
    with checked_out(f"{s3}/cut") as root:
        export_files(root, tmp_path / "a")
    write_session(tmp_path / "a", chain(user("u2"), session="s2"), session="s2")
    with monkeypatch.context() as m:
        m.setattr("ccanalytics.lake.far._roll_forward", lambda files, top: None)
        with checked_out(f"{s3}/cut") as root:
            export_files(root, tmp_path / "a")
    assert len(scan_parquet(f"{s3}/cut").sessions.collect()) == 2
    with checked_out(f"{s3}/cut") as root:
        assert not (root / journal.JOURNAL).exists()
    assert len(scan_parquet(f"{s3}/cut").sessions.collect()) == 2


def test_what_is_not_there_is_said(client: Any, s3: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nothing at"):
        export_distributed(tmp_path / "lake", [f"{s3}/nowhere"], client=client)
    with pytest.raises(NotFoundError, match="no export"):
        scan_parquet(f"{s3}/nowhere")


def test_a_mirror_shows_what_names_and_places_tell(tmp_path: Path) -> None:
    import fsspec

    files = fsspec.filesystem("memory")
    files.put(str(sample_path()), "/mirrored", recursive=True)
    found = Mirror(tmp_path, "memory://mirrored").find()
    assert {f.path.rpartition("/")[2] for f in found} == {
        p.name for p in sample_path().rglob("*.jsonl") if p.name != "history.jsonl"
    }
    assert all(is_remote(f.path) and is_remote(f.root) for f in found)
    # Names that tell enough stand for empty files.
    assert sum(p.stat().st_size for p in tmp_path.rglob("agent-*.jsonl")) == 0
    shutil.rmtree(tmp_path)
    files.rm("/mirrored", recursive=True)


def test_addresses_need_the_engine_that_reads_them() -> None:
    from ccanalytics.cli import build_parser
    from ccanalytics.parquet import export_command

    with pytest.raises(UsageError, match="--engine dask"):
        export_command(build_parser().parse_args(["export", "s3://a/b", "s3://c/d"]))
    with pytest.raises(UsageError, match="--scheduler"):
        export_command(build_parser().parse_args(["export", "--scheduler", "tcp://127.0.0.1:1", "out"]))


def test_a_scheduler_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    def refuse(*args: object, **options: object) -> None:
        raise OSError("timed out")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(WriteError, match="no Dask scheduler answers"):
        export_distributed(tmp_path / "lake", [sample_path()], scheduler="tcp://127.0.0.1:9")
