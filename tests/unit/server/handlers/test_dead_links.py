"""Links of results that lead to no resource of their server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_mcp import MCPServer, ResourceLink
from django_mcp.server.handlers import dead_links
from django_mcp.test import MCPClient


@pytest.fixture(autouse=True)
def debug() -> Iterator[None]:
    dead_links.logged.reset()
    with override_settings(DEBUG=True):
        yield
    dead_links.logged.reset()


def make_client() -> MCPClient:
    server = MCPServer("links", public=True)

    @server.resource("doc://{path}")
    def doc(path: str) -> str:
        """A document."""
        return path

    @server.resource("order://all")
    def orders() -> str:
        """All orders."""
        return "all"

    @server.tool(read_only=True)
    def link(uri: str) -> Any:
        """Link to something."""
        return ResourceLink(uri, name="x")

    return MCPClient(server)


def told_of(caplog: pytest.LogCaptureFixture, *uris: str) -> list[str]:
    client = make_client()
    for uri in uris:
        assert client.call("link", uri=uri).content[0]["uri"] == uri
    return [each for each in caplog.messages if "leads nowhere" in each]


@pytest.mark.parametrize(
    ("uri", "advice"),
    [
        ("docs://a", "Did you mean doc:// for docs://?"),
        ("orders://all", "Did you mean order:// for orders://?"),
        ("order://5", "nowhere."),
        (
            "doc://a/b",
            "A variable takes no slash: doc://{+path} would match, in place of doc://{path}.",
        ),
    ],
)
def test_a_link_that_leads_nowhere_is_logged(
    caplog: pytest.LogCaptureFixture, uri: str, advice: str
):
    (told,) = told_of(caplog, uri)

    assert told.startswith(
        f"link links to {uri}, and no resource or template of the server 'links'"
    )
    assert advice in told


@pytest.mark.parametrize(
    "uri",
    [
        "doc://a",
        "order://all",
        "https://example.com/a",
        "file:///a",
        "customer://5",
        "tool-result:x",
    ],
)
def test_a_link_that_leads_somewhere_or_elsewhere_is_not_logged(
    caplog: pytest.LogCaptureFixture, uri: str
):
    assert told_of(caplog, uri) == []


def test_links_of_one_kind_are_logged_once(caplog: pytest.LogCaptureFixture):
    assert len(told_of(caplog, "order://1", "order://2", "order://33", "order://1")) == 1


def test_what_is_logged_is_bounded(caplog: pytest.LogCaptureFixture):
    kinds = [f"order://{'x' * number}" for number in range(1, dead_links.logged.limit + 20)]

    assert len(told_of(caplog, *kinds)) == dead_links.logged.limit


@override_settings(DEBUG=False)
def test_nothing_is_looked_for_in_production(caplog: pytest.LogCaptureFixture):
    assert told_of(caplog, "docs://a") == []


def test_a_read_of_what_a_wider_template_would_match_is_logged(caplog: pytest.LogCaptureFixture):
    client = make_client()

    for uri in ("doc://a/b", "nothing://a/b"):
        with pytest.raises(LookupError):
            client.read(uri)

    (told,) = (each for each in caplog.messages if each.startswith("Resource not found"))
    assert told.startswith("Resource not found: doc://a/b.")
    assert told.endswith("doc://{+path} would match, in place of doc://{path}.")
