"""What widgets choose, send and show, without a kernel."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import polars as pl
import pytest
import traitlets
from matplotlib.patches import Rectangle

import ccanalytics as cc
from ccanalytics.errors import UsageError
from ccanalytics.widgets import AgentTree, Compactions, Conversation, Explorer, Usage
from tests.build import assistant, boundary, chain, dump, usage, user, write_session
from tests.widgets_data import Frames, made_up

ALL = [Usage, Compactions, AgentTree, Conversation, Explorer]


@pytest.fixture(scope="module")
def sample() -> Any:
    return cc.load_sample()


@pytest.fixture(scope="module")
def big() -> Any:
    return made_up()


def asked(widget: Any, **question: Any) -> Any:
    """What the page is told when it asks this."""
    told: list[Any] = []
    widget.send = lambda content, buffers=None: told.append(content)
    widget._handle_custom_msg({"id": 1, **question}, [])
    return told[0]["data"] if told else None


@pytest.mark.parametrize("kind", ALL)
def test_nothing_is_chosen_at_first(kind: Any, sample: Any) -> None:
    w = kind(sample)
    assert isinstance(w.selection, pl.DataFrame)
    assert not len(w.selection)


@pytest.mark.parametrize("kind", ALL)
def test_nb02_the_text_form_is_short_and_the_same_every_time(kind: Any, sample: Any) -> None:
    first, second = repr(kind(sample)), repr(kind(sample))
    assert first == second
    assert len(first) < 80
    assert "0x" not in first


@pytest.mark.parametrize("kind", ALL)
def test_the_stand_in_is_a_picture_and_a_table_without_styles_or_scripts(kind: Any, sample: Any) -> None:
    html = kind(sample)._repr_html_()
    assert html.count('<img alt="') == 1
    assert "data:image/png;base64," in html
    assert "<table style=" in html
    assert not re.search(r"<(style|script|svg)", html)
    assert len(html) < 120_000
    assert html == kind(sample)._repr_html_()


@pytest.mark.parametrize("kind", ALL)
def test_a_widget_shows_itself_as_view_and_stand_in(kind: Any, sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.publish_display_data", lambda data, metadata=None: shown.append(data))
    monkeypatch.setattr("IPython.display.display", lambda data, raw=False: shown.append(data))
    w = kind(sample)
    w._ipython_display_()
    assert shown[0]["text/plain"] == repr(w)
    assert "application/vnd.jupyter.widget-view+json" in shown[0]
    assert "text/html" not in shown[0]
    assert shown[1]["text/html"] == w._repr_html_()


@pytest.mark.parametrize("kind", ALL)
def test_widgets_of_nothing_show_that_there_is_nothing(kind: Any) -> None:
    assert "<img" in kind(Frames())._repr_html_()


@pytest.mark.parametrize("kind", ALL[:4])
def test_no_module_fetches_anything_or_writes_markup(kind: Any) -> None:
    source = kind.class_traits()["_esm"].default_value if "_esm" in kind.class_traits() else kind._esm
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", str(source))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", str(source))


def test_what_the_page_is_sent_stays_small(big: Any) -> None:
    from ccanalytics.decode import loads  # noqa: F401

    for kind in ALL[:4]:
        w = kind(big)
        state = {k: v for k, v in w.get_state().items() if not k.startswith("_")}
        assert len(repr(state)) < 150_000, kind


def test_what_parquet_holds_can_be_looked_at_too(sample: Any, tmp_path: Path) -> None:
    sample.write_parquet(tmp_path / "lake")
    kept = cc.scan_parquet(tmp_path / "lake")
    for kind in ALL:
        w = kind(kept)
        assert repr(w) == repr(kind(sample))
        assert "<img" in w._repr_html_()
    if not hasattr(kept, "refresh"):
        with pytest.raises(UsageError, match="Parquet does not grow"):
            Usage(kept, live=True)
    axes = cc.plot.usage(kept, by="model")
    assert sum(p.get_height() for p in axes.patches if isinstance(p, Rectangle)) == pytest.approx(
        sample.calls["cost_usd"].sum()
    )


def test_odd_times_and_huge_numbers_are_no_error(tmp_path: Path) -> None:
    times = [
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
        "garbage",
        12345,
        None,
        "+010000-01-01T00:00:00.000Z",
    ]
    lines = []
    for i, time in enumerate(times):
        tokens = usage(input=10**18, output=2**53, read=-5)
        lines += [user(f"u{i}", "x", timestamp=time), assistant(f"a{i}", "y", usage=tokens, timestamp=time)]
        lines += [boundary(f"b{i}", logical=f"a{i}", pre_tokens=10**18, timestamp=time)]
    write_session(tmp_path, chain(*lines))
    t = cc.load(tmp_path, cache=False)
    for kind in ALL:
        assert "<img" in kind(t)._repr_html_()
    w = Usage(t, tz="Asia/Tokyo")
    w.chosen = {"from": 0, "to": 9}
    for draw in (cc.plot.usage, cc.plot.calendar, cc.plot.blocks, cc.plot.agents):
        draw(t, tz="America/New_York").figure.canvas.draw()
    plt.close("all")


# Usage


def test_a_bar_chooses_the_calls_behind_it(sample: Any) -> None:
    w = Usage(sample, by="none")
    w.chosen = {"from": 0, "to": 0}
    day = sample.calls.filter(pl.col("first_at").dt.date() == sample.calls["first_at"].min().date())
    assert w.selection["call_id"].to_list() == day["call_id"].to_list()
    assert w.selection.columns == sample.calls.columns
    w.chosen = {}
    assert len(w.selection) == 0


@pytest.mark.parametrize("by", ["none", "model", "project", "session", "agent_type"])
def test_all_bars_choose_all_calls_and_series_share_them_out(by: str, big: Any) -> None:
    w = Usage(big, by=by)
    last = len(w.view["labels"]) - 1
    w.chosen = {"from": last, "to": 0}
    assert len(w.selection) == len(big.calls)
    n = 0
    for series in [s["key"] for s in w.view["series"]]:
        w.chosen = {"from": 0, "to": last, "series": series}
        n += len(w.selection)
    assert n == len(big.calls)


def test_days_without_calls_have_an_empty_bar(sample: Any) -> None:
    w = Usage(sample, by="none")
    assert [label[-2:] for label in w.view["labels"]] == [f"{d:02d}" for d in range(2, 14)]
    assert w.view["series"][0]["values"][5] == 0


def test_more_bars_than_a_page_can_show_become_longer_ones() -> None:
    w = Usage(made_up(3000, entries=2, days=400), every="hour")
    assert w.view["step"] == "day"
    w.chosen = {"from": 0, "to": 9999}
    assert len(w.selection) == 3000


def test_days_and_filters_limit_what_is_shown(sample: Any) -> None:
    w = Usage(sample, since="2026-11-05", until="2026-11-06", filters={"project": "/home/dev/tidewatch"})
    last = len(w.view["labels"]) - 1
    w.chosen = {"from": 0, "to": last}
    days = w.selection["first_at"].dt.date().unique().sort().cast(pl.String).to_list()
    assert days == ["2026-11-05", "2026-11-06"]
    assert w.selection["project"].unique().to_list() == ["/home/dev/tidewatch"]


@pytest.mark.parametrize(
    "change", [{"measure": "money"}, {"by": "colour"}, {"since": "tomorrow"}, {"every": "minute"}], ids=str
)
def test_a_wrong_value_is_refused_and_changes_nothing(change: dict[str, Any], sample: Any) -> None:
    w = Usage(sample)
    before = dict(w.view)
    with pytest.raises(traitlets.TraitError):
        w.set_state(change)
    assert w.view == before


@pytest.mark.parametrize(
    "chosen",
    [{"from": -5, "to": 99}, {"from": "a", "to": None}, {"series": "x"}, {"from": 0, "to": 0, "series": "\x00"}],
)
def test_whatever_the_page_says_it_chose_is_no_error(chosen: dict[str, Any], sample: Any) -> None:
    for by in ("model", "kind"):
        w = Usage(sample, by=by, measure="tokens")
        w.set_state({"chosen": chosen})
        assert isinstance(w.selection, pl.DataFrame)


def test_the_selection_can_be_observed(sample: Any) -> None:
    w = Usage(sample)
    seen: list[int] = []
    w.observe(lambda change: seen.append(len(change["new"])), "selection")
    w.set_state({"chosen": {"from": 0, "to": 0}})
    w.set_state({"chosen": {}})
    assert seen[0] > 0
    assert seen[-1] == 0


# Compactions


def test_a_boundary_shows_summary_and_lines(sample: Any) -> None:
    w = Compactions(sample)
    boundary = w.view["boundaries"][0]["id"]
    w.set_state({"chosen": boundary})
    assert w.selection["entry_id"].to_list() == [boundary]
    row = w.selection.row(0, named=True)
    assert len(w.kept) == row["messages_kept"]
    assert len(w.dropped) == row["messages_dropped"]
    assert "This session is being continued" in w.detail["summary"]
    lines = asked(w, ask="lines", which="dropped")
    assert len(lines) == min(50, len(w.dropped))


def test_another_session_clears_the_choice(sample: Any) -> None:
    w = Compactions(sample)
    w.chosen = w.view["boundaries"][0]["id"]
    w.session = "4730fd68-99f7-440a-8eb9-b13f34e77d79"
    assert w.chosen == -1
    assert w.view["boundaries"] == []
    assert w.detail == {}


# AgentTree


def test_a_run_shows_prompt_result_and_tools(sample: Any) -> None:
    w = AgentTree(sample)
    rows = asked(w, ask="rows", **{"from": 0, "n": 50})["rows"]
    names = [r["name"] for r in rows]
    assert names[0] == "main thread"
    w.set_state({"chosen": rows[names.index("Move the parser")]["key"]})
    assert w.selection["description"].to_list() == ["Move the parser"]
    assert w.detail["prompt"].startswith("Move tidewatch/table.py")
    assert w.detail["result"].startswith("The parser is in tides_table/")
    assert set(w.tools["name"]) == {"Agent", "Read", "Bash"}
    assert w.entries["agent_id"].n_unique() == 1
    lines = asked(w, ask="lines")
    assert len(lines) == w.detail["entries"] == len(w.entries)
    assert lines[0][1].startswith("Move tidewatch/table.py")


def test_folding_hides_what_is_below(big: Any) -> None:
    w = AgentTree(big)
    w.closed = []
    whole = w.view["total"]
    root = asked(w, ask="rows", **{"from": 0, "n": 1})["rows"][0]
    assert root["parent"]
    w.set_state({"closed": [root["key"]]})
    assert w.view["total"] < whole
    assert whole == len(big.agents)


@pytest.mark.parametrize("sort", ["own cost", "inclusive tokens", "duration"])
def test_siblings_are_sorted_by_the_measure(sort: str, big: Any) -> None:
    w = AgentTree(big, sort=sort)
    column = {"own cost": "own_cost_usd", "inclusive tokens": "incl_tokens", "duration": "duration_ms"}[sort]
    first_level = w._tree.filter(pl.col("level") == 1)
    assert first_level[column].drop_nulls().is_sorted(descending=True)


# Conversation


def test_only_the_rows_in_sight_are_read(big: Any) -> None:
    w = Conversation(big)
    assert w.view["total"] == 20_000
    big.n_raw = 0
    answer = asked(w, ask="rows", **{"from": 19_990, "n": 30})
    assert [r["text"] for r in answer["rows"]] == [f"a line {i}" for i in range(19_990, 20_000)]
    assert big.n_raw == 10
    assert len(asked(w, ask="rows", **{"from": 0, "n": 10**9})["rows"]) == 200


def test_search_and_kinds_leave_what_fits(big: Any) -> None:
    w = Conversation(big, kinds=["prompt"])
    assert w.view["total"] == 10_000
    w.set_state({"search": "LINE 1234"})
    texts = [r["text"] for r in asked(w, ask="rows", **{"from": 0, "n": 50})["rows"]]
    assert texts == [f"a line {i}" for i in (1234, *range(12340, 12350, 2))]


def test_lines_are_chosen_and_their_raw_json_is_given(sample: Any) -> None:
    w = Conversation(sample)
    rows = asked(w, ask="rows", **{"from": 0, "n": 5})["rows"]
    w.set_state({"chosen": [rows[0]["id"], rows[2]["id"]]})
    assert sorted(w.selection["entry_id"]) == sorted([rows[0]["id"], rows[2]["id"]])
    raw = asked(w, ask="raw", of=rows[0]["id"])
    assert f'"uuid": "{w.selection["uuid"][0]}"' in raw


def test_resume_shows_the_entries_that_a_resume_loads(sample: Any) -> None:
    session = sample.sessions.sort("n_compactions", descending=True)["session_id"][0]
    w = Conversation(sample, session=session, mode="resume")
    assert w.view["total"] == len(sample.resume(session))


@pytest.mark.parametrize(
    "question",
    [{"ask": "close"}, {"ask": "__class__"}, {"ask": 3}, {}, {"ask": "raw", "of": "x"}, {"ask": "raw", "of": 10**12}],
    ids=str,
)
def test_the_page_gets_answers_to_its_own_questions_only(question: dict[str, Any], sample: Any) -> None:
    assert not asked(Conversation(sample), **question)


def test_secrets_are_masked_in_previews() -> None:
    t = made_up(entries=3)
    t.words = "sk-" + "ant-" + "abcdefghij" * 3
    rows = asked(Conversation(t), ask="rows", **{"from": 0, "n": 3})["rows"]
    assert "[secret]" in rows[0]["text"]
    assert "abcdefghij" not in str(rows)


# Explorer


def test_what_is_chosen_in_one_view_sets_the_session_of_the_others(sample: Any) -> None:
    w = cc.explore(sample)
    usage = w.view("Usage")
    seen: list[int] = []
    w.observe(lambda change: seen.append(len(change["new"])), "selection")
    usage.by = "session"
    series = next(s["key"] for s in usage.view["series"] if s["key"].startswith("b9b812e5"))
    usage.chosen = {"from": 0, "to": 99, "series": series}
    assert w.selection["session_id"].unique().to_list() == [series]
    assert seen[-1] == len(w.selection)
    w.tab = "Agents"
    assert w.children[1].session == series
    key = asked(w.children[1], ask="rows", **{"from": 1, "n": 1})["rows"][0]["key"]
    w.children[1].chosen = key
    w.tab = "Conversation"
    assert w.children[1].session == series
    assert w.children[1].agent == key.split("\n")[1]


def test_refresh_shows_what_was_appended(tmp_path: Path) -> None:
    lines = chain(user("u1", "hello"), assistant("a1", "one"), user("u2", "go on"), assistant("a2", "two"))
    path = write_session(tmp_path, lines[:2])
    t = cc.load(tmp_path, cache=False)
    usage, conversation = Usage(t), Conversation(t)
    assert usage.view["about"].startswith("1 calls")
    with path.open("ab") as file:
        file.writelines(dump(line) + b"\n" for line in lines[2:])
    t.refresh()
    assert usage.view["about"].startswith("2 calls")
    assert conversation.view["total"] == 4
    conversation.close()
    assert conversation not in t.watchers


def test_live_reads_by_itself_until_closed(tmp_path: Path) -> None:
    lines = chain(user("u1", "hello"), assistant("a1", "one"), user("u2", "go on"), assistant("a2", "two"))
    path = write_session(tmp_path, lines[:2])
    w = Usage(cc.load(tmp_path, cache=False))
    read = threading.Event()
    w.observe(lambda _: read.set(), "view")
    # From a thread without a loop: a browser test before this one leaves one behind in the main thread.
    starter = threading.Thread(target=w.follow, args=(0.02,))
    starter.start()
    starter.join()
    with path.open("ab") as file:
        file.writelines(dump(line) + b"\n" for line in lines[2:])
    assert read.wait(20)
    w.close()
    assert w.view["about"].startswith("2 calls")


def test_refresh_and_close(sample: Any) -> None:
    t = made_up(50, entries=4)
    w = Usage(t)
    assert w.view["about"].startswith("50 calls")
    t.calls = made_up(70, entries=4).calls
    w.refresh()
    assert w.view["about"].startswith("70 calls")
    w.follow(0.01)
    follower = w._follower
    w.close()
    assert follower is not None
    assert follower._stopped.is_set()
