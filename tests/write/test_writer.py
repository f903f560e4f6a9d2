"""What a TranscriptWriter writes, where, and what hangs on what."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from ccanalytics.errors import NotFoundError, UsageError, WriteError
from ccanalytics.write import files, queue
from ccanalytics.write.writer import TranscriptWriter

Json = dict[str, Any]
CWD = "/home/dev/app"


def make(tmp_path: Path, **options: Any) -> TranscriptWriter:
    return TranscriptWriter(tmp_path, cwd=CWD, **{"session_id": "s1", "window_ms": 5, **options})


def read(path: Path) -> list[Json]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def call(tool_use_id: str, name: str = "Bash") -> Json:
    return {"type": "tool_use", "id": tool_use_id, "name": name, "input": {}}


def answer(*blocks: Json, ident: str = "msg_1") -> Json:
    return {"id": ident, "model": "claude-opus-4-5", "content": list(blocks), "usage": {"output_tokens": 7}}


def test_results_hang_on_the_line_of_their_call_and_the_next_message_on_the_last_line(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        asked = writer.user("go")
        called = writer.assistant(answer({"type": "text", "text": "two"}, call("t1"), call("t2")), request_id="req_1")
        second = writer.tool_result("t2", "b")
        first = writer.tool_result("t1", "a", is_error=True)
        done = writer.assistant(answer({"type": "text", "text": "ok"}, ident="msg_2"))
    links = {e["uuid"]: e["parentUuid"] for e in read(writer.path) if "uuid" in e}
    text, t1, t2 = called.uuids
    assert links == {
        asked.uuid: None,
        text: asked.uuid,
        t1: text,
        t2: t1,
        second.uuid: t2,
        first.uuid: t1,
        done.uuid: first.uuid,
    }
    lines = {e.get("uuid"): e for e in read(writer.path)}
    assert lines[first.uuid]["sourceToolAssistantUUID"] == t1
    assert lines[t1]["requestId"] == "req_1"
    assert [lines[u]["message"]["usage"] for u in called.uuids] == [{"output_tokens": 7}] * 3


def test_keys_stand_in_the_order_byte_scanners_rely_on(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        writer.user("go")
        writer.compact("summary")
    lines = writer.path.read_bytes().splitlines()
    assert lines[0].startswith(b'{"parentUuid":null,"isSidechain":false,')
    assert b'"compact_boundary"' in lines[1][:256]


def test_a_file_is_private_and_so_are_the_directories_made_for_it(tmp_path: Path) -> None:
    with make(tmp_path / "config") as writer:
        writer.user("go")
        writer.agent("t1", agent_id="a1").user("errand")
    if os.name == "posix":
        for path in (tmp_path / "config").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_one_append_per_batch_and_batches_end_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counting(path: Path, data: bytes, *, sync: files.Sync = "disk") -> None:
        sizes.append(len(data))
        files.append_bytes(path, data, sync=sync)

    monkeypatch.setattr(queue, "append_bytes", counting)
    writer = make(tmp_path, window_ms=60_000, max_batch_bytes=5_000)
    receipts = [writer.user("x" * 1000) for _ in range(10)]
    assert not any(r.done() for r in receipts)
    writer.flush()
    assert all(r.done() for r in receipts)
    assert len(sizes) == 4
    assert max(sizes) <= 5_000


def test_a_receipt_can_be_awaited(tmp_path: Path) -> None:
    writer = make(tmp_path)

    async def run() -> str:
        receipt = await writer.user("go")
        return receipt.uuid

    # In a thread of its own: a browser test before this one leaves an event loop behind in the main thread.
    with ThreadPoolExecutor(1) as pool:
        uuid = pool.submit(lambda: asyncio.run(run())).result()
    assert uuid == read(writer.path)[0]["uuid"]


def test_a_failed_append_fails_its_receipt_and_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    writer = make(tmp_path)
    writer.user("go").wait()
    before = writer.path.read_bytes()
    broken = writer.path.parent / "agent"
    writer.path.rename(broken)
    writer.path.mkdir()
    with pytest.raises(OSError):
        writer.user("lost").wait(5)
    writer.path.rmdir()
    broken.rename(writer.path)
    assert writer.path.read_bytes() == before


def test_a_full_device_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.jsonl"
    files.append_bytes(path, b'{"a":1}\n')
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return real(fd, bytes(data)[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WriteError, match="No space left"):
        files.append_bytes(path, b'{"b":"0123456"}\n')
    assert path.read_bytes() == b'{"a":1}\n'


def test_nothing_is_glued_to_a_torn_last_line(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        writer.user("go")
    with writer.path.open("ab") as file:
        file.write(b'{"torn":')
    with make(tmp_path) as writer:
        writer.user("again")
    assert writer.path.read_bytes().splitlines()[-3] == b'{"torn":'


def test_metadata_is_written_again_at_the_end_on_close(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        writer.set_title("Garden")
        writer.set_tag("work")
        writer.user("x" * 100_000)
        last = writer.user("plant  a\ntree")
    tail = writer.path.read_bytes()[-64 * 1024 :].splitlines()[-3:]
    assert [orjson.loads(line) for line in tail] == [
        {"type": "last-prompt", "lastPrompt": "plant a tree", "leafUuid": last.uuid, "sessionId": "s1"},
        {"type": "custom-title", "customTitle": "Garden", "sessionId": "s1"},
        {"type": "tag", "tag": "work", "sessionId": "s1"},
    ]
    assert tail[2].startswith(b'{"type":"tag"')


def test_a_session_that_exists_is_continued(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        writer.set_title("Garden")
        called = writer.assistant(answer(call("t1")))
    with make(tmp_path) as writer:
        result = writer.tool_result("t1")
        writer.user("more")
    lines = {e.get("uuid"): e for e in read(writer.path)}
    assert lines[result.uuid]["parentUuid"] == called.uuid
    assert read(writer.path)[-1]["customTitle"] == "Garden"


def test_opening_and_closing_writes_nothing(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        writer.set_title("Garden")
    before = writer.path.read_bytes()
    with make(tmp_path):
        pass
    assert writer.path.read_bytes() == before


def test_agents_have_files_of_their_own_with_a_meta_file(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        launched = writer.assistant(answer(call("t1", "Agent")))
        agent = writer.agent("t1", agent_type="Explore", description="look", model="claude-haiku-4-5")
        asked = agent.user("look around")
        agent.assistant(answer(call("t2", "Agent"), ident="msg_2"))
        inner = agent.agent("t2")
        inner.user("deeper")
        inner.finish("found")
        back = agent.finish("all found", totalTokens=9)
    folder = writer.path.with_suffix("") / "subagents"
    assert orjson.loads((folder / f"agent-{agent.agent_id}.meta.json").read_bytes()) == {
        "agentType": "Explore",
        "description": "look",
        "toolUseId": "t1",
        "spawnDepth": 1,
        "model": "claude-haiku-4-5",
    }
    assert orjson.loads((folder / f"agent-{inner.agent_id}.meta.json").read_bytes())["parentAgentId"] == agent.agent_id
    first = read(agent.path)[0]
    assert (first["uuid"], first["parentUuid"], first["isSidechain"]) == (asked.uuid, None, True)
    assert (first["agentId"], first["sessionId"]) == (agent.agent_id, "s1")
    result = next(e for e in read(writer.path) if e.get("uuid") == back.uuid)
    assert result["parentUuid"] == launched.uuid
    assert result["toolUseResult"]["agentId"] == agent.agent_id


def test_an_entry_that_names_an_agent_goes_to_the_agents_file(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        entry = {"type": "user", "message": {"role": "user", "content": "x"}, "agentId": "a7", "uuid": "u1"}
        receipt = writer.append(entry)
    assert receipt.path.name == "agent-a7.jsonl"
    assert read(receipt.path)[0]["uuid"] == "u1"
    assert not writer.path.exists()


def test_keys_of_an_appended_entry_are_never_changed(tmp_path: Path) -> None:
    entry = {"parentUuid": None, "type": "user", "uuid": "u2", "timestamp": "t", "sessionId": "other", "zz": 1}
    with make(tmp_path) as writer:
        writer.user("go")
        writer.append(entry)
        writer.append({"type": "zz-latch", "sessionId": "other"})
        with pytest.raises(UsageError):
            writer.append({"uuid": "u3"})
    lines = read(writer.path)
    assert entry.items() <= lines[1].items()
    assert lines[2] == {"type": "zz-latch", "sessionId": "other"}


def test_a_fork_copies_the_conversation_under_new_uuids_that_say_where_they_come_from(tmp_path: Path) -> None:
    writer = make(tmp_path)
    writer.user("one")
    writer.assistant(answer(call("t1")))
    cut = writer.tool_result("t1")
    writer.user("two")
    fork = writer.fork(at=cut.uuid, title="Fork")
    fork.user("other")
    for each in (writer, fork):
        each.close()
    old = [e for e in read(writer.path) if "uuid" in e][:3]
    new = [e for e in read(fork.path) if "uuid" in e]
    assert [e["forkedFrom"]["messageUuid"] for e in new[:3]] == [e["uuid"] for e in old]
    assert [e["parentUuid"] for e in new] == [None, new[0]["uuid"], new[1]["uuid"], new[2]["uuid"]]
    assert new[2]["sourceToolAssistantUUID"] == new[1]["uuid"]
    assert not {e["uuid"] for e in new} & {e["uuid"] for e in old}
    assert {e["sessionId"] for e in new} == {fork.session_id}
    assert fork.parent_session_id == "s1"
    with pytest.raises(NotFoundError):
        writer.fork(at="nowhere")


def test_a_new_session_is_named_by_the_old_one(tmp_path: Path) -> None:
    writer = make(tmp_path)
    writer.user("one")
    with writer.new_session() as new:
        new.user("two")
    assert {"type": "continued-in", "continuedInSessionId": new.session_id, "sessionId": "s1"} in read(writer.path)
    assert new.parent_session_id == "s1"
    assert read(new.path)[0]["parentUuid"] is None


def test_a_rewind_makes_a_branch(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        one = writer.user("one")
        writer.user("two")
        writer.rewind(one.uuid)
        writer.user("other two")
    assert Counter(e["parentUuid"] for e in read(writer.path) if "uuid" in e) == {None: 1, one.uuid: 2}


def test_a_compaction_names_what_is_kept(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        kept = [writer.user("one").uuid, writer.user("two").uuid]
        receipt = writer.compact("summary", trigger="auto", pre_tokens=9, post_tokens=3, keep=kept)
        writer.user("go on")
    lines = {e["uuid"]: e for e in read(writer.path) if "uuid" in e}
    boundary, summary = (lines[u] for u in receipt.uuids)
    assert (boundary["parentUuid"], boundary["logicalParentUuid"]) == (None, kept[1])
    assert boundary["compactMetadata"]["preservedMessages"]["uuids"] == kept
    assert boundary["compactMetadata"]["preservedSegment"]["anchorUuid"] == summary["uuid"]
    assert summary["isCompactSummary"] is True


def test_removing_a_written_line_lets_the_next_hang_on_its_parent(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        one = writer.user("one")
        two = writer.user("two")
        assert writer.remove(two.uuid).n_removed == 1
        three = writer.user("three")
    lines = {e["uuid"]: e for e in read(writer.path) if "uuid" in e}
    assert lines[three.uuid]["parentUuid"] == one.uuid
    assert two.uuid not in lines


def test_many_threads_make_one_chain(tmp_path: Path) -> None:
    writer = make(tmp_path)
    threads = [threading.Thread(target=lambda: [writer.user("x") for _ in range(20)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    lines = [e for e in read(writer.path) if "uuid" in e]
    assert [e["parentUuid"] for e in lines] == [None, *(e["uuid"] for e in lines[:-1])]
    assert len(lines) == 160


def test_what_is_queued_at_exit_is_written(tmp_path: Path) -> None:
    program = (
        "import sys; from ccanalytics.write.writer import TranscriptWriter\n"
        "TranscriptWriter(sys.argv[1], cwd='/home/dev/app', session_id='s1', window_ms=60000).user('go')\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    (path,) = tmp_path.rglob("s1.jsonl")
    assert len(read(path)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
def test_a_forked_child_does_not_write_the_queue_a_second_time(tmp_path: Path) -> None:
    program = (
        "import os, sys; from ccanalytics.write.writer import TranscriptWriter\n"
        "w = TranscriptWriter(sys.argv[1], cwd='/home/dev/app', session_id='s1', window_ms=60000); w.user('go')\n"
        "pid = os.fork()\n"
        "if pid: os.waitpid(pid, 0)\n"
        "w.user('parent' if pid else 'child')\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path)], check=True)
    (path,) = tmp_path.rglob("s1.jsonl")
    assert sorted(e["message"]["content"] for e in read(path)) == ["child", "go", "parent"]


@pytest.mark.parametrize("name", ["../s1", "a/b", ".."])
def test_names_that_would_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        make(tmp_path, session_id=name)
    with pytest.raises(UsageError):
        make(tmp_path).agent(agent_id=name)


def test_lone_surrogates_are_written_as_escapes(tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        writer.user("half \ud83d pair")
    assert rb"half \ud83d pair" in writer.path.read_bytes()
