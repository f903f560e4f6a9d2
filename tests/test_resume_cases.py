"""Every recorded case of resuming a session, under both generations, through Python and the command line."""

from __future__ import annotations

import json
from functools import cache
from typing import Literal

import pytest

import ccanalytics as cc
from ccanalytics.cli import run
from ccanalytics.errors import NothingToResumeError
from ccanalytics.resume.session import chain_json
from tests.build import CWD
from tests.cases import case_dir, case_names, expectation
from tests.shown import shown

Rules = Literal["2.1.332", "2.1.88"]
FILES: dict[Rules, str] = {"2.1.332": "expect.json", "2.1.88": "expect-2.1.88.json"}
CASES = [(rules, name) for rules in FILES for name in case_names("resume")]
SAMPLE = [
    "attachment__leaf-tree", "compact-list__unordered", "continue__mtime-a-clock-b", "continue__newest-is-empty",
    "damaged__scalars", "interrupted__u-half-res", "large__boundary-6mb", "last-prompt__sidechain",
    "parallel-line__answer-on-first", "random__g017", "sidechain__only",
]  # fmt: skip


@cache
def together() -> cc.Transcripts:
    """All cases of a single file, loaded at once; one pass then resumes them all."""
    return cc.load([case_dir("resume", name) / "config" for name in case_names("resume") if not _needs_own(name)])


def _needs_own(name: str) -> bool:
    return expectation("resume", name)["argv"] == ["--continue"] or name.startswith("project-dir")


def loaded(name: str, rules: Rules) -> cc.Transcripts:
    if _needs_own(name):
        return cc.load(case_dir("resume", name) / "config", workers=1)
    together().resume(rules=rules)
    return together()


@pytest.mark.parametrize(("rules", "name"), CASES, ids=[f"{rules}-{name}" for rules, name in CASES])
def test_case(rules: Rules, name: str) -> None:
    expected = expectation("resume", name, file=FILES[rules])
    t = loaded(name, rules)
    session = expected["session_id"]
    if expected["argv"] == ["--continue"]:
        session = t.continued(CWD, rules=rules)
        assert session == expected.get("chosen_session", expected["session_id"])
    if expected.get("refused") or expected.get("failed"):
        with pytest.raises(NothingToResumeError) as refusal:
            t.resume(session, rules=rules)
        assert refusal.value.facts["reason"]
        return
    frame = t.resume(session, rules=rules)
    if "chain" in expected:
        assert chain_json(frame) == expected["chain"]
    assert shown(t.resume(session, rules=rules, view="api")) == expected["messages"]


@pytest.mark.parametrize("rules", FILES)
@pytest.mark.parametrize("name", SAMPLE)
def test_case_on_the_command_line(rules: Rules, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    expected = expectation("resume", name, file=FILES[rules])
    which = ["--continue", "--cwd", CWD] if expected["argv"] == ["--continue"] else [expected["session_id"]]
    config = case_dir("resume", name) / "config"
    code = run(["resume", *which, "--config-dir", str(config), "--rules", rules, "--format", "json"])
    got = json.loads(capfd.readouterr().out)
    assert code == 0
    assert got["refused"] is bool(expected.get("refused") or expected.get("failed"))
    assert got["session_id"] == expected.get("chosen_session", expected["session_id"])
    assert got["chain"] == expected.get("chain", [])
    assert shown(got["messages"]) == expected.get("messages", [])


def test_all_sessions_in_one_pass_equal_each_alone() -> None:
    for name in ("continue__mtime-a-clock-a", "session-ids__forked", "project-dir__same-id-elsewhere"):
        t = cc.load(case_dir("resume", name) / "config", workers=1)
        together = t.resume()
        for session, file in t.files.filter(kind="session").select("session_id", "path").iter_rows():
            alone = cc.load(file, workers=1).resume(session)
            mine = together.filter(session_id=session)
            assert alone["uuid"].to_list() in [p["uuid"].to_list() for p in mine.partition_by("file_id")]
