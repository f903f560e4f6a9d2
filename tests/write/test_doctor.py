"""The doctor names what is damaged, what it does, and nothing where nothing is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccanalytics.load import load
from ccanalytics.write.doctor import FINDINGS, Diagnosis, doctor
from ccanalytics.write.findings import meaning_of
from ccanalytics.write.retention import days_kept
from tests import build
from tests.cases import case_dir, case_names
from tests.write.test_repair import LEFT, MENDED, turns

Json = dict[str, Any]
LATER = datetime(2027, 6, 1, tzinfo=UTC)

EXPECTED: dict[str, str] = {
    "cycle__": "cycle",
    "missing-parent__": "missing_parent",
    "dup-uuid__": "duplicate_uuid",
    "damaged__bad-inner": "torn_line",
    "damaged__bad-utf8": "bad_utf8",
    "damaged__glued": "glued_records",
    "damaged__nul": "nul_bytes",
    "damaged__scalars": "not_an_object",
    "damaged__torn-last": "unfinished_line",
    "damaged__no-message": "hangs_on_no_entry",
    "progress__after-child": "hangs_on_no_entry",
    "progress__dangling": "missing_parent",
    "other-lines__future-type-null-parent": "hangs_on_no_entry",
    "interrupted__": "unanswered_call",
    "mixed__all-damage": "nul_bytes",
    "parallel-line__parent-missing": "missing_parent",
}
HEALTHY = (
    "linear__",
    "damaged__plain-ids",
    "damaged__bom",
    "damaged__empty-lines",
    "damaged__long-line",
    "damaged__unicode",
)


def damage(diagnosis: Diagnosis) -> set[str]:
    return set(diagnosis.findings.filter(pl.col("level") == "damage")["code"].to_list())


@pytest.mark.parametrize("name", sorted({*MENDED, *LEFT}))
def test_every_damaged_case_is_diagnosed(name: str) -> None:
    (code,) = [code for start, code in EXPECTED.items() if name.startswith(start)][-1:]
    diagnosis = doctor(case_dir("resume", name) / "config", now=LATER)
    assert code in damage(diagnosis)
    assert not diagnosis.is_healthy


@pytest.mark.parametrize("name", [n for n in case_names("resume") if n.startswith(HEALTHY)])
def test_what_is_whole_is_healthy(name: str) -> None:
    diagnosis = doctor(case_dir("resume", name) / "config", now=LATER)
    assert damage(diagnosis) == set()
    assert diagnosis.is_healthy


RECORDED = [
    f"{version}/{name}"
    for version in ("2.1.332", "2.1.20", "1.0.24")
    for name in ("parallel", "agents", "compact", "fork")
]


@pytest.mark.parametrize("name", [name for name in RECORDED if name in case_names("zoo")])
def test_recorded_sessions_are_healthy(name: str) -> None:
    assert damage(doctor(case_dir("zoo", name) / "config", now=LATER)) == set()


def findings(tmp_path: Path, **options: Any) -> dict[str, Json]:
    frame = doctor(tmp_path, **{"now": LATER, **options}).findings
    return {row["code"]: row for row in frame.iter_rows(named=True)}


def test_ch05_what_broken_links_do_to_a_resume_is_counted(tmp_path: Path) -> None:
    named = [("u1", None, 0), ("a1", "u1", 1), ("u2", "g1", 60), ("a2", "u2", 61), ("u3", "g2", 120), ("a3", "u3", 121)]
    build.write_session(tmp_path, turns(*named))
    found = findings(tmp_path)
    assert (found["missing_parent"]["n"], found["missing_parent"]["line_no"]) == (2, 3)
    assert found["unreachable"]["n"] == 4
    assert found["unreachable"]["remedy"] == f"ccanalytics repair {build.uid('s1')}"
    assert found["unreachable"]["session_id"] == build.uid("s1")


def test_ch15_calls_without_a_result_are_counted_unless_the_session_may_still_run(tmp_path: Path) -> None:
    blocks = [build.tool_use_block(f"t{n}") for n in (1, 2, 3)]
    lines = build.chain(
        build.user("u"), build.assistant("a", blocks), build.tool_result("r", "t1"), build.tool_result("s", "t3")
    )
    build.write_session(tmp_path, lines)
    row = findings(tmp_path)["unanswered_call"]
    assert (row["n"], row["ids"], row["level"]) == (1, "toolu_t2", "damage")
    soon = build.START + timedelta(minutes=1)
    assert findings(tmp_path, now=soon)["unanswered_call"]["level"] == "note"


def test_ch16_an_orphan_result_is_named(tmp_path: Path) -> None:
    build.write_session(tmp_path, build.chain(build.boundary("b", logical="x"), build.tool_result("r", "t9")))
    assert findings(tmp_path)["result_without_call"]["n"] == 1


def test_ch22_foreign_lines_are_named_with_the_file_they_lie_in(tmp_path: Path) -> None:
    of_a = build.chain(*(build.user(f"a{n}") for n in range(10)), session="A")
    of_b = build.chain(*(build.user(f"b{n}") for n in range(10)), session="B", start=5)
    mixed = build.write_session(tmp_path, of_a[:5] + of_b[:4] + of_a[5:], session="A")
    build.write_session(tmp_path, of_b[4:], session="B")
    found = findings(tmp_path)
    assert (found["foreign_session"]["n"], Path(found["foreign_session"]["path"]).name) == (4, mixed.name)
    assert found["parent_in_other_file"]["n"] == 1


def test_ch17_two_results_for_one_call_are_named(tmp_path: Path) -> None:
    results = [build.tool_result("r1", "t1", "partial"), build.tool_result("r2", "t1", "full")]
    build.write_session(tmp_path, build.chain(build.user("u"), build.tool_use("a", call="t1"), *results))
    assert findings(tmp_path)["repeated_result"]["ids"] == "toolu_t1"


def test_ch18_ids_that_start_anew_every_turn_are_no_repeated_results(tmp_path: Path) -> None:
    lines = []
    for n in range(3):
        lines += [build.user(f"u{n}"), build.tool_use(f"a{n}", call="c0"), build.tool_result(f"r{n}", "c0")]
    build.write_session(tmp_path, build.chain(*lines))
    assert damage(doctor(tmp_path, now=LATER)) == set()


def test_pa09_a_message_of_one_key_per_character_is_named(tmp_path: Path) -> None:
    odd = build.assistant("a") | {"message": {**{str(n): c for n, c in enumerate("{x}" * 50)}, "content": []}}
    build.write_session(tmp_path, build.chain(build.user("u"), odd))
    assert findings(tmp_path)["odd_message"]["n"] == 1


def test_pa10_unknown_types_are_no_damage(tmp_path: Path) -> None:
    build.write_session(
        tmp_path, build.chain(build.user("u"), build.meta("zz-latch"), build.meta("mode", mode="normal"))
    )
    assert doctor(tmp_path, now=LATER).is_healthy


def test_pa19_lines_that_were_never_written_are_a_gap_and_nothing_is_made_up(tmp_path: Path) -> None:
    (thought,) = build.chain(build.assistant("a", [build.thinking("hm")]))
    (asked,) = build.chain(build.user("u"), start=60)
    path = build.write_session(
        tmp_path, [thought, build.meta("file-history-snapshot"), asked | {"parentUuid": "ghost"}]
    )
    before = path.read_bytes()
    assert findings(tmp_path)["missing_parent"]["n"] == 1
    assert path.read_bytes() == before


def test_pa03_nul_bytes_are_counted_by_line(tmp_path: Path) -> None:
    lines = [build.dump(line) for line in build.chain(*(build.user(f"u{n}") for n in range(4)))]
    build.write_session(tmp_path, [lines[0], b"\0" * 300, lines[1] + b"\0" * 9000, b"\0" * 9 + lines[2], lines[3]])
    assert findings(tmp_path)["nul_bytes"]["n"] == 3


def test_pa14_a_line_that_is_being_written_is_a_note_and_an_old_one_damage(tmp_path: Path) -> None:
    path = build.write_session(tmp_path, build.chain(build.user("u")))
    with path.open("ab") as file:
        file.write(b'{"type":"user"')
    assert findings(tmp_path, now=datetime.now(UTC))["unfinished_line"]["level"] == "note"
    assert findings(tmp_path)["unfinished_line"]["level"] == "damage"


def test_agents_without_a_start_are_named(tmp_path: Path) -> None:
    build.write_session(tmp_path, build.chain(build.user("u"), build.assistant("a")))
    build.write_agent(tmp_path, "a1234567", build.chain(build.user("e", "errand"), agent="a1234567"))
    row = findings(tmp_path)["unlinked_agent"]
    assert (row["n"], row["ids"], row["level"]) == (1, "a1234567", "damage")


def test_uncertain_figures_are_notes(tmp_path: Path) -> None:
    partial = build.assistant("a", usage=build.usage(output=1), stop_reason=None, model="house-model-2")
    build.write_session(tmp_path, build.chain(build.user("u"), partial, version="2.1.50"))
    diagnosis = doctor(tmp_path, now=LATER)
    rows = {row["code"]: row for row in diagnosis.findings.iter_rows(named=True)}
    assert rows["unpriced_call"]["effect"].endswith("(house-model-2)")
    assert rows["uncertain_output"]["area"] == "numbers"
    assert diagnosis.is_healthy


def test_what_will_be_deleted_soon_is_named(tmp_path: Path) -> None:
    path = build.write_session(tmp_path, build.chain(build.user("u")))
    now = datetime.now(UTC)
    assert "deleted_soon" not in findings(tmp_path, now=now)
    os.utime(path, (time.time() - 25 * 86_400,) * 2)
    row = findings(tmp_path, now=now)["deleted_soon"]
    assert (row["level"], row["remedy"]) == ("note", "raise cleanupPeriodDays")
    (tmp_path / "settings.json").write_text('{"cleanupPeriodDays": 365}')
    assert "deleted_soon" not in findings(tmp_path, now=now)
    assert days_kept(tmp_path) == 365


def test_a_session_alone_can_be_looked_at(tmp_path: Path) -> None:
    for session, rows in (("A", [b"torn{"]), ("B", list[bytes]())):
        build.write_session(tmp_path, [*build.chain(build.user(session), session=session), *rows], session=session)
    assert not doctor(tmp_path, session=build.uid("A")).is_healthy
    assert doctor(tmp_path, session=build.uid("B")).is_healthy
    assert doctor(load(tmp_path, cache=False)).totals["bad_json"] == 1


def test_frame_text_and_data_say_the_same(tmp_path: Path) -> None:
    build.write_session(tmp_path, [*build.chain(build.user("u")), b"torn{"])
    diagnosis = doctor(tmp_path, now=LATER)
    assert diagnosis.findings.schema == FINDINGS.polars()
    data = diagnosis.to_dict()
    assert data["healthy"] is False
    assert {row["code"] for row in data["findings"]} == set(data["totals"]) == set(diagnosis.findings["code"])
    assert all(code in diagnosis.text() for code in data["totals"])
    assert "<script>" not in diagnosis._repr_html_()


def test_nothing_to_read_is_healthy(tmp_path: Path) -> None:
    diagnosis = doctor(tmp_path)
    assert diagnosis.is_healthy
    assert diagnosis.findings.is_empty()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ccanalytics", *args], capture_output=True, text=True, check=False)


def test_the_command_exits_with_3_when_something_is_wrong_and_repair_mends_it(tmp_path: Path) -> None:
    build.write_session(tmp_path / "in", [*build.chain(build.user("u"), build.assistant("a")), b"torn{"])
    config = ("--config-dir", str(tmp_path / "in"))
    ill = run("doctor", "--format", "json", *config)
    assert (ill.returncode, json.loads(ill.stdout)["healthy"]) == (3, False)
    shown = run("repair", build.uid("s1"), "--dry-run", *config)
    assert shown.returncode == 0
    assert "drop_unreadable" in shown.stdout
    assert run("repair", build.uid("s1"), *config).returncode == 0
    well = run("doctor", *config)
    assert well.returncode == 0
    assert "nothing is damaged" in well.stdout
    copied = run("redact", str(tmp_path / "out"), "--format", "json", *config)
    assert (copied.returncode, json.loads(copied.stdout)["files"]) == (0, 1)
    assert run("repair", "nowhere", *config).returncode == 1


def test_every_documented_code_has_a_meaning() -> None:
    page = Path(__file__).parents[2] / "docs" / "problems.md"
    codes = re.findall(r"^\| `([a-z_0-9]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(codes) > 20
    assert [code for code in codes if meaning_of(code)[2].startswith("see ")] == []
