"""What `manage.py check` reports about a site's OAuth."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import include, path

from django_mcp.asgi import django_mcp_application
from django_mcp.auth.authenticators import APIKeyAuthenticator, Authenticator, BearerAuthenticator
from django_mcp.contrib.introspection import IntrospectionAuthenticator
from django_mcp.contrib.oauth import oauth2_provider_settings
from django_mcp.servers import MCPServer, default_server
from django_mcp.urls import urlpatterns as ours
from tests.support.sites import ROOT, environment

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

server = MCPServer("checks", public=True)
urlpatterns: list[Any] = []

below_a_prefix = [path("api/", include("django_mcp.urls"))]
twice = [
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("", include("django_mcp.urls")),
]


def ids() -> set[str]:
    return {
        each.id.removeprefix("django_mcp.")
        for each in run_checks(tags=["django_mcp"])
        if each.id is not None and each.id.startswith("django_mcp.O")
    }


def test_the_preset_passes_the_checks():
    assert ids() == set()


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"PKCE_REQUIRED": False}, "O001"),
        ({"COMPLIANT_BCP_RFC9700_PKCE_METHOD": False}, "O002"),
        ({"OAUTH2_GRANT_TYPES_SUPPORTED": ["refresh_token"]}, "O003"),
        ({"OAUTH2_RESPONSE_TYPES_SUPPORTED": ["token"]}, "O003"),
        ({"OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code"]}, "O004"),
        ({"ROTATE_REFRESH_TOKEN": False}, "O005"),
        ({"REFRESH_TOKEN_REUSE_PROTECTION": False}, "O005"),
        ({"OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["client_secret_basic"]}, "O006"),
        ({"CIMD_ENABLED": False, "DCR_ENABLED": False}, "O007"),
        (
            {
                "DCR_REGISTRATION_PERMISSION_CLASSES": [
                    "oauth2_provider.dcr.IsAuthenticatedDCRPermission"
                ]
            },
            "O008",
        ),
        ({"DCR_REGISTRATION_PERMISSION_CLASSES": []}, "O008"),
        ({"ALLOWED_REDIRECT_URI_SCHEMES": ["http"]}, "O009"),
        ({"ALLOWED_REDIRECT_URI_SCHEMES": ["https"]}, "O010"),
        ({"ALLOW_LOCALHOST_LOOPBACK": False}, "O010"),
        ({"ALLOW_URI_WILDCARDS": True}, "O011"),
        ({"COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": False}, "O012"),
        ({"COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": False}, "O013"),
        (
            {"OAUTH2_VALIDATOR_CLASS": "oauth2_provider.oauth2_validators.OAuth2Validator"},
            "O014",
        ),
        ({"OIDC_ISS_ENDPOINT": "http://shop.example.com"}, "O020"),
        ({"DCR_ENABLD": False}, "O025"),
    ],
)
def test_a_setting_that_blocks_clients_or_is_insecure_is_reported(changes: dict[str, Any], id: str):
    with override_settings(OAUTH2_PROVIDER=oauth2_provider_settings(**changes)):
        assert ids() == {id}


def test_scopes_without_descriptions_are_refused():
    scopes: Any = ["orders:read"]

    with pytest.raises(ImproperlyConfigured, match="a dict from scopes to their descriptions"):
        oauth2_provider_settings(scopes)


def test_the_toolkits_default_settings_are_reported():
    with override_settings(OAUTH2_PROVIDER={}):
        assert {"O002", "O005", "O006", "O007", "O010", "O012", "O013", "O014"} <= ids()


def test_a_scope_that_no_token_can_have_is_reported():
    server.register_tool(lambda: "", name="count", description="Count.", scopes=["stock:read"])
    try:
        assert ids() == set()
        backend = "oauth2_provider.scopes.SettingsScopes"
        with override_settings(
            OAUTH2_PROVIDER=oauth2_provider_settings(SCOPES_BACKEND_CLASS=backend)
        ):
            assert ids() == {"O015"}
    finally:
        server.remove_tool("count")
    with override_settings(DJANGO_MCP={"OAUTH_BASE_SCOPES": ["nothing"]}):
        assert ids() == {"O015"}
    with override_settings(OAUTH2_PROVIDER={**oauth2_provider_settings(), "SCOPES": {}}):
        assert ids() == {"O015"}


def test_a_misspelt_scope_is_reported_with_the_described_one():
    described = {"library:read": "Read", "library:write": "Write"}
    server.register_tool(lambda: "", name="borrow", description="X.", scopes=["library:wrte"])
    try:
        with override_settings(OAUTH2_PROVIDER=oauth2_provider_settings(described)):
            assert ids() == {"O024"}
            (found,) = [
                each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.O024"
            ]
    finally:
        server.remove_tool("borrow")

    assert "Did you mean 'library:write' instead of 'library:wrte'" in str(found.hint)


OAUTH = ["django_mcp.contrib.oauth.OAuthAuthenticator"]


@pytest.mark.parametrize(
    ("scopes", "options", "id"),
    [
        ([None, ["a"]], {}, "O023"),
        ([None, (), ["a"]], {}, "O023"),
        ([None, ["a"]], {"public": True}, None),
        ([None, ["a"]], {"authenticators": [APIKeyAuthenticator()]}, None),
        ([None, ["a"]], {"scopes": ["a"]}, None),
        ([None, None], {}, None),
        ([(), ["a"]], {}, None),
        ([["b"], ["a"]], {}, None),
    ],
)
def test_a_server_whose_tools_need_scopes_in_part_is_reported(
    scopes: list[Any], options: dict[str, Any], id: str | None, monkeypatch: pytest.MonkeyPatch
):
    mixed = MCPServer("mixed-scopes", **{"authenticators": OAUTH, **options})
    for number, wanted in enumerate(scopes):
        mixed.register_tool(lambda: "", name=f"tool_{number}", description="X.", scopes=wanted)
    patterns = [path("mixed/", mixed.urls), path("", include("django_mcp.urls"))]
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    with override_settings(ROOT_URLCONF=__name__, LOGIN_URL="https://login.example.com/"):
        found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.O023"]
        assert ids() == ({id} if id else set())

    assert [("tool_0" in each.msg, "tool_1" in each.msg) for each in found] == (
        [(True, False)] if id else []
    )


def test_of_many_tools_without_a_scope_some_are_named(monkeypatch: pytest.MonkeyPatch):
    many = MCPServer("many-scopes", authenticators=OAUTH)
    for number in range(9):
        many.register_tool(lambda: "", name=f"tool_{number}", description="X.")
    many.register_tool(lambda: "", name="other", description="X.", scopes=["a"])
    monkeypatch.setattr(f"{__name__}.urlpatterns", [path("many/", many.urls), *ours])
    with override_settings(ROOT_URLCONF=__name__, LOGIN_URL="https://login.example.com/"):
        (found,) = [
            each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.O023"
        ]

    assert "tool_4 and more" in found.msg
    assert "tool_5" not in found.msg


def test_the_example_shop_passes_the_checks_with_oauth():
    found = environment("example_project", {"SHOP_OAUTH": "1"})
    command = [sys.executable, "manage.py", "check", "--fail-level", "WARNING"]

    done = subprocess.run(command, check=False, cwd=ROOT, env=found, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("patterns", "id"),
    [
        ([], "O016"),
        (below_a_prefix, "O016"),
        (twice, "O017"),
        (ours, None),
        ([path("<path:page>", lambda *_: HttpResponse()), *ours], None),  # W020
    ],
)
def test_an_include_at_the_wrong_path_is_reported(
    patterns: list[Any], id: str | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    with override_settings(ROOT_URLCONF=__name__, LOGIN_URL="https://login.example.com/"):
        assert ids() == ({id} if id else set())


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"MIDDLEWARE": []}, "O018"),
        ({"LOGIN_URL": "/no/such/page/"}, "O019"),
        ({"LOGIN_URL": "no-such-name"}, "O019"),
        ({"DJANGO_MCP": {"PUBLIC_URL": "http://shop.example.com"}}, "O020"),
        ({"ALLOWED_HOSTS": ["*"]}, "O021"),
        ({"ALLOWED_HOSTS": [".example.com"]}, "O021"),
        ({"ALLOWED_HOSTS": ["*"], "DJANGO_MCP": {"PUBLIC_URL": "https://shop.example.com"}}, None),
        ({"DJANGO_MCP": {"PUBLIC_URL": "http://127.0.0.1:8000"}}, None),
        ({"DJANGO_MCP": {"PUBLIC_URL": "nonsense"}}, None),  # E001 reports it
    ],
)
def test_wrong_site_settings_for_oauth_are_reported(changes: dict[str, Any], id: str | None):
    with override_settings(**changes):
        assert ids() == ({id} if id else set())


@pytest.mark.parametrize("patterns", [[path("", default_server.urls)], below_a_prefix])
def test_a_site_without_an_authorization_server_fails_the_checks(
    patterns: list[Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    authenticators = ["django_mcp.contrib.oauth.OAuthAuthenticator"]
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP={"AUTHENTICATORS": authenticators}):
        assert "O022" in ids()
        with pytest.raises(ImproperlyConfigured, match="authorization server"):
            django_mcp_application(get_asgi_application())


@pytest.mark.parametrize("patterns", ["alone", "without resources"])
def test_a_view_without_the_wrapper_names_what_is_missing(
    patterns: str, monkeypatch: pytest.MonkeyPatch
):
    found = [path("", default_server.urls)]
    if patterns == "without resources":
        found.append(path("", include("django_mcp.contrib.oauth.urls")))
    monkeypatch.setattr(f"{__name__}.urlpatterns", found)
    authenticators = ["django_mcp.contrib.oauth.OAuthAuthenticator"]
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP={"AUTHENTICATORS": authenticators}):
        assert "O022" in ids()
        for _ in range(2):
            with pytest.raises(ImproperlyConfigured, match="authorization server"):
                Client().post("/mcp", b"{}", content_type="application/json")


class TokensOfNobody(BearerAuthenticator):
    """Accepts tokens without naming the authorization server that issues them."""


class TokensByHand(BearerAuthenticator):
    """Accepts tokens that the site issues itself."""

    needs_authorization_server = False


class TokensOfSomebody(BearerAuthenticator):
    authorization_servers = ("https://issuer.example",)


class TokensFoundByRequest(BearerAuthenticator):
    def find_authorization_servers(self, request: HttpRequest) -> tuple[str, ...]:
        return ("https://issuer.example",)


def check_ids() -> set[str | None]:
    return {each.id for each in run_checks(tags=["django_mcp"])}


def test_tokens_without_an_authorization_server_fail_the_checks(
    monkeypatch: pytest.MonkeyPatch,
):
    server = MCPServer("tokens-of-nobody", authenticators=[TokensOfNobody()])
    patterns = [path("tokens/", server.urls), path("", include("django_mcp.urls"))]
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    with override_settings(ROOT_URLCONF=__name__):
        assert "django_mcp.E010" in check_ids()
        with pytest.raises(ImproperlyConfigured, match="TokensOfNobody names no authorization"):
            django_mcp_application(get_asgi_application())
        for _ in range(2):
            with pytest.raises(ImproperlyConfigured, match="TokensOfNobody"):
                Client().post("/tokens/mcp", b"{}", content_type="application/json")


@pytest.mark.parametrize(
    "authenticator",
    [TokensByHand(), TokensOfSomebody(), TokensFoundByRequest(), APIKeyAuthenticator()],
)
def test_tokens_with_a_known_issuer_pass_the_checks(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
):
    server = MCPServer("tokens-of-somebody", authenticators=[authenticator])
    patterns = [path("tokens/", server.urls), path("", include("django_mcp.urls"))]
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    with override_settings(ROOT_URLCONF=__name__):
        assert "django_mcp.E010" not in check_ids()
        django_mcp_application(get_asgi_application())
        response = Client().post("/tokens/mcp", b"{}", content_type="application/json")
        assert response.status_code < 500


def test_another_issuer_without_served_metadata_is_reported(
    monkeypatch: pytest.MonkeyPatch,
):
    issuer = IntrospectionAuthenticator(
        url="https://issuer.example/introspect",
        client_id="shop",
        client_secret="secret",
        audience="https://shop.example.com/mcp",
        issuer="https://issuer.example",
    )
    server = MCPServer("of-another-issuer", authenticators=[issuer])
    alone = [path("foreign/", server.urls)]
    monkeypatch.setattr(f"{__name__}.urlpatterns", alone)
    with override_settings(ROOT_URLCONF=__name__):
        assert "django_mcp.W012" in {each.id for each in run_checks(tags=["django_mcp"])}
        django_mcp_application(get_asgi_application())
        response = Client().post("/foreign/mcp", b"{}", content_type="application/json")
        assert response.status_code < 500
    monkeypatch.setattr(f"{__name__}.urlpatterns", [*alone, path("", include("django_mcp.urls"))])
    with override_settings(ROOT_URLCONF=__name__):
        assert "django_mcp.W012" not in {each.id for each in run_checks(tags=["django_mcp"])}


def test_an_issuer_on_another_host_than_the_public_url_is_reported():
    toolkit = oauth2_provider_settings(OIDC_ISS_ENDPOINT="https://shop.example.com.evil.example")
    with override_settings(
        OAUTH2_PROVIDER=toolkit, DJANGO_MCP={"PUBLIC_URL": "https://shop.example.com"}
    ):
        assert ids() == {"O020"}
