"""The recorded cases: what Claude Code charged, beside what its transcripts show."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics import cli
from ccanalytics.policies import price_calls
from ccanalytics.schema.money import CALLS, CAUSES, REPORTS
from ccanalytics.transcripts import Transcripts
from tests.cases import case_dir, case_names, expectation

# Sessions whose total follows from lines and full answers; the others have a known remainder by version.
FOLLOWING = ("parallel", "agents", "write", "todo", "websearch", "resumed", "compact", "fork")
FOLLOWING_VERSIONS = ("2.0.14", "2.1.100", "2.1.150", "2.1.200", "2.1.270", "2.1.300", "2.1.332")


@cache
def loaded(family: str, name: str) -> Transcripts:
    return cc.load(case_dir(family, name) / "config", cache=False, workers=1)


def charged(calls: pl.DataFrame) -> float:
    return math.fsum(price_calls(calls, "claude-code")["cost_usd"])


@pytest.mark.parametrize("name", case_names("cost"))
def test_the_transcripts_cost_is_what_claude_code_charged_for_it(name: str) -> None:
    t, expected = loaded("cost", name), expectation("cost", name)["sums"]
    assert charged(t.calls) == pytest.approx(expected["transcript_unique_ids_usd"], rel=1e-9)
    answers = t.calls.filter(pl.col("source") == "transcript")["message_id"].n_unique()
    others = t.ledger.filter(pl.col("role").is_in(["synthetic", "error"]))["message_id"].n_unique()
    assert answers + others == expected["unique_message_ids"]


@pytest.mark.parametrize("name", case_names("cost"))
def test_naive_counting_is_explained_by_the_ledger(name: str) -> None:
    t, expected = loaded("cost", name), expectation("cost", name)["sums"]
    lines = t.ledger.join(
        t.calls.select("call_id", "requested_model", "version", "speed", "inference_geo", "source"),
        on="call_id",
        how="inner",
        validate="m:1",
    ).filter(pl.col("iteration_no") == 0)
    naive = CALLS.conform(lines.select(c for c in lines.columns if c in CALLS.names))
    advisors = t.calls.filter(pl.col("source") == "advisor")
    parents = lines["call_id"].to_list()
    extra = math.fsum(
        price_calls(advisors, "claude-code")["cost_usd"][n] * parents.count(parent)
        for n, parent in enumerate(advisors["advisor_parent"])
    )
    # A zeroed copy costs nothing; who counts every line by its split charges that too.
    zeroed = naive_split(t) if "zeroed_copy" in t.ledger["rule"].to_list() else 0.0
    assert charged(naive) + extra + zeroed == pytest.approx(expected["transcript_all_lines_usd"], rel=1e-9)


def naive_split(t: Transcripts) -> float:
    """What the splits left on zeroed copies would cost."""
    ids = t.ledger.filter(pl.col("rule") == "zeroed_copy")["entry_id"].to_list()
    lines = t.entries.filter(pl.col("entry_id").is_in(ids))
    kept = [c for c in lines.columns if c in CALLS.names and c != "cache_creation_input_tokens"]
    return charged(CALLS.conform(lines.select(kept).with_columns(source=pl.lit("transcript"))))


@pytest.mark.parametrize("name", case_names("cost"))
def test_the_record_is_claude_codes_total_and_the_gap_is_explained(name: str) -> None:
    t, expected = loaded("cost", name), expectation("cost", name)
    rows = {r["session_id"]: r for r in t.reconcile().to_dicts()}
    for session, state in expected["last_cost_state_by_session"].items():
        assert rows[session]["recorded_cost_usd"] == pytest.approx(state["totalCostUSD"], rel=1e-9)
    last = rows[expected["total_is_of_session"]]
    assert last["recorded_cost_usd"] == pytest.approx(expected["total_cost_usd"], rel=1e-9)
    for row in rows.values():
        causes = math.fsum(row[f"{c}_usd"] for c in CAUSES)
        assert row["transcript_cost_usd"] + causes == pytest.approx(row["recorded_cost_usd"], rel=1e-9)
        assert row["unexplained_usd"] == 0
    shown = math.fsum(r["transcript_cost_usd"] for r in rows.values())
    assert shown == pytest.approx(expected["sums"]["transcript_unique_ids_usd"], rel=1e-9)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("compact-once", "compaction_calls"),
        ("err-400", "compaction_calls"),
        ("websearch-tool", "web_search_side_calls"),
        ("hook-prompt", "prompt_hooks"),
        ("tui-basic", "title_calls"),
        ("cut-after-start", "cut_streams"),
        ("cut-in-text", "cut_streams"),
        ("cut-before-delta", "cut_streams"),
        ("interrupt-stream", "cut_streams"),
        ("kill-hard", "killed_runs"),
        ("unknown-with-opus-override", "unknown_models"),
        ("fork-once", "fork_trunks"),
        ("compact-fork", "fork_trunks"),
    ],
)
def test_a_gap_goes_to_its_cause(name: str, cause: str) -> None:
    expected = expectation("cost", name)
    [row] = loaded("cost", name).reconcile().filter(pl.col("session_id") == expected["total_is_of_session"]).to_dicts()
    parts = {c: row[f"{c}_usd"] for c in CAUSES if abs(row[f"{c}_usd"]) > 1e-12}
    assert parts == {cause: pytest.approx(row["gap_usd"], rel=1e-9)}
    assert not row["is_shared_out"]


@pytest.mark.parametrize("name", ["compact-once", "err-400", "websearch-tool", "hook-prompt", "tui-basic"])
def test_hidden_spend_lies_between_its_bounds(name: str) -> None:
    row = loaded("cost", name).reconcile().filter(pl.col("hidden_cost_usd") > 0).to_dicts()[0]
    assert row["hidden_cost_usd"] == pytest.approx(expectation("cost", name)["sums"]["api_full_answers_hidden_usd"])
    assert row["hidden_lower_usd"] <= row["hidden_cost_usd"] <= row["hidden_upper_usd"]


@pytest.mark.parametrize("name", case_names("money"))
def test_a_report_has_the_listed_cost(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = case_dir("money", name) / "config"
    assert cli.run(["report", "--config-dir", str(config), "--format", "json", "--timezone", "UTC"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = expectation("money", name)["cost_usd"]
    if expected is None:
        assert report["totals"]["cost_usd"] is None
        assert report["unpriced_models"]
    else:
        assert report["totals"]["cost_usd"] == pytest.approx(expected, rel=1e-9)
        assert math.fsum(r["cost_usd"] for r in report["rows"]) == pytest.approx(expected, rel=1e-9)
        assert report["unpriced_models"] == []


@pytest.mark.parametrize("name", case_names("zoo"))
def test_tokens_and_ids_of_every_version(name: str) -> None:
    t, expected = loaded("zoo", name), expectation("zoo", name)
    calls = t.calls.filter(pl.col("source") != "advisor")
    assert {k: calls[k].sum() for k in expected["tokens_max_per_id"]} == expected["tokens_max_per_id"]
    assert len(calls) == expected["unique_message_ids"]
    synthetic = t.ledger.filter(pl.col("role").is_in(["synthetic", "error"]))
    assert len(synthetic) == expected["synthetic_messages"]
    sent = {a["id"]: a for a in expected["api_calls"] if a.get("in_transcript")}
    assert set(calls["message_id"]) == set(sent)
    for row in calls.select("message_id", "n_lines").iter_rows(named=True):
        assert row["n_lines"] == sent[row["message_id"]]["lines"]


@pytest.mark.parametrize(
    "name", [n for n in case_names("zoo") if n.split("/")[0] in FOLLOWING_VERSIONS and n.split("/")[1] in FOLLOWING]
)
def test_the_total_of_a_version_follows_from_its_rules(name: str) -> None:
    t, expected = loaded("zoo", name), expectation("zoo", name)
    hidden = [a for a in expected["api_calls"] if not a.get("in_transcript") and a.get("sent") == "full"]
    total = charged(t.calls) + charged(sent_calls(hidden, expected["version"]))
    assert total == pytest.approx(claude_codes_total(expected, name), rel=1e-9)


def sent_calls(answers: list[dict[str, Any]], version: str) -> pl.DataFrame:
    """Calls of answers that the API sent and no line tells of."""
    rows = [
        {
            "call_id": a["id"],
            "model": a["served_model"],
            "requested_model": a["requested_model"],
            "version": version,
            **{k: a["usage"][k] for k in ("input_tokens", "output_tokens", "cache_read_input_tokens")},
            **a["usage"]["cache_creation"],
            "web_search_requests": a["usage"].get("server_tool_use", {}).get("web_search_requests", 0),
        }
        for a in answers
    ]
    return CALLS.conform(pl.DataFrame(rows)) if rows else CALLS.empty()


def claude_codes_total(expected: dict[str, Any], name: str) -> float:
    """Totals of all runs; from 2.1.300 on a resumed run's total has those before it, a fork's that of its parent."""
    steps = expected["steps"]
    if expected["version"] not in ("2.1.300", "2.1.332"):
        return math.fsum(s["total_cost_usd"] for s in steps)
    last = {s["session_id"]: s["total_cost_usd"] for s in steps}
    if name.endswith("/fork"):
        return math.fsum(last.values()) - float(steps[0]["total_cost_usd"])
    return math.fsum(last.values())


@pytest.mark.parametrize("name", [n for n in case_names("zoo") if n.split("/")[0] in ("2.1.300", "2.1.332")])
def test_every_recorded_total_is_explained(name: str) -> None:
    for row in loaded("zoo", name).reconcile().to_dicts():
        assert row["recorded_in"] == "cost-state"
        causes = math.fsum(row[f"{c}_usd"] for c in CAUSES)
        assert row["transcript_cost_usd"] + causes == pytest.approx(row["recorded_cost_usd"], rel=1e-9)
        assert row["unexplained_usd"] == 0


def test_reconcile_has_its_declared_columns() -> None:
    frame = loaded("cost", "fork-once").reconcile()
    assert frame.schema == REPORTS["reconciliation"].polars()
    assert frame["session_id"].is_sorted()
