"""Prompts of history.jsonl: newest first, pasted text put back, joined to sessions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ccanalytics.history
from ccanalytics.errors import NotFoundError, ReadError, UsageError
from ccanalytics.history import join_prompts, read_history
from ccanalytics.schema.listing import PROMPT_HISTORY
from tests.build import CWD, START, Line, dump, uid, write_lines
from tests.cases import case_dir

MS = round(START.timestamp() * 1000)


def prompt(
    words: object, seconds: float = 0, *, session: str | None = "s1", pasted: object = None, **more: object
) -> Line:
    line: Line = {
        "display": words,
        "pastedContents": pasted or {},
        "timestamp": MS + round(seconds * 1000),
        "project": CWD,
    }
    return line | ({"sessionId": uid(session)} if session else {}) | more


def pasted(number: int, **what: object) -> dict[str, object]:
    return {str(number): {"id": number, "type": "text", **what}}


def history(tmp_path: Path, *lines: Line | str | bytes) -> Path:
    return write_lines(tmp_path / "history.jsonl", lines)


def _words(frame: pl.DataFrame) -> list[str]:
    return frame["prompt"].to_list()


def test_prompts_come_newest_first_with_time_session_and_project(tmp_path: Path) -> None:
    history(tmp_path, prompt("one"), prompt("two", 5, session=None, project="/r/app/.claude/worktrees/fix"))
    newest, oldest = read_history(tmp_path).to_dicts()
    assert (newest["prompt"], newest["session_id"], newest["session_rule"]) == ("two", None, None)
    assert (newest["project"], newest["worktree"]) == ("/r/app", "fix")
    assert (oldest["submitted_at"], oldest["session_id"], oldest["cwd"]) == (START, uid("s1"), CWD)
    assert (oldest["session_rule"], oldest["byte_offset"], oldest["root"]) == ("written", 0, str(tmp_path))


def test_the_schema_is_the_same_with_and_without_prompts(tmp_path: Path, home: Path) -> None:
    assert read_history().schema == PROMPT_HISTORY.polars()
    assert read_history(tmp_path).is_empty()
    history(tmp_path, prompt("one"))
    assert read_history(tmp_path).schema == PROMPT_HISTORY.polars()
    (home / ".claude").symlink_to(tmp_path)
    assert _words(read_history()) == ["one"]


def test_several_histories_are_one_by_time_and_each_counts_once(tmp_path: Path) -> None:
    one = history(tmp_path / "a", prompt("1", 1), prompt("4", 4))
    two = history(tmp_path / "b", prompt("2", 2), prompt("3", 3), prompt("no time", timestamp=None))
    assert _words(read_history([one, two.parent, one.parent])) == ["4", "3", "2", "1", "no time"]
    assert _words(read_history([one, two], last=2)) == ["4", "3"]


def test_a_history_that_does_not_exist_is_an_error_that_helps(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"There is no history at .*gone"):
        read_history(tmp_path / "gone")
    with pytest.raises(UsageError, match="negative"):
        read_history(tmp_path, last=-1)


def test_a_history_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").mkdir()
    with pytest.raises(ReadError, match="Cannot read"):
        read_history(tmp_path)


def test_the_last_prompts_are_read_without_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history(tmp_path, *(prompt(f"p{n} " + "x" * 500, n) for n in range(500)))
    blocks: list[int] = []
    real = ccanalytics.history._lines_backwards

    def watched(file: Any) -> Any:
        for offset, line, whole in real(file):
            blocks.append(offset)
            yield offset, line, whole

    monkeypatch.setattr(ccanalytics.history, "_lines_backwards", watched)
    assert [w.split()[0] for w in _words(read_history(tmp_path, last=3))] == ["p499", "p498", "p497"]
    assert len(blocks) == 3
    assert read_history(tmp_path, last=0).is_empty()


def test_last_counts_what_was_chosen(tmp_path: Path) -> None:
    history(tmp_path, *(prompt(f"p{n}", n, session=f"s{n % 2}", project=f"/r/{n % 2}") for n in range(10)))
    assert _words(read_history(tmp_path, last=2, sessions=uid("s0")[:6])) == ["p8", "p6"]
    assert _words(read_history(tmp_path, last=2, projects=["/r/1"])) == ["p9", "p7"]
    assert read_history(tmp_path, projects=["/r"], sessions=[""]).is_empty()


@pytest.mark.parametrize("block", [1, 2, 7, 64, 65_536])
def test_every_line_is_found_whatever_the_block_size(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [prompt("é" * n, n) for n in range(12)]
    file = history(tmp_path, *lines)
    monkeypatch.setattr(ccanalytics.history, "BLOCK_BYTES", block)
    found = read_history(tmp_path)
    assert _words(found) == [line["display"] for line in reversed(lines)]
    data = file.read_bytes()
    for row, line in zip(found.to_dicts(), reversed(lines), strict=True):
        assert data[row["byte_offset"] :].startswith(dump(line) + b"\n")


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\r", b"\n")), st.integers(1, 9))
def test_lines_from_the_end_are_the_lines_from_the_start(data: bytes, block: int) -> None:
    import io

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ccanalytics.history, "BLOCK_BYTES", block)
        found = list(ccanalytics.history._lines_backwards(io.BytesIO(data)))
    plain = data.split(b"\n")
    whole = [(line, True) for line in plain[:-1]] + ([(plain[-1], False)] if plain[-1] else [])
    assert [(line, is_whole) for _, line, is_whole in found] == whole[::-1]
    assert all(data[offset:].startswith(line) for offset, line, _ in found)


def test_damaged_lines_are_counted_in_one_warning_and_a_torn_end_in_none(tmp_path: Path) -> None:
    bad: list[Line | str | bytes] = ["", "null", "[1]", '{"display":7}', "not json", b"\0\0\0"]
    file = history(tmp_path, prompt("one"), *bad, b"\xef\xbb\xbf" + dump(prompt("two")), prompt("three"))
    with pytest.warns(UserWarning, match=r"^4 lines of .*history.jsonl are no prompts") as caught:
        assert _words(read_history(tmp_path)) == ["three", "two", "one"]
    assert len(caught) == 1
    file.write_bytes(dump(prompt("one")) + b"\n" + dump(prompt("torn"))[:-9])
    assert _words(read_history(tmp_path)) == ["one"]
    file.write_bytes(dump(prompt("one")) + b"\r\n" + dump(prompt("unfinished but whole")))
    assert _words(read_history(tmp_path)) == ["unfinished but whole", "one"]


def test_half_characters_and_odd_types_are_taken_as_they_can_be(tmp_path: Path) -> None:
    odd = prompt("x", timestamp="then", project=7, sessionId=None, pastedContents=[1])
    history(tmp_path, '{"display":"\\ud83d half","timestamp":1e400}', b'{"display":"caf\xe9"}', odd)
    found = read_history(tmp_path)
    assert _words(found) == ["x", "caf\ufffd", "\ufffd half"]
    assert found.select("submitted_at", "session_id", "cwd", "project").null_count().row(0) == (3, 3, 3, 3)


def test_equal_lines_are_kept_and_marked(tmp_path: Path) -> None:
    history(tmp_path, prompt("one"), prompt("one"), prompt("one", 1))
    assert read_history(tmp_path)["is_copy"].to_list() == [False, False, True]


# Pasted text


def test_pasted_text_goes_back_from_the_line_or_from_the_cache(tmp_path: Path) -> None:
    (tmp_path / "paste-cache").mkdir()
    (tmp_path / "paste-cache" / "0123456789abcdef.txt").write_bytes("café\r\n".encode())
    (tmp_path / "paste-store").mkdir()
    (tmp_path / "paste-store" / "fedcba9876543210.txt").write_bytes(b"old")
    things = {
        **pasted(1, content="inline [Pasted text #2] \\1"),
        **pasted(2, contentHash="0123456789abcdef"),
        **pasted(3, contentHash="fedcba9876543210"),
        **pasted(4, contentHash="0000000000000000"),
        **pasted(5, type="image", content="aGk="),
    }
    words = (
        "a [Pasted text #1 +2 lines] b [Pasted text #2] c [Pasted text #3 +1 line] [Pasted text #4 +9 lines] [Image #5]"
    )
    history(tmp_path, prompt(words, pasted=things))
    [row] = read_history(tmp_path).to_dicts()
    assert row["display"] == words
    assert row["prompt"] == "a inline [Pasted text #2] \\1 b café\r\n c old [Pasted text #4 +9 lines] [Image #5]"
    assert (row["n_pasted"], row["n_images"], row["n_missing"]) == (5, 1, 1)
    assert row["n_chars"] == len(row["prompt"])


def test_what_was_cut_from_a_long_prompt_may_hold_pasted_text(tmp_path: Path) -> None:
    things = {**pasted(1, content="PASTE"), **pasted(2, content="middle [Pasted text #1 +3 lines] more")}
    history(tmp_path, prompt("start [...Truncated text #2 +7 lines...] end [Pasted text #9]", pasted=things))
    assert _words(read_history(tmp_path)) == ["start middle PASTE more end [Pasted text #9]"]


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "..\\secret", "a\0b", "", ".", "link", 7, None, "a/b"])
def test_se04_the_name_of_a_pasted_text_never_leads_out_of_the_cache(tmp_path: Path, name: object) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "paste-cache").mkdir()
    (tmp_path / "paste-cache" / "link.txt").symlink_to(tmp_path / "secret.txt")
    history(tmp_path, prompt("x [Pasted text #1]", pasted=pasted(1, contentHash=name)))
    [row] = read_history(tmp_path).to_dicts()
    assert (row["prompt"], row["n_missing"]) == ("x [Pasted text #1]", 1)


# Sessions


def test_old_prompts_are_joined_to_the_one_session_going_on(tmp_path: Path) -> None:
    old = [prompt(f"p{n}", n, session=None) for n in (5, 15, 25, 95)]
    history(tmp_path, *old, prompt("named", 5, session="s9"), prompt("elsewhere", 5, session=None, project="/x"))
    spans = [("s1", CWD, 0, 20), ("s2", CWD, 10, 30), ("s3", "/y", 0, 99), ("s4", None, 0, 99)]
    sessions = pl.DataFrame(
        [
            {
                "session_id": uid(name),
                "project": project,
                "started_at": START + timedelta(seconds=a),
                "ended_at": START + timedelta(seconds=b),
            }
            for name, project, a, b in spans
        ],
        schema_overrides={"started_at": pl.Datetime("ms", "UTC"), "ended_at": pl.Datetime("ms", "UTC")},
    )
    prompts = read_history(tmp_path)
    joined = join_prompts(prompts, sessions)
    assert joined.drop("session_id", "session_rule").equals(prompts.drop("session_id", "session_rule"))
    assert joined.select("prompt", "session_id", "session_rule").rows() == [
        ("elsewhere", None, None),
        ("named", uid("s9"), "written"),
        ("p95", None, None),
        ("p25", uid("s2"), "time"),
        ("p15", None, None),
        ("p5", uid("s1"), "time"),
    ]


@pytest.mark.parametrize(("family", "name"), [("zoo", "2.1.332/tui-write"), ("cost", "tui-resume")])
def test_recorded_histories_name_sessions_that_are_there(family: str, name: str) -> None:
    config = case_dir(family, name) / "config"
    found = read_history(config)
    assert found.height >= 2
    assert found["submitted_at"].is_sorted(descending=True)
    on_disk = {file.stem for file in (config / "projects").glob("*/*.jsonl")}
    assert set(found["session_id"]) & on_disk
