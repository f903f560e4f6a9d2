"""What becomes of each value when transcripts are made fit to share."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from typing import Any

from ccanalytics.models import canonical_model, named_model
from ccanalytics.secrets import mask_secrets

from .vocabulary import KEYS, PHRASES, TAGS, WORDS, words

MIN_CHECKED = 9
"""Originals of this many characters or more must not be found in the copy."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_ID = re.compile(rf"{_UUID.pattern}|\b(?:msg|req|toolu|srvtoolu|call)_[A-Za-z0-9_-]{{4,}}")
_ID_PREFIX = re.compile(
    r"^(?:msg_|req_|toolu_|srvtoolu_|call_|agent-|acompact-|aprompt_suggestion-|aside_question-|a(?=[0-9a-f]{6,}$))"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?)?")
KIND = re.compile(r"[a-z][a-z0-9_-]{1,40}")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_EXTENSION = re.compile(r"\.[a-z0-9]{1,5}$")
_TAG = re.compile(rf"(</?(?:{'|'.join(TAGS)})(?:\s[^<>]*)?>)")
_AGENT = re.compile(r"agentId: ([A-Za-z0-9_-]{1,80})")
_PERSISTED = re.compile(r"saved to: (\S+)")

_PATH_KEYS = words("""
cwd path file_path filePath filename filenames displayPath originalCwd preEnterOriginalCwd worktreePath outputFile
transcriptDir trackingPath realParentDir relocatedCwd workingDirectory additionalWorkingDirectories
persistedOutputPath rawOutputPath project projectPath originalPath fullPath notebook_path scriptPath backupFileName
root project_dir worktree persisted_path
""")
_BRANCH_KEYS = frozenset(["gitBranch", "worktreeBranch", "originalBranch", "branch", "git_branch"])
_MODEL_KEYS = words("""
model modelId advisorModel resolvedModel requestedModel fallbackModel originalModel pickedEffortModel modelsUsed
requested_model model_family
""")
_NAME_KEYS = words("""
name agentType agent_type subagent_type agentName agent_name agentSetting teamName team_name attributionAgent
attributionSkill attributionPlugin attributionMcpServer attributionMcpTool toolName tool_name serverName commandName
workflowName worktreeName names addedNames removedNames readdedNames addedTypes toolsUsed tools
preCompactDiscoveredTools hookName slug to resume tool
""")
_ID_KEYS = words("""
project_key id uuid uuids allUuids removedUuids toolUseIds compactedToolIds clearedAttachmentUUIDs supersedes task_id
tool_use_id user_id source_uuid agentId agent_id session_id leafUuid requestRef call_id message_ref contentHash hash
shapeHash digests requestDigest
""")


class Redactor:
    """Maps values to others of the same kind, the same value always to the same one under one key.

    Parameters
    ----------
    key
        Secret of the mapping; who has it can test a guess.
    keep_text
        Keep texts; secrets, ids, and paths in them are replaced all the same.
    """

    def __init__(self, key: bytes, *, keep_text: bool = False) -> None:
        self._key = key
        self._keep_text = keep_text
        self.originals: set[str] = set()
        """Every string that was replaced and is long enough to be looked for in the copy."""
        self.kinds: set[str] = set()
        """Kinds of lines, which stay wherever else the same word was replaced."""
        self.mentions: dict[str, str] = {}
        """Directories and branches and what they became: texts that are kept may speak of them."""

    def value(self, value: Any, key: str = "") -> Any:
        """A JSON value with every string in it replaced, as the key it stands under asks for."""
        if isinstance(value, str):
            return self.string(value, key)
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        if isinstance(value, dict):
            new = {self._key_of(k, key): self.value(v, k) for k, v in value.items()}
            if key in ("", "attachment", "data"):
                new |= {k: self.kind(v) for k in ("type", "subtype") if isinstance(v := value.get(k), str)}
            return new
        return value

    def _key_of(self, name: str, parent: str) -> str:
        if parent in ("modelUsage", "usage_by_model"):
            return self.model(name)
        if parent in ("trackedFileBackups", "fileStates"):
            return self.path(name)
        if name in KEYS or name.isdigit():
            return name
        self._note(name)
        return f"k_{self._hash(name, 8)}"

    def kind(self, text: str) -> str:
        """What a line, a block or an attachment is; kinds this version does not know stay, too."""
        if not KIND.fullmatch(text):
            return self.text(text)
        self.kinds.add(text)
        return text

    def string(self, text: str, key: str = "") -> str:
        """One string under a key."""
        if not text or text.isspace():
            return text
        if key in _LISTS:
            return ",".join(self.string(part, _LISTS[key]) for part in text.split(","))
        for keys, change in self._by_key:
            if key in keys:
                return change(self, text)
        if key.endswith(("Uuid", "UUID", "Id", "ID", "_uuid", "_id")):
            return self.identifier(text)
        if key in _STRUCTURE and self._is_structure(key, text):
            return text
        if key.endswith(("timestamp", "Time", "At", "_at", "date")) and _TIME.fullmatch(text):
            return text
        if key in ("signature", "data", "base64"):
            return self.blob(text)
        if key == "lines" and text[:1] in "+- ":
            return text[0] + self.text(text[1:])
        return self.text(text)

    def _is_structure(self, key: str, text: str) -> bool:
        return text in WORDS or (key == "version" and _VERSION.fullmatch(text) is not None)

    def text(self, text: str) -> str:
        """A text as its length and a keyed hash; marks by which Claude Code tells kinds of lines stay."""
        if not text or text.isspace():
            return text
        if self._keep_text:
            return self._kept(text)
        if _TAG.search(text):
            return self._tagged(text)
        lead = next((p for p in PHRASES if text.startswith(p)), "")
        rest = self._placeholder(text[len(lead) :]) if len(lead) < len(text) else ""
        agent = _AGENT.search(text)
        return lead + rest + (f" agentId: {self.identifier(agent[1])}" if agent else "")

    def _tagged(self, text: str) -> str:
        """Tags stay, ids and states between them are mapped, the rest is replaced."""
        parts, tag = list[str](), ""
        for part in _TAG.split(text):
            if _TAG.fullmatch(part):
                name = re.findall(r"[\w-]+", part)[0]
                tag = "" if part.startswith("</") else name
                parts.append(f"</{name}>" if part.startswith("</") else f"<{name}>")
            elif tag in ("task-id", "tool-use-id"):
                parts.append(self.identifier(part.strip()) if part.strip() else part)
            elif part.strip() in WORDS or part.strip().isdigit():
                parts.append(part)
            elif tag == "persisted-output" and (saved := _PERSISTED.search(part)):
                parts.append(f"{self._placeholder(part)} saved to: {self.path(saved[1])}")
            else:
                parts.append(self._placeholder(part) if part and not part.isspace() else part)
        return "".join(parts)

    def _placeholder(self, text: str) -> str:
        self._note(text)
        return f"[text {len(text)} {self._hash(text, 12)}]"

    def _kept(self, text: str) -> str:
        masked = _ID.sub(lambda found: self.identifier(found[0]), mask_secrets(text))
        for mention in sorted(self.mentions, key=len, reverse=True):
            masked = masked.replace(mention, self.mentions[mention])
        return masked

    def learn(self, directories: Iterable[str], branches: Iterable[str]) -> None:
        """Directories and branches that texts may mention, to be known before the first text."""
        for text in directories:
            for place in _with_home(text):
                self.mentions[place] = self.path(place)
        self.mentions |= {text: self.branch(text) for text in branches if len(text) >= MIN_CHECKED}

    def blob(self, text: str) -> str:
        """Bytes as text (an image, a signature)."""
        self._note(text)
        return f"[data {len(text)} {self._hash(text, 12)}]"

    def identifier(self, text: str) -> str:
        """An id of the same shape: uuids stay uuids, known prefixes stay."""
        if not text or text in WORDS:
            return text
        self._note(text)
        if text.startswith("agent-"):
            return "agent-" + self.identifier(text[6:])
        if _UUID.fullmatch(text):
            h = self._hash(text, 32)
            return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:32]}"
        prefix = found[0] if (found := _ID_PREFIX.match(text)) else ""
        return prefix + self._hash(text[len(prefix) :], 16)

    def path(self, text: str) -> str:
        """A path with every part replaced; separators, known folders and file extensions stay."""
        if "\n" in text:
            return self.text(text)
        self._note(text)
        parts = re.split(r"([/\\]+)", text)
        return "".join(part if i % 2 else self._path_part(part) for i, part in enumerate(parts))

    def _path_part(self, part: str) -> str:
        if part in _FOLDERS or re.fullmatch(r"[A-Za-z]:|\.{0,2}|~", part):
            return part
        stem, extension = part, ""
        if found := _EXTENSION.search(part[1:]):
            stem, extension = part[: -len(found[0])], found[0]
        if _UUID.fullmatch(stem) or stem.startswith("agent-"):
            return self.identifier(stem) + extension
        if len(part) >= MIN_CHECKED:
            self._note(part)
        return f"p{self._hash(stem, 8)}{extension}"

    def branch(self, text: str) -> str:
        """A branch name."""
        return self._named(text, "branch")

    def name(self, text: str) -> str:
        """The name of a tool, agent, skill …; Claude Code's own stay."""
        if text.startswith("mcp__"):
            self._note(text)
            return "__".join(["mcp", *(self._hash(part, 8) for part in text.split("__")[1:])])
        if ":" in text and " " not in text:
            return ":".join(self.name(part) for part in text.split(":"))
        return self.text(text) if " " in text.strip() else self._named(text, "name")

    def _named(self, text: str, kind: str) -> str:
        if text in WORDS:
            return text
        self._note(text)
        return f"{kind}-{self._hash(text, 8)}"

    def model(self, text: str) -> str:
        """A model id: those of Claude models stay (without an account around them), others are replaced."""
        if text == "<synthetic>":
            return text
        known = named_model(text)
        if known is None:
            return self._named(text, "model")
        if "arn:" in text or "/" in text:
            return canonical_model(known) or known
        return text

    def number(self, value: int) -> int:
        """A hash of a text, hashed again with the key; it fits a signed and an unsigned 64-bit column."""
        return int.from_bytes(self._digest(str(value))[:8], "big") >> 1

    def _note(self, text: str) -> None:
        if len(text) >= MIN_CHECKED and not _is_public(text):
            self.originals.add(text)

    def _hash(self, text: str, length: int) -> str:
        return self._digest(text).hex()[:length]

    def _digest(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    _by_key: tuple[tuple[frozenset[str], Callable[[Redactor, str], str]], ...] = (
        (_PATH_KEYS, path),
        (_BRANCH_KEYS, branch),
        (_MODEL_KEYS, model),
        (_NAME_KEYS, name),
        (_ID_KEYS, identifier),
    )


def _is_public(text: str) -> bool:
    """Words of the format, times, versions and Claude's model ids say nothing about anybody wherever they stand."""
    if text in WORDS or text in KEYS or _TIME.fullmatch(text) or _VERSION.fullmatch(text):
        return True
    return "claude" in text and ":" not in text and canonical_model(text) is not None


def _with_home(directory: str) -> list[str]:
    """A directory and the home directory it lies in, as far as they name anything."""
    home = re.match(r"(/(?:home|Users)/[^/]+|[A-Za-z]:\\Users\\[^\\]+)", directory)
    found = [directory, *([home[1]] if home else [])]
    return [place for place in found if len(place) > 1 and re.match(r"[/\\~]|[A-Za-z]:", place)]


_LISTS = {"models": "model", "copied_to": "session_id", "resumed_by": "tool_use_id", "session_ids": "session_id"}
"""Columns of an export that hold several values, separated by commas."""

_FOLDERS = words("""
projects subagents workflows tool-results .claude worktrees file-history paste-cache image-cache todos tasks plans
src tests docs home Users tmp var usr opt etc mnt private
""")

_STRUCTURE = words("""
type subtype role level operation userType entrypoint permissionMode mode service_tier speed inference_geo
stop_reason status kind trigger hookEvent decision source effort perTurnEffort promptSource turnOrigin rowSource
madeBy renderedRole version media_type commandMode reasonType retrieval_status taskType apiError error
streamCutCause querySource platform shell sessionKind side risk priority promptCacheRequested originKind prompt_kind
layout content_kind result_kind value command_head content tag toolDenialKind
""")
