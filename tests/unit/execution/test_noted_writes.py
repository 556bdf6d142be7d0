"""What the log says, with DEBUG, of writes that stay after a failure, or that are repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import override_settings

from django_mcp import Context, MCPServer, ToolError
from django_mcp.test import MCPClient
from tests.support.databases import make_product

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("writing", public=True, atomic="first")


@pytest.fixture(autouse=True)
def debug() -> Iterator[None]:
    with override_settings(DEBUG=True):
        yield


def tell(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = (" stays: ", "again, since it runs again")
    return [each for each in caplog.messages if any(text in each for text in texts)]


# -- what a failed call leaves


def write_and_fail() -> str:
    """Write elsewhere."""
    make_product("a", "second")
    raise ToolError("No.")


def write_in_own_block() -> str:
    """Write elsewhere, in a transaction that has ended by then."""
    with transaction.atomic("second"):
        make_product("a", "second")
    raise ToolError("No.")


def roll_back_in_own_block() -> str:
    """Write elsewhere, and roll it back."""
    with transaction.atomic("second"):
        make_product("a", "second")
        raise ToolError("No.")


def write_and_fail_inside() -> str:
    """Write in the transaction of the call."""
    make_product("a", "first")
    raise ToolError("No.")


def write_and_return() -> str:
    """Write elsewhere, and succeed."""
    make_product("a", "second")
    return "done"


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize(
    ("function", "options", "is_told"),
    [
        (write_and_fail, {}, True),
        (write_in_own_block, {}, True),
        (roll_back_in_own_block, {}, False),
        (write_and_fail_inside, {}, False),
        (write_and_return, {}, False),
        (write_and_fail, {"atomic": False}, False),
        (write_and_fail, {"atomic": ["first", "second"]}, False),
    ],
)
def test_a_failed_call_that_wrote_outside_of_its_transaction(
    server: MCPServer,
    caplog: pytest.LogCaptureFixture,
    function: Callable[[], str],
    options: dict[str, Any],
    is_told: bool,
):
    server.register_tool(function, name="write", **options)

    MCPClient(server=server).call("write")

    told = tell(caplog)
    assert len(told) == is_told
    assert all(
        "The tool write failed, and what it wrote to the database 'second' stays: INSERT" in each
        and "Its transaction is on 'first'." in each
        for each in told
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("options", "setting", "is_told"),
    [({}, "default", True), ({"atomic": False}, "default", False), ({}, False, False)],
)
def test_an_asynchronous_tool_that_fails_after_it_wrote(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], setting: Any, is_told: bool
):
    server = MCPServer("writing", public=True, atomic=setting)

    @server.tool(**options)
    async def write() -> str:
        """Write, then fail."""
        await Group.objects.acreate(name="a")
        await sync_to_async(Group.objects.create)(name="b")
        raise ToolError("No.")

    MCPClient(server=server).call("write")

    told = tell(caplog)
    assert len(told) == is_told
    assert all("An asynchronous function has no transaction" in each for each in told)


@pytest.mark.django_db(transaction=True)
def test_what_once_wrote_is_meant_to_stay(caplog: pytest.LogCaptureFixture):
    server = MCPServer("writing", public=True)

    @server.tool
    async def write(ctx: Context) -> str:
        """Write once, then fail."""
        await ctx.aonce("group", _make)
        raise ToolError("No.")

    assert MCPClient(server=server).call("write").is_error
    assert Group.objects.count() == 1
    assert tell(caplog) == []


async def _make() -> int:
    return (await Group.objects.acreate(name="a")).pk


# -- what is written again


def ask_after_writing(ctx: Context) -> str:
    """Write, then ask."""
    Group.objects.create(name=f"{Group.objects.count()}")
    ctx.elicit("Go on?", FORM)
    return "done"


def ask_before_writing(ctx: Context) -> str:
    """Ask, then write."""
    ctx.elicit("Go on?", FORM)
    Group.objects.create(name="a")
    return "done"


def write_once(ctx: Context) -> str:
    """Write once, then ask."""
    ctx.once("group", lambda: Group.objects.create(name=f"{Group.objects.count()}").pk)
    ctx.elicit("Go on?", FORM)
    return "done"


def write_before_once(ctx: Context) -> str:
    """Write, then do something once."""
    Group.objects.create(name=f"{Group.objects.count()}")
    ctx.once("mail", lambda: 1)
    return "done"


def get_or_create(ctx: Context) -> str:
    """Write what is not there, then ask."""
    Group.objects.get_or_create(name="a")
    ctx.elicit("Go on?", FORM)
    return "done"


async def ask_asynchronously(ctx: Context) -> str:
    """Write, then ask."""
    await Group.objects.acreate(name=f"{await Group.objects.acount()}")
    await ctx.aelicit("Go on?", FORM)
    return "done"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize(
    ("function", "options", "is_told"),
    [
        (ask_after_writing, {"atomic": False}, True),
        (ask_after_writing, {}, False),
        (ask_before_writing, {"atomic": False}, False),
        (write_once, {"atomic": False}, False),
        (write_before_once, {"atomic": False}, True),
        (get_or_create, {"atomic": False}, False),
        (ask_asynchronously, {}, True),
    ],
)
def test_what_was_written_before_a_question_is_written_again(
    caplog: pytest.LogCaptureFixture,
    revision: str,
    function: Callable[..., Any],
    options: dict[str, Any],
    is_told: bool,
):
    server = MCPServer("writing", public=True, atomic="default")
    server.register_tool(function, name="write", **options)
    client = MCPClient(server=server, revision=revision)
    client.answer({"sure": True})

    assert client.call("write").text == "done"

    told = tell(caplog)
    assert len(told) == is_told
    assert all("tools/call write wrote to the database 'default' again" in each for each in told)


# -- what is changed in a session, and not stored


def change_default(ctx: Context) -> None:
    ctx.session.setdefault("cart", []).append(1)


def change_inside(ctx: Context) -> None:
    ctx.session["cart"] = {"rows": []}
    ctx.session["cart"]["rows"].append(1)


def change_after_set(ctx: Context) -> None:
    cart: list[int] = []
    ctx.session["cart"] = cart
    cart.append(1)


def change_one_of_all(ctx: Context) -> None:
    ctx.session.update(cart=[])
    for value in ctx.session.values():
        value.append(1)


def set_again(ctx: Context) -> None:
    cart = ctx.session.setdefault("cart", [])
    cart.append(1)
    ctx.session["cart"] = cart


def update_again(ctx: Context) -> None:
    cart = ctx.session.setdefault("cart", [])
    cart.append(1)
    ctx.session.update(cart=cart)


def take_out(ctx: Context) -> None:
    ctx.session["cart"] = []
    ctx.session.pop("cart").append(1)


def only_read(ctx: Context) -> None:
    ctx.session["cart"] = [1]
    ctx.session["count"] = len(ctx.session["cart"])


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        (change_default, True),
        (change_inside, True),
        (change_after_set, True),
        (change_one_of_all, True),
        (set_again, False),
        (update_again, False),
        (take_out, False),
        (only_read, False),
    ],
)
@pytest.mark.parametrize("is_debug", [True, False])
@pytest.mark.django_db(transaction=True)
def test_a_value_of_the_session_that_is_changed_in_place(
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Context], None],
    is_told: bool,
    is_debug: bool,
):
    server = MCPServer("remembering", public=True)

    @server.tool
    def remember(ctx: Context) -> str:
        """Remember."""
        change(ctx)
        return "done"

    with override_settings(DEBUG=is_debug):
        assert MCPClient(server=server, revision="2025-06-18").call("remember").text == "done"

    told = [each for each in caplog.messages if "changed the value of 'cart'" in each]
    assert len(told) == (is_told and is_debug)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_set", [True, False])
def test_a_value_that_an_asynchronous_handler_changes(
    caplog: pytest.LogCaptureFixture, is_set: bool
):
    server = MCPServer("remembering", public=True)

    @server.tool
    async def remember(ctx: Context) -> str:
        """Remember."""
        cart = await ctx.session.asetdefault("cart", [])
        cart.append(1)
        if is_set:
            await ctx.session.aset("cart", cart)
        return "done"

    assert MCPClient(server=server, revision="2025-06-18").call("remember").text == "done"

    told = [each for each in caplog.messages if "changed the value of 'cart'" in each]
    assert len(told) == (not is_set)
