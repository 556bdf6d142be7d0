"""Published URLs: from settings or an allowed host, and nothing else."""

from typing import Any

import pytest
from django.core.exceptions import DisallowedHost
from django.test import AsyncRequestFactory, RequestFactory
from django.urls import set_script_prefix

from django_mcp.auth import addresses
from django_mcp.auth.addresses import canonical_uri, metadata_url_of, origin_of, resource_of

FORGED: dict[str, Any] = {
    "HTTP_X_FORWARDED_HOST": "evil.example",
    "HTTP_X_FORWARDED_PROTO": "https",
    "HTTP_X_FORWARDED_PORT": "444",
    "HTTP_FORWARDED": "host=evil.example;proto=https",
    "HTTP_X_ORIGINAL_HOST": "evil.example",
    "HTTP_X_HOST": "evil.example",
}


def test_the_resource_is_the_endpoint_of_the_request():
    request = RequestFactory().post("/mcp/", HTTP_HOST="localhost:8000")

    assert resource_of(request) == "http://localhost:8000/mcp"
    assert metadata_url_of(request) == (
        "http://localhost:8000/.well-known/oauth-protected-resource/mcp"
    )


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/sse", "/sse"),
        ("/messages", "/sse"),
        ("/staff/messages", "/staff/sse"),
        ("/messages/mcp", "/messages/mcp"),
        ("/mcp/x/messages", "/mcp/x/messages"),
        ("/sse/x/orders", "/sse/x/orders"),
        ("/sse/x/orders/messages", "/sse/x/orders"),
        ("/old/sse/x/messages/messages/", "/old/sse/x/messages"),
        ("/sse/x/messages", "/sse/x/messages"),
        ("/x/staff/messages", "/x/staff/sse"),
        ("/x/messages/", "/x/messages"),
        ("/mcp/x/sse", "/mcp/x/sse"),
        ("/of/messages/sse", "/of/messages/sse"),
    ],
)
def test_both_paths_of_http_with_sse_are_one_resource(path: str, resource: str):
    request = RequestFactory().post(path, HTTP_HOST="localhost")

    assert resource_of(request) == f"http://localhost{resource}"
    assert metadata_url_of(request).endswith(f"/.well-known/oauth-protected-resource{resource}")


def test_addresses_of_http_behind_a_proxy_of_https_are_told_once(
    caplog: pytest.LogCaptureFixture, settings: Any, request: pytest.FixtureRequest
):
    addresses.logged.reset()
    request.addfinalizer(addresses.logged.reset)
    plain = RequestFactory().post("/mcp", HTTP_HOST="localhost")
    forwarded = RequestFactory().post("/mcp", HTTP_HOST="localhost", HTTP_X_FORWARDED_PROTO="https")

    metadata_url_of(plain)
    settings.DJANGO_MCP = {"PUBLIC_URL": "https://shop.example"}
    metadata_url_of(forwarded)
    settings.DJANGO_MCP = {}
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    metadata_url_of(forwarded)
    assert caplog.messages == []

    settings.SECURE_PROXY_SSL_HEADER = None
    for _ in range(2):
        assert metadata_url_of(forwarded).startswith("http://localhost/")
    [message] = caplog.messages
    assert "http://localhost" in message
    assert "SECURE_PROXY_SSL_HEADER" in message


def test_forwarded_headers_are_ignored_unless_configured():
    request = RequestFactory().post("/mcp", HTTP_HOST="localhost:8000", **FORGED)

    assert resource_of(request) == "http://localhost:8000/mcp"


def test_a_disallowed_host_gives_no_url():
    with pytest.raises(DisallowedHost):
        origin_of(RequestFactory().post("/mcp", HTTP_HOST="evil.example"))


def test_the_public_url_overrides_the_request(settings):
    settings.DJANGO_MCP = {"PUBLIC_URL": "https://Shop.example.com:443"}
    settings.USE_X_FORWARDED_HOST = True
    request = RequestFactory().post("/staff/mcp", HTTP_HOST="localhost", **FORGED)

    assert resource_of(request) == "https://shop.example.com/staff/mcp"


def test_the_metadata_url_includes_the_script_prefix():
    set_script_prefix("/shop/")
    try:
        request = RequestFactory().get("/mcp", SCRIPT_NAME="/shop", HTTP_HOST="localhost")

        assert resource_of(request) == "http://localhost/shop/mcp"
        assert metadata_url_of(request) == (
            "http://localhost/shop/.well-known/oauth-protected-resource/mcp"
        )
    finally:
        set_script_prefix("/")


def test_a_prefix_that_the_proxy_took_off_is_part_of_the_resource_under_asgi(settings):
    settings.FORCE_SCRIPT_NAME = "/shop"
    set_script_prefix("/shop/")
    try:
        request = AsyncRequestFactory().post("/mcp")

        assert request.path == "/mcp"
        assert resource_of(request) == "http://testserver/shop/mcp"
    finally:
        set_script_prefix("/")


@pytest.mark.parametrize(
    "uri",
    [
        "HTTPS://MCP.Example.com/mcp",
        "https://mcp.example.com:443/mcp",
        "https://mcp.example.com/mcp/",
    ],
)
def test_equivalent_uris_compare_equal(uri: str):
    assert canonical_uri(uri) == "https://mcp.example.com/mcp"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "mcp",
        "//mcp.example.com/mcp",
        "ftp://mcp.example.com/mcp",
        "https://user@mcp.example.com/mcp",
        "https://@mcp.example.com/mcp",
        "https://mcp.example.com/mcp#",
        "https://mcp.example.com:port/mcp",
        "https://mcp.example.com:99999/mcp",
        "https://mcp.example.com\\@evil.example/mcp",
        "https://mcp.example.com/m cp",
        "https://mcp.example.com/mcp\n",
        "https://m\u0441p.example.com/mcp",
        "https://[::1/mcp",
    ],
)
def test_an_invalid_resource_has_no_canonical_form(uri: str):
    assert canonical_uri(uri) is None


@pytest.mark.parametrize(
    "other",
    [
        "http://mcp.example.com/mcp",
        "https://mcp.example.com:8443/mcp",
        "https://mcp.example.com/mcp/x",
        "https://mcp.example.com/mc",
        "https://mcp.example.com/MCP",
        "https://mcp.example.com/mcp?x=1",
        "https://mcp.example.com.evil.example/mcp",
    ],
)
def test_different_resources_compare_unequal(other: str):
    assert canonical_uri(other) != canonical_uri("https://mcp.example.com/mcp")
