"""The second project: recipe-box, a static site of recipes. Sessions of a fortnight, oldest first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from billing import Line
from story_tides import Agents, at, slash, start_agent
from transcript import Conversation, stamp

CWD = "/home/dev/recipe-box"
WORKTREE = f"{CWD}/.claude/worktrees/print-view"
SONNET = "claude-sonnet-5-5"
# The smallest PNG there is: one grey pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="


def import_recipes() -> tuple[Conversation, Agents]:
    """Tuesday: the service is overloaded twice, then a request fails for good and is tried again."""
    s = Conversation("recipes-1", CWD, at(3, 18, 15), SONNET, cache="5m")
    s.open(title="Import recipes from Markdown")
    p = s.prompt("Import the 40 Markdown files in inbox/ as recipes. Keep units as written.")
    calls = s.reply(
        "I'll look at a few files and the present format.",
        [
            ("Read", {"file_path": f"{CWD}/inbox/bread.md"}),
            ("Read", {"file_path": f"{CWD}/inbox/soup.md"}),
            ("Bash", {"command": "ls inbox | wc -l", "description": "Count files"}),
        ],
    )
    s.result(calls[2], "40", {"stdout": "40", "stderr": "", "interrupted": False, "isImage": False}, seconds=0.1)
    s.result(calls[0], "# Bread\n\n500 g flour\n", {"type": "text"}, seconds=0.1, size=700)
    s.result(calls[1], "# Soup\n\n1 l stock\n", {"type": "text"}, seconds=0.1, size=650)
    for attempt, wait in ((1, 0.6), (2, 1.3)):
        retry(s, attempt, wait)
    s.edit("build/import.ts", "// readers", "readers.push(markdown)", prompt=p, thinks=12)
    s.bash("npm run import", "38 imported, 2 without a yield: waffles, stock", seconds=4)
    failed(s)
    s.prompt("Go on.", after=130)
    s.edit("build/import.ts", "yield: required", "yield: optional", prompt=p, version=2)
    s.bash("npm run import", "40 imported", seconds=4)
    s.reply("All 40 recipes are in. Two have no yield; their pages leave it out.", seconds=5)
    s.end_turn()
    s.close(lines=(58, 9))
    return s, []


def retry(s: Conversation, attempt: int, wait: float) -> None:
    """A request that failed and is tried again."""
    error = {
        "message": "Overloaded",
        "status": 529,
        "requestId": "req_" + s.digest(12).hex(),
        "formatted": "529 Overloaded",
    }
    fields: Line = {"subtype": "api_error", "level": "error", "error": error, "retryInMs": round(wait * 1000)}
    s.put("system", fields | {"retryAttempt": attempt, "maxRetries": 10, "source": "request_retry"}, seconds=wait)


def failed(s: Conversation) -> None:
    """A request that failed for good: the program answers itself."""
    usage: Line = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    text = {"type": "text", "text": "API Error: Connection error."}
    message: Line = {
        "id": s.new_uuid(),
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [text],
    }
    message |= {"stop_reason": "stop_sequence", "stop_sequence": "", "usage": usage}
    s.put("assistant", {"message": message, "isApiErrorMessage": True, "error": "server_error"}, seconds=61)


def schema_search() -> tuple[Conversation, Agents]:
    """Thursday: a question for the web, and a session that is given a name."""
    s = Conversation("recipes-2", CWD, at(5, 19, 2), SONNET, cache="5m")
    s.open(title="Recipe markup for search engines")
    p = s.prompt("How do search engines want recipes marked up today? Do that.")
    s.reply(
        "They read JSON-LD of the type Recipe.",
        searches=["recipe structured data 2026", "Recipe JSON-LD yield"],
        seconds=11,
    )
    url = "https://example.org/recipe-markup"
    page: Line = {"bytes": 48_213, "code": 200, "codeText": "OK", "result": "(abridged)", "durationMs": 912, "url": url}
    s.run(
        "WebFetch",
        {"url": url, "prompt": "Which fields are required?"},
        "name and image; others help.",
        page,
        size=1_400,
    )
    s.edit("build/page.ts", "</head>", "${jsonLd(recipe)}</head>", prompt=p, thinks=10)
    s.bash("npm test", "212 passing", seconds=9)
    s.reply("Every page carries its recipe as JSON-LD; name and image are always filled.", seconds=5)
    s.end_turn()
    slash(s, "/rename", "Session renamed to: Structured data")
    s.note("custom-title", customTitle="Structured data")
    s.close(lines=(31, 2))
    return s, []


def background_worktree() -> tuple[Conversation, Agents]:
    """Wednesday: in a worktree, an agent works in the background and reports later; one turn is cut short."""
    s = Conversation("recipes-3", WORKTREE, at(11, 17, 45), SONNET, branch="print-view", cache="5m")
    s.open(title="Print view")
    state: Line = {
        "originalCwd": CWD,
        "worktreePath": WORKTREE,
        "worktreeName": "print-view",
        "worktreeBranch": "print-view",
    }
    s.note("worktree-state", worktreeSession=state | {"sessionId": s.session})
    p = s.prompt("Printed pages break inside the list of ingredients, see the picture. Fix it.", image=PIXEL)
    given: Line = {
        "description": "Check all pages",
        "prompt": "Print every page to PDF and list those that break a list.",
    }
    given |= {"subagent_type": "general-purpose", "run_in_background": True}
    call = s.reply("A helper can print all pages while I change the style.", [("Agent", given)], seconds=6)[0]
    a, meta = start_agent(s, call, "a1c0ffee00000005", SONNET, spawnDepth=1)
    launched(s, call.id, a.agent, call.line)
    s.edit("style/print.css", "ul {", "ul { break-inside: avoid;", prompt=p, thinks=7)
    s.reply("The style is changed. I'll report when the helper is back.", seconds=4)
    s.end_turn()
    a.bash("npm run print -- --all", "212 pages, 3 with a broken list", seconds=64, size=5_100)
    a.reply("Three pages break a list: paella, ramen, wedding-cake.", seconds=5)
    notify(s, a, call.id)
    s.reply(
        "Three long recipes still break; their lists are longer than a page, so that is as good as it gets.", seconds=6
    )
    s.end_turn()
    s.prompt("Make those three print in two columns.", after=90)
    s.reply("I'll add a class for long lists.", seconds=3)
    text = {"type": "text", "text": "[Request interrupted by user]"}
    s.put("user", {"message": {"role": "user", "content": [text]}}, seconds=4)
    p = s.prompt("Never mind, only the ingredients, not the steps.", after=12)
    s.edit("style/print.css", "ul {", "ul.long { columns: 2;", prompt=p, version=2, thinks=6)
    s.reply("Ingredients of long recipes print in two columns.", seconds=3)
    s.end_turn()
    s.close(lines=(9, 1))
    return s, [(a, meta)]


def launched(s: Conversation, call: str, agent: str, line: str) -> None:
    """The answer a background agent's start gets at once."""
    out = f"/tmp/claude-1000/{s.session}/tasks/{agent}.output"
    data: Line = {"isAsync": True, "status": "async_launched", "agentId": agent, "description": "Check all pages"}
    data |= {"resolvedModel": SONNET, "outputFile": out, "canReadOutputFile": True}
    text = [{"type": "text", "text": f"Async agent launched successfully.\nagentId: {agent}"}]
    block: dict[str, Any] = {"tool_use_id": call, "type": "tool_result", "content": text}
    fields: Line = {"promptId": s.prompt_id, "message": {"role": "user", "content": [block]}, "toolUseResult": data}
    s.put("user", fields | {"sourceToolAssistantUUID": line}, seconds=0.2)


def notify(s: Conversation, a: Conversation, call: str) -> None:
    """A background agent is done: the message waits in the queue and then starts a turn of its own."""
    ids = f"<task-id>{a.agent}</task-id>\n<tool-use-id>{call}</tool-use-id>"
    head = f"<task-notification>\n{ids}\n<status>completed</status>"
    text = f'{head}\n<summary>Agent "Check all pages" completed</summary>\n</task-notification>'
    s.at = max(s.at, a.at + timedelta(milliseconds=20))
    s.note("queue-operation", operation="enqueue", timestamp=stamp(s.at), content=text)
    s.note("queue-operation", operation="dequeue", timestamp=s.wait(0.02))
    s.prompt_id, s.turn_from = s.new_uuid(), s.at
    fields: Line = {"promptId": s.prompt_id, "message": {"role": "user", "content": text}}
    s.put("user", fields | {"origin": {"kind": "task-notification"}, "promptSource": "system"}, seconds=0.05)


def torn_end() -> tuple[Conversation, Agents]:
    """Friday: the machine goes down while a line is being written."""
    s = Conversation("recipes-4", CWD, at(13, 20, 30), SONNET, cache="5m")
    s.open(title="Metric and cups side by side")
    p = s.prompt("Show metric and cups side by side.")
    s.read("build/units.ts", "export const CUP_ML = 240", size=1_100)
    s.edit("build/units.ts", "CUP_ML = 240", "CUP_ML = 236.6", prompt=p, thinks=7)
    call = s.reply("", [("Bash", {"command": "npm test", "description": "Run tests"})], seconds=4)[0]
    s.result(call, "212 passing", {"stdout": "212 passing", "stderr": "", "interrupted": False}, seconds=9)
    s.torn = s.lines.pop()
    return s, []
