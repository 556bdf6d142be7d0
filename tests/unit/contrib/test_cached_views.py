"""Views and operations with `cache_page()`: what is kept for one caller is given to no other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_cookie, vary_on_headers
from ninja import NinjaAPI
from ninja.decorators import decorate_view
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.middleware import TenantMiddleware
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db

calls: list[str] = []


def answer(request: Any) -> HttpResponse:
    calls.append(str(request.user))
    return HttpResponse(f"of {request.user}", content_type="text/plain")


class Plain(APIView):
    permission_classes = ()

    @method_decorator(cache_page(60))
    def get(self, request: Any) -> Any:
        return answer(request)


@method_decorator([cache_page(60), vary_on_cookie], name="dispatch")
class ByCookie(APIView):
    permission_classes = ()

    def get(self, request: Any) -> Any:
        return answer(request)


class Unserved(Plain):
    """Served nowhere."""


class AnotherUnserved(APIView):
    permission_classes = ()

    @method_decorator(cache_page(60))
    def get(self, request: Any) -> Any:
        return HttpResponse("another view", content_type="text/plain")


def _hide_margin(response: Any) -> Any:
    response.content = response.content.replace(b', "margin": 7', b"").replace(b',"margin":7', b"")
    return response


@method_decorator(cache_page(60), name="dispatch")
class ChangedAtLast(APIView):
    permission_classes = ()

    def get(self, request: Any) -> Any:
        calls.append(str(request.user))
        response = Response({"price": 9, "margin": 7})
        response.add_post_render_callback(_hide_margin)
        return response


api = NinjaAPI(urls_namespace="cached views")


@api.get("/operation")
@decorate_view(cache_page(60), vary_on_headers("Authorization"))
def operation(request: Any) -> Any:
    """Answer."""
    return answer(request)


urlpatterns = [
    path("plain/", Plain.as_view()),
    path("by-cookie/", ByCookie.as_view()),
    path("changed/", ChangedAtLast.as_view()),
    path("api/", api.urls),
]


def read(server: MCPServer, user: Any, tool: str) -> str:
    """Return the file that a tool answers with."""
    found: str = MCPClient(server, user=user).call(tool).raw["content"][0]["resource"]["text"]
    return found


TOOLS = {"plain_get": "/plain/", "by_cookie_get": "/by-cookie/", "operation": "/api/operation"}


@pytest.fixture(autouse=True)
def _site(settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    calls.clear()
    yield
    cache.clear()


@pytest.fixture
def server() -> MCPServer:
    made = MCPServer("cached-views", public=True)
    for view in (Plain, ByCookie, Unserved, AnotherUnserved):
        viewset_tools(view, server=made)
    operation_tools(api, server=made)
    return made


@pytest.fixture
def users() -> list[Any]:
    return [*(User.objects.create_user(name) for name in ("ann", "bob")), AnonymousUser()]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_cached_page_of_one_caller_is_not_given_to_another(
    server: MCPServer, users: list[Any], tool: str
):
    for user in users:
        assert read(server, user, tool) == f"of {user}"
    assert Client().get(TOOLS[tool]).content == b"of AnonymousUser"


def test_what_a_view_leaves_out_once_its_data_are_written_is_not_shown(users: list[Any]):
    server = MCPServer("changed", public=True)
    viewset_tools(ChangedAtLast, server=server, prefix="changed")

    for user in users[:2] * 2:
        found = server.call_tool("changed_get", user=user)
        assert found.raw["structuredContent"] == {"price": 9}

    assert calls == ["ann", "bob"]  # the others are pages of the cache
    assert Client().get("/changed/").json() == {"price": 9}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_page_that_was_cached_over_http_is_not_that_of_a_caller(
    server: MCPServer, users: list[Any], tool: str
):
    Client().get(TOOLS[tool])

    assert read(server, users[0], tool) == "of ann"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_cached_page_is_not_given_at_another_url_of_the_server(
    server: MCPServer, users: list[Any], tool: str
):
    """The URL may name a tenant, in which the view looks for rows."""
    for tenant in ("home", "other", "home"):
        server.call_tool(tool, user=users[0], url_kwargs={"tenant": tenant})

    assert calls == ["ann"] * 2


class ByHeader(TenantMiddleware):
    """Tenants that only a header tells apart."""

    def enter(self, exchange: Any) -> Any:
        return nullcontext()

    def name_tenant(self, exchange: Any) -> str:
        name: str = exchange.headers.get("x-tenant") or ""
        return name


@pytest.mark.parametrize("tool", TOOLS)
def test_a_cached_page_is_not_given_to_another_tenant(
    settings: Any, server: MCPServer, users: list[Any], tool: str
):
    settings.DJANGO_MCP = {"MIDDLEWARE": [f"{__name__}.ByHeader"]}
    for tenant in ("home", "other", "home"):
        MCPClient(server, user=users[0], headers={"X-Tenant": tenant}).call(tool)

    assert calls == ["ann"] * 2


@pytest.mark.parametrize("tool", TOOLS)
def test_a_cached_page_is_found_again_for_the_same_caller(
    server: MCPServer, users: list[Any], tool: str
):
    assert [read(server, users[0], tool) for _ in range(2)] == ["of ann"] * 2
    assert calls == ["ann"]


def test_views_without_urls_do_not_share_pages(server: MCPServer, users: list[Any]):
    assert read(server, users[0], "unserved_get") == "of ann"
    assert read(server, users[0], "another_unserved_get") == "another view"


def test_a_view_still_builds_the_urls_of_the_site(settings: Any, server: MCPServer):
    found: list[str] = []

    class Linking(APIView):
        permission_classes = ()

        def get(self, request: Any) -> Any:
            found.append(request.build_absolute_uri())
            return HttpResponse("")

    viewset_tools(Linking, server=server)
    MCPClient(server).call("linking_get")

    assert "#" not in found[0]


def test_the_name_of_a_caller_is_the_same_in_each_process():
    """Sets have another order in each."""
    script = (
        "from django_mcp.auth.principal import AuthInfo\n"
        "from django_mcp.contrib.http_calls import _name_caller\n"
        "scopes = frozenset(f'scope-{number}' for number in range(20))\n"
        "print(_name_caller(1, AuthInfo(subject='ann', authenticator='oauth', scopes=scopes), {}, ''))"
    )
    names = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(names) == 1
