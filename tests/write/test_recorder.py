"""The recorder writes what is new in each request, from dicts and from objects alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from ccanalytics.errors import UsageError
from ccanalytics.write.recorder import Recorder
from ccanalytics.write.writer import TranscriptWriter

Json = dict[str, Any]


class Shaped:
    """An object as an SDK makes it: attributes and ``to_dict``."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def to_dict(self) -> Json:
        return {k: v for k, v in vars(self).items() if not k.startswith("_")}


def entries(writer: TranscriptWriter) -> list[Json]:
    writer.flush()
    return [e for e in map(orjson.loads, writer.path.read_bytes().splitlines()) if "uuid" in e]


@pytest.fixture
def writer(tmp_path: Path) -> TranscriptWriter:
    return TranscriptWriter(tmp_path, cwd="/home/dev/app", session_id="s1")


def message(*content: object, ident: str = "msg_1") -> Shaped:
    usage = Shaped(input_tokens=5, output_tokens=7)
    return Shaped(
        id=ident,
        role="assistant",
        model="m",
        content=list(content),
        stop_reason="end_turn",
        usage=usage,
        _request_id="r1",
    )


def test_only_what_is_new_in_a_request_is_written(writer: TranscriptWriter) -> None:
    recorder = Recorder(writer)
    use = Shaped(type="tool_use", id="t1", name="get", input={"x": 1})
    text = Shaped(type="text", text="wait", citations=None)
    messages: list[object] = [{"role": "user", "content": "go"}]
    recorder.request(model="m", max_tokens=9, messages=messages)
    first = recorder.response(message(text, use))
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "1"}
    messages += [{"role": "assistant", "content": [text, use]}, {"role": "user", "content": [result]}]
    recorder.request(model="m", messages=messages)
    recorder.response(message({"type": "text", "text": "done"}, ident="msg_2"))
    lines = entries(writer)
    assert [e["type"] for e in lines] == ["user", "assistant", "assistant", "user", "assistant"]
    assert lines[3]["parentUuid"] == first.uuid
    assert [e["requestId"] for e in lines if e["type"] == "assistant"] == ["r1"] * 3
    assert lines[2]["message"]["usage"] == {"input_tokens": 5, "output_tokens": 7}


def test_the_same_request_again_writes_nothing(writer: TranscriptWriter) -> None:
    recorder = Recorder(writer)
    messages = [{"role": "user", "content": "go"}]
    assert recorder.request(messages=messages) is not None
    assert recorder.request(messages=[{"role": "user", "content": [{"type": "text", "text": "go"}]}]) is None
    assert len(entries(writer)) == 1


def test_a_shorter_list_begins_a_branch_where_it_ends(writer: TranscriptWriter) -> None:
    recorder = Recorder(writer)
    recorder.request(messages=[{"role": "user", "content": "one"}])
    answered = recorder.response(message({"type": "text", "text": "1"}))
    before = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}]
    recorder.request(messages=[*before, {"role": "user", "content": "two"}])
    recorder.request(messages=[*before, {"role": "user", "content": "other"}])
    recorder.request(messages=[{"role": "user", "content": "fresh"}])
    lines = entries(writer)
    assert [e["parentUuid"] for e in lines[2:]] == [answered.uuid, answered.uuid, None]


def test_history_it_did_not_see_come_back_has_no_usage(writer: TranscriptWriter) -> None:
    Recorder(writer).request(
        messages=[
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": [{"type": "text", "text": "two"}]},
        ]
    )
    shown = entries(writer)[1]["message"]
    assert (shown["model"], shown["usage"]["output_tokens"]) == ("<synthetic>", 0)


def test_an_agents_calls_are_recorded_in_its_file(writer: TranscriptWriter) -> None:
    agent = writer.agent("t1")
    recorder = Recorder(agent)
    recorder.request(messages=[{"role": "user", "content": "errand"}])
    recorder.response(message({"type": "text", "text": "ok"}))
    writer.flush()
    assert len(agent.path.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("bad", [3, {"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}])
def test_a_response_that_is_none_is_refused(writer: TranscriptWriter, bad: object) -> None:
    with pytest.raises(UsageError):
        Recorder(writer).response(bad)
