"""The thread that follows which entries are disabled."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from django_mcp.endpoints.disabled_entries import _poll


class Moving:
    """A router that sends everything to a database that is gone after it was first asked for."""

    def __init__(self) -> None:
        self._aliases = iter(["default"])

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return next(self._aliases, "gone")


@pytest.mark.django_db
def test_it_ends_when_the_database_of_the_table_is_gone(settings: Any):
    settings.DATABASE_ROUTERS = [Moving()]
    has_read = threading.Event()

    _poll(has_read)

    assert not has_read.is_set()
