"""`toolset=` of everything that registers on a server, and what it is by default."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.registry.problems import RegistrationError
from example_project.shop import mcp as shop_mcp
from example_project.shop.models import Product
from tests.support.library import models as library_models
from tests.unit.contrib.drf import views
from tests.unit.contrib.ninja.api import make_api

pytestmark = pytest.mark.django_db


class Products(ModelTools):
    model = Product
    fields = ("sku",)
    everyone = True
    writes = ("update",)


class OrderViewSet(views.OrderViewSet):
    # As if it were written in the app.
    __module__ = shop_mcp.__name__


GENERATED: dict[str, Any] = {
    "models": (lambda server, **options: Products.register(server=server, **options), "shop"),
    "admin": (
        lambda server, **options: admin_tools(models=["shop.product"], server=server, **options),
        "shop",
    ),
    "drf": (
        lambda server, **options: viewset_tools(OrderViewSet, server=server, **options),
        "shop",
    ),
    # Its functions are in no app.
    "ninja": (
        lambda server, **options: operation_tools(make_api(), server=server, **options),
        None,
    ),
}


def toolsets_of(server: MCPServer) -> set[str | None]:
    toolsets = server.engine.derived.requirements.toolsets
    entries = list(server.registry.entries())
    assert entries
    return {toolsets.get(entry) for entry in entries}


@pytest.mark.parametrize(("register", "expected"), GENERATED.values(), ids=list(GENERATED))
def test_generated_tools_are_in_the_toolset_of_their_app_or_the_given_one(
    register: Any, expected: str | None
) -> None:
    by_default, given = MCPServer("by-default", public=True), MCPServer("given", public=True)
    register(by_default)
    register(given, toolset="mine")

    assert toolsets_of(by_default) == {expected}
    assert toolsets_of(given) == {"mine"}


def test_a_class_of_tools_may_name_its_toolset() -> None:
    server = MCPServer("classy", public=True)

    class Named(Products):
        toolset = "stock"

    Named.register(server=server)

    assert toolsets_of(server) == {"stock"}


def test_a_function_is_in_the_toolset_of_the_app_that_it_is_in() -> None:
    server = MCPServer("functions", public=True)

    def inside() -> str:
        return ""

    inside.__module__ = library_models.__name__
    server.register_tool(inside)
    server.register_tool(partial(inside), name="partly")
    server.register_prompt(inside)
    server.register_resource("x://a", inside)

    assert toolsets_of(server) == {"library"}
    server.register_tool(lambda: "", name="outside")
    assert toolsets_of(server) == {"library", None}


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a/b", "größe", ".", "..", "-a", "x" * 65, 5])
def test_a_name_that_no_path_or_header_can_hold_is_refused(name: Any) -> None:
    server = MCPServer("misnamed", public=True)
    ways: list[Any] = [
        lambda: server.register_tool(lambda: "", name="a", toolset=name),
        lambda: server.register_prompt(lambda: "", name="a", toolset=name),
        lambda: server.register_resource("x://a", lambda: "", toolset=name),
        lambda: server.register_resource("x://{a}", lambda a: "", toolset=name),
        lambda: Products.register(server=server, toolset=name),
    ]

    for way in ways:
        with pytest.raises(RegistrationError, match=re.escape("toolset")):
            way()
