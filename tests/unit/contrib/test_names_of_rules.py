"""Messages about a hidden tool name the rule that the site wrote, with its file and line."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from ninja import NinjaAPI
from ninja.security import django_auth
from rest_framework import permissions, viewsets
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.inprocess import UnknownTool
from django_mcp.test import MCPClient
from tests.support.library.models import Shelf

pytestmark = pytest.mark.django_db


class Shelves(ModelTools):
    model = Shelf
    fields = ["id", "name"]
    everyone = True
    writes = ["delete"]

    def has_permission(self, user: Any, action: str) -> Any:
        if action == "search":
            return user.is_superuser
        return True if user.is_superuser else None


class Written(ModelTools):
    model = Shelf
    fields = ["id", "name"]
    everyone = True
    writes = ["delete"]


class OfAdmin(admin.ModelAdmin):
    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    has_change_permission = has_view_permission


class Listed(viewsets.ViewSet):
    permission_classes = (permissions.IsAdminUser,)

    def list(self, request: Any) -> Response:
        return Response([])


def list_all(request: Any) -> list[str]:
    return []


def is_guest(user: Any) -> Any:
    return True if user.is_superuser else None


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("ruled", public=True)


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


def why(server: MCPServer, name: str, user: Any) -> str:
    with pytest.raises(UnknownTool) as raised:
        MCPClient(server, user=user, capabilities={}).call(name)
    return str(raised.value.__notes__[0])


def place(code: Any) -> str:
    line = inspect.getsourcelines(code)[1]
    return f"({__file__}:{line})"


def test_the_class_of_a_model_is_named(server: MCPServer, ann: User):
    Shelves.register(server=server)

    rule = f"it needs {__name__}.Shelves.has_permission {place(Shelves.has_permission)}"
    assert why(server, "search_shelves", ann).endswith(f"{rule}.")
    assert f"{rule}, which returned None, not True or False" in why(server, "delete_shelf", ann)


def test_a_class_with_the_default_rule_is_named(server: MCPServer):
    Written.register(server=server)

    rule = f"it needs {__name__}.Written.has_permission {place(Written)}"
    assert rule in why(server, "delete_shelf", None)


def test_the_method_of_an_admin_is_named(server: MCPServer, ann: User):
    site = admin.AdminSite("ruled")
    site.register(Shelf, OfAdmin)
    ann.is_staff = True
    ann.save()
    admin_tools(server=server, site=site, models=[Shelf])

    method = place(OfAdmin.has_view_permission)
    assert f"it needs {__name__}.OfAdmin.has_view_permission {method}" in why(
        server, "search_shelves", ann
    )
    # Django's own method, of the site's class.
    assert f"{__name__}.OfAdmin.has_delete_permission {place(OfAdmin)}" in why(
        server, "delete_shelf", ann
    )


def test_the_view_of_a_rest_framework_is_named(server: MCPServer, ann: User):
    viewset_tools(Listed, server=server, prefix="listed")

    rule = f"it needs {__name__}.Listed.permission_classes {place(Listed)}"
    assert rule in why(server, "listed_list", ann)


def test_the_operation_of_a_ninja_api_is_named(server: MCPServer):
    api = NinjaAPI(urls_namespace="ruled")
    api.get("/all", auth=django_auth)(list_all)
    operation_tools(api, server=server)

    assert f"it needs {__name__}.list_all.auth {place(list_all)}" in why(server, "list_all", None)


def test_a_function_of_the_site_that_returned_none_is_told(server: MCPServer, ann: User):
    viewset_tools(Listed, server=server, prefix="listed", listed_if=is_guest)
    server.tool(permission=is_guest)(list_numbers)

    rule = f"it needs {__name__}.is_guest {place(is_guest)}"
    assert rule in why(server, "listed_list", ann)
    assert f"{rule}, which returned None, not True or False" in why(server, "list_numbers", ann)


def list_numbers() -> list[int]:
    """List numbers."""
    return []
