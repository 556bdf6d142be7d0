"""What `manage.py check` reports of results that functions discard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import FieldError
from django.db import models, transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import SimpleLazyObject

from django_mcp import Context
from django_mcp.checks.discarded import find_discarded
from django_mcp.contrib.models import ModelTools
from django_mcp.servers import MCPServer
from example_project.shop import models as shop
from example_project.shop.models import Order

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


async def remind(order: Any) -> None:
    """Send a reminder."""


def wait(order: Any) -> None:
    """Do nothing that has to be awaited."""


class Mails:
    async def send(self, order: Any) -> None:
        """Send a mail."""

    @staticmethod
    async def flush() -> None:
        """Send all."""

    def queue(self, order: Any) -> None:
        """Keep a mail."""


mails = Mails()


# -- told


def not_awaited(pk: int) -> str:
    order = Order.objects.get(pk=pk)
    remind(order)  # type: ignore[unused-coroutine]
    return "sent"


def in_a_branch(pk: int) -> str:
    try:
        if pk:
            remind(pk)  # type: ignore[unused-coroutine]
    except ValueError:
        return "failed"
    return "sent"


def of_a_module() -> str:
    asyncio.sleep(1)  # type: ignore[unused-coroutine]
    return "slept"


def of_an_object(pk: int) -> str:
    mails.send(pk)  # type: ignore[unused-coroutine]
    return "sent"


def of_a_class() -> str:
    Mails.flush()  # type: ignore[unused-coroutine]
    return "sent"


def of_a_variable(pk: int) -> str:
    own = Mails()
    own.send(pk)  # type: ignore[unused-coroutine]
    return "sent"


async def of_the_context(ctx: Context) -> str:
    ctx.ainfo("at work")  # type: ignore[unused-coroutine]
    return "done"


async def of_a_row(pk: int) -> str:
    order = await Order.objects.aget(pk=pk)
    order.asave()  # type: ignore[unused-coroutine]
    return "saved"


def of_a_row_or_404(pk: int) -> str:
    order = get_object_or_404(Order, pk=pk)
    order.asave()  # type: ignore[unused-coroutine]
    return "saved"


def of_a_manager() -> str:
    Order.objects.acreate(number="1")  # type: ignore[unused-coroutine]
    return "made"


def in_a_function(pk: int) -> str:
    def notify() -> None:
        remind(pk)  # type: ignore[unused-coroutine]

    transaction.on_commit(notify)
    return "sent"


def with_one_of_its_own(pk: int) -> str:
    async def send() -> None:
        """Send."""

    wait(pk)
    remind(pk) if pk else None
    return "sent"


def discarded_rows(user: User) -> list[str]:
    orders = Order.objects.all()
    orders.filter(customer=user)
    return [each.number for each in orders]


def discarded_order() -> list[str]:
    orders = shop.Order.objects.all()
    if orders:
        orders = orders.exclude(note="")
    orders.order_by("number")
    return [each.number for each in orders]


def of_a_parameter(user: User) -> int:
    def count(rows: QuerySet[Any]) -> int:
        return rows.count()

    Order._default_manager.select_for_update().filter(customer=user)
    return count(Order.objects.all())


def changed_row(number: str) -> str:
    order = Order.objects.get(number=number)
    order.note = "paid"
    return f"{order.number}: {order.note}"


async def changed_row_of_async(number: str) -> str:
    order = await Order.objects.select_related("customer").aget(number=number)
    order.note += "paid"
    return "paid"


def changed_rows() -> str:
    for order in Order.objects.filter(note=""):
        order.note = "paid"
    return "paid"


def changed_new() -> str:
    order = Order(number="1")
    order.note = "new"
    return "made"


TOLD = [
    not_awaited, in_a_branch, of_a_module, of_an_object, of_a_class, of_a_variable, of_the_context, of_a_row,
    of_a_row_or_404, of_a_manager, in_a_function, with_one_of_its_own, discarded_rows, discarded_order, of_a_parameter,
    changed_row, changed_row_of_async, changed_rows, changed_new,
]  # fmt: skip


# -- not told


async def awaited(ctx: Context, pk: int) -> str:
    await remind(pk)
    await ctx.ainfo("at work")
    task = asyncio.create_task(remind(pk))
    asyncio.gather(task)
    return "sent"


def run_otherwise(pk: int) -> str:
    async_to_sync(remind)(pk)
    asyncio.run(remind(pk))
    mails.queue(pk)
    return "sent"


def of_another_name(remind: Callable[..., None], wait: int) -> str:
    remind(wait)
    return "sent"


def assigned_otherwise(pk: int) -> str:
    remind = wait
    remind(pk)
    senders: Any = ()
    for mails in senders:
        mails.send(pk)
    return "sent"


def used_rows(user: User) -> list[str]:
    orders = Order.objects.all()
    orders = orders.filter(customer=user)
    orders.update(note="")
    list(orders.select_for_update())
    print(orders.filter(note="") or orders.none())
    return [each.number for each in orders]


def for_its_error(order: str) -> list[str]:
    orders = Order.objects.all()
    try:
        orders.order_by(order)
    except FieldError:
        return []
    with suppress(FieldError):
        orders.filter(**{order: 1})
    return [each.number for each in orders.order_by(order)]


def of_other_objects(names: list[str]) -> list[str]:
    found = {"a", "b"}
    found.union(names)
    rows = list(Order.objects.all())
    rows.reverse()
    chosen: Any = Order.objects.first()
    chosen.filter(names)
    names.filter("a")  # type: ignore[attr-defined]
    return names


def of_any_model(row: Any) -> str:
    models.Model.save(row)
    return "saved"


def several_kinds(is_short: bool) -> list[str]:
    found: Any = Order.objects.all()
    if is_short:
        found = awaited
    found.filter(note="")
    return []


def saved(number: str) -> str:
    order = Order.objects.get(number=number)
    order.note = "paid"
    order.save()
    return "paid"


def passed_on(number: str) -> str:
    order = Order.objects.get(number=number)
    order.note = "paid"
    wait(order)
    return "paid"


def of_an_argument(order: Order) -> str:
    order.note = "paid"
    return "paid"


def saved_by_a_variable() -> str:
    orders = Order.objects.all()
    for order in orders:
        order.note = "paid"
    Order.objects.bulk_update(orders, ["note"])
    return "paid"


def saved_later(number: str) -> str:
    order = Order.objects.get(number=number)
    order.note = "paid"
    transaction.on_commit(lambda: wait(order.save()))  # type: ignore[func-returns-value]
    return "paid"


def computed_from(number: str) -> Any:
    order = Order.objects.get(number=number)
    order.note = "paid"
    found: Any = order.total
    return found


def no_column(number: str) -> str:
    order = Order.objects.get(number=number)
    order.is_seen = True  # type: ignore[attr-defined]
    return order.number


def read_alone(number: str) -> str:
    order = Order.objects.get(number=number)
    return order.note


NOT_TOLD = [
    awaited, run_otherwise, of_another_name, assigned_otherwise, used_rows, for_its_error, of_other_objects, several_kinds, of_any_model,
    saved, passed_on, of_an_argument, saved_by_a_variable, saved_later, computed_from, no_column, read_alone,
]  # fmt: skip


def messages_of(id_: str, text: str) -> list[CheckMessage]:
    messages = run_checks(tags=["django_mcp"])
    return [each for each in messages if each.id == f"django_mcp.{id_}" and text in each.msg]


def test_results_that_handlers_discard_are_told():
    server = MCPServer("discards")
    functions: list[Any] = [*TOLD, *NOT_TOLD]
    for each in functions:
        if each not in (of_another_name, of_an_argument):
            server.tool(each)

    messages = messages_of("W038", f"{__name__}.")

    names = [each.msg.split(" ")[0].rpartition(".")[2] for each in messages]
    assert names == [each.__name__ for each in TOLD]
    texts = dict(zip(names, messages, strict=True))
    assert ") calls remind(order) in line " in texts["not_awaited"].msg
    assert texts["not_awaited"].msg.endswith(" without await, so that it never runs.")
    assert ") discards the queryset that orders.filter(customer=user) in line" in (
        texts["discarded_rows"].msg
    )
    assert ") sets order.note in line " in texts["changed_row"].msg
    assert texts["changed_row"].msg.endswith(", and saves it nowhere, so that the change is lost.")
    assert "order.save()" in str(texts["changed_row"].hint)


def is_known(user: Any) -> bool:
    Order.objects.filter(customer=user)
    return True


def is_own(user: Any, order: int) -> bool:
    remind(order)  # type: ignore[unused-coroutine]
    return True


def test_results_that_rules_discard_are_told_once():
    server = MCPServer("ruled")
    for number in range(2):
        server.tool(name=f"ruled{number}", permission=is_known, check=is_own)(wait)

    messages = messages_of("W038", f"{__name__}.is_")

    names = [each.msg.split(" ")[0].rpartition(".")[2] for each in messages]
    assert names == ["is_known", "is_own"]


@pytest.mark.parametrize("function", NOT_TOLD)
def test_other_results_are_not_told(function: Callable[..., Any]):
    assert list(find_discarded(function)) == []


def test_an_object_that_is_loaded_later_is_left_alone():
    lazy: Any = SimpleLazyObject(lambda: pytest.fail("it was loaded"))

    def send() -> None:
        lazy.send(1)
        lazy.filter(number="1")

    assert list(find_discarded(send)) == []


def test_what_a_class_of_model_tools_discards_is_told():
    class Wrong(ModelTools):
        model = Order
        fields = ("number", "note")
        writes = ("update", "delete")

        def get_queryset(self, user: Any) -> Any:
            orders = visible_to(user)
            orders.filter(customer=user)
            return orders.order_by("number")

        def get_choices(self, user: Any, name: str, objects: Any) -> Any:
            objects.filter(pk=user.pk)
            return objects

        def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
            instance.save()
            remind(instance)  # type: ignore[unused-coroutine]

        def number(self, instance: Any) -> str:
            remind(instance)  # type: ignore[unused-coroutine]
            return str(instance.number)

    server = MCPServer("wrong")  # checks know only servers that something holds
    Wrong.register(server=server)

    told = [each.msg.partition("Wrong.")[2] for each in messages_of("M013", ".Wrong.")]

    assert [each.partition("() ")[0] for each in told] == [
        "get_queryset", "get_choices", "save_model", "number",
    ]  # fmt: skip
    assert told[0].startswith(
        "get_queryset() discards the queryset that orders.filter(customer=user)"
    )
    assert told[2].startswith("save_model() calls remind(instance) in line")


def visible_to(user: Any) -> Any:
    return Order.objects.all()


def test_a_right_class_of_model_tools_is_not_told():
    class Right(ModelTools):
        model = Order
        fields = ("number",)

        def get_queryset(self, user: Any) -> Any:
            orders = super().get_queryset(user)
            if not user.is_staff:
                orders = orders.filter(customer=user)
            seen: set[Any] = set()
            seen.union(orders)
            return orders

    server = MCPServer("right")  # checks know only servers that something holds
    Right.register(server=server)

    assert messages_of("M013", ".Right.") == []
