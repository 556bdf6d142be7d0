"""Tools of what `as_view()` returns: its options and the decorators around it count as over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.urls import path
from django.views.decorators.cache import never_cache
from rest_framework import permissions, viewsets
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.inprocess.results import UnknownTool


class Notes(viewsets.ViewSet):
    permission_classes = (permissions.AllowAny,)

    def list(self, request: Any) -> Response:
        return Response({"name": "notes"})


class ServedNotes(Notes):
    pass


class Plain(APIView):
    def get(self, request: Any) -> Response:
        return Response({"name": "plain"})


class Strict(viewsets.ViewSet):
    permission_classes = (permissions.IsAdminUser,)

    @action(detail=False, permission_classes=[permissions.AllowAny])
    def peek(self, request: Any) -> Response:
        return Response({"name": "strict"})


class Opened(Strict):
    pass


FOR_STAFF = [permissions.IsAdminUser]

urlpatterns = [
    path("open/", ServedNotes.as_view({"get": "list"})),
    path("staff/", ServedNotes.as_view({"get": "list"}, permission_classes=FOR_STAFF)),
    path("by-hand/", Opened.as_view({"get": "peek"})),
]

staff = User(username="staff", is_staff=True, pk=1)


@pytest.fixture
def server(settings: Any) -> MCPServer:
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}
    settings.ROOT_URLCONF = __name__
    return MCPServer("as_view", public=True)


def shown(server: MCPServer, user: Any) -> list[str]:
    return [each["name"] for each in server.list_tools(user=user)]


def is_refused(server: MCPServer, name: str) -> bool:
    try:
        return server.call_tool(name, {}, user=AnonymousUser()).is_error
    except UnknownTool:
        return True


@pytest.mark.parametrize("view", [Notes, ServedNotes])
def test_options_of_as_view_guard_the_tools_of_its_result(view: Any, server: MCPServer):
    made = view.as_view({"get": "list"}, permission_classes=FOR_STAFF)
    viewset_tools(made, server=server, prefix="notes")

    assert shown(server, AnonymousUser()) == []
    assert shown(server, staff) == ["notes_list"]
    assert not server.call_tool("notes_list", {}, user=staff).is_error
    assert is_refused(server, "notes_list")


def test_options_of_as_view_guard_the_call_where_the_tool_is_shown(server: MCPServer):
    made = Plain.as_view(permission_classes=FOR_STAFF)
    viewset_tools(made, server=server, prefix="plain", listed_if=lambda user: True)

    assert shown(server, AnonymousUser()) == ["plain_get"]
    assert is_refused(server, "plain_get")


def test_a_url_with_other_options_does_not_serve_the_tool(server: MCPServer):
    made = ServedNotes.as_view({"get": "list"}, permission_classes=[permissions.IsAuthenticated])
    viewset_tools(made, server=server, prefix="notes", listed_if=lambda user: True)

    assert shown(server, AnonymousUser()) == []
    assert is_refused(server, "notes_list")


def test_what_an_action_allows_does_not_open_a_url_that_was_bound_by_hand(server: MCPServer):
    viewset_tools(Opened, server=server, prefix="opened")

    assert shown(server, AnonymousUser()) == []
    assert is_refused(server, "opened_peek")
    assert shown(server, staff) == ["opened_peek"]


def test_a_decorated_view_that_no_tool_can_run_is_refused(server: MCPServer):
    @login_required
    @api_view(["GET"])
    def guarded(request: Any) -> Response:
        return Response({})

    for view in (guarded, login_required(Notes.as_view({"get": "list"}))):
        with pytest.raises(ImproperlyConfigured, match="cannot run the decorator"):
            viewset_tools(view, server=server)

    viewset_tools(never_cache(Notes.as_view({"get": "list"})), server=server, prefix="notes")
    assert shown(server, AnonymousUser()) == ["notes_list"]
