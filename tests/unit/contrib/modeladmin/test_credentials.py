"""Actions and models about passwords, tokens and sign-ins, which are tools only if they are named."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from example_project.shop.models import Order

pytestmark = pytest.mark.django_db


class Orders(admin.ModelAdmin):
    actions = ["reset_password", "signInAs", "ship"]

    def reset_password(self, request: Any, queryset: Any) -> None:
        """Would send a new password."""

    def signInAs(self, request: Any, queryset: Any) -> None:  # noqa: N802 - as a site may call it
        """Would be somebody else."""

    def ship(self, request: Any, queryset: Any) -> None:
        """Is about orders."""


@pytest.fixture
def site() -> admin.AdminSite:
    site = admin.AdminSite("credentials")
    site.register(Order, Orders)
    site.register(User)
    return site


def find(server: MCPServer) -> list[str]:
    found = run_checks(tags=["django_mcp"])
    return [
        each.msg for each in found if each.obj is server and each.id == "django_mcp.modeladmin.W003"
    ]


def names(server: MCPServer) -> set[str]:
    return set(server.registry.tools)


def test_actions_about_passwords_and_sign_ins_are_refused_with_a_warning(site: admin.AdminSite):
    server = MCPServer("admin")
    admin_tools(server=server, site=site, models=[Order])

    assert "ship_orders" in names(server)
    assert names(server).isdisjoint({"reset_password_orders", "signInAs_orders"})
    what = f"of {Orders.__module__}.Orders of shop.Order is no tool"
    assert find(server) == [
        f"The action 'reset_password' {what}: reset_password is about passwords, tokens or sign-ins.",
        f"The action 'signInAs' {what}: signInAs is about passwords, tokens or sign-ins.",
    ]


@pytest.mark.parametrize(
    "options", [{"actions": ["reset_password"]}, {"include": ["reset_password", "ship"]}]
)
def test_an_action_that_is_named_becomes_a_tool(site: admin.AdminSite, options: Any):
    server = MCPServer("admin")
    admin_tools(server=server, site=site, models=[Order], **options)

    assert "reset_password_orders" in names(server)
    assert find(server) == []


def test_models_about_tokens_are_refused_with_a_warning_unless_they_are_named():
    with isolate_apps("tests.support.library"):

        class OutstandingToken(models.Model):
            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return "token"

    site = admin.AdminSite("tokens")
    site.register([OutstandingToken, Order])

    every = MCPServer("every")
    admin_tools(server=every, site=site, models="__all__")
    assert {name.rpartition("_")[2] for name in names(every)} == {"order", "orders"}
    told = "library.OutstandingToken is no tool: OutstandingToken is about passwords, tokens or sign-ins."
    assert find(every) == [told]

    without = MCPServer("without")
    admin_tools(server=without, site=site, models="__all__", exclude=["library.outstandingtoken"])
    assert find(without) == []

    named = MCPServer("named")
    admin_tools(server=named, site=site, models=[OutstandingToken])
    assert "search_outstanding_tokens" in names(named)
