"""A token for an address is good at that address alone, whichever authenticator knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import override_settings
from django.urls import include, path, set_script_prefix
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model

from django_mcp import MCPServer
from django_mcp.contrib.introspection import IntrospectionAuthenticator
from django_mcp.contrib.jwt import JWTAuthenticator
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.exchange import Exchange
from tests.support.auth.asking import admit, ask, bearer, exchange_with, refuse
from tests.support.auth.issuer import Issuer, running_issuer

mounted = MCPServer("audiences", public=True, legacy_sse=True)


@mounted.tool(toolset="orders", read_only=True)
def late() -> str:
    """List the late orders."""
    return ""


urlpatterns = [path("", include("django_mcp.urls")), path("", mounted.urls)]

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = "https://testserver"
PATHS = ["/mcp", "/mcp/x/orders", "/mcp/x/payroll", "/sse", "/sse/x/orders"]
EVERY = [ORIGIN + each for each in PATHS]
MESSAGES = {"/sse": "/messages", "/sse/x/orders": "/sse/x/orders/messages"}


@pytest.fixture(autouse=True)
def site() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP={"SYNC_THREADS": 0}):
        yield


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as found:
        yield found


class JWTs:
    """Tokens that are checked here."""

    def __init__(self, issuer: Issuer, audience: Any) -> None:
        taker = JWTAuthenticator(issuer=issuer.url, audience=audience)
        self.server = MCPServer("jwt", authenticators=[taker])
        self._issuer = issuer

    def token_for(self, *audiences: str) -> str:
        return self._issuer.sign(aud=list(audiences))


class Opaque:
    """Tokens that the issuer is asked about."""

    def __init__(self, issuer: Issuer, audience: Any) -> None:
        taker = IntrospectionAuthenticator(
            url=f"{issuer.url}/introspect",
            client_id="shop",
            client_secret="secret",
            audience=audience,
            issuer=issuer.url,
        )
        self.server = MCPServer("opaque", authenticators=[taker])
        self._issuer = issuer

    def token_for(self, *audiences: str) -> str:
        token = f"opaque-{len(self._issuer.tokens)}"
        self._issuer.tokens[token] = {"active": True, "sub": "ada", "aud": list(audiences)}
        return token


class Own:
    """Tokens of this site's own authorization server."""

    numbers = count()

    def __init__(self, _issuer: Issuer, _audience: Any) -> None:
        self.server = MCPServer("own", authenticators=[OAuthAuthenticator()])

    def token_for(self, *audiences: str) -> str:
        number = next(self.numbers)
        application = get_application_model().objects.create(
            client_type="public",
            authorization_grant_type="authorization-code",
            redirect_uris="https://client.example/",
        )
        get_access_token_model().objects.create(
            user=get_user_model().objects.create_user(f"ada-{number}"),
            application=application,
            token=f"own-{number}",
            scope="mcp",
            resource=list(audiences),
            expires=timezone.now() + timedelta(hours=1),
        )
        return f"own-{number}"


External = Callable[[Issuer, Any], JWTs | Opaque]
external = pytest.mark.parametrize("make", [JWTs, Opaque])


@pytest.mark.parametrize("make", [JWTs, Opaque, Own])
def test_a_token_for_an_address_is_good_there_alone(issuer: Issuer, make: Any):
    # No audience lists payroll.
    tokens = make(issuer, [each for each in EVERY if "payroll" not in each])

    for audience in [each for each in PATHS if "payroll" not in each]:
        send = bearer(tokens.token_for(ORIGIN + audience))
        accepted = {at for at in PATHS if ask(tokens.server, exchange_with(send, path=at)) is None}

        assert accepted == {audience}


@pytest.mark.parametrize("make", [JWTs, Opaque, Own])
def test_the_two_paths_of_http_sse_are_one_address(issuer: Issuer, make: Any):
    tokens = make(issuer, EVERY)

    for stream, messages in MESSAGES.items():
        assert admit(tokens.server, bearer(tokens.token_for(ORIGIN + stream)), path=messages)
        for other in {*PATHS} - {stream}:
            refuse(tokens.server, bearer(tokens.token_for(ORIGIN + other)), path=messages)


@pytest.mark.parametrize("make", [JWTs, Opaque, Own])
def test_a_token_for_several_addresses_is_good_at_each(issuer: Issuer, make: Any):
    tokens = make(issuer, EVERY)
    send = bearer(tokens.token_for(*EVERY[:2]))

    assert admit(tokens.server, send, path="/mcp")
    assert admit(tokens.server, send, path="/mcp/x/orders")
    assert refuse(tokens.server, send, path="/mcp/x/payroll").status == 401


@external
@pytest.mark.parametrize(
    "audience",
    [
        f"{ORIGIN}/mcp/x/orders/",
        "HTTPS://TestServer:443/mcp/x/orders",
        "https://testserver/mcp/x/%6Frders",
        # A proxy may not say that clients use https.
        "http://testserver/mcp/x/orders",
    ],
)
def test_addresses_are_compared_in_their_canonical_form(
    issuer: Issuer, make: External, audience: str
):
    tokens = make(issuer, audience)
    send = bearer(tokens.token_for(audience))

    assert admit(tokens.server, send, path="/mcp/x/orders")
    assert admit(tokens.server, send, path="/mcp/x/orders/")
    assert refuse(tokens.server, send, path="/mcp").status == 401


@external
@pytest.mark.parametrize(
    "audience",
    [
        "api://shop",
        "shop",
        "urn:example:shop",
        "https://api.example.com/mcp",
        "https://api.example.com",
        # No endpoint is there, so this is a name too.
        ORIGIN,
        f"{ORIGIN}/api",
    ],
)
def test_a_token_for_a_name_is_good_everywhere(issuer: Issuer, make: External, audience: str):
    tokens = make(issuer, [audience, *EVERY])
    send = bearer(tokens.token_for(audience))

    for at in [*PATHS, *MESSAGES.values()]:
        assert admit(tokens.server, send, path=at)


@external
def test_a_token_for_a_name_and_an_address_is_good_everywhere(issuer: Issuer, make: External):
    tokens = make(issuer, ["api://shop", f"{ORIGIN}/mcp"])
    send = bearer(tokens.token_for(f"{ORIGIN}/mcp", "api://shop"))

    assert admit(tokens.server, send, path="/mcp/x/orders")


@external
def test_a_token_for_the_host_of_one_tenant_is_refused_at_another(
    issuer: Issuer, make: External, settings: Any
):
    settings.ALLOWED_HOSTS = [".example.com"]
    tokens = make(issuer, ["https://a.example.com/mcp", "https://b.example.com/mcp"])
    send = bearer(tokens.token_for("https://a.example.com/mcp"))

    assert admit(tokens.server, send, host="a.example.com")
    for host in ("b.example.com", "a.example.com:8443"):
        assert refuse(tokens.server, send, host=host).status == 401


@external
def test_the_public_address_counts_whatever_the_host(issuer: Issuer, make: External, settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0, "PUBLIC_URL": "https://shop.example.com"}
    tokens = make(issuer, ["https://shop.example.com/mcp", f"{ORIGIN}/mcp"])
    send = bearer(tokens.token_for("https://shop.example.com/mcp"))

    assert admit(tokens.server, send, path="/mcp")
    assert refuse(tokens.server, send, path="/mcp/x/orders").status == 401


@external
def test_an_address_includes_the_script_prefix(issuer: Issuer, make: External, settings: Any):
    settings.FORCE_SCRIPT_NAME = "/shop"
    tokens = make(issuer, f"{ORIGIN}/shop/mcp")
    send = bearer(tokens.token_for(f"{ORIGIN}/shop/mcp"))
    set_script_prefix("/shop/")
    try:
        assert admit(tokens.server, send, path="/shop/mcp")
        assert refuse(tokens.server, send, path="/shop/mcp/x/orders").status == 401
    finally:
        set_script_prefix("/")


@external
def test_without_an_http_request_every_audience_is_accepted(issuer: Issuer, make: External):
    tokens = make(issuer, EVERY)
    exchange = exchange_with(bearer(tokens.token_for(f"{ORIGIN}/mcp/x/orders")))
    in_process = Exchange(headers=exchange.headers, caller=Caller(address="192.0.2.1"))

    assert ask(tokens.server, in_process) is None


@external
def test_a_cached_result_is_for_its_address_alone(issuer: Issuer, make: External):
    tokens = make(issuer, EVERY)
    at_orders = partial(exchange_with, bearer(tokens.token_for(f"{ORIGIN}/mcp/x/orders")))

    for _ in range(2):
        assert ask(tokens.server, at_orders(path="/mcp/x/orders")) is None
        assert ask(tokens.server, at_orders(path="/mcp")) is not None
