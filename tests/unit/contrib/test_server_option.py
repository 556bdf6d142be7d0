"""`server=` of everything that registers on a server: it takes the object, and not its name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from django_mcp import MCPServer, default_server
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.registry.problems import RegistrationError
from django_mcp.routing import mcp_routes
from django_mcp.test import MCPClient
from example_project.shop.models import Product
from tests.unit.contrib.drf import views
from tests.unit.contrib.ninja.api import make_api


class Products(ModelTools):
    model = Product
    fields = ("sku",)
    everyone = True


@pytest.mark.parametrize(
    "use",
    [
        lambda server: Products.register(server=server),
        lambda server: viewset_tools(views.OrderViewSet, server=server),
        lambda server: operation_tools(make_api(), server=server),
        lambda server: admin_tools(models=["shop.product"], server=server),
        mcp_routes,
        MCPClient,
    ],
    ids=["models", "drf", "ninja", "admin", "routes", "client"],
)
def test_the_name_of_a_server_is_refused(use: Any) -> None:
    MCPServer("staff")
    for given in ("staff", "", MCPServer):
        told = f"server= takes the MCPServer object, not {given!r}. Import it"
        with pytest.raises(RegistrationError, match=re.escape(told)):
            use(given)


def test_a_decorator_has_no_server() -> None:
    with pytest.raises(RegistrationError, match=r"as in @staff_server\.tool\."):
        default_server.tool(server="staff")(lambda: "")  # type: ignore[call-overload]
    with pytest.raises(RegistrationError, match=r"as in @staff_server\.resource\."):
        default_server.resource("a://{b}", server="staff")(lambda b: "")  # type: ignore[call-arg]
    with pytest.raises(RegistrationError, match=r"as in @staff_server\.prompt\."):
        default_server.prompt(server="staff")(lambda: "")  # type: ignore[call-overload]
