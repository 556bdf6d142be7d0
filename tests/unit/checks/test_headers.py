"""What `manage.py check` reports of code that reads headers and cookies which calls do not have."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings
from rest_framework import permissions, viewsets
from rest_framework.response import Response

from django_mcp import Context
from django_mcp.contrib.drf import viewset_tools
from django_mcp.servers import MCPServer
from example_project.shop.models import Product

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


def tenant(ctx: Context) -> Any:
    assert ctx.request is not None
    return ctx.request.headers["X-Tenant"]


def by_variable(ctx: Context) -> Any:
    request = ctx.request
    assert request is not None
    return request.META.get("HTTP_X_TENANT", "a") if "X-Org" not in request.headers else ""


def currency(ctx: Context) -> Any:
    return ctx.request.COOKIES.get("currency") if ctx.request else None


def browsers(ctx: Context) -> Any:
    request: Any = ctx.request
    return getattr(request, "session", None), hasattr(request, "COOKIES"), ctx.session.get("a")


def usual(ctx: Context) -> Any:
    request = ctx.request
    assert request is not None
    answers = {"X-Tenant": 1}
    return (
        request.headers.get("User-Agent"),
        request.META["REMOTE_ADDR"],
        request.META.get("HTTP_X_FORWARDED_FOR"),
        request.META.get("GEOIP"),
        answers["X-Tenant"],
    )


class HasKey(permissions.BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.META.get("HTTP_X_SHOP_KEY"))


class Keyed(viewsets.GenericViewSet[Product]):
    queryset = Product.objects.all()
    permission_classes = (HasKey,)

    def list(self, request: Any) -> Response:
        last = self.request.session["last"]
        return Response([self.request.headers.get("X-Page"), last])


def told() -> list[str]:
    messages = run_checks(tags=["django_mcp"])
    return sorted(
        each.msg.partition(f"{__name__}.")[2].partition(" in line ")[0]
        for each in messages
        if each.id == "django_mcp.I025" and each.msg.startswith(f"{__name__}.")
    )


def test_headers_and_cookies_that_calls_do_not_have_are_told():
    server = MCPServer("headers", public=True)
    for each in (tenant, by_variable, currency, browsers, usual):
        server.tool(each)
    viewset_tools(Keyed, server=server, prefix="keyed")

    read = [(each.split(" ")[0], each.partition(" reads ")[2]) for each in told()]
    assert read == [
        ("HasKey.has_permission,", "the header X-Shop-Key"),
        ("Keyed.list,", "the header X-Page"),
        ("Keyed.list,", "the session of a browser"),
        ("browsers", "cookies"),
        ("browsers", "the session of a browser"),
        ("by_variable", "the header X-Org"),
        ("by_variable", "the header X-Tenant"),
        ("currency", "the cookie currency"),
        ("tenant", "the header X-Tenant"),
    ]
    with override_settings(DJANGO_MCP={"HANDLER_HEADERS": ["X-Tenant", "X-Org"]}):
        assert not any("X-Tenant" in each or "X-Org" in each for each in told())
