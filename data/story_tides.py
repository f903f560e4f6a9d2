"""The first project: tidewatch, a small service that tells the tides. Sessions of a fortnight, oldest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from billing import Line
from transcript import Call, Conversation

CWD = "/home/dev/tidewatch"
Agents = list[tuple[Conversation, Line]]

TABLE_PY = """from datetime import datetime

def next_tides(station, now=None):
    now = now or datetime.now()
    rows = load_table(station)
    return [row for row in rows if row.at > now][:4]
"""
CHART_PY = """def chart(station, hours=48):
    points = interpolate(next_tides(station), step_minutes=15)
    return render_svg(points[: hours * 4])
"""


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """A moment in November 2026."""
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def old_version() -> tuple[Conversation, Agents]:
    """Monday: a machine that was not updated for long; its lines carry progress in between."""
    s = Conversation("tides-1", CWD, at(2, 9, 4), "claude-sonnet-4-5-20250929", version="2.1.88", cache="5m")
    p = s.prompt("The tide table is one hour off since the clocks changed. Find out why and fix it.")
    calls = s.reply(
        "I'll look at how times are read and compared.",
        [
            ("Read", {"file_path": f"{CWD}/tidewatch/table.py"}),
            ("Grep", {"pattern": "datetime.now", "path": f"{CWD}/tidewatch"}),
        ],
        thinking="Naive local times are the likely cause; the table is in UTC.",
    )
    progress(s, calls[0], "hook_progress", hookEvent="PreToolUse", hookName="PreToolUse:Read", command="callback")
    s.result(calls[0], TABLE_PY, s.read_data("tidewatch/table.py", TABLE_PY, 96), seconds=0.2, size=1_900)
    found = {"mode": "files_with_matches", "numFiles": 1, "filenames": ["tidewatch/table.py"]}
    s.result(calls[1], "tidewatch/table.py", found, seconds=0.1)
    call = s.reply("", [("Bash", {"command": "python -m pytest -q tests/test_table.py", "description": "Run tests"})])[
        0
    ]
    for second in (2, 4):
        through = progress(s, call, "bash_progress", output="", fullOutput="", elapsedTimeSeconds=second, totalLines=0)
    s.parent = through
    text = "Exit code 1\nFAILED test_table.py::test_after_change - got 07:10, wanted 06:10"
    s.result(call, text, f"Error: {text}", seconds=0.4, error=True, size=640)
    s.edit("tidewatch/table.py", "datetime.now()", "datetime.now(UTC)", prompt=p)
    s.bash("python -m pytest -q tests/test_table.py", "14 passed in 1.9s", why="Run tests")
    s.reply("The table is in UTC but was compared with local time. It now compares UTC with UTC; all 14 tests pass.")
    s.end_turn()
    s.prompt("Thanks. Add a line about it to the changelog.", after=95)
    s.run("Read", {"file_path": f"{CWD}/CHANGELOG.md"}, "# Changelog\n\n## 0.3.1\n", size=420)
    s.edit("CHANGELOG.md", "# Changelog\n", "# Changelog\n\n- Tides are right again after a clock change.\n", prompt=p)
    s.reply("Done.", seconds=2)
    s.end_turn()
    return s, []


def progress(s: Conversation, call: Call, kind: str, **data: Any) -> str:
    """A progress line of an old version, hung on the call; results once hung on such lines."""
    fields: Line = {"data": {"type": kind, **data}, "parentToolUseID": call.id, "toolUseID": call.id}
    return s.put("progress", fields, seconds=0.6, parent=call.line, keep=True)


def chart_endpoint() -> tuple[Conversation, Agents]:
    """Tuesday: a feature, with parallel reads, a todo list, a failing test and a prompt typed meanwhile."""
    s = Conversation("tides-2", CWD, at(3, 10, 0), "claude-opus-5-5")
    s.open(title="Tide chart endpoint")
    s.attach("environment", snapshot={"workingDirectory": CWD, "isGitRepo": True, "platform": "linux"})
    p = s.prompt("Add an endpoint /chart/<station> that draws the next 48 hours as SVG.")
    s.attach("date", date="2026-11-03")
    paths = ("app.py", "table.py", "svg.py")
    reads: list[tuple[str, Line]] = [("Read", {"file_path": f"{CWD}/tidewatch/{path}"}) for path in paths]
    reads.append(("Glob", {"pattern": "tests/test_*.py"}))
    calls = s.reply("Let me see what is there.", reads, hidden=240)
    for no, size in ((1, 2_100), (0, 5_200), (3, 90), (2, 3_400)):
        s.result(calls[no], f"({size * 4} characters)", {"type": "text"}, seconds=0.15, size=size)
    todos = ["Interpolate between high and low water", "Draw the curve", "Add the route", "Test it"]
    todo(s, todos, done=0)
    s.edit("tidewatch/svg.py", "def render_svg(", CHART_PY + "\n\ndef render_svg(", prompt=p, thinks=14)
    todo(s, todos, done=2)
    queued(s, "Also give it a Cache-Control header please.")
    s.edit("tidewatch/app.py", "# routes", '@route("/chart/<station>")', prompt=p, version=2, thinks=8)
    s.bash(
        "python -m pytest -q", "FAILED test_chart.py::test_spring_tide - height above the frame", failed=True, seconds=7
    )
    s.reply("The frame is scaled to mean tides. I'll scale it to the extremes.", seconds=5)
    s.edit("tidewatch/svg.py", "scale=mean", "scale=extremes", prompt=p, version=3)
    s.bash("python -m pytest -q", "31 passed in 6.2s", seconds=6.8)
    todo(s, todos, done=4)
    s.reply("`/chart/<station>` draws the next 48 hours, cached for ten minutes. 31 tests pass.", seconds=5)
    s.end_turn()
    s.prompt("The curve looks jagged on a phone. Can it be smoother?", after=640)
    s.read("tidewatch/svg.py", CHART_PY, size=3_600)
    s.edit("tidewatch/svg.py", "L {x},{y}", "C {x0},{y0} {x1},{y1} {x},{y}", prompt=p, version=4, thinks=11)
    s.bash("python -m pytest -q", "31 passed in 6.1s", seconds=6.6)
    s.reply("It is drawn with cubic curves now, through the same points.", seconds=4)
    s.end_turn()
    s.close(lines=(74, 6))
    return s, []


def todo(s: Conversation, items: list[str], *, done: int) -> None:
    """The todo list with the first ``done`` items finished."""
    state = ["completed" if no < done else "in_progress" if no == done else "pending" for no in range(len(items))]
    new = [{"content": c, "status": v, "activeForm": c} for c, v in zip(items, state, strict=True)]
    s.run("TodoWrite", {"todos": new}, "Todos have been modified successfully.", {"oldTodos": [], "newTodos": new})


def queued(s: Conversation, text: str) -> None:
    """A prompt typed while the model works, taken up within the running turn."""
    for operation, extra in (("enqueue", {"content": text}), ("remove", {})):
        s.note("queue-operation", operation=operation, timestamp=s.wait(1.5), **extra)
    s.attach("queued_command", prompt=text, commandMode="prompt", origin={"kind": "human"})
    s.prompts.append({"display": text, "at": s.at})


def nested_agents() -> tuple[Conversation, Agents]:
    """Wednesday: two searches and one job side by side; the job sends out a helper of its own."""
    s = Conversation("tides-3", CWD, at(4, 13, 30), "claude-opus-5-5", branch="split-parser")
    s.open(title="Split the table parser")
    s.prompt("Move the table parser into a package of its own. Find all users first.", after=25)
    asked = [
        ("Find users of the parser", "Explore", "List every place that imports tidewatch.table."),
        ("Find undocumented formats", "Explore", "Which table formats are read but not documented?"),
        (
            "Move the parser",
            "general-purpose",
            "Move tidewatch/table.py to tides_table/ and keep the old name working.",
        ),
    ]
    given: list[tuple[str, Line]] = [
        ("Agent", {"description": d, "prompt": p, "subagent_type": kind}) for d, kind, p in asked
    ]
    calls = s.reply("Three things can go on at once.", given, hidden=310, seconds=9)
    users = explore(s, calls[0], "a1c0ffee00000001", ["tidewatch/app.py", "tidewatch/cli.py", "tests/test_table.py"])
    formats = explore(s, calls[1], "a1c0ffee00000002", ["docs/formats.md", "tidewatch/table.py"])
    job, helper = move_parser(s, calls[2])
    for call, (agent, meta) in sorted(zip(calls, (users, formats, job), strict=True), key=lambda x: x[1][0].at):
        agent_result(s, call, agent, meta)
    s.reply("The parser lives in `tides_table/`; eight imports were changed and the old name still works.", seconds=7)
    s.end_turn()
    s.note("pr-link", prNumber=41, prUrl="https://example.org/tidewatch/pull/41", prRepository="tidewatch")
    s.close(lines=(210, 198))
    return s, [users, formats, job, helper]


def start_agent(s: Conversation, call: Call, agent: str, model: str, **meta: Any) -> tuple[Conversation, Line]:
    """The transcript of an agent that a call starts, and what stands in its sidecar."""
    begun = datetime.fromisoformat(next(e["timestamp"] for e in s.lines if e.get("uuid") == call.line))
    a = Conversation(
        agent, s.cwd, begun, model, branch=s.branch, cache="5m", session=s.session, agent=agent, bill=s.bill
    )
    a.context = 9_800
    a.prompt(call.input["prompt"], after=0.4)
    kind = call.input["subagent_type"]
    return a, {"agentType": kind, "description": call.input["description"], "toolUseId": call.id} | meta


def explore(s: Conversation, call: Call, agent: str, files: list[str]) -> tuple[Conversation, Line]:
    """A quick search by a small model."""
    a, meta = start_agent(s, call, agent, "claude-haiku-5-5", spawnDepth=1)
    search: tuple[str, Line] = ("Grep", {"pattern": "table", "path": CWD, "output_mode": "files_with_matches"})
    reads: list[tuple[str, Line]] = [("Read", {"file_path": f"{CWD}/{path}"}) for path in files]
    first = a.reply("", [search], seconds=1.8)[0]
    a.result(first, "\n".join(files), {"mode": "files_with_matches", "numFiles": len(files), "filenames": files})
    calls = a.reply("", reads, seconds=2.4)
    for no, read in enumerate(calls):
        a.result(read, f"({files[no]})", {"type": "text"}, seconds=0.2, size=2_300 + 700 * no)
    a.reply("Found in: " + ", ".join(files) + ".", seconds=3.1)
    return a, meta


def move_parser(s: Conversation, call: Call) -> tuple[tuple[Conversation, Line], tuple[Conversation, Line]]:
    """The agent that moves the parser, and the helper it sends out to fix the imports."""
    a, meta = start_agent(s, call, "a1c0ffee00000003", "claude-sonnet-5-5", spawnDepth=1)
    a.read("tidewatch/table.py", TABLE_PY, size=2_000)
    a.bash("git mv tidewatch/table.py tides_table/__init__.py", "", why="Move the module")
    given: Line = {"description": "Fix the imports", "prompt": "Change all imports of tidewatch.table to tides_table."}
    inner = a.reply("", [("Agent", given | {"subagent_type": "general-purpose"})], seconds=4)[0]
    b, inner_meta = start_agent(
        a, inner, "a1c0ffee00000004", "claude-sonnet-5-5", parentAgentId="a1c0ffee00000003", spawnDepth=2
    )
    command = "grep -rl tidewatch.table . | xargs sed -i s/tidewatch.table/tides_table/"
    b.bash(command, "", why="Change the imports", seconds=0.5)
    b.bash("python -m pytest -q", "31 passed in 6.3s", seconds=7)
    b.reply("Eight imports changed, all tests pass.", seconds=3)
    agent_result(a, inner, b, inner_meta)
    a.reply("The parser is in tides_table/; tidewatch.table re-exports it.", seconds=4)
    return (a, meta), (b, inner_meta)


def agent_result(s: Conversation, call: Call, a: Conversation, meta: Line) -> str:
    """An agent's answer in the conversation that started it."""
    last = next(e["message"] for e in reversed(a.lines) if e["type"] == "assistant")
    used, text = last["usage"], last["content"][-1]["text"]
    keys = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    n_tools = sum(e["type"] == "assistant" and e["message"]["content"][0]["type"] == "tool_use" for e in a.lines)
    took = (a.at - a.started) / timedelta(milliseconds=1)
    data: Line = {
        "status": "completed",
        "prompt": call.input["prompt"],
        "agentId": a.agent,
        "agentType": meta["agentType"],
    }
    data |= {"content": [{"type": "text", "text": text}], "resolvedModel": a.model, "totalDurationMs": round(took)}
    data |= {"totalTokens": sum(used[k] for k in keys), "totalToolUseCount": n_tools, "usage": used}
    content = [{"type": "text", "text": text}, {"type": "text", "text": f"agentId: {a.agent}"}]
    return s.result(call, content, data, seconds=max(0.1, (a.at - s.at).total_seconds() + 0.05))


def two_compactions() -> tuple[Conversation, Agents]:
    """Thursday and Friday: a long hunt; compacted by hand, then by itself with the last exchange kept."""
    s = Conversation("tides-4", CWD, at(5, 8, 40), "claude-opus-5-5", branch="accuracy")
    s.open(title="Why heights drift after a week")
    s.prompt("Predicted heights drift by up to 30 cm after a week. Find the cause.")
    for path, size in (("harmonics.py", 14_200), ("constituents.json", 31_000), ("nodal.py", 9_300)):
        s.read(f"tides_table/{path}", f"({path})", size=size, thinks=5)
    moved_result(s, "python scripts/compare.py --year 2026", 26_000)
    s.reply("The error grows with the nodal correction. I'll check its epoch.", hidden=900, seconds=21)
    s.bash("python scripts/nodal_epoch.py", "epoch 1900-01-01T00:00 UT, table 1899-12-31T12:00", seconds=3, size=2_600)
    s.reply("The nodal angles count from noon, the table from midnight: half a day too late.", seconds=8)
    s.end_turn()
    plain = (
        "This session is being continued from a previous conversation.\n\nSummary:\n1. Heights drifted because nodal "
    )
    s.compact(
        plain + "angles count from noon.\n2. Next: fix nodal.py and compare with 2026.", trigger="manual", seconds=33
    )
    slash(s, "/compact", "Compacted")
    p = s.prompt("Fix it, then compare the whole year again.", after=210)
    s.edit("tides_table/nodal.py", "epoch = noon", "epoch = midnight", prompt=p, thinks=9)
    s.bash("python scripts/compare.py --year 2026", "largest error 2.1 cm, mean 0.6 cm", seconds=48, size=38_000)
    s.reply("Largest error over 2026 is now 2.1 cm.", seconds=6)
    s.end_turn()
    s.close(lines=(3, 3))
    s.prompt("Good morning. Do the same for all 212 stations and list the worst ten.", after=79_000)
    for part, size in ((1, 41_000), (2, 39_500), (3, 37_000)):
        s.bash(f"python scripts/compare.py --all --part {part}/3", f"part {part}: (table)", seconds=95, size=size)
    s.reply("The ten worst are all estuaries; the largest error is 9.4 cm.", hidden=700, seconds=17)
    s.end_turn()
    s.prompt("Which of them has a river gauge nearby?", after=60)
    s.reply("Four of the ten: the table lists a gauge within 5 km for stations 17, 44, 103 and 180.", seconds=6)
    kept = (
        "This session is being continued from a previous conversation.\n\nSummary:\n1. nodal.py is fixed.\n2. The ten "
    )
    s.compact(
        kept + "worst of 212 stations are estuaries, four with a river gauge.", trigger="auto", kept=2, seconds=41
    )
    s.prompt("Write these four into docs/estuaries.md.", after=45)
    path = f"{CWD}/docs/estuaries.md"
    s.run(
        "Write",
        {"file_path": path, "content": "# Estuaries\n"},
        f"File created at {path}",
        {"type": "create", "filePath": path},
    )
    s.reply("Written.", seconds=3)
    s.end_turn()
    s.close(lines=(27, 3))
    return s, []


def moved_result(s: Conversation, command: str, size: int) -> None:
    """A command whose output was too long and went to a file beside the transcript."""
    call = s.reply("", [("Bash", {"command": command, "description": "Compare with the gauge"})], seconds=5)[0]
    path = f"/home/dev/.claude/projects/-home-dev-tidewatch/{s.session}/tool-results/{call.id}.txt"
    s.moved[f"{call.id}.txt"] = "day,predicted_cm,measured_cm\n" + "".join(
        f"{d},{200 + d},{200 + d // 2}\n" for d in range(60)
    )
    where = f"Output too large (84.2KB). Full output saved to: {path}"
    text = f"<persisted-output>\n{where}\n\nPreview (first 2KB):\nday,predicted"
    data: Line = {"stdout": "day,predicted", "stderr": "", "interrupted": False, "isImage": False}
    data |= {"persistedOutputPath": path, "persistedOutputSize": 86_221}
    s.result(call, text + "\n</persisted-output>", data, seconds=31, size=size)


def slash(s: Conversation, command: str, answer: str) -> None:
    """The lines of a slash command."""
    name = command.removeprefix("/")
    caveat = "<local-command-caveat>Caveat: the messages below were made by a local command.</local-command-caveat>"
    s.put("user", {"message": {"role": "user", "content": caveat}, "isMeta": True}, seconds=0.5)
    text = f"<command-name>{command}</command-name>\n<command-message>{name}</command-message>"
    for content in (text, f"<local-command-stdout>{answer}</local-command-stdout>"):
        s.put("user", {"message": {"role": "user", "content": content}}, seconds=0.01)


def rewind_and_denial() -> tuple[Conversation, Agents]:
    """Monday: one approach is tried, thrown away by a rewind, and another one taken; a call is refused."""
    s = Conversation("tides-5", CWD, at(9, 15, 10), "claude-opus-5-5", branch="cache")
    s.open(title="Cache predictions")
    p = s.prompt("Requests for the same station take 300 ms each. Make them faster.")
    s.read("tidewatch/app.py", "(app.py)", size=5_400)
    s.reply("Each request computes 60 constituents anew. Shall I cache in memory or in a file?", seconds=6)
    s.end_turn()
    fork = s.parent
    s.prompt("In a file.", after=20)
    s.edit("tidewatch/app.py", "predict(", "file_cached(predict)(", prompt=p, thinks=12)
    s.bash("python -m pytest -q", "ERROR 12 tests: read-only file system", failed=True, seconds=5, size=4_200)
    s.reply("The tests run on a read-only disk; a file cache needs a setting there.", seconds=7)
    s.end_turn()
    s.parent = fork
    p = s.prompt("In memory, at most 500 stations.", after=75)
    s.edit("tidewatch/app.py", "predict(", "lru_cache(maxsize=500)(predict)(", prompt=p, version=2, thinks=9)
    s.bash("python -m pytest -q", "31 passed in 6.0s", seconds=6)
    call = s.reply("", [("Bash", {"command": "git push origin cache", "description": "Push the branch"})], seconds=3)[0]
    refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    decision = {"decision": "reject", "source": "user_reject"}
    s.result(call, refused, "User rejected tool use", seconds=9, error=True, permissionDecision=decision)
    s.reply("I left the branch unpushed. Answers for a cached station now take 2 ms.", seconds=4)
    s.end_turn()
    s.close(lines=(8, 4))
    return s, []


def fork_of_chart(original: Conversation) -> tuple[Conversation, Agents]:
    """Tuesday: the chart session is forked; its lines stand in the new file under the new session id."""
    s = Conversation("tides-6", CWD, at(10, 9, 20), "claude-opus-5-5")
    s.open()
    last = next(no for no, e in enumerate(original.lines) if e.get("subtype") == "turn_duration")
    s.lines += [e | {"sessionId": s.session} for e in original.lines[: last + 1] if "uuid" in e]
    s.parent = s.lines[-1]["uuid"]
    s.context = 46_000
    p = s.prompt("Try the same chart as ASCII art for the terminal.", after=30)
    s.edit("tidewatch/cli.py", "# commands", "def ascii_chart(station): ...", prompt=p, thinks=16)
    s.bash("python -m tidewatch chart 17", "      .-''-.\n    .'      '.\n---'          '---", seconds=1.1)
    s.reply("`tidewatch chart STATION` draws it with dots.", seconds=4)
    s.end_turn()
    s.note("custom-title", customTitle="ASCII chart (fork)")
    s.close(lines=(19, 0))
    return s, []
