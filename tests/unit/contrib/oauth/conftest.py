"""The key and certificate of a client's own server, and limits that count within one hour."""

import time
from types import SimpleNamespace

import pytest

from django_mcp.contrib.oauth import limits
from tests.support.oauth.browser import certificate

__all__ = ["certificate"]


@pytest.fixture(autouse=True)
def _one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count within one hour and one minute: a test that goes on when one ends could do more."""
    now = time.time()
    monkeypatch.setattr(limits, "time", SimpleNamespace(time=lambda: now))
