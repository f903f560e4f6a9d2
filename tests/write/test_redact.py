"""A redacted copy says nothing about anybody, and counts as the original does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ccanalytics.errors import NotFoundError, UsageError, WriteError
from ccanalytics.load import load
from ccanalytics.parquet import scan_parquet
from ccanalytics.write import redact as redact_module
from ccanalytics.write.redact import redact
from ccanalytics.write.redact_tables import new_place
from ccanalytics.write.redactor import Redactor
from tests import build
from tests.cases import case_dir, case_names

Json = dict[str, Any]
KEY = b"a key for tests"
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwx"
ZOO = [n for n in case_names("zoo") if n.startswith(("2.1.332/", "2.0.14/", "0.2.126/"))]


def all_bytes(folder: Path) -> bytes:
    parts = [str(p.relative_to(folder)).encode() + b"\n" + p.read_bytes() for p in folder.rglob("*") if p.is_file()]
    return b"".join(parts)


def numbers(frame: pl.DataFrame) -> pl.DataFrame:
    keep = [
        n for n, d in frame.schema.items() if d.is_temporal() or d.is_integer() or d == pl.Boolean or d == pl.Float64
    ]
    return frame.select(keep)


@pytest.mark.parametrize("name", ZOO)
def test_tokens_times_and_structure_of_recorded_sessions_are_unchanged(tmp_path: Path, name: str) -> None:
    source = case_dir("zoo", name) / "config"
    redact(source, tmp_path / "out", key=KEY)
    old, new = load(source, cache=False, workers=1), load(tmp_path / "out", cache=False, workers=1)
    usage = [c for c in old.calls.columns if c.endswith("_tokens") or c in ("cost_usd", "model", "first_at", "n_lines")]
    order = ["first_at", "output_tokens", "n_lines"]
    assert_frame_equal(old.calls.select(usage).sort(order), new.calls.select(usage).sort(order))
    shape = ["type", "subtype", "timestamp", "is_sidechain", "n_tool_uses", "n_tool_results", "prompt_kind", "version"]
    assert_frame_equal(old.entries.select(shape).sort(shape), new.entries.select(shape).sort(shape))
    agents = ["kind", "depth", "n_tools", "link_rule"]
    assert_frame_equal(old.agents.select(agents).sort(agents), new.agents.select(agents).sort(agents))
    assert (old.tools["outcome"].sort().to_list()) == (new.tools["outcome"].sort().to_list())
    assert len(old.problems) == len(new.problems)


def private_session(config: Path) -> Path:
    cwd = "/home/erika.mustermann/geheim-projekt"
    lines = build.chain(
        build.user("u1", f"Please look at {cwd}/src/billing.py, the key is {SECRET}"),
        build.tool_use(
            "a1", "mcp__kundendb__search_customer", {"customer_ssn_field": "078-05-1120", "file_path": f"{cwd}/a.py"}
        ),
        build.tool_result("r1", "a1", "Erika Mustermann, Heidestraße 17", toolUseResult={"filePath": f"{cwd}/a.py"}),
        build.assistant("a2", "Her address is Heidestraße 17.", model="internal-finetune-v7"),
        build.meta("custom-title", customTitle="Erika's invoices"),
        build.meta(
            "file-history-snapshot", snapshot={"trackedFileBackups": {f"{cwd}/a.py": {"backupFileName": "x@v1"}}}
        ),
        cwd=cwd,
        session="private",
    )
    for line in lines:
        if "gitBranch" in line:
            line["gitBranch"] = "feature/erikas-rechnung"
    rows: list[Any] = [*lines, b'{"type":"user","message":{"content":"Heidestra', b"\0" * 9]
    folder = "-home-erika-mustermann-geheim-projekt"
    path = build.write_session(config, rows, session="private", project=folder)
    log = {"display": "Please look at billing", "pastedContents": {}, "timestamp": 1, "project": cwd}
    build.write_lines(config / "history.jsonl", [log])
    meta = {"agentType": "steuer-pruefer", "toolUseId": "toolu_a1", "description": "Erika prüfen"}
    build.write_agent(config, "a1234567", lines[:1], session="private", project=folder, meta=meta)
    return path


@pytest.mark.parametrize("keep_text", [False, True])
def test_nothing_private_survives(tmp_path: Path, keep_text: bool) -> None:
    private_session(tmp_path / "in")
    done = redact(tmp_path / "in", tmp_path / "out", key=KEY, keep_text=keep_text)
    copy = all_bytes(tmp_path / "out").decode().lower()
    gone = [
        "erika.mustermann",
        "geheim",
        SECRET,
        "kundendb",
        "steuer",
        "feature/",
        "customer_ssn",
        "finetune",
        "private",
    ]
    if not keep_text:
        gone += ["heidestr", "078-05", "billing", "invoices", "erika"]
    assert [word for word in gone if word.lower() in copy] == []
    assert done.n_originals > 10
    assert "tool-results" in done.left_out


def test_the_same_original_becomes_the_same_everywhere(tmp_path: Path) -> None:
    private_session(tmp_path / "in")
    redact(tmp_path / "in", tmp_path / "out", key=KEY)
    t = load(tmp_path / "out", cache=False, workers=1)
    assert t.entries["session_id"].drop_nulls().n_unique() == 1
    assert t.files["session_id"].n_unique() == 1
    assert t.files["project"].n_unique() == 1
    assert t.agents.filter(pl.col("kind") != "main")["tool_use_id"].null_count() == 0
    redact(tmp_path / "in", tmp_path / "again", key=KEY)
    assert all_bytes(tmp_path / "again") == all_bytes(tmp_path / "out")
    redact(tmp_path / "in", tmp_path / "other")
    assert all_bytes(tmp_path / "other") != all_bytes(tmp_path / "out")


def test_damage_stays_damage_of_the_same_kind(tmp_path: Path) -> None:
    private_session(tmp_path / "in")
    redact(tmp_path / "in", tmp_path / "out", key=KEY)
    old, new = (load(tmp_path / name, cache=False, workers=1) for name in ("in", "out"))
    assert old.read_problems["code"].to_list() == new.read_problems["code"].to_list()
    assert len(old.read_problems) >= 2


def test_a_text_is_its_length_and_a_keyed_hash() -> None:
    one, other = Redactor(KEY), Redactor(b"another")
    assert one.text("hello there") == one.text("hello there") != other.text("hello there")
    assert one.text("hello there").startswith("[text 11 ")
    assert one.text("  ") == "  "
    tags = "<task-id>a123456789</task-id>\n<status>completed</status>\n"
    notice = one.text(f"<task-notification>\n{tags}Done by Erika</task-notification>")
    assert one.identifier("a123456789") in notice
    assert "<status>completed</status>" in notice
    assert "Erika" not in notice


def test_kept_text_loses_secrets_ids_and_directories() -> None:
    redactor = Redactor(KEY, keep_text=True)
    redactor.learn(["/home/erika/app"], ["feature/erikas-rechnung"])
    call = "toolu_0123456789abcdef"
    text = redactor.text(f"key {SECRET} in /home/erika/app/x.py on feature/erikas-rechnung, call {call}; fine")
    assert not any(word in text for word in (SECRET, "erika", call))
    assert text.endswith("; fine")


def test_paths_keep_their_shape() -> None:
    redactor = Redactor(KEY)
    new = redactor.path("/home/erika/app/src/billing.py")
    assert new.startswith("/home/p")
    assert new.endswith(".py")
    assert new.count("/") == 5
    assert redactor.path("/home/erika/app") + "/src" == redactor.path("/home/erika/app/src")
    assert redactor.path(r"C:\Users\Erika\app").startswith("C:\\Users\\p")


def test_model_ids_of_claude_stay_without_the_account_around_them() -> None:
    redactor = Redactor(KEY)
    assert redactor.model("claude-opus-4-5-20251101") == "claude-opus-4-5-20251101"
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    assert redactor.model(arn) == "claude-sonnet-4-5"
    assert redactor.model("internal-finetune").startswith("model-")


def test_a_copy_in_which_an_original_survives_is_refused_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private_session(tmp_path / "in")

    def leaking(self: Redactor, text: str) -> str:
        self.originals.add(text)
        return f"see {text}"

    monkeypatch.setattr(Redactor, "_placeholder", leaking)
    with pytest.raises(WriteError, match="still in the copy") as caught:
        redact(tmp_path / "in", tmp_path / "out", key=KEY)
    assert "Erika" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_output_must_be_new_and_the_source_must_hold_something(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        redact(tmp_path, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError):
        redact(tmp_path / "empty", tmp_path / "new")


def test_an_export_is_redacted_and_read_like_the_export(tmp_path: Path) -> None:
    private_session(tmp_path / "in")
    t = load(tmp_path / "in", cache=False, workers=1, content="full")
    t.write_parquet(tmp_path / "lake")
    redact(tmp_path / "lake", tmp_path / "out", key=KEY)
    parts = sorted((tmp_path / "lake").rglob("*.parquet"))
    for part in parts:
        old = pl.read_parquet(part, hive_partitioning=False)
        place = new_place(part.relative_to(tmp_path / "lake"), Redactor(KEY))
        new = pl.read_parquet(tmp_path / "out" / place, hive_partitioning=False)
        assert old.schema == new.schema
        assert_frame_equal(numbers(old.drop("text_hash", strict=False)), numbers(new.drop("text_hash", strict=False)))
        for column in ("type", "timestamp", "version"):
            if column in old.columns:
                assert_frame_equal(old.select(column), new.select(column))
    assert len(parts) > 10
    copy = b"".join(json.dumps(row, default=str, ensure_ascii=False).encode() for row in rows_of(tmp_path / "out"))
    copy += all_bytes(tmp_path / "out" / "_ccanalytics")
    assert [word for word in PRIVATE if word.encode() in copy.lower()] == []
    cost = ["calls", "output_tokens", "cost_usd"]
    lake = scan_parquet(tmp_path / "out")
    assert_frame_equal(t.cost().select(cost), lake.cost().select(cost))
    assert lake.sessions.collect()["project"].n_unique() == 1


PRIVATE = ("erika", "geheim", SECRET, "kundendb", "heidestr", "steuer", "billing", "rechnung", "finetune")


def rows_of(folder: Path) -> Iterator[Json]:
    for path in sorted(folder.rglob("*.parquet")):
        yield {"name": str(path.relative_to(folder))}
        yield from pl.read_parquet(path, hive_partitioning=False).to_dicts()


def test_modules_do_not_print(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    private_session(tmp_path / "in")
    redact_module.redact(tmp_path / "in", tmp_path / "out")
    captured: Any = capsys.readouterr()
    assert captured.out == captured.err == ""
