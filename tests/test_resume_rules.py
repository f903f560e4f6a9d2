"""Choices around a resume: generations, switched-off lines, large files, what is left out, which file is meant."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.cli import run
from ccanalytics.errors import NotFoundError, NothingToResumeError, UsageError
from ccanalytics.resume.large import LARGE_BYTES, lines_of_large_file
from tests.build import (
    Line,
    assistant,
    boundary,
    chain,
    compact_summary,
    dump,
    meta,
    system,
    tool_result,
    tool_use,
    uid,
    user,
    write_session,
)

S1 = uid("s1")


def _names(frame: pl.DataFrame, *names: str) -> list[str]:
    known = {uid(n): n for n in names}
    return [known[u] for u in frame["uuid"].drop_nulls()]


def test_auto_takes_the_generation_of_the_last_writer(tmp_path: Path) -> None:
    lines = [user("u"), assistant("old", seconds=500), assistant("new", parent="u", seconds=10)]
    for session, version in (("before", "2.1.88"), ("after", "2.1.120"), ("none", "dev")):
        write_session(tmp_path, chain(*lines, session=session, version=version), session=session)
    t = cc.load(tmp_path)
    assert _names(t.resume(uid("before"), rules="auto"), "u", "old") == ["u", "old"]
    for session in ("after", "none"):
        assert _names(t.resume(uid(session), rules="auto"), "u", "new") == ["u", "new"]
    assert t.resume(rules="auto").group_by("session_id").len().height == 3


def test_a_snip_takes_effect_where_it_is_asked_for(tmp_path: Path) -> None:
    cut = system("s", "snip_boundary", snipMetadata={"removedUuids": [uid("u2"), uid("a2")]})
    lines = chain(user("u1"), assistant("a1"), user("u2"), assistant("a2"), cut, user("u3"), assistant("a3"))
    write_session(tmp_path, lines)
    t = cc.load(tmp_path)
    names = ("u1", "a1", "u2", "a2", "s", "u3", "a3")
    assert _names(t.resume(S1), *names) == list(names)
    snipped = ["u1", "a1", "s", "u3", "a3"]
    assert _names(t.resume(S1, apply=["snip"]), *names) == snipped
    assert _names(t.resume(S1, rules="2.1.88"), *names) == snipped


def test_a_collapsed_span_is_one_made_up_entry_where_it_is_asked_for(tmp_path: Path) -> None:
    lines = chain(user("u1"), assistant("a1"), user("u2"), assistant("a2"), user("u3"), assistant("a3"))
    commit = meta(
        "marble-origami-commit", collapseId="1", summaryUuid=uid("sum"), summaryContent="<collapsed>two turns",
        firstArchivedUuid=uid("u1"), lastArchivedUuid=uid("a2"),
    )  # fmt: skip
    write_session(tmp_path, [*lines, commit])
    t = cc.load(tmp_path)
    assert t.resume(S1).height == 6
    frame = t.resume(S1, apply=["collapse"])
    assert frame["uuid"].to_list() == [None, uid("u3"), uid("a3")]
    assert frame.select("step", "synthetic").row(0) == ("collapsed", "user")
    first = t.resume(S1, apply=["collapse"], view="api")[0]["blocks"][0]
    assert first == {"type": "text", "text": "<collapsed>two turns", "synthetic": "collapsed"}


def test_a_replaced_result_is_shown_where_it_is_asked_for(tmp_path: Path) -> None:
    lines = chain(user("u"), tool_use("a", call="t1"), tool_result("r", call="t1", content="long"), assistant("b"))
    new = [{"kind": "tool-result", "toolUseId": "toolu_t1", "replacement": "short"}]
    write_session(tmp_path, [*lines, meta("content-replacement", replacements=new)])
    t = cc.load(tmp_path)

    def content(*apply: str) -> str:
        messages = t.resume(S1, view="api", apply=apply)  # type: ignore[arg-type]
        return str(next(b["content"] for m in messages for b in m["blocks"] if b["type"] == "tool_result"))

    assert (content(), content("replacement")) == ("long", "short")


@pytest.mark.parametrize(
    "wrong",
    [{"rules": "2.1"}, {"apply": ["everything"]}, {"apply": "snip"}, {"large_files": "half"}, {"view": "html"}],
    ids=str,
)
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path, wrong: dict[str, str]) -> None:
    write_session(tmp_path, chain(user("u")))
    with pytest.raises(UsageError, match="allowed"):
        cc.load(tmp_path).resume(S1, **wrong)  # type: ignore[arg-type]


def _large(tmp_path: Path, size: int) -> cc.Transcripts:
    """A rewind to before a plain boundary in a file of exactly ``size`` bytes."""
    old = chain(user("u1"), assistant("a1"))
    rewind = [user("u2", parent="a1", seconds=120), assistant("a2", seconds=121)]
    new = chain(boundary("b"), compact_summary("s"), *rewind, start=60)
    bare = sum(len(dump(line)) + 1 for line in (*old, *new))
    filler = {"type": "file-history-snapshot", "messageId": "x", "pad": ""}
    filler["pad"] = "x" * (size - bare - len(dump(filler)) - 1)
    path = write_session(tmp_path, [*old, filler, *new])
    assert path.stat().st_size == size
    return cc.load(tmp_path)


def test_a_file_of_5_mib_is_read_whole_and_one_byte_more_is_not(tmp_path: Path) -> None:
    names = ("u1", "a1", "u2", "a2")
    assert _names(_large(tmp_path / "fits", LARGE_BYTES).resume(S1), *names) == list(names)
    t = _large(tmp_path / "cut", LARGE_BYTES + 1)
    assert _names(t.resume(S1), *names) == ["u2", "a2"]
    assert _names(t.resume(S1, large_files="whole"), *names) == list(names)
    lost = t.problems.filter(pl.col("code") == "large_file_not_read")
    assert lost.select("line_no", "uuid").rows() == [(1, uid("u1"))]
    assert lost["detail"].str.contains("2 entries").all()
    assert t.chains.filter(pl.col("off_reason") == "not_read").height == 2
    assert t.entries.filter(pl.col("uuid").is_not_null()).height == 6


def _tool_order(line: Line) -> bytes:
    """A line with its keys in the order the tool writes them: links first, the uuid behind the message."""
    head = {k: line[k] for k in ("parentUuid", "logicalParentUuid", "isSidechain", "type", "subtype") if k in line}
    return dump(head | {k: v for k, v in line.items() if k not in head})


def test_2_1_88_notices_a_boundary_only_near_the_start_of_its_line() -> None:
    pad = dump({"type": "x", "pad": "x" * LARGE_BYTES})
    old, new = chain(user("u1"), assistant("a1")), chain(boundary("b"), user("u2"), assistant("a2"))
    near = [*map(_tool_order, old), pad, *map(_tool_order, new)]
    assert lines_of_large_file(b"\n".join(near)) == [4, 5, 6]
    late = {"pad": "x" * 300} | new[0]
    far = [*map(_tool_order, old), pad, dump(late), *map(_tool_order, new[1:])]
    assert lines_of_large_file(b"\n".join(far)) is None


def test_2_1_88_leaves_out_dead_branches_that_weigh_more_than_half() -> None:
    lines = chain(user("u1"), assistant("a1"), user("big"), assistant("big2"), user("u2", parent="a1"), assistant("a2"))
    lines[2]["message"]["content"] = "x" * LARGE_BYTES
    assert lines_of_large_file(b"\n".join(map(_tool_order, lines))) == [1, 2, 5, 6]
    light = chain(user("u1"), assistant("a1"), user("b1"), user("u2", parent="a1"), assistant("a2"))
    light[1]["message"]["content"][0]["text"] = "x" * LARGE_BYTES
    assert lines_of_large_file(b"\n".join(map(_tool_order, light))) is None


def test_what_only_our_reader_finds_is_in_entries_and_not_in_a_resume(tmp_path: Path) -> None:
    u, a, b, c, d = chain(user("u"), assistant("a"), assistant("b"), user("c"), assistant("d"))
    c["parentUuid"] = uid("a")
    write_session(tmp_path, [u, dump(a) + dump(b), b'{"torn": "' + dump(c), dump(d)])
    t = cc.load(tmp_path)
    assert t.entries["is_rescued"].to_list() == [False, False, True, True, False]
    assert _names(t.resume(S1), "u", "a", "d") == ["u", "a", "d"]
    # 2.1.88 loses both objects of a glued line.
    assert _names(t.resume(S1, rules="2.1.88"), "d") == ["d"]
    assert t.chains.filter(pl.col("off_reason") == "rescued")["entry_id"].to_list() == [2, 3]
    assert t.calls.height == 3


def test_a_session_that_does_not_exist_or_is_not_told_apart(tmp_path: Path) -> None:
    for session in ("aaaa1111-0000-4000-8000-000000000000", "aaaa2222-0000-4000-8000-000000000000"):
        write_session(tmp_path, chain(user(session)), session=session)
    t = cc.load(tmp_path)
    with pytest.raises(NothingToResumeError) as nothing:
        t.resume(uid("nobody"))
    assert nothing.value.facts["reason"] == "no such session"
    with pytest.raises(NotFoundError, match="2 sessions begin"):
        t.resume("aaaa")
    assert t.resume("aaaa1")["uuid"].drop_nulls().to_list() == [uid("aaaa1111-0000-4000-8000-000000000000")]


def test_the_folder_of_the_directory_goes_before_others(tmp_path: Path) -> None:
    for project, name, cwd in (("-r-one", "x", "/r/one"), ("-r-two", "y", "/r/two")):
        write_session(tmp_path, chain(user(name), assistant(name + "2"), cwd=cwd), project=project)
    t = cc.load(tmp_path)
    assert _names(t.resume(S1, cwd="/r/two"), "y", "y2") == ["y", "y2"]
    assert _names(t.resume(S1, cwd="/r/one"), "x", "x2") == ["x", "x2"]
    assert t.resume(S1, cwd="/elsewhere").height == 2
    with pytest.raises(NothingToResumeError, match="folder"):
        t.resume(S1, cwd="/elsewhere", rules="2.1.88")


def test_nothing_to_continue_says_where_it_looked(tmp_path: Path) -> None:
    write_session(tmp_path, chain(user("u")))
    with pytest.raises(NothingToResumeError, match="-nowhere"):
        cc.load(tmp_path).continued("/nowhere")


def test_refusal_on_the_command_line_is_a_result_in_json_and_an_error_in_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = chain(user("u"), assistant("a"), user("s", parent="u", isSidechain=True))
    write_session(tmp_path, [*lines, meta("last-prompt", leafUuid=uid("s"))])
    assert run(["resume", S1, "--config-dir", str(tmp_path), "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["refused"] is True
    assert "sidechain" in err
    assert run(["resume", S1, "--config-dir", str(tmp_path)]) == 1
    assert run(["resume", "--config-dir", str(tmp_path)]) == 2


def test_the_table_on_the_command_line_names_the_steps(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_session(tmp_path, chain(user("u"), assistant("a"), user("v")))
    assert run(["resume", S1, "--config-dir", str(tmp_path)]) == 0
    shown = capfd.readouterr().out
    assert "no_response" in shown
    assert "4 entries, 1 of them made up" in shown
