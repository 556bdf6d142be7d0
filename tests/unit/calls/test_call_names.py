"""What the record of calls stores of an unknown URI."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_mcp.calls import flush_calls
from django_mcp.models import CallRecord
from django_mcp.servers import MCPServer
from tests.support.wire import V2025_11_25, WireClient
from tests.unit.calls.test_calls import RECORDING, recorded, run


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("named")

    @server.resource("note://{pk}")
    def note(pk: str) -> str:
        return pk

    @server.resource("hidden://{pk}", permission="shop.view_order")
    def hidden(pk: str) -> str:
        return pk

    @server.resource("plain://a-secret")
    def plain() -> str:
        return ""

    return server


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("hidden://a-secret", "hidden"),
        ("note://a-secret", "note"),
        ("plain://a-secret", "plain"),
        ("other://ann:a-secret@host/a-secret", "other:"),
        ("a secret: or two", ""),
        ("x" * 50 + "://a-secret", ""),
    ],
)
@override_settings(DJANGO_MCP=RECORDING)
def test_only_the_scheme_of_an_unknown_uri_is_recorded(server: MCPServer, uri: str, name: str):
    keys = {("templates", "note://{pk}"), ("resources", "plain://a-secret")}
    server.registry.set_disabled(frozenset(keys))
    run(WireClient(server, V2025_11_25).error("resources/read", {"uri": uri}))

    found = recorded()
    assert (found.name, found.outcome, found.arguments) == (name, "refused", "")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "note://a-secret"}}),
        ("resources/subscribe", {"uri": "note://a-secret"}),
    ],
)
@override_settings(DJANGO_MCP=RECORDING)
def test_completions_and_subscriptions_are_not_recorded(
    server: MCPServer, method: str, params: dict[str, Any]
):
    more = {"argument": {"name": "pk", "value": "a-secret"}} if "ref" in params else {}
    run(WireClient(server, V2025_11_25).send(method, {**params, **more}))

    flush_calls()
    assert not CallRecord.objects.exists()
