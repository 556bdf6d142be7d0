"""Output schemas of views that choose their serializer: those that may depend on the caller are left open."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

import pytest
from rest_framework import serializers as drf
from rest_framework import viewsets

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from example_project.shop.models import Product


class Short(drf.ModelSerializer[Product]):
    class Meta:
        model = Product
        fields = ("sku",)


class Long(drf.ModelSerializer[Product]):
    class Meta:
        model = Product
        fields = ("sku", "name")


class Base(viewsets.ReadOnlyModelViewSet[Product]):
    queryset = Product.objects.all()
    permission_classes = ()
    serializer_class = Long
    by_action: dict[str, Any] = {"list": Short}

    @property
    def chosen(self) -> Any:
        return Short if self.request.user.is_staff else Long

    def choose(self) -> Any:
        return self.chosen


def choose(view: Any) -> Any:
    return Short if view.request.user.is_staff else Long


def by_action(self: Any) -> Any:
    return self.by_action.get(self.action, self.serializer_class)


def of_the_framework(self: Any) -> Any:
    if self.action == "list":
        return Short
    return super(Base, self).get_serializer_class()


def by_request(self: Any) -> Any:
    return Short if self.request.user.is_staff else Long


def by_name(self: Any) -> Any:
    return Short if getattr(self, "request").user.is_staff else Long  # noqa: B009


def by_function(self: Any) -> Any:
    return choose(self)


def by_method(self: Any) -> Any:
    return self.choose()


def by_property(self: Any) -> Any:
    return self.chosen


def by_inner_code(self: Any) -> Any:
    return next(each for each in (Short, Long) if self.request.user.is_staff or each is Long)


def by_import(self: Any) -> Any:
    from operator import attrgetter

    return Short if attrgetter("request.user.is_staff")(self) else Long


def by_getter(self: Any) -> Any:
    return Short if operator.attrgetter("request.user.is_staff")(self) else Long


role: ContextVar[str] = ContextVar("role", default="staff")


def by_variable(self: Any) -> Any:
    return Short if role.get() == "staff" else Long


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def outer(self: Any) -> Any:
        return Short if self.request.user.is_staff else function(self)

    return outer


def shown(function: Any) -> set[str] | None:
    """Return the members of a product that a view with this `get_serializer_class` declares; None: it is open."""
    server = MCPServer("code-reading", public=True)
    view = type("View", (Base,), {"get_serializer_class": function})
    viewset_tools(view, server=server, prefix="it", actions=["list"])
    schema = server.registry.tools["it_list"].output_schema or {}
    if "properties" not in schema:
        return None
    return set(schema["properties"]["results"]["items"]["properties"])


@pytest.mark.parametrize("function", [by_action, of_the_framework])
def test_a_choice_by_the_action_is_declared(function: Any):
    assert shown(function) == {"sku"}


@pytest.mark.parametrize(
    "function",
    [
        by_request,
        by_name,
        by_function,
        by_method,
        by_property,
        by_inner_code,
        by_import,
        by_getter,
        by_variable,
        decorated(by_action),
        partial(by_request),
    ],
)
def test_a_choice_that_may_depend_on_the_caller_is_left_open(function: Any):
    assert shown(function) is None
