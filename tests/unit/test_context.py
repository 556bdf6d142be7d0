"""Injection by annotation: the context, the user, the HTTP request."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AbstractUser, AnonymousUser, Group, User
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.test import RequestFactory
from django.test.utils import isolate_apps
from django.utils import translation

from django_mcp import Context
from django_mcp.protocol.json import encode
from django_mcp.registry.problems import RegistrationError
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.handlers.context import Context as CoreContext
from django_mcp.servers import MCPServer
from django_mcp.test import MCPClient
from tests.support.wire import V2026_07_28, message

ANNA = User(pk=1, username="anna")


class Principal:
    """Replaces the result of token authentication."""

    def __init__(self, user: Any) -> None:
        self.user = user


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("context")


async def call(server: MCPServer, **known: Any) -> str:
    """Return the text that the only tool gives, or the error it ends in."""
    request = message("tools/call", {"name": "probe", "arguments": {}}, revision=V2026_07_28)
    exchange = Exchange(body=encode(request), caller=Caller(**known))
    answer = await server.handle(request, exchange)
    assert answer is not None
    assert server.tool_input_schema("probe").get("properties", {}) == {}
    result: dict[str, Any] = answer["result"]
    return ("error: " if result.get("isError") else "") + result["content"][0]["text"]


def register(server: MCPServer, annotation: Any, *, optional: bool = False) -> None:
    def probe(it: Any) -> str:
        return f"{type(it).__name__} {it}"

    probe.__annotations__["it"] = annotation
    server.tool(probe)


# -- the user


@pytest.mark.parametrize(
    "annotation",
    [
        User,
        AbstractUser,
        AbstractBaseUser,
        User | None,
        User | AnonymousUser,
        AbstractBaseUser | AnonymousUser,
        AnonymousUser | User | None,
        Annotated[User, "whoever calls"],
    ],
)
@pytest.mark.parametrize("principal", [ANNA, Principal(ANNA)], ids=["user", "principal"])
async def test_a_user_is_injected_by_annotation(server: MCPServer, annotation: Any, principal: Any):
    register(server, annotation)

    assert await call(server, principal=principal) == "User anna"


@pytest.mark.parametrize("annotation", [AnonymousUser, User | AnonymousUser, AnonymousUser | None])
async def test_an_anonymous_user_is_injected_where_allowed(server: MCPServer, annotation: Any):
    register(server, annotation)

    assert await call(server) == "AnonymousUser AnonymousUser"


@pytest.mark.parametrize("annotation", [User | None, AbstractBaseUser | None])
async def test_an_optional_user_is_none_for_anonymous_requests(server: MCPServer, annotation: Any):
    register(server, annotation)

    assert await call(server) == "NoneType None"


@pytest.mark.parametrize("annotation", [User, AbstractUser, AbstractBaseUser])
async def test_a_required_user_has_a_clear_error(server: MCPServer, annotation: Any):
    register(server, annotation)

    assert await call(server) == "error: This needs a user who is signed in."
    with translation.override("de"):
        assert await call(server) == "error: Dafür muss jemand angemeldet sein."


async def test_the_context_has_the_user(server: MCPServer):
    @server.tool
    def probe(ctx: Context) -> str:
        assert ctx.user is ctx.user
        return ctx.user.get_username()

    assert await call(server, principal=ANNA) == "anna"
    assert await call(server, principal=ANONYMOUS) == ""


@pytest.mark.parametrize("annotation", [Context, CoreContext, Context | None])
async def test_either_context_class_is_injected(server: MCPServer, annotation: Any):
    register(server, annotation)

    assert (await call(server)).startswith("Context ")


def test_other_models_are_not_injected_as_users(server: MCPServer):
    assert server._find_provider(Group) is None
    assert server._find_provider(User | int) is None
    assert server._find_provider(int) is None
    assert server._find_provider(None) is None
    assert server._find_provider(list[User]) is None


# -- the request


def wsgi_request() -> HttpRequest:
    request = RequestFactory().post("/mcp", b"{}", content_type="application/json")
    request.user = ANNA
    return request


@pytest.mark.parametrize("annotation", [HttpRequest, WSGIRequest, HttpRequest | None])
async def test_the_request_is_injected_by_annotation(server: MCPServer, annotation: Any):
    register(server, annotation)

    text = await call(server, build_request=wsgi_request)

    assert text.startswith("WSGIRequest <WSGIRequest: POST '/mcp'>")


async def test_an_optional_request_is_none_without_http(server: MCPServer):
    register(server, HttpRequest | None)

    assert await call(server) == "NoneType None"


@pytest.mark.parametrize("annotation", [HttpRequest, ASGIRequest])
async def test_a_required_request_has_a_clear_error(server: MCPServer, annotation: Any):
    register(server, annotation)

    assert await call(server) == (
        "error: This needs an HTTP request, which this connection does not have."
    )


async def test_an_optional_request_of_another_class_is_none(server: MCPServer):
    register(server, ASGIRequest | None)

    assert await call(server, build_request=wsgi_request) == "NoneType None"


async def test_the_request_is_built_once_and_lazily(server: MCPServer):
    built = []

    def build() -> HttpRequest:
        built.append(1)
        return wsgi_request()

    @server.tool
    def probe(ctx: Context, asks: bool = False) -> str:
        return "".join("x" for _ in range(3) if asks and ctx.request is ctx.request)

    server.remove_tool("probe")

    @server.tool(name="probe")
    def unasked(ctx: Context) -> str:
        return "unasked"

    await call(server, build_request=build)
    server.remove_tool("probe")

    @server.tool(name="probe")
    def asked(ctx: Context, request: HttpRequest) -> str:
        assert ctx.request is request
        return "asked"

    await call(server, build_request=build)

    assert built == [1]


async def test_request_user_is_the_principals_user_and_not_the_sessions(server: MCPServer):
    """A browser's session would let any page call with its user's rights."""
    request = wsgi_request()

    @server.tool
    async def probe(request: HttpRequest) -> str:
        assert await request.auser() is request.user
        return f"[{request.user.get_username()}]"

    assert await call(server, build_request=lambda: request) == "[]"
    assert (
        await call(server, build_request=lambda: request, principal=User(username="bo")) == "[bo]"
    )
    assert request.user is ANNA


@pytest.mark.parametrize("public", [True, False])
def test_the_request_never_contains_client_credentials(public: bool):
    server = MCPServer("credentials", public=public)
    names = ("Authorization", "X-Api-Key", "Proxy-Authorization")
    sent = {"Cookie": "sessionid=secret; theme=dark", **dict.fromkeys(names, "secret")}

    @server.tool(read_only=True)
    def probe(request: HttpRequest) -> str:
        return f"{dict(request.headers)} {request.META} {request.COOKIES}"

    client = MCPClient(server, headers=sent, user=None if public else ANNA)
    told = client.call("probe").text

    assert "secret" not in told
    assert "dark" not in told


@isolate_apps("tests.support.library")
def test_a_user_model_that_the_site_replaced_is_refused():
    class Replaced(AbstractBaseUser):
        class Meta:
            app_label = "library"
            swappable = "AUTH_USER_MODEL"

    def greet(user: Any) -> str:
        return str(user)

    for annotation in (Replaced, Replaced | None, Replaced | AnonymousUser):
        greet.__annotations__["user"] = annotation
        with pytest.raises(RegistrationError, match=r"`user` is a .*AUTH_USER_MODEL, auth\.User"):
            MCPServer("replaced").register_tool(greet)
