import pytest
from django.test import override_settings

from django_mcp.protocol.headers import Headers
from django_mcp.transports.http.guard import Guard, HeaderCheck, SiteRules, is_loopback, read_rules

RULES = SiteRules(
    hosts=["shop.example", ".tenants.example", "localhost", "127.0.0.1", "[::1]"],
    origins=frozenset({"https://pages.example", "app://desktop"}),
)
ANYBODY = SiteRules(hosts=["*"], origins=frozenset({"*"}), allows_credentials=True)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://shop.example", "shop.example"),
        ("http://shop.example", "SHOP.example:80"),
        ("http://shop.example:80", "shop.example"),
        ("HTTP://Shop.Example", "shop.example"),
        ("https://shop.example", "shop.example"),
        ("https://shop.example", "shop.example:443"),
        ("http://shop.example:8000", "shop.example:8000"),
        ("http://localhost:6274", "127.0.0.1:8000"),
        ("http://127.0.0.1", "localhost"),
        ("https://[::1]:5173", "[::1]:8000"),
        ("http://app.localhost", "localhost"),
        ("https://pages.example", "shop.example"),
        ("https://pages.example", "localhost"),
        ("app://desktop", "shop.example"),
    ],
)
def test_same_site_localhost_and_listed_origins_are_allowed(origin: str, host: str):
    assert RULES.is_origin(origin, host, "http")


@pytest.mark.parametrize("host", ["shop.example", "localhost", "127.0.0.1:8000"])
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "*",
        "http://evil.example",
        "http://evil.example:80",
        "http://shop.example.evil.example",
        "http://evil.example#shop.example",
        "http://shop.example@evil.example",
        "http://shop.example/",
        "http://shop.example.",
        "http://shop.example:8000",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "http://localhost.",
        "http://[::ffff:127.0.0.1]",
        "http://127.1",
        "http://pages.example",
        "https://pages.example:443",
        "https://PAGES.example",
        "https://pages.example, http://shop.example",
        "file://",
        "chrome-extension://abc",
    ],
)
def test_other_origins_are_rejected(origin: str, host: str):
    """An invalid origin is rejected."""
    assert not RULES.is_origin(origin, host, "http")


@pytest.mark.parametrize("origin", ["http://localhost", "http://127.0.0.1:3000", "http://[::1]"])
def test_a_localhost_origin_cannot_call_a_remote_site(origin: str):
    assert not RULES.is_origin(origin, "shop.example", "http")


def test_an_http_origin_cannot_call_an_https_site():
    assert not RULES.is_origin("http://shop.example", "shop.example", "https")
    assert RULES.is_origin("https://shop.example", "shop.example", "https")


def test_a_wildcard_origin_allows_calls_without_cookies():
    assert ANYBODY.is_origin("https://whoever.example", "shop.example", "https")
    assert ANYBODY.is_origin("chrome-extension://abc", "shop.example", "https")
    assert not ANYBODY.is_origin("null", "shop.example", "https")
    assert not ANYBODY.is_origin("https://a.example, https://b.example", "shop.example", "https")
    assert not lets_cookies(ANYBODY, "https://whoever.example")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("shop.example", True),
        ("a.tenants.example", True),
        ("[::1]", True),
        ("evil.example", False),
        ("shop.example.evil.example", False),
        ("[::ffff:127.0.0.1]", False),
    ],
)
def test_hosts_follow_allowed_hosts(host: str, expected: bool):
    assert is_host(RULES, host) is expected


@pytest.mark.parametrize("domain", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_loopback_names_are_recognized(domain: str):
    assert is_loopback(domain)


@pytest.mark.parametrize(
    "domain", ["localhost.", "localhost.example", "127.0.0.1.example", "10.0.0.1"]
)
def test_names_that_only_look_like_loopback_are_not(domain: str):
    assert not is_loopback(domain)


@override_settings(DEBUG=True, ALLOWED_HOSTS=[])
def test_debug_allows_localhost_like_django():
    rules = read_rules()

    assert all(is_host(rules, host) for host in ("localhost", "a.localhost", "127.0.0.1", "[::1]"))
    assert not is_host(rules, "evil.example")


@override_settings(DEBUG=False, ALLOWED_HOSTS=[])
def test_empty_allowed_hosts_rejects_every_host():
    assert not is_host(read_rules(), "localhost")


@override_settings(
    ALLOWED_HOSTS=["shop.example"],
    USE_X_FORWARDED_HOST=True,
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    DJANGO_MCP={"ALLOWED_ORIGINS": ["https://pages.example"], "CORS_ALLOW_CREDENTIALS": True},
)
def test_rules_follow_the_settings():
    rules = read_rules()

    assert (
        rules.find_host(Headers([(b"host", b"inner"), (b"x-forwarded-host", b"outer")])) == "outer"
    )
    assert rules.find_host(Headers([(b"host", b"inner")])) == "inner"
    assert rules.find_scheme(Headers([]), "https") == "https"
    assert [scheme_of(rules, told) for told in ("https", "https, http", "http", "")] == [
        "https",
        "https",
        "http",
        "http",
    ]
    assert lets_cookies(rules, "https://pages.example")
    assert not lets_cookies(rules, "https://shop.example")


def examine(rules: SiteRules, **headers: str) -> HeaderCheck:
    given = {"content-type": "application/json", "x-forwarded-proto": "https", **headers}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    return Guard(rules).examine("POST", "https", "/mcp", Headers(raw), 1000)


def is_host(rules: SiteRules, host: str) -> bool:
    return examine(rules, host=host).reply is None


def lets_cookies(rules: SiteRules, origin: str) -> bool:
    """Whether pages of an origin, which may call, may send cookies."""
    cleared = examine(rules, host="shop.example", x_forwarded_host="shop.example", origin=origin)
    assert cleared.reply is None
    return (b"access-control-allow-credentials", b"true") in cleared.headers


def scheme_of(rules: SiteRules, sent: str) -> str:
    """Return the scheme of a request over http whose proxy sent this."""
    return rules.find_scheme(Headers([(b"x-forwarded-proto", sent.encode())]), "http")
