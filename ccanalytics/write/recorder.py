"""`Recorder`: what goes to and comes from the Messages API, written as a transcript.

The SDK's objects are read by shape (attributes, ``model_dump``), so no SDK is needed, and plain dicts do as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ccanalytics.errors import UsageError

from .conversation import Conversation
from .lines import Json, encode
from .queue import Receipt

_TRANSIENT = ("cache_control", "citations", "caller")


class Recorder:
    """Records the calls of one conversation with the Messages API.

    Hand over what every request is made with and every message that comes back; the whole list of messages is given
    each time, and only what is new is written. A list that leaves out what was written before begins a branch there.

    Parameters
    ----------
    conversation
        A `TranscriptWriter`, or the writer of an agent.

    Examples
    --------
    >>> recorder = Recorder(writer)
    >>> messages = [{"role": "user", "content": "Say hello"}]
    >>> receipt = recorder.request(model="claude-opus-4-5", max_tokens=100, messages=messages)
    >>> receipt = recorder.response({"id": "msg_1", "role": "assistant", "model": "claude-opus-4-5", "content": []})
    >>> receipt.wait().done()
    True
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._known: list[tuple[bytes, str | None]] = []

    def request(self, *, messages: Iterable[object], **_parameters: object) -> Receipt | None:
        """Write the messages that were not written yet; the receipt of the last of them, None when none is new.

        Takes the keyword arguments of ``client.messages.create``; of those only ``messages`` is in a transcript.
        """
        given = [_plain(message) for message in messages]
        fingerprints = [_fingerprint(message) for message in given]
        same = _common(fingerprints, [known for known, _ in self._known])
        if same < len(self._known):
            self._conversation.rewind(self._known[same - 1][1] if same else None)
            del self._known[same:]
        receipt = None
        for message, fingerprint in zip(given[same:], fingerprints[same:], strict=True):
            receipt = self._write(message) or receipt
            self._known.append((fingerprint, self._conversation.last_uuid))
        return receipt

    def response(self, message: object, *, request_id: str | None = None) -> Receipt:
        """Write the message that came back, one line per content block, with its usage.

        Parameters
        ----------
        message
            The message object (of a stream: the final message), or a dict.
        request_id
            The API's request id; taken from the message object when it has one.
        """
        whole = _plain(message)
        if not isinstance(whole.get("content"), list) or whole.get("role", "assistant") != "assistant":
            raise UsageError("response() needs a message of the assistant with a list of blocks", got=sorted(whole))
        request_id = request_id or getattr(message, "_request_id", None)
        receipt = self._conversation.assistant(whole, request_id=request_id)
        self._known.append((_fingerprint({"role": "assistant", **whole}), self._conversation.last_uuid))
        return receipt

    def _write(self, message: Json) -> Receipt | None:
        content = message.get("content")
        if message.get("role") == "assistant":
            # An answer that this recorder did not see come back: it cost nothing here, and says so.
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            return self._conversation.assistant({"model": "<synthetic>", "content": blocks, "usage": _NO_USAGE})
        if not isinstance(content, list):
            return self._conversation.user(content if isinstance(content, str) else "")
        receipt, rest = None, []
        for block in content:
            if block.get("type") == "tool_result":
                receipt = self._conversation.tool_result(
                    str(block.get("tool_use_id")), block.get("content", ""), is_error=bool(block.get("is_error"))
                )
            else:
                rest.append(block)
        return self._conversation.user(rest) if rest else receipt


_NO_USAGE: Json = {"input_tokens": 0, "output_tokens": 0}


def _plain(value: object) -> Json:
    plain = _as_data(value)
    if not isinstance(plain, dict):
        raise UsageError(
            f"a message must be a dict or an object with attributes, got {type(value).__name__}", got=value
        )
    return plain


def _as_data(value: Any) -> Any:
    """Objects of an SDK as dicts; its ``to_dict`` leaves out what was never set, as the API does."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Mapping):
        return {str(k): _as_data(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_as_data(v) for v in value]
    for name in ("to_dict", "model_dump"):
        if callable(dump := getattr(value, name, None)):
            return _as_data(dump())
    if hasattr(value, "__dict__"):
        return {k: _as_data(v) for k, v in vars(value).items() if not k.startswith("_")}
    raise UsageError(f"cannot write a {type(value).__name__} to a transcript", got=type(value).__name__)


def _fingerprint(message: Json) -> bytes:
    """What makes two messages the same, whatever their spelling: role and blocks, without keys that come and go."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    kept = [{k: v for k, v in sorted(b.items()) if v is not None and k not in _TRANSIENT} for b in blocks]
    return encode({"role": message.get("role"), "content": kept})


def _common(first: list[bytes], second: list[bytes]) -> int:
    n = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        n += 1
    return n
