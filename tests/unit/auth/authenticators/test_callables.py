"""Functions of the site's own, and the classes of Django REST framework."""

from __future__ import annotations

import base64
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from django_mcp import MCPServer
from django_mcp.auth import (
    AuthInfo,
    CallableAuthenticator,
    DRFAuthenticator,
    Principal,
    Rejection,
)
from django_mcp.auth.recheck import recheck
from django_mcp.server.exchange.exchange import Exchange
from tests.support.auth.asking import admit, challenges_of, queries, recheck_until, refuse
from tests.support.wire import R5, WireClient

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create_user("ada", password="secret")


def by_header(request: HttpRequest) -> Any:
    name = request.headers.get("X-User")
    return name and get_user_model().objects.filter(username=name).first()


async def by_header_async(request: HttpRequest) -> Any:
    name = request.headers.get("X-User")
    return await get_user_model().objects.filter(username=name).afirst()


def by_exchange(exchange: Exchange) -> Any:
    assert exchange.headers is not None
    name = exchange.headers.get("x-user")
    return Principal(key=f"mine:{name}", user=get_user_model().objects.get(username=name))


class ByHeader:
    """An object that is called as a function is, as one with a client of a service would be."""

    async def __call__(self, request: HttpRequest) -> Any:
        return await by_header_async(request)


def server_for(function: Any, **options: Any) -> MCPServer:
    return MCPServer("called", authenticators=[CallableAuthenticator(function, **options)])


@pytest.mark.parametrize(
    "function",
    [by_header, by_header_async, by_exchange, ByHeader(), ByHeader().__call__, partial(ByHeader())],
)
def test_a_function_says_who_it_is(user: Any, function: Any):
    principal = admit(server_for(function), {"x-user": "ada"})

    assert principal.user == user
    assert principal.key in (f"callable:{user.pk}", "mine:ada")


@pytest.mark.parametrize("function", [by_header, by_header_async, by_exchange])
def test_a_deactivated_user_is_refused(user: Any, function: Any):
    get_user_model().objects.update(is_active=False)

    assert refuse(server_for(function), {"x-user": "ada"}).status == 401


@pytest.mark.parametrize("nobody", [None, AnonymousUser()])
def test_nobody_is_nobody(nobody: Any):
    assert refuse(server_for(lambda request: nobody)).status == 401


def test_a_function_can_refuse():
    def raising(request: HttpRequest) -> Any:
        raise PermissionDenied("the secret reason")

    assert b"secret" not in (refuse(server_for(raising)).body or b"")
    assert refuse(server_for(lambda request: Rejection(reason="No", status=403))).status == 403


def test_its_challenge_is_told():
    reply = refuse(server_for(by_header, challenge='Mine realm="x"'))

    assert challenges_of(reply) == ['Mine realm="x"']


def test_rechecking_finds_who_was_deactivated(user: Any):
    other = get_user_model().objects.create_user("eve")
    server = MCPServer("asking", authenticators=[CallableAuthenticator(by_header, recheck_s=None)])
    principals = [admit(server, {"x-user": name}) for name in ("ada", "eve")]
    get_user_model().objects.filter(pk=other.pk).update(is_active=False)

    with queries(1):
        assert async_to_sync(recheck)(principals) == {principals[1]}


WHO: dict[str, Any] = {}


def by_list(request: HttpRequest) -> Any:
    return WHO.get(request.headers["X-Ticket"])


async def by_list_async(request: HttpRequest) -> Any:
    return WHO.get(request.headers["X-Ticket"])


def by_list_in_exchange(exchange: Exchange) -> Any:
    assert exchange.headers is not None
    user = WHO.get(exchange.headers.get("x-ticket") or "")
    return user and Principal(key=f"mine:{user.pk}", user=user)


@pytest.mark.parametrize("function", [by_list, by_list_async, by_list_in_exchange])
def test_what_stays_open_ends_with_what_the_function_goes_by(user: Any, function: Any):
    other = get_user_model().objects.create_user("eve")
    WHO.update({"1": user, "2": user, "3": user})
    server = server_for(function, recheck_s=0)
    opened = {name: admit(server, {"x-ticket": name}) for name in WHO}

    assert async_to_sync(recheck)(opened.values()) == set()
    del WHO["1"]
    WHO["2"] = other
    assert recheck_until(bool, list(opened.values())) == {opened["1"], opened["2"]}


@pytest.mark.parametrize("fault", [LookupError(), Rejection(reason="busy", status=503)])
def test_what_cannot_be_asked_ends_nothing(user: Any, fault: Any):
    answers: list[Any] = [user]
    asked = []

    def answer(request: HttpRequest) -> Any:
        asked.append(request)
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return answers[-1]

    principal = admit(server_for(answer, recheck_s=0))
    answers.append(fault)
    assert recheck_until(lambda _ended: len(asked) > 2, [principal]) == set()
    answers.append(None)
    assert recheck_until(bool, [principal]) == {principal}


def test_a_user_may_do_all_and_a_token_what_its_scopes_say(user: Any):
    server = server_for(lambda request: user)
    scoped_server(server)
    info = AuthInfo(subject="ada", authenticator="mine", scopes=frozenset({"read"}))
    narrow = server_for(lambda request: Principal(key="mine:ada", user=user, auth=info))
    scoped_server(narrow)

    assert call(server, admit(server)) == 200
    assert call(narrow, admit(narrow)) == 403


# -- Django REST framework


def scoped_server(server: MCPServer) -> None:
    server.tool(name="write", scopes=["write"])(lambda: "written")


def call(server: MCPServer, principal: Any) -> int:
    client = WireClient(server, R5, principal=principal)
    status, _ = async_to_sync(client.send)("tools/call", {"name": "write"})
    return int(status)


BASIC = "rest_framework.authentication.BasicAuthentication"


def credentials(name: str, password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"authorization": f"Basic {pair}"}


@pytest.fixture
def drf() -> MCPServer:
    return MCPServer("drf", authenticators=[DRFAuthenticator(BASIC)])


def test_an_authentication_class_says_who_it_is(drf: MCPServer, user: Any):
    principal = admit(drf, credentials("ada", "secret"))

    assert principal.user == user
    assert principal.auth.authenticator == "drf"


def test_what_it_refuses_is_refused(drf: MCPServer, user: Any):
    assert refuse(drf, credentials("ada", "wrong")).status == 401
    assert refuse(drf, {"authorization": "Basic x"}).status == 401
    get_user_model().objects.update(is_active=False)
    assert refuse(drf, credentials("ada", "secret")).status == 401


@pytest.mark.parametrize("error", ["AuthenticationFailed", "NotAuthenticated", "PermissionDenied"])
def test_each_way_of_refusing_is_understood(error: str):
    from rest_framework import exceptions

    assert refuse(raising(getattr(exceptions, error)())).status == 401
    assert refuse(raising(PermissionDenied())).status == 401


@pytest.mark.parametrize("error", ["ParseError", "Throttled", "APIException"])
def test_a_fault_is_not_called_bad_credentials(error: str):
    from rest_framework import exceptions

    with pytest.raises(getattr(exceptions, error)):
        refuse(raising(getattr(exceptions, error)()))


def raising(error: Exception) -> MCPServer:
    class Raises:
        def authenticate(self, request: Any) -> Any:
            raise error

        def authenticate_header(self, request: Any) -> str:
            return "Mine"

    return MCPServer("drf", authenticators=[DRFAuthenticator(Raises)])


@pytest.mark.parametrize("is_its_own", [False, True])
def test_the_sessions_of_rest_framework_are_known_by_an_authenticator_of_ours(is_its_own: bool):
    from rest_framework.authentication import SessionAuthentication

    own = type("Narrower", (SessionAuthentication,), {})
    authenticator = DRFAuthenticator(own if is_its_own else SessionAuthentication)

    (problem,) = authenticator.find_problems()
    assert "django_mcp.auth.SessionAuthenticator" in problem
    assert DRFAuthenticator(BASIC).find_problems() == []


def test_what_stays_open_ends_with_what_the_class_goes_by(user: Any):
    server = MCPServer("drf", authenticators=[DRFAuthenticator(BASIC, recheck_s=0)])
    principal = admit(server, credentials("ada", "secret"))

    assert async_to_sync(recheck)([principal]) == set()
    user.set_password("another")
    user.save()
    assert recheck_until(bool, [principal]) == {principal}


def test_what_it_does_not_know_is_left_to_others(drf: MCPServer):
    assert challenges_of(refuse(drf)) == ['Basic realm="api"']


def test_the_class_itself_will_do(user: Any):
    from rest_framework.authentication import BasicAuthentication

    server = MCPServer("drf", authenticators=[DRFAuthenticator(BasicAuthentication)])

    assert admit(server, credentials("ada", "secret")).user == user


@pytest.mark.parametrize(
    ("token", "status"),
    [
        (None, 200),
        (SimpleNamespace(key="of DRF's own TokenAuthentication"), 200),
        (SimpleNamespace(scope="read write", scopes={"read": "Read"}), 200),
        (SimpleNamespace(scope="read", scopes={"read": "Read"}), 403),
        (SimpleNamespace(scope=""), 403),
        (SimpleNamespace(scopes=["write"]), 200),
        (SimpleNamespace(scopes=lambda: ["write"]), 403),
        (SimpleNamespace(payload={"scope": "read"}), 403),
        ({"scopes": ["read", "write"]}, 200),
        ({"scope": "read"}, 403),
        ({"sub": "ada"}, 200),
    ],
)
def test_the_scopes_of_a_classes_tokens_hold(user: Any, token: Any, status: int):
    class Known:
        def authenticate(self, request: Any) -> tuple[Any, Any]:
            return user, token

    server = MCPServer("drf", authenticators=[DRFAuthenticator(Known)])
    scoped_server(server)

    assert call(server, admit(server)) == status
