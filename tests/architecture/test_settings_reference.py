"""Every documented keyword of `MCPServer` works, and the page is the one generated from the settings."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from django_mcp.conf import KEYWORDS, SETTINGS
from django_mcp.server.setting import Scope, Setting
from django_mcp.servers import MCPServer
from tests.support.settings_page import PAGE

EXAMPLES: dict[str, Any] = {
    "icons": [{"src": "https://example.com/i.png", "sizes": ["48x48"]}],
    "permission": "shop.view_order",
    "scopes": ["orders"],
    "auth_challenge": "http",
    "mode": "stateless",
    "output_schemas": "thin",
    "unknown_arguments": "drop",
    "revisions": ["2025-11-25"],
    "throttle": {"principal": "600/m"},
    "website_url": "https://example.com/about",
    "card_name": "com.example/staff",
    "privacy_url": "https://example.com/privacy",
    "terms_url": "https://example.com/terms",
    "support_url": "mailto:help@example.com",
    "directories": ["registry"],
    "log_level": "error",
    "anonymous_share": 0.25,
    "authenticators": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
    "page_size": 0,
    "extensions": ["tests.unit.test_servers.Stamps"],
    "state_inline_bytes": 0,
    "log_rate": 0,
    "progress_rate": 0,
    "skills_dirs": ["/srv/shop/skills"],
    "skills_permissions": {"reports": "shop.view_report"},
}


def example_of(name: str, setting: Setting) -> Any:
    """Return a value that the setting does not have by default."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    if isinstance(setting.default, bool):
        return not setting.default
    return "x" if setting.rule.accepts("x") else 7


def section(title: str) -> str:
    return PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def documented(title: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)`", section(title), re.MULTILINE))


DOCUMENTED = {
    name.lower() for title in ("The default server", "All servers") for name in documented(title)
} - {"name"}


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_a_documented_server_keyword_takes_effect(name: str):
    value = example_of(name, KEYWORDS[name])
    server = MCPServer("staff", **{name: value})

    assert value != KEYWORDS[name].default
    if name == "public":
        assert server.engine.is_public is value
    elif name == "authenticators":
        assert server.engine.authentication is not None
        assert len(server.engine.authentication.authenticators) == 1
    else:
        assert getattr(server.engine.options, name) == value


def test_each_keyword_and_each_setting_is_documented():
    assert DOCUMENTED | {"name"} == set(KEYWORDS)
    assert documented("The default server") | documented("All servers") | documented(
        "The whole site"
    ) == set(SETTINGS)


@pytest.mark.parametrize("key", [k for k, each in SETTINGS.items() if each.scope is Scope.SITE])
def test_a_site_wide_setting_is_not_a_server_keyword(key: str):
    with pytest.raises(TypeError, match=rf"no option '{key.lower()}'.*DJANGO_MCP\['{key}'\]"):
        MCPServer("staff", **{key.lower(): SETTINGS[key].default})


@pytest.mark.parametrize("name", sorted(KEYWORDS))
def test_an_invalid_keyword_value_is_rejected_with_the_allowed_ones(name: str):
    with pytest.raises(ValueError, match=rf"^MCPServer\({name}=\.\.\.\) .* It must be "):
        MCPServer(**cast(Any, {"name": "staff", name: object()}))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("publik", "public"), ("PAGE_SIZE", "page_size"), ("page_sise", "page_size")],
)
def test_a_misspelt_keyword_is_refused_with_the_nearest_one(wrong: str, right: str):
    with pytest.raises(TypeError) as raised:
        MCPServer("staff", **{wrong: 1})

    assert str(raised.value) == f"MCPServer() has no option {wrong!r}. Did you mean {right!r}?"
