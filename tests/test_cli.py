"""The command line: what it prints, where errors go, which exit codes it gives."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.__main__ import main
from ccanalytics.sample import sample_path
from ccanalytics.show import fitting
from tests.build import assistant, chain, usage, user, write_session
from tests.cases import case_dir, case_names


def run(capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    out, err = capfd.readouterr()
    return code, out, err


def report(capfd: pytest.CaptureFixture[str], folder: Path, *args: str) -> dict[str, Any]:
    code, out, err = run(capfd, "report", "--format", "json", "--config-dir", str(folder), *args)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("name", case_names("money"))
def test_report_totals_of_every_pricing_case(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = case_dir("money", name)
    expected = json.loads((folder / "expect.json").read_text())["cost_usd"]
    got = report(capfd, folder / "config", "--by", "model")["totals"]["cost_usd"]
    assert got == (None if expected is None else pytest.approx(expected, rel=1e-12))


def test_the_version_needs_no_data_frame_library() -> None:
    code = "import sys; from ccanalytics.__main__ import main; main(['--version']); sys.exit('polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("ccanalytics ")


def test_importing_the_package_loads_no_figures_no_widgets_no_dask() -> None:
    heavy = "('matplotlib', 'ipywidgets', 'dask', 'distributed')"
    code = f"import sys, ccanalytics as cc; cc.load; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_report_json_has_the_promised_keys(capfd: pytest.CaptureFixture[str]) -> None:
    found = report(capfd, sample_path(), "--by", "day", "--timezone", "UTC")
    assert set(found) == {"rows", "totals", "unpriced_models", "problems"}
    measures = {
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "ephemeral_5m_input_tokens",
        "ephemeral_1h_input_tokens",
        "cache_read_input_tokens",
        "web_search_requests",
        "calls",
        "cost_usd",
    }
    assert measures <= set(found["totals"])
    assert measures | {"day"} <= set(found["rows"][0])


@pytest.mark.parametrize(
    "by", ["day", "week", "month", "hour", "session", "project", "worktree", "branch", "model", "agent", "entrypoint",
           "version", "block", "project,model", "day,session,model"]
)  # fmt: skip
def test_de08_every_way_of_slicing_gives_the_same_totals(by: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = report(capfd, sample_path(), "--by", by, "--timezone", "America/New_York")
    for key, total in found["totals"].items():
        values = [row[key] for row in found["rows"]]
        if key == "cost_usd":
            assert sum(values) == pytest.approx(total, rel=1e-12)
        else:
            assert sum(values) == total


def test_de08_one_session_alone_equals_its_row(capfd: pytest.CaptureFixture[str]) -> None:
    rows = report(capfd, sample_path(), "--by", "session")["rows"]
    row = max(rows, key=lambda r: r["calls"])
    alone = report(capfd, sample_path(), "--by", "session", "--session", row["session"])
    assert [r for r in alone["rows"] if r["session"] == row["session"]] == [row]


def test_since_and_until_cut_by_days_of_the_zone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    times = ["2026-03-09T23:30:00.000Z", "2026-03-10T05:15:00.000Z", "2026-03-10T08:00:00.000Z"]
    lines = chain(*(assistant(f"a{i}", timestamp=t, usage=usage(output=10**i)) for i, t in enumerate(times)))
    write_session(tmp_path, lines)
    zone = ["--timezone", "America/Los_Angeles"]
    found = report(capfd, tmp_path, *zone, "--since", "2026-03-10")
    assert found["totals"]["output_tokens"] == 100
    found = report(capfd, tmp_path, *zone, "--until", "2026-03-09")
    assert found["totals"]["output_tokens"] == 11
    assert [r["day"] for r in found["rows"]] == ["2026-03-09"]


def test_ti06_an_unknown_zone_is_wrong_usage(capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capfd, "report", "--config-dir", str(sample_path()), "--timezone", "Europe/Atlantis")
    assert code == 2
    assert "Europe/Atlantis" in err
    assert err.count("\n") == 1


def test_wrong_usage_is_2_and_missing_places_are_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "report", "--by", "colour")[0] == 2
    assert run(capfd, "report", "--format", "xml")[0] == 2
    assert run(capfd, "table", "nothing")[0] == 2
    code, out, err = run(capfd, "report", "--config-dir", str(tmp_path / "gone"))
    assert code == 1
    assert "gone" in err
    assert not out


def test_ux05_nothing_to_read_says_so_and_keeps_its_shape(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "projects").mkdir()
    code, out, err = run(capfd, "report", "--format", "json", "--config-dir", str(tmp_path))
    assert code == 0
    assert "no transcripts" in err
    found = json.loads(out)
    assert found["rows"] == []
    assert found["totals"]["calls"] == 0
    assert found["totals"]["cost_usd"] in (None, 0)
    code, out, err = run(capfd, "report", "--format", "csv", "--config-dir", str(tmp_path))
    assert out.startswith("day,")


def test_without_transcripts_people_see_the_sample_and_programs_do_not(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, "report")
    assert code == 0
    assert "bundled sample, not your own data" in out
    assert "bundled sample" in err
    code, out, err = run(capfd, "report", "--format", "json")
    assert json.loads(out)["rows"] == []


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "html"])
def test_report_in_every_format(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "report", "--by", "model", "--config-dir", str(sample_path()), "--format", form)
    assert code == 0
    assert "opus" in out
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert len(rows) > 1
        assert all(int(r["calls"]) > 0 for r in rows)


@pytest.mark.parametrize("form", ["ndjson", "json", "csv", "table"])
def test_a_table_in_every_format(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "table", "calls", "--config-dir", str(sample_path()), "--format", form)
    assert code == 0
    assert "call_id" in out
    if form == "ndjson":
        assert all(json.loads(line)["call_id"] for line in out.splitlines())


def test_a_table_as_parquet_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "calls.parquet"
    code, _, err = run(
        capfd, "table", "calls", "--config-dir", str(sample_path()), "--format", "parquet", "-o", str(out)
    )
    assert code == 0, err
    assert pl.read_parquet(out).height > 10
    assert run(capfd, "table", "calls", "--config-dir", str(sample_path()), "--format", "parquet")[0] == 2


def test_help_teaches_by_example(capfd: pytest.CaptureFixture[str]) -> None:
    for command in ("report", "table", "sessions", "resume", "export", "doctor", "repair", "redact", "prices"):
        code, out, _ = run(capfd, command, "--help")
        assert code == 0
        assert "examples:" in out


def test_formulas_and_escape_sequences_reach_no_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nasty = "\x1b[31m=cmd|' /C calc'!A0<script>"
    lines = chain(user("u1"), assistant("a1", model=nasty), assistant("a2", model="=1+1"))
    write_session(tmp_path, lines)
    for form in ("table", "csv", "markdown", "html"):
        _, out, err = run(capfd, "report", "--by", "model", "--config-dir", str(tmp_path), "--format", form)
        assert "\x1b" not in out + err
        assert "<script>" not in out or form in ("csv", "table")
        if form == "csv":
            assert "'=1+1" in out


def test_ux05_an_empty_table_of_read_transcripts_is_not_told_as_missing_transcripts(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code, _, err = run(capfd, "table", "problems", "--config-dir", str(sample_path()))
    assert code == 0
    assert "no transcripts" not in err
    _, _, err = run(capfd, "report", "--project", "nope", "--config-dir", str(sample_path()))
    assert "that match" in err


@pytest.mark.parametrize("option", ["--limit=-3", "--limit=x", "--workers=-1"])
def test_a_count_is_a_number_from_zero(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "table", "calls", option)[0] == 2


def test_help_names_every_table_there_is() -> None:
    from ccanalytics.cli import TABLES
    from ccanalytics.schema import tables
    from ccanalytics.table_command import HEADLINE
    from ccanalytics.transcripts import Transcripts

    named = TABLES.split(", ")
    assert set(named) == {n for n in tables() if hasattr(Transcripts, n)} | {"files", "entries", "blocks", "problems"}
    listed = {"sessions": set(tables()["session_list"].names)}
    for name, columns in HEADLINE.items():
        assert set(columns) <= set(tables()[name].names) | listed.get(name, set())


def test_a_table_for_people_folds_no_id(capfd: pytest.CaptureFixture[str]) -> None:
    session = cc.load_sample().sessions["session_id"][0]
    for command in (["sessions"], ["table", "sessions"], ["table", "agents"]):
        assert session in run(capfd, *command, "--config-dir", str(sample_path()))[1]


def test_columns_are_shown_as_long_as_they_stand_side_by_side() -> None:
    frame = pl.DataFrame({"name": ["x" * 30], "n": [1], "more": ["y" * 30]})
    assert fitting(frame, 50) == ["name", "n"]
    assert fitting(frame, 80) == ["name", "n", "more"]
    assert fitting(frame, 10) == ["name"]
    assert fitting(frame, 50, {"n": 10**12}) == ["name"]


def test_completion_offers_the_interface_and_nothing_else() -> None:
    import ccanalytics.cost  # noqa: F401

    offered = {n for n in dir(cc) if not n.startswith("_")}
    assert {"load", "load_sample", "plot", "widgets", "explore", "expect"} <= offered
    assert not offered & {"cost", "sys", "Any", "import_module"}
