import json
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.headers import Headers
from django_mcp.transports.http.guard import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_KNOWN,
    Guard,
    HeaderCheck,
    SiteRules,
    current_guard,
)
from tests.support.http.harness import http_scope

RULES = SiteRules(
    hosts=["localhost", "shop.example", "[::1]"], origins=frozenset({"https://pages.example"})
)
LIMIT = 1000


def examine(
    method: str = "POST",
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    rules: SiteRules = RULES,
) -> HeaderCheck:
    found = Headers(http_scope(method, headers)["headers"])
    return Guard(rules).examine(method, "http", "/mcp", found, LIMIT)


def status(header_check: HeaderCheck) -> int | None:
    return None if header_check.reply is None else header_check.reply.status


def headers_of(header_check: HeaderCheck) -> dict[bytes, bytes]:
    assert header_check.reply is not None
    return dict((*header_check.headers, *header_check.reply.headers))


def error_of(header_check: HeaderCheck) -> dict[str, Any]:
    assert header_check.reply is not None
    assert header_check.reply.body is not None
    answer = json.loads(header_check.reply.body)
    assert answer.keys() == {"jsonrpc", "error"}
    return answer["error"]


def test_a_plain_post_passes_and_may_be_streamed():
    assert examine() == HeaderCheck(may_stream=True)


@pytest.mark.parametrize(
    "host",
    ["LOCALHOST", "localhost:8000", "localhost.", "shop.example:443", "[::1]:8000", "[::1]"],
)
def test_allowed_hosts_pass_in_any_spelling(host: str):
    assert status(examine(headers={"host": host})) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "shop.example.evil",
    ],
)
def test_a_disallowed_host_is_rejected(host: str):
    """A rebound name does not reach the server."""
    refused = examine(headers={"host": host})

    assert status(refused) == 403
    assert error_of(refused)["code"] == -32600


@pytest.mark.parametrize(
    "host",
    ["", " ", "localhost, localhost", "a@localhost", "local host", "localhost:x", "[::1", "ü"],
)
def test_a_host_that_is_absent_or_malformed_is_a_bad_request(host: str):
    assert status(examine(headers={"host": host})) == 400


def test_a_second_host_is_a_bad_request():
    headers = [("host", "localhost"), ("host", "localhost"), ("content-type", "application/json")]

    assert status(examine(headers=headers)) == 400


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
def test_a_disallowed_origin_is_rejected_for_every_method(method: str):
    """403, with an error that has no id."""
    refused = examine(method, {"origin": "http://evil.example"})

    assert status(refused) == 403
    assert error_of(refused)["message"] == (
        "Pages of the origin http://evil.example may not call this server"
    )
    assert dict(refused.headers) == {b"vary": b"Origin"}


@pytest.mark.parametrize(
    ("headers", "setting"),
    [
        ({"host": "evil.example"}, "ALLOWED_HOSTS"),
        ({"origin": "http://evil.example"}, "ALLOWED_ORIGINS"),
    ],
)
def test_settings_are_named_in_the_log_and_in_debug_responses_only(
    headers: dict[str, str], setting: str, settings: Any
):
    # The second result is from the cache.
    for _ in range(2):
        refused = examine(headers=headers)
        assert setting not in error_of(refused)["message"]
        assert refused.reply is not None
        assert setting in refused.reply.note
    settings.DEBUG = True
    refused = examine(headers=headers)
    assert setting in error_of(refused)["message"]
    assert refused.reply is not None
    # The message already names it.
    assert refused.reply.note == ""


def test_a_second_origin_is_rejected():
    headers = [*http_scope()["headers"], (b"origin", b"https://pages.example")] * 2
    refused = Guard(RULES).examine("POST", "http", "/mcp", Headers(headers[1:]), LIMIT)

    assert status(refused) == 403


@pytest.mark.parametrize("origin", ["https://pages.example", "http://localhost:6274"])
def test_every_response_allows_the_trusted_origin(origin: str):
    headers = dict(examine(headers={"origin": origin}).headers)

    assert headers == {
        b"access-control-allow-origin": origin.encode(),
        b"access-control-expose-headers": b"Mcp-Session-Id, WWW-Authenticate, X-Request-ID",
        b"vary": b"Origin",
    }


def test_rejections_have_cors_headers_for_a_trusted_origin():
    refused = examine(headers={"origin": "https://pages.example", "content-type": "text/plain"})

    assert status(refused) == 415
    assert headers_of(refused)[b"access-control-allow-origin"] == b"https://pages.example"


def test_credentials_are_allowed_only_for_listed_origins_if_enabled():
    rules = SiteRules(hosts=["localhost"], origins=RULES.origins, allows_credentials=True)

    listed = dict(examine(headers={"origin": "https://pages.example"}, rules=rules).headers)
    local = dict(examine(headers={"origin": "http://localhost"}, rules=rules).headers)

    assert listed[b"access-control-allow-credentials"] == b"true"
    assert b"access-control-allow-credentials" not in local


def test_a_preflight_of_a_trusted_origin_is_allowed():
    asked = "authorization,content-type,mcp-method,mcp-param-region, Mcp-Param-X!, x-else"
    answer = examine(
        "OPTIONS",
        {
            "origin": "https://pages.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": asked,
        },
    )
    headers = headers_of(answer)

    assert status(answer) == 204
    assert headers[b"access-control-allow-origin"] == b"https://pages.example"
    assert headers[b"access-control-allow-methods"] == b"GET, POST, DELETE, OPTIONS"
    assert headers[b"access-control-max-age"] == b"7200"
    assert headers[b"vary"] == b"Origin"
    granted = headers[b"access-control-allow-headers"].decode().split(", ")
    assert {"X-MCP-Toolsets", "X-MCP-Readonly"} <= {*granted}
    assert {"Authorization", "MCP-Protocol-Version", "mcp-param-region", "Mcp-Param-X!"} <= {
        *granted
    }
    assert "x-else" not in granted


def test_a_preflight_limits_the_allowed_headers():
    asked = ",".join(f"mcp-param-{number}" for number in range(2000))
    answer = examine(
        "OPTIONS", {"origin": "http://localhost", "access-control-request-headers": asked}
    )

    assert headers_of(answer)[b"access-control-allow-headers"].count(b"mcp-param-") == 64


def test_options_without_an_origin_lists_the_methods():
    answer = examine("OPTIONS")

    assert status(answer) == 204
    assert headers_of(answer) == {b"allow": b"GET, POST, DELETE, OPTIONS"}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE", "post", "BREW", ""])
def test_other_methods_are_not_allowed(method: str):
    refused = examine(method)

    assert status(refused) == 405


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_get_and_delete_are_passed_to_the_server(method: str):
    assert status(examine(method, {"content-type": ""})) is None


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/json;x=y"]
)
def test_json_is_accepted(content_type: str):
    assert status(examine(headers={"content-type": content_type})) is None


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/jsonp",
        "application/json, application/json",
    ],
)
def test_cors_safelisted_content_types_are_rejected(content_type: str):
    assert status(examine(headers={"content-type": content_type})) == 415


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip", "x"])
def test_a_compressed_body_is_rejected(encoding: str):
    refused = examine(headers={"content-encoding": encoding})

    assert status(refused) == 415
    assert headers_of(refused)[b"accept-encoding"] == b"identity"


def test_identity_content_encoding_is_accepted():
    assert status(examine(headers={"content-encoding": "identity"})) is None


@pytest.mark.parametrize(
    ("accept", "may_stream", "must_stream"),
    [
        ("application/json, text/event-stream", True, False),
        ("application/json", False, False),
        ("text/event-stream", True, True),
        ("*/*", True, False),
        ("application/*", False, False),
        ("", True, False),
    ],
)
def test_accept_determines_the_response_types(accept: str, may_stream: bool, must_stream: bool):
    assert examine(headers={"accept": accept}) == HeaderCheck(
        may_stream=may_stream, must_stream=must_stream
    )


def test_a_get_always_asks_for_an_event_stream():
    """Its response is an event stream or an error."""
    found = examine("GET", headers={"accept": "application/json, text/event-stream"})

    assert found.must_stream


@pytest.mark.parametrize("accept", ["text/html", "image/*", "application/json;q=0"])
def test_a_client_that_accepts_no_response_type_gets_406(accept: str):
    assert status(examine(headers={"accept": accept})) == 406


def test_several_accept_headers_are_combined():
    headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("accept", "text/event-stream"),
    ]

    assert examine(headers=headers) == HeaderCheck(may_stream=True)


@pytest.mark.parametrize("length", ["0", "1000", "0000000001"])
def test_a_declared_length_within_the_cap_passes(length: str):
    assert status(examine(headers={"content-length": length})) is None


@pytest.mark.parametrize("length", ["1001", "200000000", "9" * 5000])
def test_a_declared_length_over_the_cap_is_rejected(length: str):
    assert status(examine(headers={"content-length": length})) == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1_0", "10, 10", "²", " "])
def test_a_declared_length_that_is_no_number_is_a_bad_request(length: str):
    assert status(examine(headers={"content-length": length})) == 400


def test_headers_of_ordinary_size_pass_in_ordinary_number():
    many = {f"mcp-param-{number}": "x" * 100 for number in range(MAX_HEADERS - 10)}

    assert status(examine(headers=many)) is None


@pytest.mark.parametrize(
    "more",
    [
        {"x-long": "x" * MAX_HEADER_BYTES},
        {f"x-{number}": "x" for number in range(MAX_HEADERS)},
        {"x" * MAX_HEADER_BYTES: "y"},
    ],
)
def test_headers_too_long_or_too_many_are_rejected(more: dict[str, str]):
    assert status(examine(headers=more)) == 431


def test_guard_results_are_cached_within_bounds():
    guard = Guard(RULES)

    for number in range(3 * MAX_KNOWN):
        scope = http_scope(headers={"accept": f"application/json;v={number}"})
        guard.examine("POST", "http", "/mcp", Headers(scope["headers"]), LIMIT)
    long = http_scope(headers={"accept": "application/json;v=" + "x" * 5000})
    guard.examine("POST", "http", "/mcp", Headers(long["headers"]), LIMIT)

    known = guard._known
    assert 0 < len(known) <= MAX_KNOWN
    assert max(len(str(key)) for key in known) < 2000


def test_a_cached_guard_result_does_not_cover_another_length():
    guard = Guard(RULES)
    small, large = (http_scope(headers={"content-length": n})["headers"] for n in ("1", "9999"))

    verdicts = [
        guard.examine("POST", "http", "/mcp", Headers(raw), LIMIT) for raw in (small, large, small)
    ]

    assert [status(verdict) for verdict in verdicts] == [None, 413, None]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"/mcp": 403, "/open/mcp": 403}),
        ({"SECURE_REDIRECT_EXEMPT": [r"^open/"]}, {"/mcp": 403, "/open/mcp": None}),
        ({"MIDDLEWARE": []}, {"/mcp": 403}),
        ({"SECURE_SSL_REDIRECT": False}, {"/mcp": None}),
    ],
)
def test_http_is_refused_where_the_site_redirects_to_https(
    settings: dict[str, Any], expected: dict[str, int | None]
):
    """The middleware that redirects may be a subclass of Django's, or not run for the endpoint."""
    secure = {
        "ALLOWED_HOSTS": ["localhost"],
        "SECURE_SSL_REDIRECT": True,
        "SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https"),
    }
    plain = Headers(http_scope()["headers"])
    proxied = Headers(http_scope(headers={"x-forwarded-proto": "https"})["headers"])
    with override_settings(**{**secure, **settings}):
        guard = current_guard()
        found = {
            path: status(guard.examine("POST", "http", path, plain, LIMIT)) for path in expected
        }
        assert found == expected
        for scheme, headers in (("https", plain), ("http", proxied)):
            assert status(guard.examine("POST", scheme, "/mcp", headers, LIMIT)) is None


@override_settings(ALLOWED_HOSTS=["one.example"])
def test_a_changed_setting_changes_the_guard_result():
    headers = Headers(http_scope(headers={"host": "two.example"})["headers"])
    before = current_guard().examine("POST", "http", "/mcp", headers, LIMIT)

    with override_settings(ALLOWED_HOSTS=["two.example"]):
        after = current_guard().examine("POST", "http", "/mcp", headers, LIMIT)

    assert (status(before), status(after)) == (403, None)


@override_settings(
    ALLOWED_HOSTS=["shop.example"],
    USE_X_FORWARDED_HOST=True,
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
)
def test_proxy_headers_are_trusted_if_configured():
    proxied = {"host": "internal", "x-forwarded-host": "shop.example", "x-forwarded-proto": "https"}

    plain_page = examine(
        headers={**proxied, "origin": "http://shop.example"}, rules=current_guard()._rules
    )
    own_page = examine(
        headers={**proxied, "origin": "https://shop.example"}, rules=current_guard()._rules
    )

    assert (status(plain_page), status(own_page)) == (403, None)


@given(
    method=st.sampled_from(["POST", "GET", "OPTIONS", "DELETE", "X"]),
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    b"host",
                    b"origin",
                    b"accept",
                    b"content-type",
                    b"content-length",
                    b"content-encoding",
                    b"access-control-request-headers",
                ]
            ),
            st.binary(max_size=40),
        ),
        max_size=12,
    ),
)
def test_any_header_bytes_are_accepted_or_rejected(method: str, headers: list[tuple[bytes, bytes]]):
    headers = [(b"host", b"localhost"), *headers]
    header_check = Guard(RULES).examine(method, "http", "/mcp", Headers(headers), LIMIT)

    assert header_check.reply is None or header_check.reply.status in (
        *(204, 400, 403, 405, 406, 413, 415),
    )
