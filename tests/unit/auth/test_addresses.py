"""Addresses that are given out: of settings or of an allowed host, and nothing else's."""

from typing import Any

import pytest
from django.core.exceptions import DisallowedHost
from django.test import RequestFactory
from django.urls import set_script_prefix

from django_mcp.auth.addresses import canonical_uri, metadata_url_of, origin_of, resource_of

FORGED: dict[str, Any] = {
    "HTTP_X_FORWARDED_HOST": "evil.example",
    "HTTP_X_FORWARDED_PROTO": "https",
    "HTTP_X_FORWARDED_PORT": "444",
    "HTTP_FORWARDED": "host=evil.example;proto=https",
    "HTTP_X_ORIGINAL_HOST": "evil.example",
    "HTTP_X_HOST": "evil.example",
}


def test_the_resource_is_the_endpoint_the_request_came_to():
    request = RequestFactory().post("/mcp/", HTTP_HOST="localhost:8000")

    assert resource_of(request) == "http://localhost:8000/mcp"
    assert metadata_url_of(request) == (
        "http://localhost:8000/.well-known/oauth-protected-resource/mcp"
    )


def test_headers_that_nobody_configured_change_nothing():
    request = RequestFactory().post("/mcp", HTTP_HOST="localhost:8000", **FORGED)

    assert resource_of(request) == "http://localhost:8000/mcp"


def test_a_host_that_is_not_allowed_is_no_address():
    with pytest.raises(DisallowedHost):
        origin_of(RequestFactory().post("/mcp", HTTP_HOST="evil.example"))


def test_a_public_url_is_used_whatever_the_request_says(settings):
    settings.DJANGO_MCP = {"PUBLIC_URL": "https://Shop.example.com:443"}
    settings.USE_X_FORWARDED_HOST = True
    request = RequestFactory().post("/staff/mcp", HTTP_HOST="localhost", **FORGED)

    assert resource_of(request) == "https://shop.example.com/staff/mcp"


def test_below_a_script_prefix_the_metadata_is_where_this_site_is_asked_for_it():
    set_script_prefix("/shop/")
    try:
        request = RequestFactory().get("/mcp", SCRIPT_NAME="/shop", HTTP_HOST="localhost")

        assert resource_of(request) == "http://localhost/shop/mcp"
        assert metadata_url_of(request) == (
            "http://localhost/shop/.well-known/oauth-protected-resource/mcp"
        )
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
def test_forms_of_one_uri_compare_equal(uri: str):
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
def test_what_names_no_resource_has_no_canonical_form(uri: str):
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
def test_another_resource_stays_another(other: str):
    assert canonical_uri(other) != canonical_uri("https://mcp.example.com/mcp")
