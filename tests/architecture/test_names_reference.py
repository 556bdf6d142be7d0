"""The page of names in other SDKs lists only names that exist here."""

from __future__ import annotations

import re

import pytest

import django_mcp
from django_mcp import signals
from django_mcp.conf import SETTINGS
from django_mcp.server.exchange.connection import ConnectionState
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs" / "reference" / "names.md").read_text()
OURS = [row.split(" | ")[1] for row in PAGE.splitlines() if row.startswith("| ")]
NAMES = sorted({name for cell in OURS for name in re.findall(r"`([A-Za-z_.]+)`", cell)})
HOMES = {
    "server": django_mcp.MCPServer,
    "ctx": django_mcp.Context,
    "connection": ConnectionState,
    "signals": signals,
    "Completion": django_mcp.Completion,
}
OTHERS = {"connection", "tasks", "ALLOWED_HOSTS", "CancelledError"}


@pytest.mark.parametrize("name", NAMES)
def test_the_equivalents_of_other_sdk_names_exist(name: str):
    home, _, attribute = name.partition(".")

    if attribute:
        assert hasattr(HOMES[home], attribute)
    else:
        assert hasattr(django_mcp, name) or name in SETTINGS or name in OTHERS


def test_the_table_is_parsed():
    assert len(NAMES) > 80
