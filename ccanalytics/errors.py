"""The errors this package raises: one base class, few children, facts as attributes."""

from __future__ import annotations


class CCAnalyticsError(Exception):
    """Base of every error raised on purpose by ccanalytics.

    The keyword arguments given at construction are kept as attributes in ``facts``, so that a program
    can act on them without reading the sentence.
    """

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts: dict[str, object] = facts

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.facts))


def _rebuild(cls: type[CCAnalyticsError], args: tuple[str, ...], facts: dict[str, object]) -> CCAnalyticsError:
    return cls(args[0] if args else "", **facts)


class UsageError(CCAnalyticsError, ValueError):
    """A parameter has a value that is not allowed; says what was got and what is allowed."""


class NotFoundError(CCAnalyticsError, LookupError):
    """A path, session, entry or table that was asked for does not exist."""


class NothingToResumeError(CCAnalyticsError, LookupError):
    """Claude Code would refuse to resume this session; ``facts["reason"]`` says why."""


class ReadError(CCAnalyticsError, OSError):
    """A file could not be read at all (lines that cannot be read are rows of ``problems`` instead)."""


class WriteError(CCAnalyticsError, OSError):
    """Writing, removing or repairing was refused or failed; the original file is unchanged."""


class MissingExtraError(CCAnalyticsError, ImportError):
    """An optional dependency is not installed; the sentence names the extra that brings it."""


class ExpectationError(CCAnalyticsError, AssertionError):
    """A frame did not meet what ``cc.expect`` demands; the sentence shows the rows at fault."""
