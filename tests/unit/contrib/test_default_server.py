"""What generates tools registers them on the default server unless it gets another one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ninja import NinjaAPI
from rest_framework import permissions, viewsets
from rest_framework.response import Response

from django_mcp import default_server
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from example_project.shop.models import Product


class Wares(ModelTools):
    model = Product
    fields = ["sku", "name"]
    everyone = True
    prefix = "default_"


class Shelves(viewsets.ViewSet):
    permission_classes = [permissions.AllowAny]

    def list(self, request: Any) -> Response:
        """List the shelves."""
        return Response([])


@pytest.fixture
def _unchanged() -> Iterator[None]:
    before = set(default_server.registry.tools)
    yield
    for name in set(default_server.registry.tools) - before:
        default_server.remove_tool(name)


def tools_there() -> set[str]:
    return {name for name in default_server.registry.tools if name.startswith("default_")}


@pytest.mark.usefixtures("_unchanged")
def test_model_tools_are_registered_on_the_default_server() -> None:
    Wares.register(include=["search"])

    assert len(tools_there()) == 1


@pytest.mark.usefixtures("_unchanged")
def test_admin_tools_are_registered_on_the_default_server() -> None:
    entries = admin_tools(models=[Product], include=["search"], prefix="default_")

    assert {entry.name for entry in entries} == tools_there()
    assert len(entries) == 1


@pytest.mark.usefixtures("_unchanged")
def test_tools_of_views_are_registered_on_the_default_server() -> None:
    entries = viewset_tools(Shelves, prefix="default_shelves")

    assert {entry.name for entry in entries} == tools_there() == {"default_shelves_list"}


@pytest.mark.usefixtures("_unchanged")
def test_tools_of_operations_are_registered_on_the_default_server() -> None:
    api = NinjaAPI(urls_namespace="default-server")

    @api.get("/count")
    def count(request: Any) -> int:
        return 1

    entries = operation_tools(api, prefix="default")

    assert {entry.name for entry in entries} == tools_there() == {"default_count"}


@pytest.mark.parametrize(
    "register", [ModelTools.register, admin_tools, viewset_tools, operation_tools]
)
def test_every_source_takes_another_server_in_the_same_way(register: Callable[..., Any]) -> None:
    server = inspect.signature(register).parameters["server"]

    assert (server.kind, server.default) == (server.KEYWORD_ONLY, None)
