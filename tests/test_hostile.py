"""Whatever a transcript holds reaches every output as text: no markup, no control sequence, no formula, no path."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import polars as pl
import pytest
from markdown_it import MarkdownIt

import ccanalytics as cc
from ccanalytics.__main__ import main
from ccanalytics.errors import CCAnalyticsError
from ccanalytics.markup import csv_text, html_text, markdown_fence, markdown_text, plain
from ccanalytics.show import csv_out, print_table
from tests.build import chain, tool_use, user, write_session
from tests.exercise import figures, table_names
from tests.payloads import ENTITY, FORMULAS, LINES, MARKDOWN, MARKUP, PAYLOADS, PLACES, TERMINAL, write_hostile

mpl.use("agg")

KEYS = "session,model,project,branch,version,entrypoint,agent,speed,service_tier"
TAGS = {"html", "head", "meta", "title", "body", "div", "table", "caption", "tr", "th", "td", "tbody", "thead", "style"}
BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


GROUPS = {
    "markup": " ".join((MARKUP, PAYLOADS["image"], ENTITY, MARKDOWN, PAYLOADS["math"])),
    "control": TERMINAL + PAYLOADS["direction"],
    "lines": LINES,
    "formula": FORMULAS[6],
    "tab": FORMULAS[4],
    "place": PLACES[0],
    "nul": PLACES[4],
}


@pytest.fixture(scope="module", params=sorted(GROUPS))
def hostile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    payload = GROUPS[request.param]
    return payload, write_hostile(tmp_path_factory.mktemp("hostile"), payload)


def run(capfd: pytest.CaptureFixture[str], *args: str) -> str:
    code = main(list(args))
    out, err = capfd.readouterr()
    assert code in (0, 1, 2, 3), (args, err)
    assert "Traceback" not in err
    check_terminal(err)
    return out


def check_terminal(text: str) -> None:
    odd = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert not odd, odd
    assert not BIDI.search(text)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def check_html(text: str) -> Page:
    page = Page(text)
    assert set(page.tags) <= TAGS, set(page.tags) - TAGS
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "href", "srcset", "formaction"), name
        assert "hacked" not in (value or "")
        assert "payload" not in (value or "")
    return page


def test_se02_se03_html_report_shows_text_as_written(
    hostile: tuple[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    payload, config = hostile
    page = check_html(run(capfd, "report", "--config-dir", str(config), "--format", "html", "--by", KEYS))
    if MARKUP in payload:
        assert payload in page.words


def test_se02_stand_ins_of_loaded_transcripts_are_text(hostile: tuple[str, Path]) -> None:
    t = cc.load(hostile[1], content="full")
    check_html(t._repr_html_())
    check_terminal(repr(t))


def test_markdown_report_holds_no_mark_of_a_transcript(
    hostile: tuple[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    _, config = hostile
    out = run(capfd, "report", "--config-dir", str(config), "--format", "markdown", "--by", KEYS)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(out)
    kinds = {inner.type for token in tokens for inner in (token, *(token.children or ()))}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "code_inline", "fence", "em_open"}, kinds
    assert not re.search(r"(?<!\\)://|www\.", out)
    rows = [line for line in out.split("\n") if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    check_terminal(out)


def check_csv(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            assert not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in cell), cell
            is_number = bool(re.fullmatch(r"-?[0-9.e+-]+", cell))
            assert is_number or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")), (
                cell
            )


def test_csv_report_holds_no_formula(hostile: tuple[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    check_csv(run(capfd, "report", "--config-dir", str(hostile[1]), "--format", "csv", "--by", KEYS))


def test_every_table_is_printed_as_text(hostile: tuple[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    t = cc.load(hostile[1], content="full")
    for name in table_names():
        frame = getattr(t, name)
        if isinstance(frame, pl.DataFrame):
            check_csv(csv_out(frame))
            print_table(frame, title=name)
            check_terminal(capfd.readouterr().out)


def test_a_table_is_printed_as_text_by_the_command(
    hostile: tuple[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    given = ("--config-dir", str(hostile[1]), "--content", "full")
    check_csv(run(capfd, "table", "blocks", "--format", "csv", *given))
    check_terminal(run(capfd, "table", "blocks", "--columns", "type,tool_name,text", *given))


@pytest.mark.parametrize(
    "command",
    [("report", "--by", KEYS), ("report", "--by", "tool,agent_type"), ("sessions",), ("doctor",), ("resume", "PAYLOAD"),
     ("resume", "cc05322a"), ("resume", "--continue", "--cwd", "PAYLOAD"), ("doctor", "PAYLOAD"),
     ("repair", "cc05322a", "--dry-run")],
    ids=lambda c: " ".join(c),
)  # fmt: skip
def test_no_command_sends_a_control_sequence_to_the_terminal(
    hostile: tuple[str, Path], command: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    payload, config = hostile
    words = [payload.replace("\0", "") if w == "PAYLOAD" else w for w in command]
    if any(w.startswith("-") for w in words[1:] if w not in command):
        words = [w for w in words if w in command]
    check_terminal(run(capfd, *words, "--config-dir", str(config)))


def test_json_outputs_are_json(hostile: tuple[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    _, config = hostile
    json.loads(run(capfd, "report", "--config-dir", str(config), "--format", "json", "--by", KEYS))
    for line in run(capfd, "table", "entries", "--config-dir", str(config), "--format", "ndjson").split("\n")[:-1]:
        json.loads(line)


@pytest.mark.parametrize("group", ["markup", "control"])
def test_pictures_hold_no_markup_and_no_formula_of_a_transcript(group: str, tmp_path: Path) -> None:
    t = cc.load(write_hostile(tmp_path, GROUPS[group]))
    with mpl.rc_context({"svg.fonttype": "none"}):
        for draw in figures(t).values():
            try:
                axes = draw()
            except CCAnalyticsError:
                continue
            out = io.StringIO()
            getattr(axes, "figure", axes).savefig(out, format="svg")
            plt.close("all")
            tree = ET.fromstring(out.getvalue())
            for element in tree.iter():
                assert element.tag.rpartition("}")[2] not in ("script", "b", "img", "foreignObject", "a")
                assert "payload" not in element.attrib.get("class", "")


# Places: ids are looked up, never opened


_opened: list[str] | None = None


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if _opened is not None and event in ("open", "os.mkdir", "os.rename", "os.remove", "shutil.copyfile", "os.link"):
        _opened.extend(str(a) for a in args[:2] if isinstance(a, str | bytes | Path))


sys.addaudithook(_watch)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Paths that were opened, made, renamed or removed."""
    global _opened
    _opened = []
    yield _opened
    _opened = None


@pytest.mark.parametrize("place", [*PLACES, "../secret", "..", ".", "*", "%2e%2e", "s1/../../secret"])
def test_se04_an_id_is_never_part_of_a_path(place: str, tmp_path: Path, opened: list[str]) -> None:
    (tmp_path / "secret.jsonl").write_text('{"type":"user","uuid":"x","sessionId":"secret"}\n')
    config = write_hostile(tmp_path / "config", place)
    opened.clear()
    t = cc.load(config)
    for ask in (t.resume, t.history, t.state, t.continued):
        with pytest.raises(CCAnalyticsError):
            ask(f"{place}/nothing")
    t.sessions, t.agents, t.tools  # noqa: B018
    cc.list_sessions(config)
    t.raw(range(len(t.entries)))
    own = (str(config), sys.prefix, sys.base_prefix, str(Path(cc.__file__).parent.parent))
    strange = {p for p in opened if Path(p).is_absolute() and not p.startswith((*own, "/proc", "/sys", "/usr"))}
    assert not {p for p in strange if "secret" in p or "passwd" in p or place in p}, strange


def test_se04_file_names_of_an_export_come_from_no_id(hostile: tuple[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "below" / "lake"
    cc.load(hostile[1]).write_parquet(out)
    below = [p.relative_to(out) for p in out.rglob("*")]
    assert below
    for path in below:
        assert all(re.fullmatch(r"[A-Za-z0-9._=%-]{1,200}", part) for part in path.parts), path
        assert ".." not in path.parts
    assert [p.name for p in tmp_path.iterdir()] == ["deep"]
    assert [p.name for p in (tmp_path / "deep").rglob("*") if out not in (p, *p.parents)] == ["below"]


# The escaping itself


@pytest.mark.parametrize("payload", PAYLOADS.values())
def test_escaped_text_is_still_readable(payload: str) -> None:
    assert Page(f"<p>{html_text(payload)}</p>").tags == ["p"]
    check_terminal(plain(payload))
    assert "\n" not in plain(payload)
    check_csv(csv_text(payload))
    assert MarkdownIt().render(markdown_text("a &lt;b&gt;")) == "<p>a &amp;lt;b&amp;gt;</p>\n"


@pytest.mark.parametrize("text", ["```", "````\nx", "a ``` b `````` c", "", "~~~"])
def test_se07_a_fence_is_longer_than_any_run_inside(text: str) -> None:
    tokens = MarkdownIt().parse(markdown_fence(text))
    assert [t.type for t in tokens] == ["fence"]
    assert tokens[0].content == text + "\n"


def test_se07_a_call_without_input_is_a_row(tmp_path: Path) -> None:
    line = chain(user("u1"), tool_use("a1", "Bash", call="t1"))
    del line[1]["message"]["content"][0]["input"]
    write_session(tmp_path, line)
    t = cc.load(tmp_path, content="full")
    assert t.tools["name"].to_list() == ["Bash"]
