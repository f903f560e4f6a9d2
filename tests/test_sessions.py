"""Sessions: one row each over all their files, with title, times and lineage."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

import ccanalytics as cc
from tests.build import (
    DROP,
    Line,
    assistant,
    boundary,
    chain,
    compact_summary,
    meta,
    summary,
    tool_result,
    tool_use,
    uid,
    user,
    write_agent,
    write_lines,
    write_session,
)


def session_of(tmp_path: Path, *lines: Line, **more: Any) -> dict[str, Any]:
    write_session(tmp_path, chain(*lines, **more))
    return cc.load(tmp_path).sessions.row(0, named=True)


def test_ti08_active_time_and_span_are_both_named(tmp_path: Path) -> None:
    minutes = 0, 4, 9, 249
    session = session_of(tmp_path, *(user(f"u{m}", seconds=60 * m) for m in minutes))
    assert [session[k] / 60_000 for k in ("span_ms", "active_ms", "active_30m_ms")] == [249, 14, 39]


def test_ti10_the_time_of_the_file_is_never_the_time_of_the_session(tmp_path: Path) -> None:
    path = write_session(tmp_path, chain(user("u1"), assistant("a1", timestamp="2026-02-03T00:00:00.000Z")))
    os.utime(path, (2240524800, 2240524800))
    t = cc.load(tmp_path)
    assert t.sessions["ended_at"].to_list() == [datetime(2026, 2, 3, tzinfo=UTC)]


def test_pt08_one_session_in_two_folders_is_one(tmp_path: Path) -> None:
    bridge = meta("bridge-session", bridgeSessionId="b", sessionId=uid("s9"))
    write_session(tmp_path, [bridge], session="s9", project="slug-1")
    lines = [x for n in range(20) for x in (user(f"u{n}"), assistant(f"a{n}"))]
    write_session(tmp_path, chain(*lines, session="s9", cwd="/r/app"), session="s9", project="slug-2")
    t = cc.load(tmp_path)
    session = t.sessions.row(0, named=True)
    assert t.sessions.height == 1
    assert [session[k] for k in ("n_entries", "n_files", "project", "project_dir")] == [41, 2, "/r/app", "slug-2"]
    assert t.agents.height == 1
    assert (t.turns.height, session["n_inherited_entries"]) == (20, 0)


def test_pt09_the_project_is_that_of_the_first_line_with_a_folder(tmp_path: Path) -> None:
    first = [user("u1", cwd=DROP), *(user(f"u{n}", cwd="/r/a") for n in (2, 3, 4)), user("u5", cwd="/r/a/lib")]
    write_session(tmp_path, chain(*first))
    t = cc.load(tmp_path)
    assert t.sessions.select("project", "cwd").rows() == [("/r/a", "/r/a")]
    assert t.entries["cwd"].to_list() == [None, "/r/a", "/r/a", "/r/a", "/r/a/lib"]


def test_co08_the_title_is_that_of_the_prompt_and_not_of_the_summary(tmp_path: Path) -> None:
    session = session_of(tmp_path, boundary("b1"), compact_summary("c1"), user("u1", "water the garden"))
    assert (session["title"], session["title_source"], session["n_turns"]) == ("water the garden", "first_prompt", 1)


def test_ux02_the_title_passes_over_caveats_and_commands(tmp_path: Path) -> None:
    echo = (
        user("c1", "<local-command-caveat>Caveat</local-command-caveat>", isMeta=True),
        user("c2", "<command-name>/clear</command-name>"),
        user("c3", "<local-command-stdout>done</local-command-stdout>"),
    )
    assert session_of(tmp_path / "a", *echo, user("u1", "fix the parser"))["title"] == "fix the parser"
    assert session_of(tmp_path / "b", *echo)["title"] == "/clear"


def test_ux04_a_summary_belongs_to_the_session_its_leaf_is_in(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1", "hello a"), assistant("a1"), session="a"), session="a")
    lines = chain(user("u2", "hello b"), assistant("a2"), session="b", start=50)
    write_session(tmp_path, [summary("A's work", "a1"), summary("nobody's work", "gone"), *lines], session="b")
    titles = cc.load(tmp_path).sessions.select("session_id", "title", "title_source")
    assert sorted(titles.rows()) == sorted([(uid("a"), "A's work", "summary"), (uid("b"), "hello b", "first_prompt")])


def test_titles_follow_the_order_of_the_program(tmp_path: Path) -> None:
    prompt, said = user("u1", "hello"), assistant("a1")
    last = meta("last-prompt", lastPrompt="last words")
    made = meta("ai-title", aiTitle="made up")
    given = meta("custom-title", customTitle="Given")
    sources = []
    for number, extra in enumerate(([], [last], [last, made], [last, made, given])):
        session = session_of(tmp_path / str(number), prompt, said, *extra)
        sources.append((session["title"], session["title_source"]))
    assert sources == [
        ("hello", "first_prompt"),
        ("last words", "last_prompt"),
        ("made up", "ai_title"),
        ("Given", "custom_title"),
    ]


def test_settings_are_those_said_last(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        user("u1", permissionMode="plan", gitBranch="one"),
        meta("tag", tag="old"),
        meta("tag", tag=""),
        meta("mode", mode="normal"),
        meta("permission-mode", permissionMode="default"),
        meta("pr-link", prUrl="https://x/1", prNumber=1),
        meta("pr-link", prUrl="https://x/2", prNumber=2),
        assistant("a1", gitBranch="two", version="9.9.9"),
    )
    told = [session[k] for k in ("tag", "mode", "permission_mode", "pr_url", "git_branch", "git_branches", "versions")]
    assert told == [None, "normal", "default", "https://x/2", "two", "one,two", "2.1.332,9.9.9"]


def test_other_sessions_of_the_project_at_the_same_time(tmp_path: Path) -> None:
    spans = {"a": (0, 100), "b": (50, 60), "c": (55, 200), "d": (150, 160), "e": (500, 600)}
    for name, (begin, end) in spans.items():
        lines = user(f"{name}1", seconds=begin), assistant(f"{name}2", seconds=end)
        write_session(tmp_path, chain(*lines, session=name), session=name)
    elsewhere = chain(user("z1", seconds=0), assistant("z2", seconds=1000), session="z", cwd="/other")
    write_session(tmp_path, elsewhere, session="z", project="-other")
    found = dict(cc.load(tmp_path).sessions.select("session_id", "n_concurrent").iter_rows())
    assert {n: found[uid(n)] for n in (*spans, "z")} == {"a": 2, "b": 2, "c": 2, "d": 1, "e": 0, "z": 0}


def test_damage_is_counted_with_the_session(tmp_path: Path) -> None:
    write_session(tmp_path, [*chain(user("u1"), tool_result("r9", "t9"), assistant("a1")), "not json", "{"])
    t = cc.load(tmp_path)
    assert t.sessions["n_problems"].to_list() == [t.problems.height]
    assert t.problems.height >= 3


def test_a_session_of_which_only_agents_are_left_is_one(tmp_path: Path) -> None:
    write_agent(tmp_path, "a1", chain(user("x1"), assistant("x2"), agent="a1"))
    t = cc.load(tmp_path)
    session = t.sessions.row(0, named=True)
    assert [session[k] for k in ("session_id", "kind", "n_agents", "calls", "n_turns")] == [
        uid("s1"),
        "session",
        1,
        1,
        0,
    ]
    assert t.turns.select("turn_no", "calls").rows() == [(0, 1)]


def test_a_line_of_a_session_that_has_no_file_of_its_own_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "loose.jsonl"
    write_lines(path, chain(user("u1"), tool_use("a1", call="t1"), tool_result("r1", "t1")))
    t = cc.load(path)
    assert t.sessions.select("n_tools", "n_turns", "calls").rows() == [(1, 1, 1)]


def test_ux05_one_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("a1")))
    broken = write_session(tmp_path, chain(user("u2"), assistant("a2"), session="s2"), session="s2")
    broken.with_suffix(".jsonl").write_bytes(b"\x00" * 400)
    t = cc.load(tmp_path)
    assert t.turns.height == 1
    assert not t.problems.is_empty()


def test_ux05_a_filter_without_a_match_gives_empty_frames_with_their_schema(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u1"), assistant("a1")))
    t = cc.load(tmp_path, since="2031-01-01")
    for name in ("tools", "agents", "turns", "compactions", "sessions", "events", "parallelism"):
        frame: pl.DataFrame = getattr(t, name)
        assert frame.is_empty()
        assert frame.schema == cc.schema.tables()[name].polars()
