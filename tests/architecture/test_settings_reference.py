"""The page of settings, the settings and the keywords of `MCPServer` say the same."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from django_mcp.conf import Settings
from django_mcp.servers import MCPServer

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()
SITE_WIDE = frozenset(
    re.findall(r"`([A-Z_]+)`", PAGE.split("for the whole site:")[1].split("\n\n")[0])
)
DEFAULTS = {field.name: field.default for field in fields(Settings)}
OPTIONS = sorted(set(DEFAULTS) - SITE_WIDE - {"NAME"})


@pytest.mark.parametrize("key", OPTIONS)
def test_a_setting_that_is_not_site_wide_is_a_keyword_of_a_server(key: str):
    MCPServer("staff", **{key.lower(): DEFAULTS[key]})


@pytest.mark.parametrize("key", sorted(SITE_WIDE))
def test_a_site_wide_setting_is_no_keyword_of_a_server(key: str):
    with pytest.raises(TypeError, match=key.lower()):
        MCPServer("staff", **{key.lower(): DEFAULTS[key]})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_streams_per_principal", 3),
        ("max_sessions_per_principal", 3),
        ("max_tasks_per_principal", 3),
        ("tell_lists_at_start", True),
        ("state_inline_bytes", 0),
        ("state_single_use", True),
        ("page_size", 0),
    ],
)
def test_a_keyword_of_a_server_is_in_force_under_the_same_name(option: str, value: object):
    server = MCPServer("staff", **{option: value})

    assert getattr(server.options, option) == value
