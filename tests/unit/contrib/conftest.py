"""What the tests of generated tools share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp.signals import tool_called


@pytest.fixture
def calls() -> Iterator[list[Any]]:
    """The name and the outcome of each call, as receivers of `tool_called` get them."""
    made: list[Any] = []

    def note(sender: Any, call: Any, **_kwargs: Any) -> None:
        made.append((call.name, call.outcome))

    tool_called.connect(note)
    yield made
    tool_called.disconnect(note)
