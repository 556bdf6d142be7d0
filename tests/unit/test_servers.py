"""Servers of a site: their options, names, signatures and mounting."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.signing import Signer
from django.test import Client, override_settings
from django.urls import include, path, reverse

import django_mcp
from django_mcp import Extension
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.execution.states import SiteSigner
from django_mcp.known_servers import find_server
from django_mcp.protocol.annotations import Icon
from django_mcp.protocol.json import encode
from django_mcp.protocol.results import CacheHint
from django_mcp.server.ports import Ports
from django_mcp.servers import MCPServer, all_servers, default_server
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient, headers_for, message


def test_the_module_level_decorators_use_the_default_server():
    assert django_mcp.tool.__self__ is default_server  # type: ignore[attr-defined]
    assert django_mcp.default_server is default_server
    assert all_servers()[0] is default_server


def test_a_lookup_by_name_finds_the_newest_server():
    # A test's server stays until the collector finds it: the next test's has its name.
    made = [MCPServer("twice") for _ in range(9)]

    assert find_server("twice") is made[-1]
    assert find_server("never made") is None


@override_settings(
    DJANGO_MCP={
        "NAME": "shop",
        "TITLE": "The shop",
        "INSTRUCTIONS": "Be kind.",
        "PAGE_SIZE": 5,
        "ICONS": [
            {"src": "https://example.com/i.png", "sizes": ["48x48"]},
            Icon("https://example.com/j.png"),
        ],
        "LIST_TTL_MS": 1000,
    }
)
def test_the_default_server_follows_the_settings():
    options = default_server.engine.options

    assert (options.name, options.title, options.instructions) == ("shop", "The shop", "Be kind.")
    assert options.page_size == 5
    assert options.mode == "both"
    assert options.implementation()["icons"] == [
        {"src": "https://example.com/i.png", "sizes": ["48x48"]},
        {"src": "https://example.com/j.png"},
    ]
    assert options.list_cache["tools/list"] == CacheHint(ttl_ms=1000)
    assert default_server.name == "shop"
    assert default_server.engine.options is options


@override_settings(DJANGO_MCP={"NAME": "shop", "TITLE": "The shop", "PAGE_SIZE": 5, "VERSION": "7"})
def test_another_server_shares_limits_but_not_its_identity():
    options = MCPServer("staff", call_timeout_s=3).engine.options

    assert (options.name, options.title, options.version) == ("staff", None, "7")
    assert (options.page_size, options.call_timeout_s) == (5, 3)


def test_options_follow_the_settings():
    server = MCPServer("staff")
    before = server.engine.options

    with override_settings(DJANGO_MCP={"PAGE_SIZE": 5}):
        assert server.engine.options.page_size == 5
    assert server.engine.options == before


def test_all_that_a_server_makes_of_settings_is_made_again_when_they_change():
    server = MCPServer("staff", authenticators=[APIKeyAuthenticator()])
    with override_settings(DJANGO_MCP={"SESSION_STORE": "memory", "TASK_STORE": "memory"}):
        before = server.engine
    with override_settings(DJANGO_MCP={"SESSION_STORE": "model", "TASK_STORE": "model"}):
        after = server.engine

    shared = {
        "hub",
        "clock",
        "converter",
        "counter",
        "find_language",
        "find_today",
        "find_toolset",
        "make_form",
        "make_context",
        "shows_faults",
        "trace_error",
        "watch_async",
    }
    assert after is not before
    assert after.authentication is not before.authentication
    assert after.registry is before.registry
    assert {
        each.name
        for each in fields(Ports)
        if getattr(before.ports, each.name) is getattr(after.ports, each.name)
    } == shared


async def test_streams_and_calls_that_are_open_go_on_when_settings_change():
    server = MCPServer("staff", public=True)
    is_begun, go = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        """Wait."""
        is_begun.set()
        await go.wait()
        return "done"

    client = WireClient(server, V2026_07_28)
    running = asyncio.ensure_future(client.call("wait", {}))
    await is_begun.wait()
    listening = server.engine
    hub = listening.join_hub()
    with override_settings(DJANGO_MCP={"PAGE_SIZE": 5}):
        # The former engine is known to the hub until there is another one.
        assert hub.servers["staff"] is listening
        assert server.engine is not listening
        assert hub.servers["staff"] is server.engine
        go.set()
        assert (await running)["content"][0]["text"] == "done"


async def test_a_former_engine_does_not_take_the_hub_back():
    server = MCPServer("staff", public=True)
    former = server.engine
    hub = former.join_hub()
    with override_settings(DJANGO_MCP={"PAGE_SIZE": 5}):
        current = server.engine
        # A task that still runs joins with each beat.
        former.join_hub()

        assert hub.servers["staff"] is current
        assert not any(tick in hub.on_tick for tick in former._ticks)


class Stamps(Extension):
    """An extension of the site that `EXTENSIONS` names."""

    identifier = "com.example/stamps"

    async def shutdown(self, server: Any) -> None:
        raise AssertionError("a former extension is not called any more")


@override_settings(DJANGO_MCP={"EXTENSIONS": [f"{__name__}.Stamps"]})
async def test_extensions_of_the_site_are_made_again_when_settings_change():
    server = MCPServer()
    former = server.engine
    hub = former.join_hub()
    assert isinstance(former.extensions["com.example/stamps"], Stamps)
    with override_settings(DJANGO_MCP={"PAGE_SIZE": 5}):
        assert "com.example/stamps" not in server.engine.extensions
        assert not any(function in hub.on_stop for function in former._shutdowns.values())


def test_an_unknown_option_is_refused_at_once():
    with pytest.raises(TypeError, match="page_sise"):
        MCPServer("staff", page_sise=3)


@pytest.mark.parametrize(
    "options",
    [
        {"page_size": -1},
        {"mode": "x"},
        {"call_timeout_s": "5"},
        {"icons": ["x"]},
        {"revisions": ["next"]},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_at_once(options: dict[str, Any]):
    with pytest.raises(ValueError, match="It must be"):
        MCPServer("staff", **options)


@override_settings(DJANGO_MCP={"PAGE_SIZE": 0})
def test_a_page_size_of_0_disables_paging():
    server = MCPServer("unpaged", public=True)
    for number in range(1001):
        server.register_tool(lambda: "", name=f"t{number}", description="A tool.")

    listed: Any = async_to_sync(server.handle)(message("tools/list", revision=V2026_07_28))

    assert len(listed["result"]["tools"]) == 1001
    assert "nextCursor" not in listed["result"]


# -- signatures


def test_a_signature_is_valid_on_every_worker():
    assert SiteSigner().unsign(SiteSigner().sign(b"\x00page 2\xff")) == b"\x00page 2\xff"


@pytest.mark.parametrize(
    "text", ["", ":", "AAAA", "AAAA:", "AAAA:x", "é:é", "A" * 10_000, Signer(salt="other").sign("")]
)
def test_unsigned_data_is_rejected(text: str):
    assert SiteSigner().unsign(text) is None


def test_every_changed_character_breaks_a_signature():
    signed = SiteSigner().sign(b"page 2")

    for place, char in enumerate(signed):
        other = "A" if char != "A" else "B"
        assert SiteSigner().unsign(signed[:place] + other + signed[place + 1 :]) is None


def test_a_signature_survives_a_secret_key_rotation():
    signed = SiteSigner().sign(b"page 2")

    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["only-for-tests"]):
        assert SiteSigner().unsign(signed) == b"page 2"
    with override_settings(SECRET_KEY="new"):
        assert SiteSigner().unsign(signed) is None


# -- mounting


staff = MCPServer("mounted-staff", title="For the staff", public=True)


@staff.tool
def ping() -> str:
    """Answer."""
    return "pong"


urls = ModuleType("urls")
urls.urlpatterns = [  # type: ignore[attr-defined]
    path("", include("django_mcp.urls")),
    path("staff/", staff.urls),
    path("of/<slug:tenant>/", include(([path("", include(staff.urls[0]))], "tenants"))),
]
MOUNTED = override_settings(ROOT_URLCONF=urls, MIDDLEWARE=[], ALLOWED_HOSTS=["testserver"])


def post_to(client: Any, path: str) -> Any:
    request = message("initialize", INITIALIZE, revision=V2025_11_25)
    headers = {"host": "testserver", **headers_for(request, V2025_11_25)}
    return client.post(
        path, encode(request), content_type=headers.pop("content-type"), headers=headers
    )


INITIALIZE = {
    "protocolVersion": V2025_11_25.name,
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}


@MOUNTED
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/mcp", "example-shop"),
        ("/mcp/", "example-shop"),
        ("/staff/mcp", "mounted-staff"),
        ("/staff/mcp/", "mounted-staff"),
        ("/of/acme/mcp", "mounted-staff"),
    ],
)
def test_each_server_is_mounted_with_and_without_a_trailing_slash(path: str, name: str):
    response = post_to(Client(enforce_csrf_checks=True), path)

    assert response.status_code == 200
    assert response.json()["result"]["serverInfo"]["name"] == name


@MOUNTED
def test_endpoints_have_names():
    assert reverse("django_mcp:endpoint") == "/mcp"
    assert reverse("mounted-staff:endpoint") == "/staff/mcp"
    assert reverse("mounted-staff:health") == "/staff/mcp/health"


@MOUNTED
def test_the_view_logs_its_endpoints_on_first_use(
    caplog: pytest.LogCaptureFixture,
):
    server = MCPServer("told", public=True)
    server.tool(ping)
    told = ModuleType("told")
    told.urlpatterns = [path("at/", server.urls)]  # type: ignore[attr-defined]

    with override_settings(ROOT_URLCONF=told), caplog.at_level(logging.INFO, "django_mcp"):
        for _ in range(2):
            post_to(Client(), "/at/mcp")

    lines = [record.getMessage() for record in caplog.records if "'told'" in record.getMessage()]
    assert lines == [
        "MCP server 'told' at /at/mcp: tools 1, resources 0, resource templates 0, prompts 0"
    ]


def test_every_revision_is_known():
    assert MCPServer("all").engine.revisions.names()[-1] == V2026_07_28.name
