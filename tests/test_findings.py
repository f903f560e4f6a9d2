"""Small inputs that once broke something; found by the campaigns of docs/fuzzing.md."""

from __future__ import annotations

from pathlib import Path

import pytest

import ccanalytics as cc
from tests.build import DROP, assistant, chain, tool_result, tool_use, uid, user, write_session
from tests.exercise import check_cost, check_tables


def test_a_file_in_which_no_line_has_a_uuid_has_edges(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1", uuid=DROP)))
    check_tables(cc.load(tmp_path))


def test_calls_of_which_none_has_a_time_have_a_price(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("a1", timestamp=DROP)))
    t = cc.load(tmp_path)
    check_cost(t, keys=(None, "day", "block"))
    assert t.calls["cost_usd"].null_count() == 0


@pytest.mark.parametrize("spent", [2**63 - 1, 1e308, 10**400, -(10**30), -1, 0.5])
@pytest.mark.parametrize("key", ["durationMs", "totalDurationMs", "durationSeconds", "persistedOutputSize", "numFiles"])
def test_a_reported_number_beyond_all_measure_is_null(tmp_path: Path, spent: float, key: str) -> None:
    calls = [
        tool_use("a1", "Task", {"prompt": "x"}),
        tool_result("r1", "a1", toolUseResult={key: spent, "agentId": "x"}),
    ]
    write_session(tmp_path, chain(user("u1"), *calls))
    check_tables(cc.load(tmp_path))


@pytest.mark.parametrize("rules", ["2.1.332", "2.1.88"])
def test_ids_of_calls_that_are_objects_can_be_resumed(tmp_path: Path, rules: str) -> None:
    call, answer = tool_use("a1"), tool_result("r1", "a1")
    call["message"]["content"][0]["id"] = {"a": 1}
    answer["message"]["content"][0]["tool_use_id"] = {"a": 1}
    write_session(tmp_path, chain(user("u1"), call, answer, user("u2")))
    messages = cc.load(tmp_path).resume(uid("s1"), view="api", rules=rules)
    assert messages[0]["role"] == "user"
