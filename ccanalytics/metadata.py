"""Facts of lines that are no messages: titles, tags, modes, snapshots, boundaries … taken from the whole object."""

from __future__ import annotations

from typing import Any

from .facts import tags, text_hash

_TEXT_KEYS = frozenset(
    ("content", "lastPrompt", "summary", "summaryContent", "text", "prompt", "customTitle", "aiTitle", "message",
     "rendered", "toolUseResult", "stagedText", "staged", "planContent", "hookAdditionalContext", "error",
     "errorDetails", "userContext", "customInstructions", "instructions", "userFeedback")
)  # fmt: skip
_MAX_DEPTH, _MAX_FACT = 6, 4096
"""A structured fact is neither deeper nor longer than this."""
_ENVELOPE_KEYS = frozenset(
    ("type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "agentId", "timestamp",
     "isSidechain", "cwd", "gitBranch", "version", "entrypoint", "slug", "userType", "isMeta", "leafUuid", "messageId")
)  # fmt: skip
DETAILED_TYPES = frozenset(
    ("cost-state", "worktree-state", "pr-link", "last-prompt", "fork-context-ref", "file-history-delta",
     "marble-origami-commit", "marble-origami-snapshot", "marble-origami-reset", "continued-in", "relocated",
     "bridge-session", "queue-operation", "content-replacement", "attribution-snapshot", "frame-link", "ended-by-model",
     "history-suppression", "observer-ref", "isolation-latch", "speculation-accept", "tombstone", "snip")
)  # fmt: skip
VALUE_KEYS = {
    "custom-title": "customTitle", "ai-title": "aiTitle", "tag": "tag", "mode": "mode",
    "permission-mode": "permissionMode", "agent-name": "agentName", "agent-color": "agentColor",
    "agent-setting": "agentSetting", "summary": "summary",
    "last-prompt": "lastPrompt", "pr-link": "prUrl", "relocated": "relocatedCwd", "task-summary": "summary",
}  # fmt: skip
TEXT_VALUES = frozenset(("summary", "last-prompt", "task-summary"))


def object_detail(kind: str, obj: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The ``detail`` of a metadata line: the object without envelope and text."""
    if kind == "queue-operation":
        content = obj.get("content")
        return (tags(content), text_hash(content)) if isinstance(content, str) else ({}, None)
    if kind == "content-replacement":
        items = obj.get("replacements")
        ids = [r.get("toolUseId") for r in items if isinstance(r, dict)] if isinstance(items, list) else None
        return {"agentId": obj.get("agentId"), "toolUseIds": ids}, None
    if kind == "attribution-snapshot":
        states = obj.get("fileStates")
        return {
            "surface": obj.get("surface"), "promptCount": obj.get("promptCount"),
            "nFiles": len(states) if isinstance(states, dict) else None,
        }, None  # fmt: skip
    return {k: _without_text(v) for k, v in obj.items() if k not in _TEXT_KEYS and k not in _ENVELOPE_KEYS}, None


def _without_text(value: Any, depth: int = 0) -> Any:
    """A value without what is or may be conversation text, at any depth."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_FACT else None
    if not isinstance(value, dict | list):
        return value
    if depth == _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [_without_text(v, depth + 1) for v in value]
    return {k: _without_text(v, depth + 1) for k, v in value.items() if k not in _TEXT_KEYS}


def system_detail(obj: dict[str, Any]) -> dict[str, Any]:
    """The ``detail`` of a system line."""
    out: dict[str, Any] = {
        k: _without_text(obj[k])
        for k in (
            "compactMetadata", "microcompactMetadata", "snipMetadata", "removedUuids", "durationMs", "messageCount",
            "pendingBackgroundAgentCount", "retryAttempt", "maxRetries", "retryInMs", "hookCount",
            "preventedContinuation", "url", "level", "source", "toolUseID", "hasOutput",
        )
        if k in obj
    }  # fmt: skip
    error = obj.get("error")
    if isinstance(error, dict):
        cause = error.get("cause")
        out["errorStatus"] = error.get("status")
        out["errorCode"] = cause.get("code") if isinstance(cause, dict) else None
    infos = obj.get("hookInfos")
    if isinstance(infos, list):
        spent = [i.get("durationMs") for i in infos if isinstance(i, dict)]
        out["hook_duration_ms"] = sum(d for d in spent if isinstance(d, (int, float)) and not isinstance(d, bool))
    if isinstance(obj.get("hookErrors"), list):
        out["n_hook_errors"] = len(obj["hookErrors"])
    return out
