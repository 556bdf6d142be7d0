"""What `manage.py check` reports of functions that find objects of users for whoever calls."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.checks import run_checks
from django.db.models import Sum
from django.shortcuts import get_object_or_404
from django.test import override_settings

from django_mcp import Context, signed_in
from django_mcp.checks.owners import belongs_to_users
from django_mcp.servers import MCPServer
from example_project.shop.models import Order

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


def order(pk: int) -> str:
    return str(Order.objects.get(pk=pk))


async def cancel(id: int) -> None:
    await Order.objects.filter(pk=id).aupdate(status="canceled")


def note(pk: int) -> str:
    return str(get_object_or_404(Order, pk=pk).note)


def by_number(number: str) -> str:
    return Order.objects.get(number=number).status


def of_somebody(user_id: int) -> list[str]:
    return [str(each) for each in Order.objects.filter(customer_id=user_id)]


def of_a_name(owner: str) -> list[str]:
    return list(Order.objects.filter(customer__username=owner).values_list("number", flat=True))


def by_status(status: str) -> int:
    return Order.objects.filter(status=status, number__contains=status).count()


def of_a_search(query: str) -> list[str]:
    return list(Order.objects.filter(number__icontains=query).values_list("number", flat=True))


def newest(ctx: Context, limit: int = 10) -> list[Any]:
    orders = Order.objects.order_by("-pk")
    return list(orders[:limit].values("number"))


def looped(status: str) -> list[str]:
    found = Order.objects.filter(status=status)
    return [each.number for each in found]


def counted(status: str) -> dict[str, Any]:
    orders = Order.objects.filter(status=status)
    if not orders:
        return {}
    return {"count": len(orders), "sum": orders.aggregate(Sum("pk")), "any": orders.exists()}


def logged(ctx: Context, number: str) -> str:
    logger.info("%s asks for %s", ctx.user, number)
    return Order.objects.get(number=number).status


logger = logging.getLogger(__name__)


def by_a_function(number: str) -> str:
    return find_order(number).status


def find_order(number: Any) -> Any:
    return Order.objects.get(number=number)


def all_by_a_function() -> list[str]:
    return [each.number for each in find_orders("new")]


def find_orders(status: Any) -> Any:
    orders = Order.objects.filter(status=status)
    return orders.order_by("pk")


def by_a_function_for_the_caller(ctx: Context) -> list[str]:
    return [each.number for each in find_orders_of(ctx.user)]


def find_orders_of(user: Any) -> Any:
    return Order.objects.filter(customer=user)


def by_a_function_that_counts() -> int:
    return count_orders()


def count_orders() -> int:
    return Order.objects.filter(status="new").count()


def made(number: str) -> str:
    return Order.objects.create(number=number).number


def of_the_caller(user: User, pk: int) -> str:
    return str(Order.objects.get(pk=pk, customer=user))


def mine(ctx: Context, pk: int) -> str:
    return str(Order.objects.get(pk=pk, customer_id=ctx.user.pk))


def group(pk: int) -> str:
    return str(Group.objects.get(pk=pk))


def fixed() -> str:
    return str(Order.objects.get(pk=1))


def is_mine(user: Any, pk: int) -> bool:
    return False


def complete_all(value: str) -> list[str]:
    return list(Order.objects.filter(number__startswith=value).values_list("number", flat=True))


def complete_own(value: str, user: User) -> list[str]:
    orders = Order.objects.filter(number__startswith=value, customer=user)
    return list(orders.values_list("number", flat=True))


def complete_for_staff(value: str) -> list[str]:
    return list(Order.objects.filter(number__startswith=value).values_list("number", flat=True))


def complete_of_guarded(value: str) -> list[str]:
    return list(Order.objects.filter(number__startswith=value).values_list("number", flat=True))


def remind(number: str, pk: str, status: str) -> str:
    return number + pk + status


def test_completions_that_suggest_objects_of_users_to_whoever_calls_are_told():
    server = MCPServer("owners-completed", public=True)
    server.prompt(remind)
    server.completion(remind, "number")(complete_all)
    server.completion(remind, "pk")(complete_own)
    server.completion(remind, "status", permission="shop.view_order")(complete_for_staff)
    server.resource("owners://{number}", permission="shop.view_order")(by_number)
    server.completion("owners://{number}", "number")(complete_of_guarded)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I019"
    ]

    ours = [each for each in messages if each.startswith(f"{__name__}.complete_")]
    assert [each.split(" ")[0].rpartition(".")[2] for each in ours] == ["complete_all"]


def test_functions_that_find_objects_of_users_for_whoever_calls_are_told():
    server = MCPServer("owners", public=True)
    server.resource("owners://{pk}")(order)
    server.tool(permission=signed_in)(cancel)
    server.tool(permission=signed_in)(mine)
    told = [note, by_number, of_somebody, of_a_name, of_a_search, newest, looped, by_a_function]
    told += [all_by_a_function, logged]
    others: list[Any] = [
        by_a_function_for_the_caller,
        by_a_function_that_counts,
        group,
        fixed,
        by_status,
        counted,
        made,
        of_the_caller,
    ]
    for each in (*told, *others):
        server.tool(each)
    server.tool(name="guarded", permission="shop.view_order")(order)
    server.tool(name="checked", check=is_mine)(order)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I019"
    ]

    ours = [
        each for each in messages if each.startswith(f"{__name__}.") and ".complete_" not in each
    ]
    names = sorted(each.split(" ")[0].rpartition(".")[2] for each in ours)
    assert names == sorted(each.__name__ for each in (order, cancel, *told))
    assert any(" finds objects of shop.Order by pk in line " in each for each in ours)
    assert any(" finds objects of shop.Order in line " in each for each in ours)


@override_settings(AUTH_USER_MODEL="nowhere.User")
def test_nothing_belongs_to_users_on_a_site_without_them():
    assert not belongs_to_users(Order)
