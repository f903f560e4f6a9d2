"""Folder names both ways, and which project a working directory belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccanalytics.projects import (
    is_project_wanted,
    match_slug,
    project_of,
    project_slug,
    safe_name,
    shared_slugs,
    short_names,
)


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("/home/a/my_example work.space", "-home-a-my-example-work-space"),
        ("C:\\Work\\a_b", "C--Work-a-b"),
        ("/x/é", "-x--"),
        ("/x/\N{GRINNING FACE}", "-x---"),
        ("", ""),
    ],
)
def test_pt05_every_unit_that_is_no_letter_or_digit_becomes_a_dash(path: str, slug: str) -> None:
    assert project_slug(path) == slug


@pytest.mark.parametrize(
    ("path", "suffix"),
    [
        ("/home/" + "é\N{GRINNING FACE}x/" * 60, "sttuzl"),
        ("/w/" + "long-folder/" * 20, "ocjhs7"),
        ("/" + "a" * 259, "z255qm"),
    ],
)
def test_pt04_a_long_path_is_cut_and_gets_the_hash_of_the_node_builds(path: str, suffix: str) -> None:
    slug = project_slug(path)
    assert (len(slug[:200]), slug[200:]) == (200, "-" + suffix)


def test_pt04_a_long_path_is_found_by_its_beginning_whatever_the_hash() -> None:
    path = "/home/ana/" + "deep/" * 50
    cut = project_slug(path)[:200]
    known = [cut + "-k3x9", cut, cut + "k3x9", cut + "-", cut + "-a-b", "-home-ana", project_slug(path)]
    assert match_slug(path, known) == [project_slug(path), cut + "-k3x9"]


def test_a_path_of_exactly_200_characters_is_not_cut() -> None:
    path = "/" + "a" * 199
    assert project_slug(path) == "-" + "a" * 199
    assert match_slug(path, [project_slug(path) + "-k3x9"]) == []


def test_a_short_path_has_one_folder_and_windows_does_not_mind_case() -> None:
    assert match_slug("/r/app", ["-r-app", "-r-App", "-r-app-x"]) == ["-r-app"]
    assert match_slug("c:\\Lab", ["C--Lab", "c--lab", "C--Lab-x"]) == ["C--Lab", "c--lab"]


def test_pt06_drive_letter_case_and_slash_style_are_one_windows_project() -> None:
    assert {project_of(p)[0] for p in ("C:\\Lab\\Tool", "c:\\Lab\\Tool", "c:/Lab/Tool/")} == {"C:\\Lab\\Tool"}
    assert {project_of(p)[0] for p in ("/srv/App", "/srv/app/")} == {"/srv/App", "/srv/app"}
    assert [project_of(p)[0] for p in ("/", "c:", "D:/", "\\\\host\\share\\")] == [
        "/",
        "C:\\",
        "D:\\",
        "\\\\host\\share",
    ]


@pytest.mark.parametrize(
    ("cwd", "project", "worktree"),
    [
        ("/r/app", "/r/app", None),
        ("/r/app/.claude/worktrees/fix-12", "/r/app", "fix-12"),
        ("/r/app/.claude/worktrees/fix-12/lib", "/r/app", "fix-12"),
        ("D:\\r\\app\\.claude\\worktrees\\x", "D:\\r\\app", "x"),
        ("d:/.claude/worktrees/x", "D:\\", "x"),
        ("/r/app/.claude/worktrees", "/r/app/.claude/worktrees", None),
        ("/r/app/.claude/worktrees/a/.claude/worktrees/b", "/r/app", "b"),
        (None, None, None),
        ("", None, None),
    ],
)
def test_pt07_a_worktree_belongs_to_its_project(cwd: str | None, project: str | None, worktree: str | None) -> None:
    assert project_of(cwd) == (project, worktree)


def test_pt07_folding_can_be_switched_off() -> None:
    cwd = "/r/app/.claude/worktrees/fix-12"
    assert project_of(cwd, fold_worktrees=False) == (cwd, "fix-12")


@given(st.text())
def test_the_project_of_a_project_is_itself(path: str) -> None:
    project, _ = project_of(path)
    assert project_of(project) == (project, None)


def test_pt02_a_folder_that_several_projects_share_is_named() -> None:
    pairs = [("-w-my-app", p) for p in ("/w/my_app", "/w/my-app", "/w/my.app", "/w/my-app")]
    assert shared_slugs([*pairs, ("-b", "/b"), ("-b", None), (None, "/b")]) == {
        "-w-my-app": ["/w/my-app", "/w/my.app", "/w/my_app"]
    }


def test_pt15_projects_of_one_name_get_names_of_their_own() -> None:
    assert short_names(["C:\\p\\app", "D:\\p\\app", "/x/lib"]) == {
        "/x/lib": "lib",
        "C:\\p\\app": "C:/p/app",
        "D:\\p\\app": "D:/p/app",
    }
    assert short_names(["/a", "/x/a", "/"]) == {"/": "/", "/a": "a", "/x/a": "x/a"}


@given(st.sets(st.from_regex(r"(/[ab.]{1,2}){1,4}", fullmatch=True)))
def test_short_names_are_all_different(projects: set[str]) -> None:
    names = short_names(projects)
    assert len(set(names.values())) == len(projects)


def test_se04_file_names_made_of_ids_stay_in_their_folder() -> None:
    for bad in ("../../etc/x", "..\\..\\a", "/etc/passwd", "a\0b", "..", ".", "", "C:x", "é/" * 200):
        name = safe_name(bad)
        assert name
        assert not set(name) & set('/\\\0:"') | ({name} & {".", ".."})
        assert len(name.encode()) <= 120


@pytest.mark.parametrize(
    ("wanted", "slug", "project", "is_wanted"),
    [
        ("/r/app", "-r-app", None, True),
        ("/r/app", "-r-app--claude-worktrees-fix", None, True),
        ("/r/app", "-r-app-two", None, False),
        ("-r-app", "-r-app", None, True),
        ("app", "-r-app", None, True),
        ("my app", "-r-my-app", None, True),
        ("pp", "-r-app", None, False),
        ("app", "-r-app-two", None, False),
        ("/r/app/", "-r-app", "/r/app", True),
        ("/r/my-app", "-r-my-app", "/r/my.app", False),
        ("my.app", "-r-my-app", "/r/my.app", True),
        ("c:/Lab", "c--Lab", "C:\\Lab", True),
        ("c:/Lab", "C--Lab", None, True),
        ("/w/" + "deep/" * 50, ("-w-" + "deep-" * 50)[:200] + "-k3x9", None, True),
    ],
)
def test_a_wish_names_a_project_by_directory_folder_or_name(
    wanted: str, slug: str, project: str | None, is_wanted: bool
) -> None:
    assert is_project_wanted(wanted, project=project, slug=slug) is is_wanted
