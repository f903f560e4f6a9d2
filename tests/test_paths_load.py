"""Projects, folders and copies, seen in what ``load`` returns."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ccanalytics.load import load
from ccanalytics.placing import find_folder_problems
from ccanalytics.schema.base import FILES, PROBLEMS
from tests.build import DROP, assistant, chain, meta, uid, user, write_agent, write_lines, write_session


def _talk(session: str, **fields: object) -> list[dict[str, object]]:
    return chain(user("u1"), assistant("a1"), session=session, **fields)  # type: ignore[arg-type]


def test_pt02_directories_that_share_a_folder_stay_projects_of_their_own(tmp_path: Path) -> None:
    for n, cwd in enumerate(["/w/my_app", "/w/my-app", "/w/my.app", "/w/my-app/lib", "/w/my-app"]):
        write_session(tmp_path, _talk(f"s{n}", cwd=cwd), session=f"s{n}", project="-w-my-app")
    write_session(tmp_path, _talk("s9", cwd="/w/other"), session="s9", project="-w-other")
    t = load(tmp_path)
    assert set(t.files["project"]) >= {"/w/my_app", "/w/my-app", "/w/my.app", "/w/other"}
    flags = t.problems.filter(pl.col("code") == "shared_folder")
    assert flags["detail"].to_list() == ["the folder -w-my-app holds /w/my-app, /w/my.app, /w/my_app"]
    assert set(load(tmp_path, projects="/w/my.app").files["session_id"]) == {uid("s2")}


def test_pt03_a_folder_name_is_never_decoded(tmp_path: Path) -> None:
    write_session(tmp_path, _talk("s1", cwd="/home/ana/two-words"), project="-home-ana-two-words")
    write_session(tmp_path, _talk("s2", cwd=DROP), session="s2", project="-home-ana-no-cwd")
    rows = load(tmp_path).files.select("project_dir", "project", "cwd").rows()
    assert sorted(rows) == [
        ("-home-ana-no-cwd", None, None),
        ("-home-ana-two-words", "/home/ana/two-words", "/home/ana/two-words"),
    ]


def test_pt04_a_long_path_is_chosen_by_directory(tmp_path: Path) -> None:
    cwd = "/" + "a" * 259
    write_session(tmp_path, _talk("s1", cwd=cwd), project="-" + "a" * 199 + "-k3x9")
    write_session(tmp_path, _talk("s2", cwd="/b"), session="s2", project="-b")
    assert load(tmp_path, projects=cwd).files["session_id"].to_list() == [uid("s1")]


def test_pt06_one_windows_project_however_its_directory_is_written(tmp_path: Path) -> None:
    for n, cwd in enumerate(["C:\\Lab\\Tool", "c:\\Lab\\Tool", "c:/Lab/Tool/", "/srv/App", "/srv/app"]):
        write_session(tmp_path, _talk(f"s{n}", cwd=cwd), session=f"s{n}", project=f"-p{n}")
    t = load(tmp_path)
    assert set(t.files["project"]) == {"C:\\Lab\\Tool", "/srv/App", "/srv/app"}
    assert t.entries["cwd"].n_unique() == 5


def test_pt07_a_worktree_is_folded_into_its_project(tmp_path: Path) -> None:
    write_session(tmp_path, _talk("s1", cwd="/r/app"), session="s1", project="-r-app")
    tree = "-r-app--claude-worktrees-fix-12"
    write_session(tmp_path, _talk("s2", cwd="/r/app/.claude/worktrees/fix-12"), session="s2", project=tree)
    t = load(tmp_path, projects="/r/app")
    assert set(t.files.select("project", "worktree").rows()) == {("/r/app", None), ("/r/app", "fix-12")}


def test_pt08_a_session_in_two_folders_is_one(tmp_path: Path) -> None:
    bridge = meta("bridge-session", bridgeSessionId="x", sessionId=uid("s9"))
    write_session(tmp_path, [bridge], session="s9", project="-a")
    many = chain(*(user(f"u{n}") for n in range(40)), session="s9", cwd="/r/b")
    write_session(tmp_path, many, session="s9", project="-b")
    t = load(tmp_path, sessions=uid("s9"))
    assert t.files.select("session_id", "n_entries", "project").rows() == [
        (uid("s9"), 1, None),
        (uid("s9"), 40, "/r/b"),
    ]
    assert set(t.entries["session_id"]) == {uid("s9")}


def test_pt09_a_file_belongs_to_the_first_directory_and_each_line_keeps_its_own(tmp_path: Path) -> None:
    lines = chain(*(user(f"u{n}", cwd="/r/a" if n < 3 else "/r/a/lib") for n in range(5)))
    write_session(tmp_path, lines)
    t = load(tmp_path)
    assert t.files["project"].to_list() == ["/r/a"]
    assert t.entries["cwd"].to_list() == ["/r/a"] * 3 + ["/r/a/lib"] * 2


def test_pt10_totals_are_those_without_links(tmp_path: Path) -> None:
    projects = tmp_path / "config" / "projects"
    write_session(tmp_path / "config", _talk("s1"), project="real")
    write_session(tmp_path / "elsewhere", _talk("s2"), session="s2", project="out")
    (projects / "link").symlink_to("real")
    (projects / "out").symlink_to(tmp_path / "elsewhere" / "projects" / "out")
    (projects / "dead").symlink_to("nothing")
    (projects / "loop").symlink_to(projects)
    t = load(tmp_path / "config")
    assert (len(t.files), len(t.entries)) == (2, 4)
    assert t.problems.is_empty()


def test_pt11_two_roots_that_are_one_count_once(tmp_path: Path) -> None:
    write_session(tmp_path / "one", _talk("s1"))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "projects").symlink_to(tmp_path / "one" / "projects")
    assert len(load([tmp_path / "one", tmp_path / "two"]).entries) == 2


def test_pt12_the_index_of_sessions_is_never_the_truth(tmp_path: Path) -> None:
    names = [f"s{n}" for n in range(40)]
    for name in names:
        file = write_session(tmp_path, _talk(name), session=name)
    entries = [{"sessionId": uid(n), "fullPath": "/etc/passwd"} for n in [*names[:10], "gone1", "gone2"]]
    (file.parent / "sessions-index.json").write_text(json.dumps({"version": 1, "entries": [*entries, 7, {}]}))
    t = load(tmp_path)
    assert t.files["session_id"].n_unique() == 40
    lost = t.problems.filter(pl.col("code") == "indexed_only")
    assert set(lost["other_uuid"]) == {uid("gone1"), uid("gone2")}
    assert lost["file_id"].null_count() == 2
    assert set(load(tmp_path, sessions=uid("s1")).problems["code"]) == {"indexed_only"}


@pytest.mark.parametrize("index", ["", "[]", "{", '{"entries": 7}', '{"entries": [{"sessionId": 7}]}'])
def test_pt12_a_damaged_index_does_no_harm(tmp_path: Path, index: str) -> None:
    file = write_session(tmp_path, _talk("s1"))
    (file.parent / "sessions-index.json").write_text(index)
    assert load(tmp_path).problems.is_empty()
    assert find_folder_problems(FILES.empty()).schema == PROBLEMS.polars()


def test_pt13_frozen_statistics_are_not_read(tmp_path: Path) -> None:
    write_session(tmp_path, _talk("s1"))
    before = load(tmp_path)
    (tmp_path / "stats-cache.json").write_text('{"version": 1, "totalMessages": 99999, "modelUsage": {"x": 7}}')
    after = load(tmp_path)
    assert after.entries.equals(before.entries)
    assert after.calls.equals(before.calls)


def test_pt14_coverage_begins_with_the_first_line_not_with_the_first_prompt(tmp_path: Path) -> None:
    write_session(tmp_path, _talk("s1", start=0))
    old = {"display": "long ago", "pastedContents": {}, "timestamp": 1, "project": "/home/dev/app"}
    write_lines(tmp_path / "history.jsonl", [old])
    t = load(tmp_path)
    assert t.files["first_at"].min() == t.entries["timestamp"].min()


def test_pt15_projects_with_one_name_stay_two(tmp_path: Path) -> None:
    write_session(tmp_path, _talk("s1", cwd="C:\\p\\app"), project="C--p-app")
    write_session(tmp_path, _talk("s1", cwd="d:\\p\\app"), project="d--p-app", session="s2")
    assert set(load(tmp_path).files["project"]) == {"C:\\p\\app", "D:\\p\\app"}


def test_ag01_agents_of_both_layouts_belong_to_their_session(tmp_path: Path) -> None:
    write_session(tmp_path, _talk("s1"))
    write_agent(tmp_path, "a1", chain(user("u2"), agent="a1"))
    write_agent(tmp_path, "b2", chain(user("u3"), agent="b2"), flat=True)
    agents = load(tmp_path).files.filter(pl.col("kind") == "agent").select("session_id", "agent_id", "layout")
    assert sorted(agents.rows()) == [(uid("s1"), "a1", "subagents"), (uid("s1"), "b2", "flat")]


def test_ag08_an_agent_without_the_prefix_has_the_id_of_its_lines(tmp_path: Path) -> None:
    folder = write_agent(tmp_path, "a1", chain(user("u1"), agent="a1")).parent
    write_lines(folder / "x9f3.jsonl", chain(user("u2"), agent="deadbee"))
    assert load(tmp_path).files.select("kind", "agent_id").rows() == [("agent", "a1"), ("agent", "deadbee")]


def test_ag09_an_agents_file_named_like_a_session_is_an_agents(tmp_path: Path) -> None:
    first = meta("agent-setting", agentSetting="reviewer")
    write_session(tmp_path, [first, *chain(user("u1"), assistant("a1"), session="s2", agent="a5")], session="s2")
    team = chain(user("u2", teamName="red"), assistant("a2", teamName="red"), session="s3")
    write_session(tmp_path, [meta("mode", mode="normal"), *team], session="s3")
    joined = chain(user("u3"), assistant("a3", teamName="red"), session="s4")
    write_session(tmp_path, joined, session="s4")
    mixed = chain(user("u4", isSidechain=True), assistant("a4"), session="s5")
    write_session(tmp_path, mixed, session="s5")
    write_session(tmp_path, [meta("mode", mode="normal", sessionId=uid("s6"))], session="s6")
    kinds = dict(load(tmp_path).files.select("session_id", "kind").iter_rows())
    assert kinds == {
        uid(s): k for s, k in zip(["s2", "s3", "s4", "s5", "s6"], ["agent"] * 2 + ["session"] * 3, strict=True)
    }


@pytest.mark.parametrize("bad", ["../../etc/x", "..\\..\\a", "/etc/passwd", "a\0b"])
def test_se04_ids_that_are_paths_load_as_text(tmp_path: Path, bad: str) -> None:
    write_session(tmp_path, chain(user("u1", sessionId=bad, agentId=bad, cwd=bad)))
    t = load(tmp_path)
    assert t.entries.select("session_id", "agent_id", "cwd").row(0) == (bad, bad, bad)
    assert load(tmp_path, sessions=bad).files.is_empty()


def test_pt07_worktrees_fold_into_their_project_unless_told_not_to(tmp_path: Path) -> None:
    for name, cwd in (("s1", "/r/app"), ("s2", "/r/app/.claude/worktrees/fix-12")):
        write_session(tmp_path, chain(user("u1"), session=name, cwd=cwd), session=name)
    folded, apart = load(tmp_path), load(tmp_path, fold_worktrees=False)
    assert set(folded.files["project"]) == {"/r/app"}
    assert set(apart.files["project"]) == {"/r/app", "/r/app/.claude/worktrees/fix-12"}
    assert folded.files["worktree"].equals(apart.files["worktree"])
