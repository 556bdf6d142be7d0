"""What `manage.py check` reports of functions that write before an error without a transaction, or to read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.checks import run_checks
from django.db import transaction

from django_mcp import ToolError
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


async def saved(name: str) -> None:
    group = Group(name=name)
    await group.asave()
    raise ToolError("No.")


async def created_under_a_condition(name: str) -> None:
    group = await Group.objects.acreate(name=name)
    for each in name:
        if each == group.name:
            raise ToolError("No.")


async def updated_in_one_way(name: str) -> None:
    if name:
        await Group.objects.filter(name=name).aupdate(name="other")
    else:
        print()
    raise ToolError("No.")


async def raised_first(name: str) -> None:
    if not name:
        raise ToolError("No.")
    await Group.objects.acreate(name=name)


async def raised_in_another_way(name: str) -> None:
    if name:
        await Group.objects.acreate(name=name)
        return
    raise ToolError("No.")


async def raised_because_of_it(name: str) -> None:
    try:
        await Group.objects.acreate(name=name)
    except ValueError as error:
        raise ToolError("No.") from error


async def written_by_others(name: str) -> None:
    names = {name}
    names.add(name)
    raise ToolError("No.")


def synchronous(name: str) -> None:
    Group.objects.create(name=name)
    raise ToolError("No.")


def resource() -> str:
    group = Group.objects.get(pk=1)
    group.save()
    raise ToolError("No.")


def atomic_resource() -> str:
    with transaction.atomic():
        Group.objects.create(name="x")
        raise ToolError("No.")


def test_functions_that_write_without_a_transaction_and_raise_after_it_are_told():
    server = MCPServer("halfway")
    told = [saved, created_under_a_condition, updated_in_one_way]
    others: list[Any] = [
        raised_first,
        raised_in_another_way,
        raised_because_of_it,
        written_by_others,
        synchronous,
    ]
    for each in (*told, *others):
        server.tool(each)
    server.resource("halfway://one")(resource)
    server.resource("halfway://other")(atomic_resource)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I016"]

    ours = [each.msg.split(" ")[0] for each in messages if f"{__name__}." in each.msg]
    names = [each.__name__ for each in (*told, resource)]
    assert ours == [f"{__name__}.{name}" for name in names]
    assert " writes with group.asave(), and may raise an error after it in line " in messages[0].msg


def test_writes_of_what_says_that_it_only_reads_are_told():
    server = MCPServer("reading")

    @server.tool(read_only=True)
    async def list_groups() -> int:
        await Group.objects.aget_or_create(name="seen")
        return await Group.objects.acount()

    @server.resource("reading://it")
    def seen() -> str:
        group = Group.objects.get(pk=1)
        group.save()
        return group.name

    @server.tool(read_only=True)
    def count_groups() -> int:
        counts = {"groups": Group.objects.count()}
        counts.update(other=1)
        return counts["groups"]

    @server.tool
    def add_group(name: str) -> None:
        Group.objects.create(name=name)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W055"
    ]

    ours = [each for each in messages if f"{__name__}.test_writes_of" in each]
    assert [each.partition("<locals>.")[2].split(" ")[0] for each in ours] == [
        "list_groups",
        "seen",
    ]
    assert " has read_only=True, and writes with Group.objects.aget_or_create() in line " in ours[0]
    assert " is there to be read, and writes with group.save() in line " in ours[1]
