"""What stands beside the transcripts and was read earlier or elsewhere: an export outlives its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl


class Heading(Protocol):
    """What the list of sessions shows of a file (``ccanalytics.listing.Listing`` is one)."""

    @property
    def summary(self) -> str:
        """The text shown."""

    @property
    def custom_title(self) -> str | None:
        """A title, if there is one."""

    @property
    def first_prompt(self) -> str | None:
        """The first prompt, if there is one."""


@dataclass(frozen=True)
class Beside:
    """Teams, and what each file shows in the list of sessions, by its path."""

    team_members: pl.DataFrame
    headings: Mapping[str, Heading] = field(default_factory=dict)
