"""Every damaged session is mended where that is certain, and resumes with at least what it resumed with before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccanalytics.errors import NotFoundError, UsageError, WriteError
from ccanalytics.load import load
from ccanalytics.resume import resume_sessions
from ccanalytics.write import files
from ccanalytics.write.repair import Repair, repair
from tests import build
from tests.cases import case_names, copy_case

Json = dict[str, Any]
RULES = ("2.1.332", "2.1.88")

# Damage that no version bridges, or only some do: what each rule of repair is for, by the case that shows it.
MENDED: dict[str, str] = {
    "cycle__leaf-outside": "time_window",
    "cycle__self": "time_window",
    "cycle__slow-clock": "last_written",
    "cycle__whole": "first_written",
    "damaged__bad-inner": "drop_unreadable",
    "damaged__bad-inner-far": "bridge_line",
    "damaged__bad-utf8": "mark_bad_utf8",
    "damaged__glued": "split_glued",
    "damaged__no-message": "drop_empty",
    "damaged__nul-before": "strip_nul",
    "damaged__nul-tail": "strip_nul",
    "damaged__scalars": "drop_unreadable",
    "damaged__torn-last": "drop_unreadable",
    "dup-uuid__same-line-twice": "drop_copy",
    "dup-uuid__whole-file-twice": "drop_copy",
    "missing-parent__attachment-near": "time_window",
    "missing-parent__boundary-near": "time_window",
    "missing-parent__gap-4999": "time_window",
    "missing-parent__gap-5001": "last_written",
    "missing-parent__newer-before": "time_window",
    "missing-parent__other-branch": "time_window",
    "missing-parent__result": "time_window",
    "missing-parent__same-moment": "time_window",
    "missing-parent__sidechain-child": "time_window",
    "missing-parent__twice": "time_window",
    "missing-parent__within-window": "time_window",
    "interrupted__u-call-res-open-a-open": "answer_call",
    "interrupted__u-call-res-open-meta": "answer_call",
    "interrupted__u-open-intt": "answer_call",
    "interrupted__u-open-open": "answer_call",
    "interrupted__u-textopen-u-a": "answer_call",
    "mixed__all-damage": "cut_damage",
    "parallel-line__parent-missing": "result_to_call",
    "progress__after-child": "time_window",
    "progress__dangling": "time_window",
    "other-lines__future-type-null-parent": "bridge_line",
}
# Resumed with more than before under the rules named.
GAINS = {
    "cycle__leaf-outside": "2.1.88",
    "cycle__self": "2.1.88",
    "cycle__slow-clock": "2.1.332",
    "damaged__bad-inner-far": "2.1.332",
    "damaged__glued": "2.1.332",
    "damaged__nul-before": "2.1.332",
    "damaged__scalars": "2.1.88",
    "interrupted__u-textopen-u-a": "2.1.332",
    "missing-parent__gap-5001": "2.1.332",
    "missing-parent__result": "2.1.88",
    "missing-parent__twice": "2.1.88",
    "mixed__all-damage": "2.1.332",
    "progress__after-child": "2.1.88",
}
LEFT = ("missing-parent__no-clock", "dup-uuid__new-content", "dup-uuid__old-content-first")
FAMILIES = (
    "damaged",
    "cycle",
    "missing-parent",
    "dup-uuid",
    "interrupted",
    "progress",
    "mixed",
    "parallel-line",
    "random",
)


def session_of(case: Path) -> str:
    return str(json.loads((case / "expect.json").read_text(encoding="utf-8"))["session_id"])


def resumed(config: Path, session: str, rules: Any = "2.1.332") -> list[str]:
    t = load(config, cache=False, workers=1)
    frame = resume_sessions(t.entries, t.blocks, t.files, t.problems, rules=rules).frame
    return frame.filter(pl.col("session_id") == session)["uuid"].drop_nulls().to_list()


def names(done: Repair) -> set[str]:
    return {step.name for file in done.files for step in file.steps}


@pytest.mark.parametrize("name", sorted(MENDED))
def test_a_damaged_case_is_mended_by_the_rule_for_it(tmp_path: Path, name: str) -> None:
    case = copy_case("resume", name, tmp_path / "case")
    config, session = case / "config", session_of(case)
    before = {rules: resumed(config, session, rules) for rules in RULES}
    assert before["2.1.332"] == [u for u in expected(case) if u is not None]
    done = repair(session, path=config)
    after = {rules: resumed(config, session, rules) for rules in RULES}
    assert MENDED[name] in names(done)
    for rules in RULES:
        assert is_subsequence(before[rules], after[rules]) or set(before[rules]) <= set(after[rules])
    if name in GAINS:
        assert len(after[GAINS[name]]) > len(before[GAINS[name]])
    assert all(step.reason for file in done.files for step in file.steps)
    assert names(repair(session, path=config)) == set()


def expected(case: Path) -> list[str | None]:
    chain = json.loads((case / "expect.json").read_text(encoding="utf-8"))["chain"]
    return [item if isinstance(item, str) else None for item in chain]


def is_subsequence(first: list[str], second: list[str]) -> bool:
    rest = iter(second)
    return all(item in rest for item in first)


@pytest.mark.parametrize("name", [n for n in case_names("resume") if n.startswith(FAMILIES) and n not in MENDED])
def test_no_other_case_resumes_with_less_after_a_repair(tmp_path: Path, name: str) -> None:
    case = copy_case("resume", name, tmp_path / "case")
    done = repair(session_of(case), path=case / "config", dry_run=True)
    for file in done.files:
        assert is_subsequence(list(file.before.resumed), list(file.after.resumed))
        assert file.steps or file.left


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_mended_with_certainty_is_left_and_said(tmp_path: Path, name: str) -> None:
    case = copy_case("resume", name, tmp_path / "case")
    done = repair(session_of(case), path=case / "config")
    assert names(done) == set()
    assert [len(file.left) for file in done.files] == [1]
    assert done.files[0].backup is None


def write(tmp_path: Path, *lines: Any, session: str = "s1") -> Path:
    return build.write_session(tmp_path, lines, session=session)


def turns(*named: tuple[str, str | None, float]) -> list[Json]:
    """User and assistant lines by turns, each with its parent and its second."""
    makers = (build.user, build.assistant)
    chain = []
    for number, (name, parent, seconds) in enumerate(named):
        (line,) = build.chain(makers[number % 2](name), start=seconds)
        chain.append(line | {"parentUuid": build.uid(parent) if parent else None})
    return chain


def uuids(*short: str) -> list[str]:
    return [build.uid(name) for name in short]


def test_pa03_nul_blocks_go_and_every_whole_record_stays(tmp_path: Path) -> None:
    lines = [build.dump(line) for line in build.chain(*(build.user(f"u{n}") for n in range(6)))]
    rows = [
        lines[0],
        lines[1],
        b"\0" * 300,
        lines[2],
        lines[3] + b"\0" * 9000,
        b"\0" * 200 + lines[4],
        lines[5],
        b"\0" * 40,
    ]
    path = write(tmp_path, *rows)
    before = resumed(tmp_path, build.uid("s1"))
    done = repair(build.uid("s1"), path=tmp_path)
    assert path.read_bytes().splitlines() == lines
    assert names(done) == {"strip_nul"}
    assert resumed(tmp_path, build.uid("s1")) == uuids("u0", "u1", "u2", "u3", "u4", "u5") != before


def test_pa04_lines_that_are_no_records_go(tmp_path: Path) -> None:
    lines = [build.dump(line) for line in build.chain(*(build.user(f"u{n}") for n in range(3)))]
    path = write(
        tmp_path, lines[0], b'{"type":"file-history-snapshot","snap', lines[1], b"", b"null", b"[]", b'"x"', lines[2]
    )
    repair(build.uid("s1"), path=tmp_path)
    assert path.read_bytes().splitlines() == [lines[0], lines[1], b"", lines[2]]
    assert len(resumed(tmp_path, build.uid("s1"), "2.1.88")) == 3


def test_pa05_a_line_with_nan_goes(tmp_path: Path) -> None:
    lines = build.chain(build.user("u0"), build.user("u1"))
    write(tmp_path, lines[0], b'{"type":"user","cost":NaN}', lines[1])
    assert names(repair(build.uid("s1"), path=tmp_path)) == {"drop_unreadable"}


def test_ch04_loops_are_cut(tmp_path: Path) -> None:
    rows = turns(("A", "B", 1), ("B", "A", 2))
    write(tmp_path, *rows)
    done = repair(build.uid("s1"), path=tmp_path)
    assert names(done) == {"first_written"}
    assert resumed(tmp_path, build.uid("s1"), "2.1.88") == uuids("A", "B")


def test_ch05_parents_never_written_are_found_by_place_and_time(tmp_path: Path) -> None:
    write(
        tmp_path,
        *turns(
            ("u1", None, 0),
            ("a1", "u1", 1),
            ("u2", "ghost-1", 60),
            ("a2", "u2", 61),
            ("u3", "ghost-2", 120),
            ("a3", "u3", 121),
        ),
    )
    before = resumed(tmp_path, build.uid("s1"))
    done = repair(build.uid("s1"), path=tmp_path)
    assert before == uuids("u3", "a3")
    assert resumed(tmp_path, build.uid("s1")) == uuids("u1", "a1", "u2", "a2", "u3", "a3")
    assert names(done) == {"last_written"}
    assert done.files[0].before.n_broken_links == 2
    assert done.files[0].after.n_broken_links == 0


def test_ch05_a_branch_that_was_left_is_no_certain_parent(tmp_path: Path) -> None:
    """The line before has a child already, or its clock is ahead: then nothing is linked."""
    write(tmp_path, *turns(("u1", None, 0), ("a1", "u1", 90), ("u2", "ghost", 60)))
    done = repair(build.uid("s1"), path=tmp_path)
    assert names(done) == set()
    assert len(done.files[0].left) == 1


def test_ch16_an_orphan_result_is_left_alone(tmp_path: Path) -> None:
    lines = build.chain(build.boundary("b", logical="x"), build.tool_result("r", "t9"))
    path = write(tmp_path, *lines)
    before = path.read_bytes()
    assert repair(build.uid("s1"), path=tmp_path).files == ()
    assert path.read_bytes() == before


def test_ch22_lines_of_another_session_are_brought_home_and_sent_home(tmp_path: Path) -> None:
    of_a = build.chain(*(build.user(f"a{n}") for n in range(10)), session="A")
    of_b = build.chain(*(build.user(f"b{n}") for n in range(10)), session="B", start=5)
    mixed = of_a[:5] + of_b[:4] + of_a[5:]
    write(tmp_path, *mixed, session="A")
    write(tmp_path, *of_b[4:], session="B")
    before = resumed(tmp_path, build.uid("B"))
    brought = repair(build.uid("B"), path=tmp_path)
    sent = repair(build.uid("A"), path=tmp_path)
    assert (names(brought), names(sent)) == ({"bring_home"}, {"send_home"})
    assert len(before) == 6
    assert resumed(tmp_path, build.uid("B")) == uuids(*(f"b{n}" for n in range(10)))
    assert resumed(tmp_path, build.uid("A")) == uuids(*(f"a{n}" for n in range(10)))


def test_a_call_made_up_says_so_and_is_never_the_end(tmp_path: Path) -> None:
    lines = build.chain(
        build.user("u1"),
        build.assistant("a1", [build.text("look"), build.tool_use_block("t1")]),
        build.user("u2"),
        build.assistant("a2"),
    )
    path = write(tmp_path, *lines)
    assert resumed(tmp_path, build.uid("s1")) == uuids("u1", "u2", "a2")
    repair(build.uid("s1"), path=tmp_path)
    made = json.loads(path.read_bytes().splitlines()[2])
    assert made["isSynthetic"] is True
    assert made["message"]["content"][0]["is_error"] is True
    assert made["message"]["content"][0]["content"].startswith("[Tool result missing")
    assert made["timestamp"] == lines[1]["timestamp"]
    after = resumed(tmp_path, build.uid("s1"))
    assert (after[0], after[-2:]) == (build.uid("u1"), uuids("u2", "a2"))
    assert build.uid("a1") in after


def test_agents_files_are_mended_too_and_may_hang_on_the_main_one(tmp_path: Path) -> None:
    write(tmp_path, *build.chain(build.user("u1")))
    rows = build.chain(build.user("f1"), build.assistant("f2"), agent="x", parent="u1")
    path = build.write_agent(tmp_path, "x", [rows[0], build.dump(rows[1])[:60], rows[1]])
    done = repair(build.uid("s1"), path=tmp_path)
    assert [(file.path.name, names(done)) for file in done.files] == [(path.name, {"drop_unreadable"})]
    assert done.files[0].left == ()


def test_a_dry_run_changes_nothing_and_shows_links_and_counts(tmp_path: Path) -> None:
    path = write(tmp_path, *turns(("u1", None, 0), ("a1", "u1", 1), ("u2", "ghost", 60), ("a2", "u2", 61)))
    before = path.read_bytes()
    done = repair(path, dry_run=True)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    shown = done.diff()
    assert "n_resumed        2 -> 4" in shown
    assert f"- {build.uid('u2')} on {build.uid('ghost')}" in shown
    assert f"+ {build.uid('u2')} on {build.uid('a1')}" in shown
    assert done.to_dict()["files"][0]["after"]["n_resumed"] == 4
    assert done.steps["name"].to_list() == ["last_written"]


def test_the_original_is_kept_beside_with_its_mode_and_the_time_stays(tmp_path: Path) -> None:
    path = write(tmp_path, *turns(("u1", None, 0)), b"torn{")
    path.chmod(0o640)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    before = path.read_bytes()
    (file,) = repair(path).files
    assert file.backup is not None
    assert file.backup.read_bytes() == before
    assert file.backup.suffix == ".bak"
    assert path.stat().st_mtime == 1_700_000_000
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == file.backup.stat().st_mode & 0o777 == 0o640


def test_bytes_that_are_not_mended_stay_as_they_are(tmp_path: Path) -> None:
    spaced = b'\xef\xbb\xbf{"type" : "user", "uuid":"u1" ,"parentUuid":null,"message":{"content":"x","n":1.50}}\r\n'
    path = tmp_path / "projects" / "-p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(spaced + b"\n" + b"torn\r\n")
    repair(path)
    assert path.read_bytes() == spaced + b"\n"


def test_a_file_that_changes_meanwhile_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, *turns(("u1", None, 0)), b"torn{")
    real = files.replace_file

    def growing(target: Path, chunks: Any, **options: Any) -> int:
        if target.suffix == ".bak":
            with path.open("ab") as file:
                file.write(b'{"type":"tag"}\n')
        return real(target, chunks, **options)

    monkeypatch.setattr("ccanalytics.write.repair.replace_file", growing)
    with pytest.raises(WriteError, match="changed while"):
        repair(path)
    assert path.read_bytes().endswith(b'{"type":"tag"}\n')
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_sessions_that_are_not_there_or_not_one_are_refused(tmp_path: Path) -> None:
    for session in ("5bc8fbbc-0000-4000-8000-000000000001", "5bc8fbbc-0000-4000-8000-000000000002"):
        build.write_lines(tmp_path / "projects" / "-p" / f"{session}.jsonl", build.chain(build.user("u1")))
    with pytest.raises(NotFoundError):
        repair("0000", path=tmp_path)
    with pytest.raises(UsageError):
        repair("", path=tmp_path)
    with pytest.raises(UsageError, match="more of the id"):
        repair("5bc8fbbc", path=tmp_path)
