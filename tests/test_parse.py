"""What becomes of the bytes of a transcript, whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

import ccanalytics as cc
from ccanalytics.parse import Parsed, Stretch, parse_bytes, parse_stretches
from tests.build import assistant, attachment, chain, meta, text, thinking, tool_result_block, usage, user


def lines_of(*objects: Any) -> list[bytes]:
    return [json.dumps(o, ensure_ascii=False).encode() for o in objects]


def parse(*lines: bytes, end: bytes = b"\n") -> Parsed:
    return parse_bytes(b"\n".join(lines) + end)


def codes(p: Parsed) -> list[str]:
    return p.problems["code"].to_list()


GOOD = lines_of(*chain(user("u1"), assistant("a1"), user("u2"), assistant("a2"), user("u3"), assistant("a3")))


def test_pa03_nul_bytes_after_a_crash_hide_no_record() -> None:
    p = parse(
        GOOD[0],
        GOOD[1],
        b"\0" * 300,
        GOOD[2],
        GOOD[3] + b"\0" * 9000,
        b"\0" * 200 + GOOD[4],
        b"\0" * 50,
    )
    assert p.entries.height == 5
    assert p.entries["line_no"].to_list() == [1, 2, 4, 5, 6]
    assert codes(p).count("nul_bytes") == 4
    assert p.problems.filter(pl.col("row").is_null())["line_no"].to_list() == [3, 7]
    # Claude Code reads a record with NUL bytes behind it, and does not see one that stands behind them.
    assert p.entries["is_rescued"].to_list() == [False, False, False, False, True]


def test_pa03_the_place_of_a_record_between_nul_bytes_is_its_own() -> None:
    data = b"\0" * 7 + GOOD[0] + b"\0\n"
    p = parse_bytes(data)
    at, n = p.entries.select("byte_offset", "byte_length").row(0)
    assert data[at : at + n] == GOOD[0]


def test_pa04_reading_goes_on_behind_a_bad_line(tmp_path: Path) -> None:
    objects = chain(*(user(f"u{i}") for i in range(6)))
    objects.append(json.loads(json.dumps(objects[-1])) | {"uuid": "late", "timestamp": "2026-01-05T00:00:00.000Z"})
    good = lines_of(*objects)
    torn = b'{"type":"file-history-snapshot","messageId":"m","snapshot":{"tracked'
    data = b"\n".join([*good[:5], torn, good[5], b"", b"null", b"[]", b'"x"', good[6]]) + b"\n"
    p = parse_bytes(data)
    assert p.entries["line_no"].to_list() == [1, 2, 3, 4, 5, 7, 12]
    assert dict(zip(p.problems["line_no"], p.problems["code"], strict=True)) == {
        6: "torn_line",
        9: "not_an_object",
        10: "not_an_object",
        11: "not_an_object",
    }
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    assert cc.load(path).files["last_at"][0].isoformat() == "2026-01-05T00:00:00+00:00"


def test_pa05_a_line_with_nan_loses_only_itself() -> None:
    good = lines_of(*chain(*(user(f"u{i}") for i in range(200))))
    p = parse(*good[:100], b'{"type":"user","uuid":"x","n":NaN}', *good[100:])
    assert p.entries.height == 200
    assert codes(p) == ["torn_line"]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_pa06_a_key_whose_type_varies_keeps_schema_and_values(is_reversed: bool) -> None:
    objects = chain(
        user("u1", "text", toolUseResult="Error: no"),
        user("u2", [tool_result_block("t")], toolUseResult={"stdout": "x", "durationMs": 5}),
        user("u3", [text("a")], toolUseResult=[{"type": "text", "text": "x"}]),
        user("u4", "x", toolUseResult={"stdout": "x", "durationMs": 1.5}),
    )
    p = parse(*lines_of(*(reversed(objects) if is_reversed else objects)))
    assert p.entries.schema == parse().entries.schema
    by_uuid = dict(zip(p.entries["uuid"], p.entries["detail"], strict=True))
    found = [orjson.loads(by_uuid[o["uuid"]]) for o in objects]
    assert found[0]["result_kind"] == "error"
    assert found[1]["result"]["durationMs"] == 5
    assert found[2]["result_kind"] == "list"
    assert found[3]["result"]["durationMs"] == 1.5
    assert not codes(p)


def test_pa07_files_in_any_order_give_the_same_frames(tmp_path: Path) -> None:
    for i in range(14):
        extra = {"teamName": "red"} if i == 9 else {}
        (tmp_path / f"s{i:02}.jsonl").write_bytes(lines_of(*chain(user(f"u{i}", **extra)))[0] + b"\n")
    paths = sorted(tmp_path.glob("*.jsonl"))
    first = cc.load(paths)
    for k in range(1, 8):
        again = cc.load(paths[k:] + paths[:k])
        assert again.entries.equals(first.entries)
        assert again.files.equals(first.files)
    assert first.entries["team_name"].drop_nulls().to_list() == ["red"]


def test_pa08_only_lf_separates_lines() -> None:
    words = "a\u2028b\u2029c\u0085d\u000be\x0cf"
    objects = chain(user("u1", words), user("u2"), user("u3"))
    p = parse_bytes(b"\n".join(lines_of(*objects)) + b"\n", content="full")
    assert p.entries["text"].to_list()[0] == words
    assert p.entries["line_no"].to_list() == [1, 2, 3]


def test_pa09_a_message_of_numeric_keys_is_kept_and_named() -> None:
    odd = json.loads(lines_of(*chain(assistant("a1")))[0])
    odd["message"] = {str(i): c for i, c in enumerate('{"' + "x" * 5000)} | {"content": []}
    p = parse(*lines_of(odd))
    assert p.entries.height == 1
    assert p.entries.schema == parse().entries.schema
    assert not p.entries["has_usage"][0]
    assert codes(p) == ["odd_message"]


def test_pa10_new_types_are_entries() -> None:
    kinds = ["mode", "last-prompt", "ai-title", "permission-mode", "bridge-session", "atis-latch", "pr-link", "tag"]
    p = parse(*lines_of(*(meta(k, sessionId="s") for k in kinds), meta("zz-latch", sessionId="s")))
    assert p.entries["type"].to_list() == [*kinds, "zz-latch"]
    assert p.entries["n_blocks"].sum() == 0
    assert not codes(p)


def test_pa10_unknown_types_are_counted(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(b"\n".join(lines_of(meta("zz-latch", sessionId="s"), meta("mode", mode="plan"))))
    t = cc.load(tmp_path / "s.jsonl")
    assert t.unknown_types == {"zz-latch": 1}
    assert "zz-latch" in repr(t)


def test_unknown_fields_are_counted_on_request(tmp_path: Path) -> None:
    objects = chain(user("u1", zzField=1), user("u2", zzField={"a": 2}))
    (tmp_path / "s.jsonl").write_bytes(b"\n".join(lines_of(*objects)))
    assert cc.load(tmp_path / "s.jsonl").unknown_fields().rows() == [("user", "zzField", 2)]


def test_pa11_one_odd_field_loses_only_itself() -> None:
    line = chain(assistant("a1", usage=usage(input=7, output=9) | {"cache_creation": "n/a"}, extra={"deep": [1]}))[0]
    line["message"]["effort"] = "high"
    p = parse(*lines_of(line))
    row = p.entries.row(0, named=True)
    assert (row["input_tokens"], row["output_tokens"], row["ephemeral_1h_input_tokens"]) == (7, 9, None)
    assert codes(p) == ["odd_field"]
    assert "cache_creation" in p.problems["detail"][0]


@pytest.mark.parametrize("odd", [-1, 1.5, "12", [1], {"a": 1}, True, 2**70, None])
def test_pa11_a_token_count_that_is_none_is_null(odd: object) -> None:
    line = chain(assistant("a1", usage=usage(output=9) | {"input_tokens": odd}))[0]
    p = parse(*lines_of(line))
    assert p.entries.select("input_tokens", "output_tokens").row(0) == (None, 9)
    assert codes(p) == ([] if odd is None else ["odd_field"])


def test_pa11_a_whole_number_written_as_float_is_a_count() -> None:
    p = parse(*lines_of(chain(assistant("a1", usage=usage() | {"input_tokens": 12.0}))[0]))
    assert p.entries["input_tokens"][0] == 12


def test_pa12_results_in_every_shape() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    bare: dict[str, Any] = tool_result_block("e")
    del bare["content"]
    blocks = [
        tool_result_block("a", "ab"),
        tool_result_block("b", [text("ab"), text("cd")]),
        tool_result_block("c", [image]),
        tool_result_block("d", [{"type": "text", "text": None}]),
        bare,
    ]
    p = parse(*lines_of(chain(user("u1", blocks))[0]))
    assert p.blocks["n_chars"].to_list() == [2, 4, 0, 0, 0]
    assert p.blocks["n_images"].to_list() == [0, 0, 1, 0, 0]
    assert p.blocks["image_bytes"].to_list() == [0, 0, 3, 0, 0]
    assert p.blocks["is_error"].to_list() == [False] * 5
    assert not codes(p)


def test_pa13_rows_of_gateways_are_taken_verbatim() -> None:
    line = chain(assistant("a1", [{"type": "tool_use", "id": "toolu_functions.Bash:6", "name": "Bash", "input": {}}]))[
        0
    ]
    del line["requestId"]
    line["message"]["model"] = "relay-model-2"
    line["message"]["usage"] |= {"inference_geo": "", "iterations": [], "service_tier": ""}
    p = parse(*lines_of(line))
    assert p.entries["model"][0] == "relay-model-2"
    assert p.blocks["tool_use_id"][0] == "toolu_functions.Bash:6"
    assert not codes(p)


def test_pa14_a_half_written_last_line_is_pending_and_counts_later() -> None:
    whole = lines_of(chain(assistant("a1", usage=usage(input=900, output=0)))[0])[0]
    second = lines_of(chain(assistant("a2", usage=usage(input=4100, output=0)))[0])[0]
    cut = parse_bytes(whole + b"\n" + second[: second.index(b'"usage"')])
    assert cut.entries["input_tokens"].sum() == 900
    assert not codes(cut)
    assert cut.parts[0].n_pending_bytes > 0
    done = parse_bytes(whole + b"\n" + second)
    assert done.entries["input_tokens"].sum() == 5000
    assert done.parts[0].n_pending_bytes == 0
    assert done.parts[0].n_settled_rows == 1


def test_pa16_thinking_without_text_is_hidden_not_lost() -> None:
    blocks = [thinking("words"), thinking(""), {"type": "redacted_thinking", "data": "abc"}]
    p = parse(*lines_of(chain(assistant("a1", blocks))[0]))
    assert p.blocks["is_hidden"].to_list() == [False, True, True]
    assert p.blocks["n_chars"].to_list() == [5, 0, 0]


def test_pa17_a_file_may_begin_with_metadata(tmp_path: Path) -> None:
    first = [meta("file-history-snapshot", messageId="m"), meta("mode", mode="normal"), meta("tag", tag="x")]
    objects = [*first, *chain(attachment("h", "hook_success"), user("u1"))]
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines_of(*objects)))
    t = cc.load(path)
    assert t.entries.height == 5
    assert t.files["first_at"][0].isoformat() == "2026-01-02T03:04:05+00:00"


def test_pa18_empty_messages_are_flagged_and_kept() -> None:
    p = parse(*lines_of(*chain(*(user(f"u{i}", "" if i < 36 else "words") for i in range(40)))))
    assert p.entries.height == 40
    assert p.entries["is_blank"].sum() == 36


def test_two_records_on_one_line_are_both_found() -> None:
    p = parse(GOOD[0] + GOOD[1], GOOD[2])
    assert p.entries["line_no"].to_list() == [1, 1, 2]
    assert p.entries["is_rescued"].to_list() == [False, True, False]
    assert p.entries["byte_offset"].to_list() == [0, len(GOOD[0]), len(GOOD[0]) + len(GOOD[1]) + 1]
    assert codes(p) == ["glued_records"]


def test_a_record_behind_half_a_line_is_found() -> None:
    p = parse(GOOD[0][:70] + GOOD[1], GOOD[2])
    assert p.entries["uuid"].to_list() == [json.loads(GOOD[1])["uuid"], json.loads(GOOD[2])["uuid"]]
    assert p.entries["is_rescued"].to_list() == [True, False]
    assert codes(p) == ["record_behind_damage"]


def test_an_object_inside_a_torn_line_is_no_record() -> None:
    torn = b'{"type":"assistant","message":{"content":[{"type":"text","text":"x","uuid":"n"},{"type":"te'
    assert parse(torn).entries.height == 0


def test_bom_crlf_and_blanks_around_a_line_do_not_matter() -> None:
    data = b"\xef\xbb\xbf" + GOOD[0] + b"\r\n \t" + GOOD[1] + b" \r\n\r\n"
    p = parse_bytes(data)
    assert p.entries.height == 2
    assert not codes(p)
    for at, n in p.entries.select("byte_offset", "byte_length").iter_rows():
        assert json.loads(data[at : at + n])["type"] in ("user", "assistant")


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    line = GOOD[0].replace(b'"hello"', b'"he\\ud83dllo"')
    p = parse_bytes(line + b"\n", content="full")
    assert p.entries["text"][0] == "he\ufffdllo"


def test_bytes_that_are_no_utf8_become_the_replacement_character() -> None:
    p = parse_bytes(GOOD[0].replace(b'"hello"', b'"he\xffllo"') + b"\n", content="full")
    assert p.entries["text"][0] == "he\ufffdllo"


def test_of_duplicate_keys_the_last_wins() -> None:
    p = parse(b'{"type":"user","uuid":5,"uuid":"a","message":{"role":"user","content":"x"}}')
    assert p.entries["uuid"][0] == "a"


def test_deep_nesting_is_damage_not_a_crash() -> None:
    deep = b'{"type":"user","uuid":"u","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    p = parse(deep, GOOD[0])
    assert json.loads(GOOD[0])["uuid"] in p.entries["uuid"].to_list()


def test_ten_thousand_blocks_in_one_message() -> None:
    p = parse(*lines_of(chain(assistant("a1", [text("x")] * 10_000))[0]))
    assert p.blocks.height == 10_000
    assert p.entries["n_chars"][0] == 10_000


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678000+00:00"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
        ("2026-01-02T05:04:05.678+02:00", "2026-01-02T03:04:05.678000+00:00"),
        ("2026-01-02", "2026-01-02T00:00:00+00:00"),
        ("yesterday", None),
        ("", None),
        ("9999-99-99T00:00:00.000Z", None),
    ],
)
def test_timestamps_of_every_kind(written: str, read: str | None) -> None:
    p = parse(*lines_of(chain(user("u1", timestamp=written))[0]))
    value = p.entries["timestamp"][0]
    assert (value.isoformat() if value else None) == read
    assert p.entries["timestamp_text"][0] == (None if len(written) == 24 and read else written)
    assert codes(p) == ([] if read else ["bad_timestamp"])


def test_stretches_of_a_file_give_what_the_whole_gives() -> None:
    data = b"\n".join(GOOD) + b"\n"
    whole = parse_bytes(data)
    cut = data.index(GOOD[3])
    parts = parse_stretches([Stretch(data[:cut], is_end=False), Stretch(data[cut:], 4, cut)])
    assert parts.entries.drop("part").equals(whole.entries.drop("part"))
    assert parts.blocks.equals(whole.blocks)
    assert [p.n_rows for p in parts.parts] == [3, 3]


def test_text_is_kept_only_when_asked_for() -> None:
    line = lines_of(chain(user("u1", "the key is AKIAIOSFODNN7EXAMPLE " + "x" * 500))[0])[0] + b"\n"
    none, preview, full = (parse_bytes(line, content=c) for c in ("none", "preview", "full"))  # type: ignore[arg-type]
    assert none.entries["text"].null_count() == none.blocks["text"].null_count() == 1
    assert len(preview.entries["text"][0]) == 200
    assert "AKIA" not in preview.entries["text"][0]
    assert full.entries["text"][0].endswith("x" * 500)
    assert none.entries["n_chars"][0] == full.entries["n_chars"][0]


def test_the_schema_is_the_same_for_empty_and_full_input() -> None:
    assert parse_bytes(b"").entries.schema == parse(*GOOD).entries.schema
    assert parse_bytes(b"").blocks.schema == parse(*GOOD).blocks.schema
    assert parse_bytes(b"").problems.schema == parse(b"x").problems.schema
