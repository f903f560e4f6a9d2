"""Model ids in all their forms, and the one name each stands for."""

from __future__ import annotations

import re
from functools import lru_cache

_FAMILY = r"(?:opus|sonnet|haiku|fable|mythos)"
_PROVIDER = re.compile(r"^(?:.*[/:.]|(?:databricks|bedrock|vertex|azure|anthropic)-)?(?=claude-)", re.DOTALL)
# What may follow the name proper: a date, a Vertex or Bedrock version, a context or variant suffix.
_TAIL = r"(?:-(?:20\d{6}|latest|fast|thinking)|@[\w.-]+|-v\d+(?::\w+)*|:\w+|\[\w+\])*"
_NEW = re.compile(rf"claude-({_FAMILY})-(\d{{1,2}})(?:[-.](\d{{1,2}}))?(?!\d)({_TAIL})")
_OLD = re.compile(rf"claude-(\d{{1,2}})(?:[-.](\d{{1,2}}))?-({_FAMILY})({_TAIL})")
_OLDEST = re.compile(rf"claude-(instant-1|2)(?:[-.](\d))?({_TAIL})")


@lru_cache(4096)
def canonical_model(model: str) -> str | None:
    """The canonical name of a model id, or None where the id is not a Claude model's.

    Dated, ``-latest``, ``[1m]``, Bedrock (with region, as ARN), Vertex, provider-prefixed, upper-case and dotted
    forms all come out as one name: ``claude-sonnet-4-5``, ``claude-opus-4-0``, ``claude-3-5-haiku``. The whole id has
    to be understood: a name with anything else around it is another model.

    Examples
    --------
    >>> canonical_model("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    'claude-sonnet-4-5'
    >>> canonical_model("claude-opus-5[1m]"), canonical_model("gpt-5")
    ('claude-opus-5', None)
    """
    name = _PROVIDER.sub("", model.strip().lower(), count=1)
    return _spell(_NEW.fullmatch(name), _OLD.fullmatch(name), _OLDEST.fullmatch(name))


@lru_cache(4096)
def named_model(model: str) -> str | None:
    """The canonical name found anywhere inside an id, as Claude Code itself looks for it; None where there is none."""
    name = model.strip().lower()
    return canonical_model(model) or _spell(_NEW.search(name), _OLD.search(name), _OLDEST.search(name))


def is_first_party(model: str) -> bool:
    """True for an id as the first-party API takes it: no Bedrock, Vertex or provider form."""
    name = model.strip().lower()
    return name.startswith("claude-") and "@" not in name and not re.search(r"-v\d+(:\d+)?$", name)


def _spell(new: re.Match[str] | None, old: re.Match[str] | None, oldest: re.Match[str] | None) -> str | None:
    if new:
        family, major, minor = new[1], new[2], new[3]
        return _modern(family, major, minor)
    if old:
        major, minor, family = old[1], old[2], old[3]
        if int(major) > 3:
            return _modern(family, major, minor)
        return f"claude-{major}-{minor}-{family}" if minor else f"claude-{major}-{family}"
    if oldest:
        default = "2" if oldest[1] == "instant-1" else "0"
        return f"claude-{oldest[1]}-{oldest[2] or default}"
    return None


def _modern(family: str, major: str, minor: str | None) -> str:
    # The first of the fours has no minor number in its dated ids and 0 in its alias.
    if major == "4" and minor is None:
        minor = "0"
    return f"claude-{family}-{major}-{minor}" if minor else f"claude-{family}-{major}"
