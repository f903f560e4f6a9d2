"""Which files are found, in which layout, and that each is counted once."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard

from ccanalytics.errors import CCAnalyticsError, NotFoundError, ReadError, UsageError
from ccanalytics.find import FoundFile, config_dirs, content_kind, find_files
from tests.build import assistant, chain, meta, uid, user, write_agent, write_lines, write_session
from tests.cases import case_dir, case_names

LINES = chain(user("u1"), assistant("a1"))


def _shape(found: list[FoundFile]) -> list[tuple[str, str, str | None, str | None]]:
    return [(f.kind, f.layout, f.session_id, f.agent_id) for f in found]


def _names(found: list[FoundFile]) -> list[str]:
    return [Path(f.path).name for f in found]


# Where to look


def test_the_default_folders_may_be_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_files() == []
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert find_files() == []


def test_without_the_variable_both_default_folders_are_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    write_session(home / ".claude", LINES, session="s1")
    write_session(home / ".config" / "claude", LINES, session="s2")
    assert {f.session_id for f in find_files()} == {uid("s1"), uid("s2")}
    assert config_dirs() == [home / ".config" / "claude", home / ".claude"]


def test_the_variable_names_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        write_session(tmp_path / name, LINES, session=name)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{tmp_path}/one, {tmp_path}/two ,,{tmp_path}/gone")
    assert [f.session_id for f in find_files()] == [uid("one"), uid("two")]


def test_pt11_explicit_places_win_and_a_shared_folder_counts_once(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path / "env", LINES, session="env")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "env"))
    write_session(tmp_path / "one", LINES)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "projects").symlink_to(tmp_path / "one" / "projects")
    found = find_files([tmp_path / "one", tmp_path / "two"])
    assert [f.session_id for f in found] == [uid("s1")]
    assert find_files([tmp_path / "two", tmp_path / "one"])[0].path == found[0].path
    assert [f.session_id for f in find_files()] == [uid("env")]


@pytest.mark.parametrize(
    "place",
    [
        lambda file: file.parents[2],
        lambda file: file.parents[1],
        lambda file: file.parent,
        lambda file: file,
        lambda file: str(file.parents[1] / "*" / "*.jsonl"),
        lambda file: file.parents[2] / "projects" / "*",
        lambda file: [file, file.parent, file.parents[2]],
    ],
)
def test_a_place_may_be_named_at_any_level(tmp_path: Path, place: Callable[[Path], Path]) -> None:
    file = write_session(tmp_path, LINES)
    [found] = find_files(place(file))
    assert (found.path, found.root, found.project_dir) == (str(file), str(tmp_path), "-home-dev-app")
    assert (found.kind, found.layout, found.session_id) == ("session", "session", uid("s1"))
    assert (found.size, found.mtime_ns) == (file.stat().st_size, file.stat().st_mtime_ns)


def test_folders_of_ones_own_called_projects_do_not_confuse(tmp_path: Path) -> None:
    config = tmp_path / "projects" / "copy-of-claude"
    write_session(config, LINES)
    assert [(f.root, f.project_dir) for f in find_files(config)] == [(str(config), "-home-dev-app")]


def test_a_copied_project_folder_needs_no_projects_above(tmp_path: Path) -> None:
    folder = write_session(tmp_path, LINES).parent
    write_agent(tmp_path, "ab", LINES)
    folder = folder.rename(tmp_path / "copy")
    found = find_files(folder)
    assert _shape(found) == [
        ("session", "session", uid("s1"), None),
        ("agent", "subagents", uid("s1"), "ab"),
    ]
    assert {(f.root, f.project_dir) for f in found} == {(None, "copy")}
    assert find_files(folder / uid("s1"))[0].session_id == uid("s1")
    assert find_files(folder / uid("s1") / "subagents" / "agent-ab.jsonl")[0].session_id == uid("s1")


@pytest.mark.parametrize("place", ["gone", "gone/*.jsonl", "a[b]c"])
def test_a_place_that_does_not_exist_is_an_error_that_helps(tmp_path: Path, place: str) -> None:
    with pytest.raises(NotFoundError, match=r"configuration folder .* a glob in quotes") as caught:
        find_files(tmp_path / place)
    assert caught.value.facts["path"] == str(tmp_path / place)


def test_a_name_with_glob_characters_is_first_of_all_a_name(tmp_path: Path) -> None:
    write_session(tmp_path / "a[b]c", LINES)
    assert len(find_files(tmp_path / "a[b]c")) == 1


def test_a_folder_with_nothing_in_it_gives_nothing(tmp_path: Path) -> None:
    assert find_files(tmp_path) == []
    (tmp_path / "projects").mkdir()
    assert find_files(tmp_path) == []


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", None)])
def test_compressed_files_are_found_and_looked_into(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes] | None
) -> None:
    pack = pack or (lambda data: zstandard.compress(data))
    plain = write_lines(tmp_path / "projects" / "-p" / "x.jsonl", chain(user("u1"), agent="a7", session="s9"))
    packed = plain.with_name(plain.name + suffix)
    packed.write_bytes(pack(plain.read_bytes()))
    assert _names(find_files(tmp_path)) == ["x.jsonl"]
    plain.unlink()
    assert _shape(find_files(tmp_path)) == [("agent", "flat", uid("s9"), "a7")]
    assert _shape(find_files(packed)) == [("agent", "flat", uid("s9"), "a7")]


# Links


def test_pt10_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    projects = tmp_path / "config" / "projects"
    write_session(tmp_path / "config", LINES, session="s1", project="real")
    write_session(tmp_path / "elsewhere", LINES, session="s2", project="real")
    (projects / "a-link").symlink_to("real")
    (projects / "out").symlink_to(tmp_path / "elsewhere" / "projects" / "real")
    (projects / "dead").symlink_to("nothing")
    (projects / "loop").symlink_to(projects)
    (projects / "self").symlink_to("self")
    (projects / "real" / "back").symlink_to(projects)
    found = find_files(tmp_path / "config")
    assert [(f.project_dir, f.session_id) for f in found] == [("real", uid("s1")), ("out", uid("s2"))]
    assert all(Path(f.path).resolve() == Path(f.path) for f in found)


def test_links_to_files_and_second_names_of_a_file_count_once(tmp_path: Path) -> None:
    file = write_session(tmp_path, LINES)
    (file.parent / f"{uid('s2')}.jsonl").symlink_to(file)
    (file.parent / f"{uid('s3')}.jsonl").symlink_to("gone.jsonl")
    os.link(file, file.parent / f"zz-{uid('s4')}.jsonl")
    assert [f.session_id for f in find_files(tmp_path)] == [uid("s1")]


def test_a_place_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_session(tmp_path, LINES)
    write_session(tmp_path, LINES, session="s2", project="-locked")
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("-locked"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    seen: list[str] = []
    found = find_files(tmp_path, on_error=lambda path, error: seen.append(f"{Path(path).name}: {error.strerror}"))
    assert ([f.path for f in found], seen) == ([str(file)], ["-locked: Permission denied"])
    monkeypatch.setattr(os, "listdir", lambda path: scandir("-locked"))
    with pytest.raises(ReadError, match=r"Cannot read the folder .*: Permission denied"):
        find_files(tmp_path)


# Agents


def test_ag01_agents_are_found_in_the_folder_of_their_session_and_beside_it(tmp_path: Path) -> None:
    write_session(tmp_path, LINES)
    beside = write_agent(tmp_path, "a1", LINES, meta={"agentType": "Explore"})
    write_agent(tmp_path, "b2", chain(user("u2"), agent="b2"), flat=True)
    found = find_files(tmp_path)
    assert _shape(found) == [
        ("agent", "flat", None, "b2"),
        ("session", "session", uid("s1"), None),
        ("agent", "subagents", uid("s1"), "a1"),
    ]
    assert [f.meta_path for f in found] == [None, None, str(beside.with_suffix(".meta.json"))]


def test_agents_of_a_workflow_carry_its_run_and_its_journal_is_no_transcript(tmp_path: Path) -> None:
    file = write_agent(tmp_path, "w1", LINES, workflow="wf_7", meta={"agentType": "workflow-subagent"})
    write_lines(file.with_name("journal.jsonl"), [meta("started")])
    [found] = find_files(tmp_path)
    assert (found.kind, found.layout, found.session_id, found.workflow_id) == ("agent", "workflow", uid("s1"), "wf_7")
    with pytest.raises(UsageError, match="not a transcript"):
        find_files(file.with_name("journal.jsonl"))


def test_ag08_an_agents_file_need_not_follow_the_name_pattern(tmp_path: Path) -> None:
    folder = write_agent(tmp_path, "a1", LINES).parent
    write_lines(folder / "x9f3.jsonl", [meta("mode", mode="normal"), *chain(user("u2"), agent="deadbee")])
    write_lines(folder / "y.jsonl", ["not json"])
    assert [(f.agent_id, f.session_id) for f in find_files(tmp_path)] == [
        ("a1", uid("s1")),
        ("deadbee", uid("s1")),
        ("y", uid("s1")),
    ]


def test_ag09_an_agents_file_beside_sessions_is_told_by_its_first_envelope(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p"
    first = meta("agent-setting", agentSetting="reviewer", sessionId=uid("s1"))
    write_lines(folder / "u-2.jsonl", [first, *chain(user("u1"), agent="a5")])
    write_lines(folder / "u-3.jsonl", [meta("mode", mode="normal"), *chain(user("u2", teamName="red"), session="s3")])
    write_lines(folder / "u-4.jsonl", chain(user("u3"), assistant("a3"), session="s4"))
    assert _shape(find_files(tmp_path)) == [
        ("agent", "flat", uid("s1"), "a5"),
        ("agent", "flat", uid("s3"), None),
        ("session", "session", uid("s4"), None),
    ]


def test_ag09_a_long_first_line_is_told_by_what_stands_before_its_message(tmp_path: Path) -> None:
    lines = chain(user("u1", 'x "agentId":"zz" ' * 9000), session="s5", agent="a5")
    write_lines(tmp_path / "projects" / "-p" / "odd.jsonl", [{"isSidechain": True, "agentId": "a5"} | lines[0]])
    assert [(f.kind, f.agent_id) for f in find_files(tmp_path)] == [("agent", "a5")]


def test_ag09_the_kind_by_content_is_a_rule_of_its_own() -> None:
    assert content_kind(is_sidechain=None, agent_id=None, team_name=None) == "session"
    assert content_kind(is_sidechain=False, agent_id=None, team_name="") == "session"
    assert content_kind(is_sidechain=True, agent_id=None, team_name=None) == "agent"
    assert content_kind(is_sidechain=False, agent_id="a", team_name=None) == "agent"
    assert content_kind(is_sidechain=False, agent_id=None, team_name="red") == "agent"


def test_files_deeper_down_are_transcripts_only_if_they_look_like_it(tmp_path: Path) -> None:
    folder = write_session(tmp_path, LINES).with_suffix("")
    write_lines(folder / "exports" / "data.jsonl", ['{"rows": 3}'])
    write_lines(folder / "exports" / "part.jsonl", chain(user("u2"), session="s1"))
    write_lines(folder / "tool-results" / f"{uid('s8')}.jsonl", LINES)
    assert [(f.layout, f.session_id) for f in find_files(tmp_path)] == [("session", uid("s1")), ("other", uid("s1"))]


def test_a_damaged_file_of_any_name_is_still_found(tmp_path: Path) -> None:
    write_lines(tmp_path / "projects" / "-p" / "torn.jsonl", ['{"type":"user","mess'])
    assert _shape(find_files(tmp_path)) == [("session", "session", "torn", None)]


# Choosing


def test_choosing_projects_and_sessions(tmp_path: Path) -> None:
    write_session(tmp_path, LINES, session="s1", project="-r-app")
    write_session(tmp_path, LINES, session="s2", project="-r-app--claude-worktrees-fix")
    write_session(tmp_path, LINES, session="s3", project="-r-app-two")
    write_agent(tmp_path, "f1", chain(user("u1"), session="s3", agent="f1"), project="-r-app-two", flat=True)
    assert {f.session_id for f in find_files(tmp_path, projects="/r/app")} == {uid("s1"), uid("s2")}
    assert {f.session_id for f in find_files(tmp_path, projects=["-r-app", "two"])} >= {uid("s1"), uid("s3")}
    assert len(find_files(tmp_path, sessions=uid("s3"))) == 2
    assert len(find_files(tmp_path, sessions=[uid("s1")[:8], uid("s2")[:5]])) == 2
    assert find_files(tmp_path, sessions=["", "nothing"]) == []


@pytest.mark.parametrize("bad", ["../../etc/x", "..\\..\\a", "/etc/passwd", "a\0b", "*"])
def test_se04_an_id_is_never_a_path(tmp_path: Path, bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = chain(user("u1", sessionId=bad, agentId=bad, cwd=bad), agent=bad)
    write_session(tmp_path, evil)
    write_lines(tmp_path / "projects" / "-p" / "x.jsonl", evil)
    write_lines(write_agent(tmp_path, "a1", evil).with_name("odd.jsonl"), evil)
    opened: list[str] = []

    def watched(path: str) -> BinaryIO:
        opened.append(path)
        return open(path, "rb")

    monkeypatch.setattr("ccanalytics.place._open", watched)
    assert find_files(tmp_path, sessions=[bad], projects=None) == find_files(tmp_path, sessions=[bad])
    assert all(Path(p).resolve().is_relative_to(tmp_path) for p in opened)


def test_se04_a_path_with_a_nul_is_refused() -> None:
    with pytest.raises(UsageError, match="NUL"):
        find_files("a\0b")
    assert issubclass(UsageError, CCAnalyticsError)


# The recorded cases


def test_every_recorded_file_is_found_and_told_apart() -> None:
    for name in case_names("zoo"):
        config = case_dir("zoo", name) / "config"
        found = find_files(config)
        on_disk = {str(p) for p in config.rglob("*.jsonl") if p.name not in ("journal.jsonl", "history.jsonl")}
        assert {f.path for f in found} == {os.path.realpath(p) for p in on_disk}, name
        for file in found:
            assert (file.kind == "agent") == Path(file.path).name.startswith("agent-")
