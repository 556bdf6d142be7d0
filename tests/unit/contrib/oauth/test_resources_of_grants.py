"""A token names an endpoint only if a user approved it, or an administrator listed it for the client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client, override_settings
from django.urls import include, path
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_device_grant_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp import Context
from django_mcp.contrib.oauth import oauth2_provider_settings
from django_mcp.contrib.oauth.models import ClientEndpoint
from django_mcp.contrib.oauth.validator import MCPOAuth2Validator
from django_mcp.servers import MCPServer
from tests.support.oauth.browser import hidden_fields, post_form
from tests.support.wire import V2026_07_28, headers_for, message
from tests.unit.contrib.oauth.test_authorizing import CHALLENGE, REDIRECT, VERIFIER

ENDPOINT = "http://testserver/orders/mcp"
OTHER = "http://testserver/stock/mcp"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
ANY_TOKEN_ENDPOINT = pytest.mark.parametrize("token_endpoint", ["/oauth/token/", "/o/token/"])
"""Ours, and that of django-oauth-toolkit, which a site may have mounted as well."""

AUTHENTICATORS = ["django_mcp.contrib.oauth.OAuthAuthenticator"]
orders = MCPServer("grants-orders", title="The orders", authenticators=AUTHENTICATORS)
stock = MCPServer("grants-stock", title="The stock", authenticators=AUTHENTICATORS)


@orders.tool(read_only=True)
def whoami(ctx: Context) -> str:
    """Return the name of the user."""
    return ctx.user.get_username() or "nobody"


class DeviceValidator(MCPOAuth2Validator):
    """A validator of a site that completes the device flow for newer releases of oauthlib."""

    def validate_device_code(self, client_id: str, device_code: str, request: Any) -> str:
        grant = get_device_grant_model().objects.get(device_code=device_code, client_id=client_id)
        request.user, request.scopes = grant.user, grant.scope.split()
        return str(grant.status)


urlpatterns = [
    path("", include("django_mcp.urls")),
    path("orders/", orders.urls),
    path("stock/", stock.urls),
    path("admin/", admin.site.urls),
    path("o/", include("oauth2_provider.urls", namespace="toolkit")),
]

pytestmark = [
    pytest.mark.django_db,
    # Whole sign-ins, and many of them.
    pytest.mark.slow,
    # The grants that RFC 9700 forbids, which a site may still have turned on.
    pytest.mark.filterwarnings("ignore:The OAuth 2.0 :DeprecationWarning"),
]

EVERY_GRANT = oauth2_provider_settings(
    OAUTH2_GRANT_TYPES_SUPPORTED=[
        "authorization_code",
        "refresh_token",
        "client_credentials",
        "password",
        "implicit",
        DEVICE,
    ],
    OAUTH2_RESPONSE_TYPES_SUPPORTED=["code", "token", "code token"],
    OAUTH2_VALIDATOR_CLASS=f"{__name__}.DeviceValidator",
    ALWAYS_RELOAD_OAUTHLIB_CORE=True,
    COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT=False,
    COMPLIANT_BCP_RFC9700_PASSWORD_GRANT=False,
)


@pytest.fixture(autouse=True)
def site() -> Iterator[None]:
    with override_settings(
        ROOT_URLCONF=__name__,
        DJANGO_MCP={"SYNC_THREADS": 0, "AUTHENTICATORS": AUTHENTICATORS},
        OAUTH2_PROVIDER=EVERY_GRANT,
    ):
        yield


@pytest.fixture
def browser() -> Client:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(get_user_model().objects.create_user("ada", password="shop"))
    return browser


def new_client(grant: str = "authorization-code", **fields: Any) -> Any:
    return get_application_model().objects.create(
        **{
            "name": "A client",
            "client_type": "public",
            "authorization_grant_type": grant,
            "redirect_uris": REDIRECT,
            "registration_source": "manual",
            **fields,
        }
    )


def confidential(grant: str, **fields: Any) -> Any:
    return new_client(grant, client_type="confidential", client_secret="secret", **fields)


def address(client: Any, *resources: str, page: str = "/oauth/authorize/", **changes: str) -> str:
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "the state",
        "scope": "mcp",
        **changes,
    }
    return f"{page}?{urlencode([*query.items(), *(('resource', each) for each in resources)])}"


def answer_of(response: Any) -> dict[str, str]:
    """Return the parameters in the query or fragment of a client's redirect."""
    assert response.status_code == 302, response.content
    parts = urlsplit(response["location"])
    assert response["location"].startswith(REDIRECT)
    found = parse_qs(f"{parts.query}&{parts.fragment}")
    return {name: values[0] for name, values in found.items()}


def allow(browser: Client, url: str) -> dict[str, str]:
    form = hidden_fields(browser.get(url).content.decode())
    return answer_of(browser.post(url, {**form, "allow": "true"}))


def code_for(browser: Client, client: Any, *resources: str, **changes: str) -> str:
    return allow(browser, address(client, *resources, **changes))["code"]


def exchange(client: Any, code: str, *resources: str, token_endpoint: str = "/oauth/token/") -> Any:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT,
        "client_id": client.client_id,
        "code_verifier": VERIFIER,
    }
    return post_form(token_endpoint, {**form, "resource": list(resources)})


def refresh(client: Any, token: str, *resources: str, token_endpoint: str = "/oauth/token/") -> Any:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client.client_id}
    return post_form(token_endpoint, {**form, "resource": list(resources)})


def ask_as_client(
    client: Any, grant: str, *resources: str, token_endpoint: str = "/oauth/token/", **more: str
) -> Any:
    form = {
        "grant_type": grant,
        "client_id": client.client_id,
        "client_secret": "secret",
        "scope": "mcp",
        **more,
    }
    return post_form(token_endpoint, {**form, "resource": list(resources)})


def call(token: str, endpoint: str = ENDPOINT) -> Any:
    body = message("tools/call", {"name": "whoami", "arguments": {}}, revision=V2026_07_28)
    headers = {
        **headers_for(body, V2026_07_28),
        "Host": "testserver",
        "Authorization": f"Bearer {token}",
    }
    where = urlsplit(endpoint).path
    return Client().post(where, body, content_type="application/json", headers=headers)


def assert_refused(response: Any) -> None:
    assert response.status_code == 400, response.content
    assert json.loads(response.content)["error"] == "invalid_target"
    assert not get_access_token_model().objects.exclude(resource=[]).exists()


# -- authorization codes and refresh tokens


@ANY_TOKEN_ENDPOINT
def test_a_token_request_cannot_gain_a_resource_the_user_did_not_approve(
    browser: Client, token_endpoint: str
):
    client = new_client()
    code = code_for(browser, client)

    assert_refused(exchange(client, code, ENDPOINT, token_endpoint=token_endpoint))


@ANY_TOKEN_ENDPOINT
def test_a_refresh_token_of_a_grant_without_a_resource_cannot_gain_one(
    browser: Client, token_endpoint: str
):
    client = new_client()
    tokens = exchange(client, code_for(browser, client)).json()

    assert_refused(
        refresh(client, tokens["refresh_token"], ENDPOINT, token_endpoint=token_endpoint)
    )
    # The session continues without the endpoint.
    assert refresh(client, tokens["refresh_token"]).status_code == 200
    assert call(tokens["access_token"]).status_code == 401


@pytest.mark.parametrize("source", ["manual", "dcr", "cimd"])
@pytest.mark.parametrize("resources", [[OTHER], [ENDPOINT, OTHER], ["https://api.example/"]])
def test_no_client_gains_a_resource_that_was_not_approved(
    browser: Client, source: str, resources: list[str]
):
    client = new_client(registration_source=source, client_id=f"https://c.example/{source}")
    code = code_for(browser, client, ENDPOINT)

    assert exchange(client, code, *resources).json()["error"] == "invalid_target"
    tokens = exchange(client, code, ENDPOINT).json()
    assert refresh(client, tokens["refresh_token"], *resources).status_code == 400
    assert call(tokens["access_token"]).status_code == 200
    assert call(tokens["access_token"], OTHER).status_code == 401
    again = refresh(client, tokens["refresh_token"], ENDPOINT).json()
    assert call(again["access_token"]).status_code == 200


@pytest.mark.parametrize("source", ["dcr", "cimd"])
def test_a_registered_client_without_a_resource_gets_only_the_default(browser: Client, source: str):
    client = new_client(registration_source=source, client_id=f"https://c.example/{source}")
    code = code_for(browser, client)

    assert exchange(client, code, ENDPOINT).json()["error"] == "invalid_target"
    tokens = exchange(client, code).json()
    assert get_access_token_model().objects.get().resource == ["http://testserver/mcp"]
    assert refresh(client, tokens["refresh_token"], ENDPOINT).status_code == 400


def test_a_token_for_two_approved_endpoints_can_be_narrowed_to_one(browser: Client):
    client = new_client()
    tokens = exchange(client, code_for(browser, client, ENDPOINT, OTHER), OTHER).json()

    assert call(tokens["access_token"]).status_code == 401
    assert get_refresh_token_model().objects.get().resource == [OTHER]
    wider = refresh(client, tokens["refresh_token"], ENDPOINT)
    assert wider.json()["error"] == "invalid_target"


# -- grants without a person at our consent page


@ANY_TOKEN_ENDPOINT
def test_client_credentials_grant_no_endpoint_by_default(token_endpoint: str):
    client = confidential("client-credentials")

    assert_refused(
        ask_as_client(client, "client_credentials", ENDPOINT, token_endpoint=token_endpoint)
    )
    token = json.loads(
        ask_as_client(client, "client_credentials", token_endpoint=token_endpoint).content
    )
    assert call(token["access_token"]).status_code == 401


@ANY_TOKEN_ENDPOINT
def test_the_password_grant_gives_no_endpoint(browser: Client, token_endpoint: str):
    client = confidential("password")
    person = {"username": "ada", "password": "shop"}

    assert_refused(
        ask_as_client(client, "password", ENDPOINT, token_endpoint=token_endpoint, **person)
    )
    tokens = json.loads(
        ask_as_client(client, "password", token_endpoint=token_endpoint, **person).content
    )
    assert call(tokens["access_token"]).status_code == 401
    form = {"refresh_token": tokens["refresh_token"]}
    assert_refused(ask_as_client(client, "refresh_token", ENDPOINT, **form))


def test_a_device_code_grants_no_endpoint(browser: Client):
    client = confidential("urn:ietf:params:oauth:grant-type:device_code")
    get_device_grant_model().objects.create(
        user=get_user_model().objects.get(),
        device_code="the-device",
        user_code="1234",
        scope="mcp",
        expires=timezone.now() + timedelta(minutes=5),
        status="authorized",
        client_id=client.client_id,
    )
    form = {"device_code": "the-device"}

    # Our endpoint does not serve the device flow, which has its own pages.
    ours = ask_as_client(client, DEVICE, **form)
    assert ours.json()["error"] == "unsupported_grant_type"
    assert_refused(ask_as_client(client, DEVICE, ENDPOINT, token_endpoint="/o/token/", **form))
    tokens = ask_as_client(client, DEVICE, token_endpoint="/o/token/", **form).json()
    assert call(tokens["access_token"]).status_code == 401
    form = {"refresh_token": tokens["refresh_token"]}
    assert_refused(ask_as_client(client, "refresh_token", ENDPOINT, **form))


@pytest.mark.parametrize(
    ("grant", "response_type"), [("implicit", "token"), ("openid-hybrid", "code token")]
)
def test_an_implicit_token_is_bound_to_the_approved_resource(
    browser: Client, settings: Any, grant: str, response_type: str
):
    settings.OAUTH2_PROVIDER = {**EVERY_GRANT, "OIDC_ENABLED": response_type != "token"}
    client = confidential(grant)
    kind = {"response_type": response_type, "nonce": "n"}

    without = allow(browser, address(client, **kind))
    assert call(without["access_token"]).status_code == 401
    page = browser.get(address(client, ENDPOINT, **kind)).content.decode()
    assert "The orders" in page
    approved = allow(browser, address(client, ENDPOINT, **kind))
    assert ("code" in approved) is (grant == "openid-hybrid")
    assert call(approved["access_token"]).status_code == 200
    assert call(approved["access_token"], OTHER).status_code == 401
    for code in filter(None, (without.get("code"), approved.get("code"))):
        form = {"code": code, "redirect_uri": REDIRECT, "code_verifier": VERIFIER}
        refused = ask_as_client(client, "authorization_code", OTHER, **form)
        assert refused.json()["error"] == "invalid_target"


@pytest.mark.parametrize("page", ["/oauth/authorize/", "/o/authorize/"])
def test_an_authorization_request_is_not_accepted_as_a_token_request(browser: Client, page: str):
    client = new_client("implicit")
    code = (
        get_grant_model()
        .objects.create(
            user=get_user_model().objects.create_user("mallory"),
            application=client,
            code="a-code-of-another-user",
            redirect_uri=REDIRECT,
            scope="mcp",
            resource=[ENDPOINT],
            expires=timezone.now() + timedelta(minutes=1),
        )
        .code
    )
    url = address(
        client, page=page, response_type="token", grant_type="authorization_code", code=code
    )

    answer = allow(browser, url)

    assert call(answer["access_token"]).status_code == 401
    assert get_access_token_model().objects.get().resource == []


@pytest.mark.parametrize("grant", ["authorization-code", "implicit"])
def test_the_toolkits_own_consent_page_grants_no_endpoint(browser: Client, grant: str):
    client = new_client(grant)
    kind = "code" if grant == "authorization-code" else "token"
    url = address(client, ENDPOINT, page="/o/authorize/", response_type=kind)
    form = hidden_fields(browser.get(url).content.decode())

    response = browser.post(url, {**form, "allow": "true"})

    assert answer_of(response)["error"] == "invalid_target"
    assert not get_grant_model().objects.exists()
    assert not get_access_token_model().objects.exists()


# -- skipped consent


def test_skip_authorization_is_ignored_when_an_endpoint_is_requested(
    browser: Client,
):
    client = new_client(skip_authorization=True)

    page = browser.get(address(client, ENDPOINT))
    assert page.status_code == 200
    assert "The orders" in page.content.decode()
    assert "code" in allow(browser, address(client, ENDPOINT))
    tokens = exchange(client, answer_of(browser.get(address(client)))["code"]).json()
    assert call(tokens["access_token"]).status_code == 401


def test_an_earlier_consent_does_not_cover_an_endpoint(browser: Client):
    with override_settings(OAUTH2_PROVIDER={**EVERY_GRANT, "REQUEST_APPROVAL_PROMPT": "auto"}):
        client = new_client()
        exchange(client, code_for(browser, client))

        assert "code" in answer_of(browser.get(address(client)))
        assert browser.get(address(client, ENDPOINT)).status_code == 200


# -- endpoints listed by an administrator


def test_client_credentials_grant_the_endpoints_listed_for_the_client():
    client, other = confidential("client-credentials"), confidential("client-credentials")
    ClientEndpoint.objects.create(application=client, resource=ENDPOINT)

    token = ask_as_client(client, "client_credentials", f"{ENDPOINT}/").json()["access_token"]

    assert call(token).json()["result"]["content"][0]["text"] == "nobody"
    assert call(token, OTHER).status_code == 401
    get_access_token_model().objects.all().delete()
    assert_refused(ask_as_client(client, "client_credentials", OTHER))
    assert_refused(ask_as_client(client, "client_credentials", ENDPOINT, OTHER))
    assert_refused(ask_as_client(other, "client_credentials", ENDPOINT))


def test_a_client_cannot_fill_the_table_of_tokens():
    client, other = confidential("client-credentials"), confidential("client-credentials")
    for each in (client, other):
        ClientEndpoint.objects.create(application=each, resource=ENDPOINT)
    user, hour = (
        get_user_model().objects.create(username="ada"),
        timezone.now() + timedelta(hours=1),
    )
    for number in range(2):
        # Tokens of users are no tokens of the client itself.
        get_access_token_model().objects.create(
            token=f"of a user {number}", user=user, application=client, scope="mcp", expires=hour
        )
    limits = {"SYNC_THREADS": 0, "AUTHENTICATORS": AUTHENTICATORS, "OAUTH_TOKENS_PER_HOUR": 2}
    with override_settings(DJANGO_MCP=limits):
        statuses = [
            ask_as_client(client, "client_credentials", ENDPOINT).status_code for _ in range(3)
        ]
        refused = ask_as_client(client, "client_credentials", ENDPOINT)
        later = ask_as_client(other, "client_credentials", ENDPOINT)

    assert statuses == [200, 200, 429]
    assert 0 < int(refused["Retry-After"]) <= 3600
    assert json.loads(refused.content)["error"] == "temporarily_unavailable"
    assert later.status_code == 200
    assert get_access_token_model().objects.filter(application=client, user=None).count() == 2


def test_removing_a_listed_endpoint_invalidates_the_clients_own_tokens(browser: Client):
    client = confidential("client-credentials")
    listed = ClientEndpoint.objects.create(application=client, resource=ENDPOINT)
    token = ask_as_client(client, "client_credentials", ENDPOINT).json()["access_token"]

    listed.delete()

    assert call(token).status_code == 401


def test_a_listed_endpoint_does_not_enable_the_password_grant(browser: Client):
    client = confidential("password")
    ClientEndpoint.objects.create(application=client, resource=ENDPOINT)

    assert_refused(ask_as_client(client, "password", ENDPOINT, username="ada", password="shop"))


def test_skip_authorization_works_for_listed_endpoints(browser: Client):
    client = new_client(skip_authorization=True)
    ClientEndpoint.objects.create(application=client, resource=ENDPOINT)

    code = answer_of(browser.get(address(client, ENDPOINT)))["code"]

    assert call(exchange(client, code).json()["access_token"]).status_code == 200
    assert browser.get(address(client, ENDPOINT, OTHER)).status_code == 200


def test_only_endpoints_of_this_site_can_be_listed():
    client = confidential("client-credentials")
    boss = Client()
    boss.force_login(get_user_model().objects.create_superuser("sam"))
    add = "/admin/django_mcp_oauth/clientendpoint/add/"

    for wrong in ("https://api.example/mcp", "http://testserver/", f"{ENDPOINT}/below", "orders"):
        response = boss.post(add, {"application": client.pk, "resource": wrong})
        assert "takes OAuth tokens at this address" in response.content.decode()
    assert not ClientEndpoint.objects.exists()
    response = boss.post(add, {"application": client.pk, "resource": f"{ENDPOINT}/"})
    assert response.status_code == 302
    assert ClientEndpoint.objects.get().resource == ENDPOINT
    page = boss.get("/admin/django_mcp_oauth/clientendpoint/").content.decode()
    assert ENDPOINT in page
