"""Authentication by the classes of Django REST framework."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied

from django_mcp import MCPServer
from django_mcp.auth.recheck import recheck
from django_mcp.contrib.drf import DRFAuthenticator
from tests.support.auth.asking import admit, challenges_of, recheck_until, refuse
from tests.support.wire import V2026_07_28, WireClient

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


@pytest.fixture
def user() -> Any:
    return get_user_model().objects.create_user("ada", password="secret")


BASIC = "rest_framework.authentication.BasicAuthentication"


def credentials(name: str, password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"authorization": f"Basic {pair}"}


@pytest.fixture
def drf() -> MCPServer:
    return MCPServer("drf", authenticators=[DRFAuthenticator(BASIC)])


def test_an_authentication_class_determines_the_principal(drf: MCPServer, user: Any):
    principal = admit(drf, credentials("ada", "secret"))

    assert principal.user == user
    assert principal.auth.authenticator == "drf"


def test_credentials_rejected_by_the_class_are_rejected(drf: MCPServer, user: Any):
    assert refuse(drf, credentials("ada", "wrong")).status == 401
    assert refuse(drf, {"authorization": "Basic x"}).status == 401
    get_user_model().objects.update(is_active=False)
    assert refuse(drf, credentials("ada", "secret")).status == 401


@pytest.mark.parametrize("error", ["AuthenticationFailed", "NotAuthenticated", "PermissionDenied"])
def test_every_kind_of_rejection_is_handled(error: str):
    from rest_framework import exceptions

    assert refuse(raising(getattr(exceptions, error)())).status == 401
    assert refuse(raising(PermissionDenied())).status == 401


@pytest.mark.parametrize("error", ["ParseError", "Throttled", "APIException"])
def test_an_exception_is_not_reported_as_invalid_credentials(error: str):
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
def test_drf_session_authentication_is_reported(is_its_own: bool):
    from rest_framework.authentication import SessionAuthentication

    own = type("Narrower", (SessionAuthentication,), {})
    authenticator = DRFAuthenticator(own if is_its_own else SessionAuthentication)

    (problem,) = authenticator.find_problems()
    assert "django_mcp.auth.authenticators.SessionAuthenticator" in problem
    assert DRFAuthenticator(BASIC).find_problems() == []


def test_rechecking_finds_credentials_the_class_no_longer_accepts(user: Any):
    server = MCPServer("drf", authenticators=[DRFAuthenticator(BASIC, recheck_s=0)])
    principal = admit(server, credentials("ada", "secret"))

    assert async_to_sync(recheck)([principal]) == set()
    user.set_password("another")
    user.save()
    assert recheck_until(bool, [principal]) == {principal}


def test_unknown_credentials_are_left_to_other_authenticators(drf: MCPServer):
    assert challenges_of(refuse(drf)) == ['Basic realm="api"']


def test_the_class_itself_is_accepted(user: Any):
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
def test_token_scopes_of_a_class_apply(user: Any, token: Any, status: int):
    class Known:
        def authenticate(self, request: Any) -> tuple[Any, Any]:
            return user, token

    server = MCPServer("drf", authenticators=[DRFAuthenticator(Known)])
    server.tool(name="write", scopes=["write"])(lambda: "written")
    client = WireClient(server, V2026_07_28, principal=admit(server))

    assert async_to_sync(client.send)("tools/call", {"name": "write"})[0] == status
