"""Authentication by functions of the site."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from django_mcp import MCPServer
from django_mcp.auth.authenticators import CallableAuthenticator
from django_mcp.auth.principal import AuthInfo, Principal, Rejection
from django_mcp.auth.recheck import recheck
from django_mcp.server.exchange.exchange import Exchange
from tests.support.auth.asking import admit, challenges_of, queries, recheck_until, refuse
from tests.support.wire import V2026_07_28, WireClient

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
def test_a_function_returns_the_principal(user: Any, function: Any):
    principal = admit(server_for(function), {"x-user": "ada"})

    assert principal.user == user
    assert principal.key in (f"callable:{user.pk}", "mine:ada")


@pytest.mark.parametrize("function", [by_header, by_header_async, by_exchange])
def test_a_deactivated_user_is_rejected(user: Any, function: Any):
    get_user_model().objects.update(is_active=False)

    assert refuse(server_for(function), {"x-user": "ada"}).status == 401


@pytest.mark.parametrize("nobody", [None, AnonymousUser()])
def test_an_anonymous_user_is_rejected(nobody: Any):
    assert refuse(server_for(lambda request: nobody)).status == 401


def test_a_function_can_reject_credentials():
    def raising(request: HttpRequest) -> Any:
        raise PermissionDenied("the secret reason")

    assert b"secret" not in (refuse(server_for(raising)).body or b"")
    assert refuse(server_for(lambda request: Rejection(reason="No", status=403))).status == 403


@pytest.mark.parametrize("found", [True, "ada", ("ada", None)])
def test_a_function_that_returns_no_user_is_named(found: Any):
    def find_somebody(request: HttpRequest) -> Any:
        return found

    with pytest.raises(TypeError, match=r"find_somebody.* returned \w+ .*: return the user, a Pri"):
        admit(server_for(find_somebody))


def test_the_functions_challenge_is_sent():
    reply = refuse(server_for(by_header, challenge='Mine realm="x"'))

    assert challenges_of(reply) == ['Mine realm="x"']


def test_rechecking_finds_deactivated_users(user: Any):
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
def test_rechecking_finds_credentials_the_function_no_longer_accepts(user: Any, function: Any):
    other = get_user_model().objects.create_user("eve")
    WHO.update({"1": user, "2": user, "3": user})
    server = server_for(function, recheck_s=0)
    opened = {name: admit(server, {"x-ticket": name}) for name in WHO}

    assert async_to_sync(recheck)(opened.values()) == set()
    del WHO["1"]
    WHO["2"] = other
    assert recheck_until(lambda ended: len(ended) == 2, list(opened.values())) == {
        opened["1"],
        opened["2"],
    }


@pytest.mark.parametrize("fault", [LookupError(), Rejection(reason="busy", status=503)])
def test_a_failing_recheck_ends_nothing(user: Any, fault: Any):
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


def scoped_server(server: MCPServer) -> None:
    server.tool(name="write", scopes=["write"])(lambda: "written")


def call(server: MCPServer, principal: Any) -> int:
    client = WireClient(server, V2026_07_28, principal=principal)
    status, _ = async_to_sync(client.send)("tools/call", {"name": "write"})
    return int(status)


def test_a_user_is_unrestricted_and_a_token_limited_by_scopes(user: Any):
    server = server_for(lambda request: user)
    scoped_server(server)
    info = AuthInfo(subject="ada", authenticator="mine", scopes=frozenset({"read"}))
    narrow = server_for(lambda request: Principal(key="mine:ada", user=user, auth=info))
    scoped_server(narrow)

    assert call(server, admit(server)) == 200
    assert call(narrow, admit(narrow)) == 403


def test_a_path_in_place_of_a_function_is_an_error_that_says_so():
    with pytest.raises(
        TypeError, match=r"takes a function, and not 'shop\.callers\.verify': import it"
    ):
        CallableAuthenticator("shop.callers.verify")  # type: ignore[arg-type]
