"""Text that must stay text, put into every field of a transcript that holds text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.build import assistant as said
from tests.build import (
    attachment,
    boundary,
    chain,
    compact_summary,
    meta,
    progress,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    uid,
    usage,
    user,
    write_agent,
    write_session,
)

MARKUP = "<script>window.hacked=1</script><b class=payload>x</b>"
IMAGE = '"><img class=payload src=x onerror="window.hacked=1">'
ENTITY = "a &lt;b&gt; & c"
TERMINAL = "\x1b[31mred\x1b]0;owned\x07\x9b2J\r\x08"
DIRECTION = "abc\u202edcba\u2066"
FORMULAS = ("=1+1", "+1", "-1+2", "@SUM(1)", "\t=1", "\r=1", '=HYPERLINK("http://x.test")', "＝1+1")
MARKDOWN = (
    "[link](http://x.test) ![i](http://x.test) **b** `c` ```fence | cell https://x.test www.x.test <http://x.test>"
)
MATH = "$\\frac{1}{ $x^2$ \\nosuch{"
LINES = "one\ntwo\u2028three\u2029four\x0bfive\x85six"
PLACES = (
    "../../etc/passwd",
    "..\\..\\a",
    "/etc/passwd",
    "C:\\Windows\\win.ini",
    "a\x00b",
    "CON",
    "NUL.txt",
    "~root",
    "a/b",
)

PAYLOADS = {
    "markup": MARKUP,
    "image": IMAGE,
    "entity": ENTITY,
    "terminal": TERMINAL,
    "direction": DIRECTION,
    "markdown": MARKDOWN,
    "math": MATH,
    "lines": LINES,
    **{f"formula{i}": f for i, f in enumerate(FORMULAS)},
    **{f"place{i}": p for i, p in enumerate(PLACES)},
}


def write_hostile(config: Path, payload: str) -> Path:
    """A session with an agent, calls, a compaction, titles and links, every free text of which is ``payload``."""
    p = payload
    spot: dict[str, Any] = {"gitBranch": p, "version": p, "entrypoint": p, "slug": p, "cwd": p, "promptId": p}
    seen: dict[str, Any] = {"service_tier": p, "speed": p, "inference_geo": p}
    facts = {"filePath": p, "status": p, "agentId": "abc", "agentType": p, "resolvedModel": p, "commandName": p}
    facts |= {"persistedOutputPath": p, "worktreeBranch": p, "worktreePath": p, "workflowName": p, "outputFile": p}
    given = {"subagent_type": p, "description": p, "prompt": p, "file_path": p, "command": p, "url": p, "name": p, p: p}
    lines = chain(
        user("u1", p, **spot),
        said(
            "a1", [text(p), thinking(p)], model=p, usage=usage(input=9, **seen), requestId=p, requestedModel=p, **spot
        ),
        tool_use("a2", p, given, call="t1", **spot),
        tool_result("r1", "t1", p, is_error=True, toolUseResult=facts, **spot),
        tool_use("a3", "Task", given, call="t2", message_id=f"msg_{p}", **spot),
        tool_result("r2", "t2", [text(p)], toolUseResult=facts, **spot),
        system("s1", p, content=p, level=p, source=p, url=p, **spot),
        system("s2", "api_error", error={"status": p, "message": p, "cause": {"code": p}}, **spot),
        attachment("x1", p, {"hookName": p, "hookEvent": p, "prompt": p, "commandMode": p}, **spot),
        attachment("x2", "queued_command", {"prompt": p, "commandMode": p}, **spot),
        progress("p1", p, {"hookName": p, "toolName": p, "serverName": p}, **spot),
        user("u2", "<command-name>" + p + "</command-name>", origin={"kind": p}, permissionMode=p, **spot),
        boundary("b1", logical="u2", trigger=p),
        compact_summary("k1", p, **spot),
        said("a4", p, model=p, isApiErrorMessage=True, error=p, **spot),
        meta("custom-title", customTitle=p),
        meta("ai-title", aiTitle=p),
        meta("tag", tag=p),
        meta("mode", mode=p),
        meta("permission-mode", permissionMode=p),
        meta("agent-name", agentName=p),
        meta("agent-color", agentColor=p),
        meta("agent-setting", agentSetting=p),
        meta("last-prompt", lastPrompt=p, leafUuid=uid("a4")),
        meta("summary", summary=p, leafUuid=uid("a4")),
        meta("pr-link", prNumber=1, prUrl=p, prRepository=p),
        meta("queue-operation", operation=p, content=p),
        meta("worktree-state", worktreeSession={"worktreePath": p, "worktreeBranch": p, "originalCwd": p}),
        meta("cost-state", totalCostUSD=1.5, modelUsage={p: {"inputTokens": 1, "costUSD": 1.5}}),
        meta("file-history-delta", file=p, path=p),
        meta("content-replacement", replacements=[{"toolUseId": p, "replacement": p}]),
        meta("zz-" + p, value=p),
        {"type": p, "uuid": p, "sessionId": p, "agentId": p, "timestamp": p, "cwd": p},
    )
    write_session(config, lines)
    inner = chain(
        user("i1", p, **spot), said("i2", p, model=p, usage=usage(), **spot), session="s1", agent="abc", cwd=p
    )
    write_agent(config, "abc", inner, meta={"agentType": p, "description": p, "name": p, "model": p, "toolUseId": p})
    odd = chain(user("o1", p), said("o2", p, usage=usage()), session="s2")
    for line in odd:
        line |= {"sessionId": p, "agentId": p, "uuid": f"{p}{line['uuid']}"}
    write_session(config, odd, session="s2")
    (config / "history.jsonl").write_text(
        json.dumps({"display": p, "pastedContents": {}, "timestamp": 1, "project": p, "sessionId": p}) + "\n", "utf-8"
    )
    return config
