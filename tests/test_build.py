"""The builders and the packed cases that the other tests stand on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import (
    DROP,
    assistant,
    at,
    boundary,
    chain,
    tool_result,
    tool_use,
    uid,
    user,
    write_agent,
    write_session,
)
from tests.cases import FAMILIES, case_dir, case_names, copy_case, expectation


def test_chain_fills_in_what_is_missing_and_keeps_what_is_given() -> None:
    lines = chain(
        user("u1", "hi"),
        tool_use("a1", "Bash", {"command": "ls"}),
        tool_result("r1", call="a1"),
        assistant("a2", parent="u1", seconds=60, gitBranch=DROP),
    )
    assert [x["parentUuid"] for x in lines] == [None, uid("u1"), uid("a1"), uid("u1")]
    assert [x["timestamp"] for x in lines] == [at(0), at(1), at(2), at(60)]
    assert "gitBranch" not in lines[3]
    assert next(iter(lines[0])) == "parentUuid"
    assert boundary("b1", logical="a2")["parentUuid"] is None


def test_files_lie_where_claude_code_puts_them(tmp_path: Path) -> None:
    session = write_session(tmp_path, chain(user("u1")))
    agent = write_agent(tmp_path, "ab12", chain(user("u2"), agent="ab12"), meta={"agentType": "Explore"})
    assert agent.parent.parent == session.with_suffix("")
    assert json.loads(agent.with_suffix(".meta.json").read_text()) == {"agentType": "Explore"}
    assert json.loads(session.read_text())["sessionId"] == session.stem


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_cases(family: str) -> None:
    names = case_names(family)
    assert len(names) >= 20
    assert (case_dir(family, names[0]) / "config" / "projects").is_dir()


def test_shortened_cases_are_written_out(tmp_path: Path) -> None:
    [large] = case_dir("resume", "large__no-boundary-6mb").rglob("*.jsonl*")
    assert large.suffix == ".jsonl"
    assert large.stat().st_size > 5_400_000


def test_file_times_are_set_and_survive_a_copy(tmp_path: Path) -> None:
    copied = copy_case("listing", "custom-title", tmp_path)
    for name, seconds in expectation("listing", "custom-title")["mtimes"].items():
        assert (copied / "config" / name).stat().st_mtime == seconds


def test_no_test_sees_the_real_home(home: Path) -> None:
    assert Path.home() == home
    assert not Path(os.environ["CLAUDE_CONFIG_DIR"]).exists()


@given(st.integers())
def test_hypothesis_runs_beside_the_home_fixture(number: int) -> None:
    assert number == int(number)
    assert os.environ["CCANALYTICS_CACHE"] == "0"
