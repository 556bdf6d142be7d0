"""What `manage.py check` reports of functions inside of a cache of `functools`."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import cache as cached
from functools import lru_cache, partial
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.core.checks import run_checks

from django_mcp import Context
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


@lru_cache
def stock(name: str) -> int:
    return Group.objects.filter(name=name).count()


@cached
def everything() -> str:
    return "all"


@lru_cache(maxsize=5)
def double(number: int) -> int:
    return 2 * number


def total(name: str) -> int:
    return stock(name) + 1


def four() -> int:
    return double(2)


def plain(name: str) -> int:
    return Group.objects.filter(name=name).count()


def test_functions_whose_results_a_cache_keeps_are_told():
    server = MCPServer("cached")
    server.tool(stock)
    server.tool(name="partial")(partial(stock, "a"))
    server.resource("cached://all")(everything)
    for each in (total, four, plain):
        server.tool(each)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W056"
    ]

    ours = [each for each in messages if each.startswith((f"{__name__}.", "functools.partial"))]
    told = sorted(each.split(" ")[0].rpartition(".")[2] for each in ours)
    assert told == ["everything", "stock", "stock", "total"], ours
    assert sum(" is inside of a cache of functools: a call with " in each for each in ours) == 3
    assert sum(" calls stock() in line " in each for each in ours) == 1


carts: dict[str, list[str]] = defaultdict(list)
newest: deque[str] = deque()
names: list[str] = []
count = 0


def counts() -> int:
    global count
    count += 1
    return count


def puts_into_the_cart(name: str) -> str:
    carts["of everybody"].append(name)
    carts.update(other=[name])
    return name


def appends(name: str) -> str:
    newest.append(name)
    del names[0]
    return name


def of_its_own(name: str) -> int:
    names = [name]
    names.append(name)
    found = dict(carts)
    found["a"] = []
    return len(names) + len(carts["b"])


def reads_them() -> int:
    return count + len(names)


def test_variables_of_modules_that_functions_change_are_told():
    server = MCPServer("kept")
    for each in (counts, puts_into_the_cart, appends, of_its_own, reads_them):
        server.tool(each)

    ours = [
        each.msg
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.I022" and each.msg.startswith(f"{__name__}.")
    ]

    found = [each.partition(") changes ") for each in ours]
    assert [
        (each[0].split(" ")[0].rpartition(".")[2], each[2].partition(",")[0]) for each in found
    ] == [
        ("counts", "count"),
        ("puts_into_the_cart", "carts"),
        ("appends", "newest"),
        ("appends", "names"),
    ]


def for_all(ctx: Context) -> Any:
    return cache.get_or_set(
        "groups", lambda: list(Group.objects.filter(user__username=str(ctx.user))), 60
    )


async def for_all_later(ctx: Context, name: str) -> list[str]:
    key = f"groups-{name}"
    found = [
        each.name async for each in Group.objects.filter(user__username=str(ctx.user), name=name)
    ]
    names = [each for each in found if each]
    await cache.aset(key, names)
    return names


def made_by_a_function(ctx: Context) -> Any:
    def count() -> int:
        return Group.objects.filter(user__username=str(ctx.user)).count()

    return cache.get_or_set(KEY, count)


KEY = "count"


def with_the_user(ctx: Context) -> Any:
    return cache.get_or_set(
        f"groups-{ctx.user.pk}", lambda: list(Group.objects.filter(user__username=str(ctx.user)))
    )


def with_the_user_in_a_variable(ctx: Context) -> Any:
    who = str(ctx.user.pk)
    key = "groups"
    key += who
    return cache.get_or_set(key, lambda: list(Group.objects.filter(user__username=str(ctx.user))))


def with_a_function(ctx: Context) -> Any:
    return cache.get_or_set(
        make_key(ctx), lambda: list(Group.objects.filter(user__username=str(ctx.user)))
    )


def make_key(ctx: Context) -> str:
    return f"groups-{ctx.user.pk}"


def the_same(ctx: Context) -> Any:
    if not ctx.user.is_authenticated:
        return 0
    return cache.get_or_set("count", Group.objects.count)


def no_cache(ctx: Context) -> None:
    found: dict[str, Any] = {}
    found.setdefault("user", ctx.user)
    ctx.session["user"] = ctx.user


def test_values_of_a_user_under_a_key_for_all_are_told():
    server = MCPServer("shared-keys")
    told = (for_all, for_all_later, made_by_a_function)
    for each in (
        *told,
        with_the_user,
        with_the_user_in_a_variable,
        with_a_function,
        the_same,
        no_cache,
    ):
        server.tool(each)

    messages = [
        each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I024"
    ]

    ours = [each for each in messages if each.startswith(f"{__name__}.")]
    assert [each.split(" ")[0].rpartition(".")[2] for each in ours] == [
        each.__name__ for each in told
    ]
    assert " keeps in the cache with cache.get_or_set() in line " in ours[0]
