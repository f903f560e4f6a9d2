"""Fields that few lines have are looked for before each is asked for them: none may be forgotten."""

from __future__ import annotations

import pytest
from msgspec import Raw

from ccanalytics import facts
from ccanalytics.decode import Line


@pytest.mark.parametrize("name", [name for name, _ in facts._USER_FIELDS])
def test_every_rare_field_of_a_user_entry_is_looked_for(name: str) -> None:
    assert facts.any_more_of_users([Line(), Line(**{name: False})])


@pytest.mark.parametrize("name", [name for name, _ in facts._ASSISTANT_FIELDS])
def test_every_rare_field_of_an_assistant_entry_is_looked_for(name: str) -> None:
    assert facts.any_more_of_assistants([Line(), Line(**{name: 0})])


def test_raw_fields_are_looked_for_and_absent_ones_are_none() -> None:
    for name in ("origin", "permission_decision"):
        assert facts.any_more_of_users([Line(**{name: Raw(b"{}")})])
    for name in ("error", "supersedes"):
        assert facts.any_more_of_assistants([Line(**{name: Raw(b"{}")})])
    assert not facts.any_more_of_users([Line()])
    assert not facts.any_more_of_assistants([Line()])
