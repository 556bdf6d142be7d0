"""Views that are guarded by their authentication classes, which do not run for a tool."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.core.exceptions import PermissionDenied
from django.urls import path
from rest_framework import authentication, exceptions, permissions
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools

ADA = User(pk=1, username="ada")


class PartnersOnly(authentication.BaseAuthentication):
    """Refuse who has no token of a partner."""

    def authenticate(self, request: Any) -> tuple[Any, Any]:
        if request.headers.get("Authorization") != "Partner 7":
            raise exceptions.AuthenticationFailed
        return ADA, None


class OnlyIfGiven(authentication.BaseAuthentication):
    """Refuse a wrong token, and nobody without one."""

    def authenticate(self, request: Any) -> tuple[Any, Any] | None:
        if "Authorization" in request.headers:
            raise exceptions.AuthenticationFailed
        return None


class Prices(APIView):
    authentication_classes: Any = (PartnersOnly,)
    permission_classes: Any = (permissions.AllowAny,)

    def get(self, request: Any) -> Response:
        return Response({"user": request.user.get_username()})


class Needs(Prices):
    """What it reads is in requests of a server only."""

    class Address(authentication.BaseAuthentication):
        def authenticate(self, request: Any) -> None:
            if request.META["REMOTE_ADDR"] != "10.0.0.1":
                raise exceptions.AuthenticationFailed

    authentication_classes = (Address,)


class Mixed(Prices):
    """Another class goes first, and does not know the caller."""

    authentication_classes = (OnlyIfGiven, PartnersOnly)


class OfShop(permissions.BasePermission):
    """Lets everybody pass, at the URLs of one shop."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(view.kwargs["shop"] == "1")


class Tenant(Prices):
    """Its permission class reads the URL."""

    permission_classes = (OfShop,)


class Plain(Prices):
    """Its class is set where its URL is."""

    authentication_classes = ()


class Guarded(Prices):
    permission_classes = (permissions.IsAuthenticated,)


class Public(Prices):
    authentication_classes = (
        OnlyIfGiven,
        authentication.SessionAuthentication,
        authentication.BasicAuthentication,
    )


urlpatterns = [
    path("prices/", Prices.as_view()),
    path("tenant/<slug:shop>/", Tenant.as_view()),
    path("needs/", Needs.as_view()),
    path("mixed/", Mixed.as_view()),
    path("plain/", Plain.as_view(authentication_classes=[PartnersOnly])),
    path("guarded/", Guarded.as_view()),
    path("public/", Public.as_view()),
]

pytestmark = pytest.mark.urls(__name__)


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("partners", public=True)


def names(server: MCPServer, user: Any) -> list[str]:
    return [each["name"] for each in server.list_tools(user=user)]


@pytest.mark.parametrize("user", [None, ADA])
@pytest.mark.parametrize("view", [Prices, Needs, Mixed, Plain])
@pytest.mark.parametrize("listed_if", [None, lambda user: True])
def test_a_view_that_only_its_authentication_guards_is_no_tool(
    server: MCPServer, view: Any, user: Any, listed_if: Any
):
    viewset_tools(view, server=server, prefix="it", listed_if=listed_if)

    assert APIClient().get(f"/{view.__name__.lower()}/").status_code in {401, 403}
    assert names(server, user) == []
    (problem,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert problem.id == "django_mcp.drf.W003"
    assert view.__name__ in problem.msg
    assert "auth=" in (problem.hint or "")


def test_a_permission_class_that_reads_the_url_alone_is_no_guard(server: MCPServer):
    viewset_tools(Tenant, server=server, prefix="it")

    assert names(server, ADA) == []
    (problem,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert problem.id == "django_mcp.drf.W003"


@pytest.mark.parametrize("user", [None, ADA])
def test_what_is_not_listed_cannot_be_called_either(server: MCPServer, user: Any):
    viewset_tools(Prices, server=server, prefix="it", listed_if=lambda user: True)

    with pytest.raises(Exception, match="it_get"):
        server.call_tool("it_get", {}, user=user)


def test_a_function_says_whom_such_a_view_lets_in(server: MCPServer):
    viewset_tools(
        Prices,
        server=server,
        prefix="it",
        auth=lambda request: request.user.is_authenticated and request.user,
    )

    assert names(server, AnonymousUser()) == []
    assert names(server, ADA) == ["it_get"]
    result = server.call_tool("it_get", {}, user=ADA)
    assert result.raw["structuredContent"] == {"user": "ada"}
    assert [each for each in run_checks(tags=["django_mcp"]) if each.obj is server] == []


def test_an_asynchronous_function_lets_nobody_else_in(server: MCPServer):
    async def only_bob(request: Any) -> Any:
        return request.user if request.user.get_username() == "bob" else None

    viewset_tools(Prices, server=server, prefix="it", auth=only_bob)
    bob = User(pk=2, username="bob")

    assert names(server, ADA) == []
    assert names(server, bob) == ["it_get"]
    result = server.call_tool("it_get", {}, user=bob)
    assert result.raw["structuredContent"] == {"user": "bob"}


def test_views_that_permissions_guard_and_public_ones_are_tools_as_before(server: MCPServer):
    viewset_tools(Guarded, server=server, prefix="guarded")
    viewset_tools(Public, server=server, prefix="public")

    assert names(server, None) == ["public_get"]
    assert sorted(names(server, ADA)) == ["guarded_get", "public_get"]
    assert not server.call_tool("public_get", {}, user=None).is_error


class InSetup(APIView):
    """Guarded, and prepared, before the request is dispatched."""

    permission_classes = ()

    def setup(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        if not request.user.is_staff:
            raise PermissionDenied
        self.shelf = kwargs["shelf"]

    def get(self, request: Any, shelf: str) -> Response:
        """Say what is on a shelf."""
        return Response({"shelf": self.shelf})


@pytest.mark.parametrize("user", [None, ADA])
def test_what_a_view_checks_in_its_setup_holds_for_its_tool(server: MCPServer, user: Any):
    viewset_tools(InSetup, server=server, prefix="it", path={"shelf": {"type": "string"}})
    boss = User(pk=2, username="boss", is_staff=True)

    given = server.call_tool("it_get", {"shelf": "a"}, user=boss)
    assert given.raw["structuredContent"] == {"shelf": "a"}
    refused = server.call_tool("it_get", {"shelf": "a"}, user=user)
    assert refused.is_error
    assert "structuredContent" not in refused.raw


def gate(view: Any) -> Any:
    """A decorator of a site that forgets `functools.wraps()`."""

    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        if not request.user.is_staff:
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return inner


class Gate:
    """The same as an object."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def __call__(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return gate(self.view)(request, *args, **kwargs)


class AtFunction(Public):
    pass


class AtObject(Public):
    pass


class AtPartial(Public):
    pass


class AtMethod(Public):
    pass


class AtArgument(Public):
    pass


class AtDefault(Public):
    pass


class AtMapping(Public):
    pass


class AtSlot(Public):
    pass


class AtOther(Public):
    pass


class AtMany(Public):
    pass


class Methods:
    """A gate whose method is the callback."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def serve(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return gate(self.view)(request, *args, **kwargs)


class Slots:
    """A gate without a `__dict__`."""

    __slots__ = ("view",)

    def __init__(self, view: Any) -> None:
        self.view = view

    def __call__(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return gate(self.view)(request, *args, **kwargs)


def pass_gate(view: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    return gate(view)(request, *args, **kwargs)


def gate_by_default(view: Any) -> Any:
    def inner(request: Any, *args: Any, to: Any = view, **kwargs: Any) -> Any:
        return gate(to)(request, *args, **kwargs)

    return inner


def gate_by_method(views: dict[str, list[Any]]) -> Any:
    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        return gate(views[request.method][0])(request, *args, **kwargs)

    return inner


def gate_like_another(view: Any) -> Any:
    """A decorator that gives `wraps()` something else than the view."""

    @wraps(gate)
    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        return gate(view)(request, *args, **kwargs)

    return inner


class AtAsView(Public):
    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        inner = super().as_view(**initkwargs)

        @wraps(inner)
        def view(request: Any, *args: Any, **kwargs: Any) -> Any:
            return gate(inner)(request, *args, **kwargs)

        return view


def gate_with_many(view: Any) -> Any:
    """One with a large collection of its own."""
    allowed = set(range(20_000))

    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        return gate(view)(request, *args, **kwargs) if request.user.pk in allowed else None

    return inner


urlpatterns += [
    path("at-function/", gate(AtFunction.as_view())),
    path("at-object/", Gate(AtObject.as_view())),
    path("at-partial/", partial(gate(AtPartial.as_view()), shelf="a")),
    path("at-as-view/", AtAsView.as_view()),
    path("at-method/", Methods(AtMethod.as_view()).serve),
    path("at-argument/", partial(pass_gate, AtArgument.as_view())),
    path("at-default/", gate_by_default(AtDefault.as_view())),
    path("at-mapping/", gate_by_method({"GET": [AtMapping.as_view()]})),
    path("at-slot/", Slots(AtSlot.as_view())),
    path("at-other/", gate_like_another(AtOther.as_view())),
    path("at-many/", gate_with_many(AtMany.as_view())),
]


@pytest.mark.parametrize(
    "view",
    [
        AtFunction,
        AtObject,
        AtPartial,
        AtAsView,
        AtMethod,
        AtArgument,
        AtDefault,
        AtMapping,
        AtSlot,
        AtOther,
        AtMany,
    ],
)
def test_a_view_behind_a_gate_of_the_site_is_no_tool(server: MCPServer, view: Any):
    viewset_tools(view, server=server, prefix="it")

    assert names(server, None) == []
    with pytest.raises(LookupError, match="Unknown tool"):
        server.call_tool("it_get", {}, user=None)
    (problem,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert problem.id == "django_mcp.drf.W003"
    assert "the decorator" in problem.msg
