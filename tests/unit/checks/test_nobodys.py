"""What `manage.py check` reports of filters that give anonymous callers the rows of nobody."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.checks import run_checks
from django.db.models import Q, QuerySet
from django.shortcuts import get_object_or_404

from django_mcp import Context, signed_in
from django_mcp.contrib.models import ModelTools
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


def by_context(ctx: Context) -> int:
    return LogEntry.objects.filter(content_type_id=ctx.user.pk).count()


def by_user(user: User) -> int:
    return LogEntry.objects.filter(action_flag=1).filter(content_type=user.pk).count()


def by_condition(user: User) -> int:
    mine = LogEntry.objects.filter(Q(content_type=user.pk) | Q(action_flag=1))
    return mine.count()


def by_variable(ctx: Context) -> int:
    key = ctx.user.pk
    return LogEntry.objects.filter(content_type_id=key).count()


def by_relation(user: User) -> int:
    return LogEntry.objects.filter(content_type__id__exact=user.pk).count()


def by_shortcut(user: User) -> str:
    return str(get_object_or_404(LogEntry, content_type_id=user.pk))


def not_null_relation(user: User) -> int:
    return LogEntry.objects.filter(user__pk=user.pk).count()


def asks_for_the_variable(ctx: Context) -> int:
    key = ctx.user.pk
    return LogEntry.objects.filter(content_type_id=key).count() if key else 0


def not_null(user: User) -> int:
    return LogEntry.objects.filter(user_id=user.pk).count()


def asks_first(ctx: Context) -> int:
    if not ctx.user.is_authenticated:
        return 0
    return LogEntry.objects.filter(content_type_id=ctx.user.pk).count()


def of_another(ctx: Context) -> int:
    other = ContentType.objects.get(pk=1)
    return LogEntry.objects.filter(content_type_id=other.pk).count()


def of_a_loop() -> int:
    for user in User.objects.all():
        return LogEntry.objects.filter(content_type_id=user.pk).count()
    return 0


def asks_for_the_key(ctx: Context) -> int:
    if ctx.user.pk is None:
        return 0
    return LogEntry.objects.filter(content_type_id=ctx.user.pk).count()


def test_filters_by_the_key_of_a_caller_who_may_be_anonymous_are_told():
    server = MCPServer("nobodys", public=True)
    told: list[Any] = [
        by_context,
        by_user,
        by_condition,
        by_variable,
        by_relation,
        by_shortcut,
    ]
    others: list[Any] = [not_null, asks_first, of_another, of_a_loop, asks_for_the_key]
    others += [not_null_relation, asks_for_the_variable]
    for each in (*told, *others):
        server.tool(each)
    server.tool(name="guarded", permission=signed_in)(by_context)
    closed = MCPServer("nobodys-closed", public=False)
    closed.tool(by_user)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W052"]

    # A server of another test may still be there.
    ours = [each.msg for each in messages if each.msg.startswith(f"{__name__}.")]
    assert [each.split(" ")[0].rpartition(".")[2] for each in ours] == [
        each.__name__ for each in told
    ]
    assert "filters content_type_id by ctx.user.pk in line " in ours[0]


class ByKey(ModelTools):
    model = LogEntry
    fields = ["id"]

    def get_queryset(self, user: Any) -> QuerySet[LogEntry]:
        return LogEntry.objects.filter(content_type_id=user.pk)


class BySuper(ByKey):
    def get_queryset(self, user: Any) -> QuerySet[LogEntry]:
        return super().get_queryset(user).filter(Q(content_type=user.id))


class Asking(ByKey):
    def has_permission(self, user: Any, action: str) -> bool:
        return bool(user.is_authenticated)


class ByUser(ByKey):
    def get_queryset(self, user: Any) -> QuerySet[LogEntry]:
        return LogEntry.objects.filter(user_id=user.pk)


def test_rows_of_classes_by_the_key_of_a_caller_who_may_be_anonymous_are_told():
    server = MCPServer("nobodys-rows", public=True)
    for each in (ByKey, BySuper, Asking, ByUser):
        each.register(server=server, prefix=each.__name__.lower())
    ByKey.register(server=server, prefix="guarded", permission=signed_in)
    ByKey.register(server=MCPServer("nobodys-rows-closed", public=False))

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.M017"]

    ours = [each.msg for each in messages if each.msg.startswith(f"{__name__}.")]
    told = [each.removeprefix(f"{__name__}.").split("()")[0] for each in ours]
    assert told == ["ByKey.get_queryset", "BySuper.get_queryset"]
    assert " filters content_type_id by user.pk in line " in ours[0]
