"""The authorization server against misbehaving clients and attackers, without a socket."""

from __future__ import annotations

import base64
import hashlib
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp.contrib.oauth import oauth2_provider_settings
from django_mcp.contrib.oauth.models import SignIn
from tests.support.oauth.browser import hidden_fields, place_of, post_form
from tests.support.policies import SITE_POLICY, policy_of

# Whole sign-ins, and many of them.
pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FORM = "application/x-www-form-urlencoded"
REDIRECT = "https://client.example/callback"
RESOURCE = "http://testserver/mcp"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())[:-1].decode()


@pytest.fixture(autouse=True)
def protected(settings: Any) -> None:
    settings.DJANGO_MCP = {
        "AUTHENTICATORS": ["django_mcp.contrib.oauth.OAuthAuthenticator"],
    }


@pytest.fixture
def application() -> Any:
    return get_application_model().objects.create(
        name="A client",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
        registration_source="dcr",
    )


@pytest.fixture
def browser() -> Client:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(get_user_model().objects.create_user("ada"))
    return browser


def address(application: Any, **changes: str | None) -> str:
    query = {
        "response_type": "code",
        "client_id": application.client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "the state",
        "scope": "mcp",
        "resource": RESOURCE,
        **changes,
    }
    given = {name: value for name, value in query.items() if value is not None}
    return f"/oauth/authorize/?{urlencode(given)}"


def allow(browser: Client, url: str, **changes: str) -> dict[str, str]:
    form = {**hidden_fields(browser.get(url).content.decode()), "allow": "true", **changes}
    response = browser.post(url, form)
    assert response.status_code == 302, response.content
    return answer_of(response)


def answer_of(response: Any) -> dict[str, str]:
    place = place_of(response)
    assert place.startswith(REDIRECT)
    return {k: v[0] for k, v in parse_qs(urlsplit(place).query).items()}


def exchange_form(application: Any, given_code: str, **changes: str | None) -> dict[str, str]:
    form = {
        "grant_type": "authorization_code",
        "code": given_code,
        "redirect_uri": REDIRECT,
        "client_id": application.client_id,
        "code_verifier": VERIFIER,
        **changes,
    }
    return {name: value for name, value in form.items() if value is not None}


def exchange(application: Any, given_code: str, **changes: str | None) -> Any:
    return post_form("/oauth/token/", exchange_form(application, given_code, **changes))


def post_text(url: str, text: str) -> Any:
    return Client(enforce_csrf_checks=True).post(url, text, content_type=FORM)


def refresh(application: Any, token: str) -> Any:
    form = {"grant_type": "refresh_token", "refresh_token": token}
    return post_form("/oauth/token/", {**form, "client_id": application.client_id})


def tokens_for(application: Any, browser: Client) -> dict[str, Any]:
    code = allow(browser, address(application))["code"]
    return exchange(application, code).json()


def test_each_step_of_a_sign_in_is_told(application: Any, browser: Client):
    tokens_for(application, browser)

    rows = SignIn.objects.order_by("pk").values_list(
        "step", "is_refused", "client_id", "user__username"
    )
    name = get_user_model().objects.get().username
    assert list(rows) == [
        ("authorization", False, application.client_id, name),
        ("token", False, application.client_id, name),
    ]


def test_a_code_is_exchanged_and_the_redirect_names_the_issuer(application: Any, browser: Client):
    answer = allow(browser, address(application))
    response = exchange(application, answer["code"], resource=RESOURCE)

    assert answer["iss"] == "http://testserver"
    assert answer["state"] == "the state"
    assert response.status_code == 200
    assert response["cache-control"] == "no-store"
    assert response["access-control-allow-origin"] == "*"
    assert get_access_token_model().objects.get().resource == [RESOURCE]


@pytest.mark.parametrize(
    "name", ["grant_type", "code", "redirect_uri", "client_id", "code_verifier", "scope", "other"]
)
def test_a_token_request_with_a_repeated_parameter_is_rejected(
    application: Any, browser: Client, name: str
):
    code = allow(browser, address(application))["code"]
    form = exchange_form(application, code, scope="mcp", other="1")
    twice = urlencode([*form.items(), (name, form[name])])

    response = post_text("/oauth/token/", twice)

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_request"
    assert not get_access_token_model().objects.exists()
    # The code is not used up by it.
    assert post_text("/oauth/token/", urlencode(form)).status_code == 200


def test_a_token_request_can_name_several_resources(application: Any, browser: Client):
    form = exchange_form(application, allow(browser, address(application))["code"])
    both = urlencode([*form.items(), ("resource", RESOURCE), ("resource", RESOURCE)])

    assert post_text("/oauth/token/", both).status_code == 200


@pytest.mark.parametrize("name", ["token", "token_type_hint", "client_id"])
def test_a_revocation_with_a_repeated_parameter_is_rejected(
    application: Any, browser: Client, name: str
):
    token = tokens_for(application, browser)["access_token"]
    form = {"token": token, "token_type_hint": "access_token", "client_id": application.client_id}

    response = post_text("/oauth/revoke/", urlencode([*form.items(), (name, form[name])]))

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_request"
    assert get_access_token_model().objects.exists()


@pytest.mark.parametrize("path", ["token", "revoke", "register"])
def test_parameters_in_the_url_are_rejected_where_they_belong_in_the_body(path: str):
    content_type = "application/json" if path == "register" else FORM

    response = Client().post(f"/oauth/{path}/?client_secret=s", "{}", content_type=content_type)

    assert response.status_code == 400
    assert "URL" in response.json()["error_description"]


@pytest.mark.parametrize(
    "name", ["code_challenge", "code_challenge_method", "nonce", "prompt", "x"]
)
def test_an_authorization_request_with_a_repeated_parameter_is_rejected(
    application: Any, browser: Client, name: str
):
    url = address(application, nonce="n", prompt="consent", x="1")
    given = parse_qs(urlsplit(url).query)[name][0]

    answer = answer_of(browser.get(f"{url}&{urlencode({name: given})}"))

    assert answer["error"] == "invalid_request"
    assert answer["state"] == "the state"
    assert not get_grant_model().objects.exists()


@pytest.mark.parametrize("name", ["redirect_uri", "allow", "seal", "scope"])
def test_a_consent_with_a_repeated_field_is_rejected(application: Any, browser: Client, name: str):
    url = address(application)
    form = {**hidden_fields(browser.get(url).content.decode()), "allow": "true"}
    twice = urlencode([*form.items(), (name, form[name])])

    assert browser.post(url, twice, content_type=FORM).status_code == 400
    assert not get_grant_model().objects.exists()


@pytest.mark.parametrize(("source", "resource"), [("dcr", [RESOURCE]), ("manual", [])])
def test_an_mcp_client_without_a_resource_gets_the_default_server(
    application: Any, browser: Client, source: str, resource: list[str]
):
    application.registration_source = source
    application.save()

    code = allow(browser, address(application, resource=None))["code"]
    exchange(application, code)

    assert get_access_token_model().objects.get().resource == resource


def test_no_usable_token_is_stored_in_the_database(application: Any, browser: Client):
    tokens = tokens_for(application, browser)

    rows = [
        str(row)
        for model in (get_access_token_model(), get_refresh_token_model(), get_grant_model())
        for row in model.objects.values_list()
    ]
    assert len(rows) == 2
    assert not any(
        tokens[kind] in row for row in rows for kind in ("access_token", "refresh_token")
    )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "S512"}, "invalid_request"),
        ({"code_challenge": VERIFIER}, "invalid_request"),
        ({"code_challenge": "="}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ({"resource": "http://testserver.evil.example/mcp"}, "invalid_target"),
        ({"resource": "http://testserver@evil.example/mcp"}, "invalid_target"),
        ({"resource": "mcp"}, "invalid_target"),
        ({"scope": "mcp everything"}, "invalid_scope"),
        ({"response_type": "token"}, "unauthorized_client"),
    ],
)
@pytest.mark.parametrize("source", ["dcr", "cimd", "manual"])
def test_an_invalid_request_leads_back_with_an_error(
    application: Any, browser: Client, changes: dict[str, str | None], error: str, source: str
):
    application.registration_source = source
    application.save()

    response = browser.get(address(application, **changes))

    # Whoever registers a client could lead people to any host.
    assert response.status_code == (302 if source == "manual" else 400)
    assert ("location" in response) is (source == "manual")
    answer = answer_of(response)
    if error != "unauthorized_client":
        assert answer["error"] == error
    assert "code" not in answer
    assert answer["iss"] == "http://testserver"


@pytest.mark.parametrize(
    "resource",
    [
        "http://testserver",
        "http://testserver/",
        "http://testserver/mcp/sub",
        "http://testserver/mcp/health",
        "http://testserver/admin/",
        "http://testserver/mcp?x=1",
        "http://testserver/mc%70",
        "",
    ],
)
def test_a_resource_without_tokens_is_an_invalid_target(
    application: Any, browser: Client, resource: str
):
    second = f"{address(application)}&{urlencode({'resource': resource})}"
    for url in (address(application, resource=resource), second):
        assert answer_of(browser.get(url))["error"] == "invalid_target"


@pytest.mark.parametrize("resource", [f"{RESOURCE}/", "HTTP://TestServer:80/mcp"])
def test_an_endpoint_may_be_written_in_another_form(
    application: Any, browser: Client, resource: str
):
    assert "code" in allow(browser, address(application, resource=resource))


def test_a_server_without_authentication_is_an_invalid_target(
    application: Any, browser: Client, settings: Any
):
    settings.DJANGO_MCP = {"PUBLIC": True}

    assert answer_of(browser.get(address(application)))["error"] == "invalid_target"
    assert "code" in allow(browser, address(application, resource=None))


@pytest.mark.parametrize(
    "redirect",
    [
        "https://evil.example/callback",
        "https://client.example/callback/more",
        "https://client.example/callback?more=1",
        "https://client.example/callback#fragment",
        "https://client.example:444/callback",
        "https://user@client.example/callback",
        "https://client.example@evil.example/callback",
        "https://CLIENT.example.evil.example/callback",
        "https://client.example\\@evil.example/callback",
        "http://client.example/callback",
        "//client.example/callback",
        "javascript:alert(1)",
        "",
    ],
)
def test_an_unregistered_redirect_uri_is_never_used(
    application: Any, browser: Client, redirect: str
):
    response = browser.get(address(application, redirect_uri=redirect))

    if redirect:
        assert response.status_code == 400
        assert "location" not in response
    else:
        # Without one, the registered one is used.
        assert response.status_code in (200, 302, 400)
        assert "evil" not in response.get("location", "")


@pytest.mark.parametrize("query", ["iss=https%3A%2F%2Fevil.example", "state=x", "code=x", "error"])
def test_a_redirect_with_response_parameters_is_not_used(
    application: Any, browser: Client, query: str
):
    redirect = f"{REDIRECT}?{query}"
    application.redirect_uris = redirect
    application.save()

    response = browser.get(address(application, redirect_uri=redirect))

    assert response.status_code == 400
    assert "location" not in response


@pytest.mark.parametrize("query", ["miss=1", "at=%69ss%3Dx&miss", "a=1&a=2&b="])
@pytest.mark.parametrize(
    "changes", [{"scope": "everything"}, {"state": "iss=x&iss=y", "scope": "no"}]
)
def test_an_error_names_the_issuer_despite_other_parameters(
    application: Any, browser: Client, query: str, changes: dict[str, str]
):
    redirect = f"{REDIRECT}?{query}"
    application.redirect_uris = redirect
    application.save()

    response = browser.get(address(application, redirect_uri=redirect, **changes))

    found = parse_qs(urlsplit(place_of(response)).query, keep_blank_values=True)
    assert found["iss"] == ["http://testserver"]
    assert found["error"] == ["invalid_scope"]
    assert found["state"] == [changes.get("state", "the state")]
    own = parse_qs(query, keep_blank_values=True)
    assert {name: found[name] for name in own} == own


def test_a_registered_http_redirect_to_another_host_is_not_used(application: Any, browser: Client):
    application.redirect_uris = "http://client.example/callback"
    application.save()

    response = browser.get(address(application, redirect_uri="http://client.example/callback"))

    assert response.status_code == 400


def test_a_loopback_redirect_may_differ_only_in_its_port(application: Any, browser: Client):
    application.redirect_uris = "http://127.0.0.1/callback"
    application.save()

    def status(redirect: str) -> int:
        return browser.get(address(application, redirect_uri=redirect)).status_code

    assert status("http://127.0.0.1:33418/callback") == 200
    assert status("http://localhost:33418/callback") == 400
    assert status("http://127.0.0.1:33418/other") == 400


def test_the_consent_form_requires_a_csrf_token(application: Any, browser: Client):
    url = address(application)
    form = hidden_fields(browser.get(url).content.decode())
    form.pop("csrfmiddlewaretoken")

    response = browser.post(url, {**form, "allow": "true"})

    assert response.status_code == 403
    assert not get_grant_model().objects.exists()


def test_a_client_cannot_skip_the_consent_page(application: Any, browser: Client):
    tokens_for(application, browser)

    response = browser.get(address(application) + "&approval_prompt=auto")

    assert response.status_code == 200
    assert response["x-frame-options"] == "DENY"
    policy = policy_of(response)
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy
    # Chromium holds it against where the answer to the form leads as well: to the client.
    assert "form-action" not in policy
    assert response["cache-control"] == "no-store"


def test_a_form_with_another_redirect_gets_no_code(application: Any, browser: Client):
    url = address(application)
    form = hidden_fields(browser.get(url).content.decode())

    response = browser.post(
        url, {**form, "allow": "true", "redirect_uri": "https://evil.example/callback"}
    )

    assert "code=" not in response.get("location", "")
    assert not get_grant_model().objects.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"resource": "https://evil.example/mcp"},
        {"resource": f"{RESOURCE} https://evil.example/mcp"},
        {"resource": "mcp"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": ""},
        {"code_challenge": VERIFIER},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "https://evil.example/callback", "allow": ""},
        {"code_challenge": "", "code_challenge_method": ""},
        {"code_challenge": "A" * 43},
        {"scope": "openid"},
        {"state": "another"},
        {"nonce": "another"},
        {"claims": "{}"},
        {"resource": ""},
        {"resource": "http://testserver/staff/mcp"},
        {"seal": ""},
        {"seal": "another"},
        {"allow": "", "state": "another"},
    ],
)
def test_a_tampered_consent_form_is_rejected(
    application: Any, browser: Client, changes: dict[str, str]
):
    url = address(application)
    form = hidden_fields(browser.get(url).content.decode())

    response = browser.post(url, {**form, "allow": "true", **changes})

    assert response.status_code == 400
    assert "location" not in response
    assert not get_grant_model().objects.exists()


@pytest.mark.parametrize("where", ["/oauth/authorize/", None])
def test_a_consent_form_cannot_drop_the_code_challenge_of_its_page(
    application: Any, browser: Client, where: str | None
):
    url = address(application)
    form = hidden_fields(browser.get(url).content.decode())
    del form["code_challenge"], form["code_challenge_method"]

    response = browser.post(where or url, {**form, "allow": "true"})

    assert response.status_code == 400
    assert not get_grant_model().objects.exists()


def test_a_consent_form_is_bound_to_its_user(application: Any, browser: Client):
    url = address(application)
    form = hidden_fields(browser.get(url).content.decode())
    browser.force_login(get_user_model().objects.create_user("grace"))
    form["csrfmiddlewaretoken"] = hidden_fields(browser.get(url).content.decode())[
        "csrfmiddlewaretoken"
    ]

    response = browser.post(url, {**form, "allow": "true"})

    assert response.status_code == 400
    assert not get_grant_model().objects.exists()


@pytest.mark.parametrize("state", [" a  b ", "line\nline", "é\u2028x", '{"a": "b"}'])
def test_a_consent_form_accepts_any_state_parameter(application: Any, browser: Client, state: str):
    assert "code" in allow(browser, address(application, state=state))


def test_a_form_for_another_client_is_rejected(application: Any, browser: Client):
    url = address(application)
    form = hidden_fields(browser.get(url).content.decode())

    response = browser.post(url, {**form, "allow": "true", "client_id": "nobody"})

    assert response.status_code == 400
    assert "location" not in response


def test_denying_redirects_with_access_denied_and_the_issuer(application: Any, browser: Client):
    url = address(application)
    form = hidden_fields(browser.get(url).content.decode())

    answer = answer_of(browser.post(url, form))

    assert answer["error"] == "access_denied"
    assert answer["iss"] == "http://testserver"
    assert answer["state"] == "the state"


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": None},
        {"code_verifier": "w" * 64},
        {"code_verifier": CHALLENGE},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "https://client.example/callback/"},
        {"client_id": "nobody"},
        {"client_id": None},
        {"code": "another"},
        {"code": "nul\0"},
        {"resource": "http://testserver/staff/mcp"},
        {"grant_type": "password"},
        {"grant_type": "client_credentials"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code"},
        {"grant_type": None},
    ],
)
def test_a_code_requires_every_part_of_the_exchange(
    application: Any, browser: Client, changes: dict[str, str | None]
):
    code = allow(browser, address(application))["code"]

    response = exchange(application, code, **changes)

    assert response.status_code in (400, 401)
    assert "access_token" not in response.json()
    assert not get_access_token_model().objects.exists()


@pytest.mark.parametrize("page", ["token", "revoke"])
@pytest.mark.parametrize("credentials", ["Basic ADoA", "Basic Y2MlMDA6JTAw", "Basic \xe9", "Basic"])
def test_invalid_basic_credentials_are_rejected(page: str, credentials: str):
    form = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}

    response = post_form(f"/oauth/{page}/", form, headers={"Authorization": credentials})

    assert response.status_code in (400, 401)


def test_internal_parameters_in_a_token_request_are_ignored(application: Any, browser: Client):
    code = allow(browser, address(application))["code"]

    response = exchange(application, code, refresh_token_instance="x", _at_token_endpoint="x")

    assert response.status_code == 200


def test_an_error_quoting_the_request_is_not_html(application: Any, browser: Client):
    code = allow(browser, address(application))["code"]

    response = exchange(application, code, resource="http://testserver/<script>alert(1)</script>")

    assert response.status_code == 400
    assert response["content-type"] == "application/json"
    assert response["x-content-type-options"] == "nosniff"


def test_a_code_cannot_be_used_by_another_client(application: Any, browser: Client):
    other = get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
    )
    code = allow(browser, address(application))["code"]

    assert exchange(other, code).status_code == 400


def test_a_reused_code_revokes_its_tokens(application: Any, browser: Client):
    code = allow(browser, address(application))["code"]
    first = exchange(application, code).json()

    second = exchange(application, code)

    assert second.json()["error"] == "invalid_grant"
    assert not get_access_token_model().objects.exists()
    assert refresh(application, first["refresh_token"]).status_code == 400


def test_a_reused_code_revokes_refreshed_tokens_across_processes(application: Any, browser: Client):
    """Another process has an empty cache."""
    code = allow(browser, address(application))["code"]
    first = exchange(application, code).json()
    second = refresh(application, first["refresh_token"]).json()
    cache.clear()

    exchange(application, code)

    assert not get_access_token_model().objects.exists()
    assert refresh(application, second["refresh_token"]).status_code == 400


def test_a_reused_code_revokes_no_other_session(application: Any, browser: Client):
    used = allow(browser, address(application))["code"]
    exchange(application, used)
    other = tokens_for(application, browser)
    stranger = get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
    )

    exchange(stranger, used)
    assert get_access_token_model().objects.count() == 2
    exchange(application, used)
    assert get_access_token_model().objects.count() == 1
    assert refresh(application, other["refresh_token"]).status_code == 200


def test_a_reused_refresh_token_revokes_its_family(application: Any, browser: Client):
    first = tokens_for(application, browser)
    second = refresh(application, first["refresh_token"]).json()
    tokens = get_refresh_token_model().objects
    tokens.filter(revoked__isnull=False).update(revoked=timezone.now() - timedelta(minutes=3))

    stolen = refresh(application, first["refresh_token"])

    assert stolen.json()["error"] == "invalid_grant"
    assert refresh(application, second["refresh_token"]).status_code == 400
    assert not get_access_token_model().objects.exists()


def test_without_a_grace_two_concurrent_refreshes_do_not_revoke_the_session(
    application: Any, browser: Client, settings: Any
):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "OAUTH_REFRESH_GRACE_S": 0}
    first = tokens_for(application, browser)
    second = refresh(application, first["refresh_token"]).json()

    loser = refresh(application, first["refresh_token"])

    assert loser.status_code == 400
    assert refresh(application, second["refresh_token"]).status_code == 200


def test_a_refresh_that_loses_a_race_gets_a_pair_of_its_own(application: Any, browser: Client):
    first = tokens_for(application, browser)
    has_looked = False
    winner: list[Any] = []

    def overtake(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        nonlocal has_looked
        if has_looked and not winner:
            # The slower request has read the refresh token, and now the faster one uses it.
            winner.append(None)
            winner[0] = refresh(application, first["refresh_token"]).json()
        has_looked = has_looked or ("SELECT" in sql and "refreshtoken" in sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(overtake):
        loser = refresh(application, first["refresh_token"])

    assert loser.status_code == 200
    for each in (winner[0], loser.json()):
        assert refresh(application, each["refresh_token"]).status_code == 200


@pytest.mark.parametrize("days", [31, None])
def test_a_refresh_token_expires_and_is_revoked_with_its_access_token(
    application: Any, browser: Client, days: int | None
):
    tokens = tokens_for(application, browser)
    access_tokens = get_access_token_model().objects.all()
    if days is None:
        access_tokens.delete()
    else:
        get_refresh_token_model().objects.update(created=timezone.now() - timedelta(days=days))

    assert refresh(application, tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_refresh_token_cannot_be_used_by_another_client(application: Any, browser: Client):
    other = get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
    )
    tokens = tokens_for(application, browser)

    assert refresh(other, tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert refresh(application, tokens["refresh_token"]).status_code == 200


def test_a_refreshed_token_keeps_its_resource(application: Any, browser: Client):
    first = tokens_for(application, browser)

    refresh(application, first["refresh_token"])

    assert [token.resource for token in get_access_token_model().objects.all()] == [[RESOURCE]]


def test_only_its_client_can_revoke_a_token(application: Any, browser: Client):
    other = get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
    )
    token = tokens_for(application, browser)["access_token"]

    post_form("/oauth/revoke/", {"token": token, "client_id": other.client_id})
    assert get_access_token_model().objects.exists()
    post_form("/oauth/revoke/", {"token": token, "client_id": application.client_id})
    assert not get_access_token_model().objects.exists()


AUTHORIZED = "/oauth/authorized/"


def test_users_can_list_and_revoke_their_authorizations(application: Any, browser: Client):
    tokens = tokens_for(application, browser)
    get_access_token_model().objects.update(expires=timezone.now() - timedelta(hours=1))
    page = browser.get(AUTHORIZED)
    form = {**hidden_fields(page.content.decode()), "application": str(application.pk)}
    stranger = Client()
    stranger.force_login(get_user_model().objects.create_user("grace"))

    text = page.content.decode()
    for shown in ("A client", "signed in as <strong><bdi>ada", RESOURCE, "chose this name itself"):
        assert shown in text
    created = get_access_token_model().objects.get().created
    assert f'datetime="{created.isoformat()}"' in text
    assert page["x-frame-options"] == "DENY"
    assert "unsafe" not in policy_of(page)
    assert "A client" not in stranger.get(AUTHORIZED).content.decode()
    stranger.post(AUTHORIZED, form)
    assert browser.post(AUTHORIZED, {"application": form["application"]}).status_code == 403
    assert get_access_token_model().objects.exists()
    after = browser.post(AUTHORIZED, form).content.decode()
    assert "A client</bdi> can no longer use your account" in after
    assert "No client may use your account" in after
    assert not get_access_token_model().objects.exists()
    assert refresh(application, tokens["refresh_token"]).status_code == 400


@pytest.mark.parametrize("key", ["", "x", "0", "\0"])
def test_revoking_an_unknown_authorization_changes_nothing(
    application: Any, browser: Client, key: str
):
    tokens_for(application, browser)
    form = hidden_fields(browser.get(AUTHORIZED).content.decode())

    assert browser.post(AUTHORIZED, {**form, "application": key}).status_code == 200
    assert get_access_token_model().objects.exists()


def test_an_expired_token_without_refresh_is_not_listed(application: Any, browser: Client):
    tokens_for(application, browser)
    get_access_token_model().objects.update(expires=timezone.now() - timedelta(hours=1))
    for token in get_refresh_token_model().objects.all():
        token.revoke()

    assert "A client" not in browser.get(AUTHORIZED).content.decode()


@pytest.mark.parametrize("page", ["consent", "authorized"])
def test_the_site_policy_is_kept_and_framing_is_denied(
    application: Any, browser: Client, settings: Any, page: str
):
    where = address(application) if page == "consent" else AUTHORIZED

    settings.MIDDLEWARE = ["tests.support.policies.CSPMiddleware", *settings.MIDDLEWARE]
    assert policy_of(browser.get(where)) == f"{SITE_POLICY}, frame-ancestors 'none'"


@pytest.mark.parametrize("page", ["consent", "authorized"])
def test_users_can_switch_accounts_and_return(application: Any, browser: Client, page: str):
    where = address(application) if page == "consent" else AUTHORIZED
    shown = browser.get(where).content.decode()
    form = {**hidden_fields(shown), "switch_account": "1"}

    assert "signed in as <strong><bdi>ada" in shown
    away = browser.post(where, form)
    assert away.status_code == 302
    assert parse_qs(urlsplit(away["location"]).query)["next"] == [where]
    assert "_auth_user_id" not in browser.session
    assert not get_grant_model().objects.exists()


def test_view_on_site_redirects_to_the_admin_change_page(application: Any):
    admin = Client()
    admin.force_login(get_user_model().objects.create_superuser("sam"))
    url = application.get_absolute_url()

    response = admin.get(url, follow=True)

    assert response.status_code == 200
    assert response.redirect_chain == [
        (f"/admin/oauth2_provider/application/{application.pk}/change/", 302)
    ]


@pytest.mark.parametrize("page", ["token/", "revoke/", "register/"])
def test_api_endpoints_answer_preflights_and_reject_other_methods(page: str):
    client = Client(enforce_csrf_checks=True)

    preflight = client.options(f"/oauth/{page}")
    got = client.get(f"/oauth/{page}?client_secret=x")

    assert preflight.status_code == 204
    assert "POST" in preflight["access-control-allow-methods"]
    assert got.status_code == 405
    assert got.json()["error"] == "invalid_request"


@pytest.mark.parametrize("page", ["token", "revoke", "register"])
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "text/plain", ""])
def test_an_unsupported_content_type_gets_415(page: str, kind: str):
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n'

    response = Client().post(f"/oauth/{page}/", body, content_type=kind)

    assert response.status_code == 415
    assert response.json()["error"] == "invalid_request"
    assert response["access-control-allow-origin"] == "*"


def test_registration_requires_json_and_token_requests_require_a_form():
    assert post_form("/oauth/register/", {"redirect_uris": REDIRECT}).status_code == 415
    response = Client().post("/oauth/token/", {}, content_type="application/json; charset=utf-8")
    assert response.status_code == 415


EDITOR = "cursor://anysphere.cursor-mcp/oauth/callback"


def editor(**changes: str) -> Any:
    told = {"client_type": "public", "redirect_uris": EDITOR, **changes}
    return get_application_model().objects.create(
        name="An editor", authorization_grant_type="authorization-code", **told
    )


def test_an_editor_gets_its_code_by_its_own_scheme(browser: Client):
    url = address(editor(), redirect_uri=EDITOR)
    form = {**hidden_fields(browser.get(url).content.decode()), "allow": "true"}

    place = browser.post(url, form)["location"]

    assert place.startswith(f"{EDITOR}?")
    assert "code" in parse_qs(urlsplit(place).query)


def test_a_program_is_not_shown_as_a_host(browser: Client):
    redirect = "vscode://shop.example.com/callback"
    url = address(editor(redirect_uris=redirect), redirect_uri=redirect)

    page = browser.get(url).content.decode()

    assert "<strong>vscode://shop.example.com</strong>" in page
    assert "A program on the computer you are using now" in page


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("changes", "listed"),
    [
        ({"redirect_uris": "zed://oauth/callback"}, None),
        ({"redirect_uris": "javascript:alert(1)"}, None),
        ({"redirect_uris": "http://client.example/"}, None),
        ({"client_type": "confidential"}, None),
        ({}, []),
    ],
)
def test_a_redirect_that_is_not_allowed_shows_a_page(
    browser: Client, settings: Any, changes: dict[str, str], listed: Any, named: bool
):
    if listed is not None:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "OAUTH_APP_REDIRECTS": listed}
    application = editor(**changes)
    url = address(application, redirect_uri=application.redirect_uris if named else None)

    for answer in (browser.get(url), browser.get(url + "&response_type=code")):
        assert answer.status_code == 400
        assert "location" not in answer
        assert b"<h1>" in answer.content
    assert not get_grant_model().objects.exists()


@pytest.mark.parametrize("named", [True, False])
def test_an_editor_needs_pkce_whatever_the_settings_say(
    browser: Client, settings: Any, named: bool
):
    settings.OAUTH2_PROVIDER = oauth2_provider_settings(PKCE_REQUIRED=False)
    redirect = EDITOR if named else None
    without = {"code_challenge": None, "code_challenge_method": None, "redirect_uri": redirect}

    answer = browser.get(address(editor(), **without))

    assert answer.status_code == 302
    assert parse_qs(urlsplit(answer["location"]).query)["error"] == ["invalid_request"]
    assert not get_grant_model().objects.exists()


def test_a_program_of_the_persons_computer_is_told_at_once(application: Any, browser: Client):
    application.redirect_uris = "http://127.0.0.1/callback"
    application.save()

    answer = browser.get(
        address(application, redirect_uri="http://127.0.0.1:33418/callback", scope='no "such')
    )

    assert answer.status_code == 302
    query = parse_qs(urlsplit(answer["location"]).query)
    assert query["error"] == ["invalid_scope"]
    assert query["error_description"][0].startswith("scope: This site does not have")
    assert '"' not in query["error_description"][0]
    assert "scopes_supported" in query["error_description"][0]
