"""What `manage.py check` reports of permission functions that let callers pass who did not sign in."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import CheckMessage, run_checks
from django.test import override_settings
from django.urls import include, path

from django_mcp import signed_in
from django_mcp.auth.authenticators import SessionAuthenticator
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

ran: list[Any] = []


def look() -> str:
    """Look."""
    return ""


def is_somebody(user: Any) -> bool:
    return user is not None


def asks_module(user: Any) -> bool:
    ran.append(user)
    return True


def asks_permission(user: Any) -> bool:
    return not user.has_perm("shop.view_order")


def never_ends(user: Any) -> bool:
    while user is not None:
        pass
    return True


def changes(user: Any) -> bool:
    user.was_here = True
    return True


def told(rule: Any, *, public: bool = True, **options: Any) -> list[CheckMessage]:
    server = MCPServer("opened", public=public, authenticators=[SessionAuthenticator()])
    server.tool(permission=rule, name="seen", **options)(look)
    urls = ModuleType("urls")
    urls.urlpatterns = [path("", include(server.urls[0]))]  # type: ignore[attr-defined]
    with override_settings(ROOT_URLCONF=urls):
        messages = run_checks(tags=["django_mcp"])
    return [each for each in messages if each.id == "django_mcp.W057" and "'opened'" in each.msg]


@pytest.mark.parametrize(
    "rule",
    [
        is_somebody,
        lambda user: user is not None,
        lambda user: bool(user) and user.id != 3,
        lambda user: hasattr(user, "username"),
        lambda user: user.username is not None,
        lambda user: not user.is_staff,
    ],
)
def test_a_permission_that_holds_for_anonymous_callers_is_told(rule: Callable[[Any], bool]):
    (message,) = told(rule)

    assert "lets callers pass who did not sign in: seen." in message.msg
    assert message.hint is not None
    assert "signed_in" in message.hint


@pytest.mark.parametrize(
    "rule",
    [
        signed_in,
        "auth.view_group",
        lambda user: True,
        lambda user: user.is_authenticated,
        lambda user: user.is_active,
        lambda user: user.pk is not None,
        lambda user: not user.is_anonymous,
        lambda user: user.email is not None,
        lambda user: settings.DEBUG or user is not None,
        asks_module,
        asks_permission,
        never_ends,
        changes,
    ],
)
def test_another_permission_is_not(rule: Any):
    assert told(rule) == []
    assert ran == []


def test_nothing_is_told_where_nobody_is_anonymous():
    assert told(is_somebody, public=False) == []


def test_nothing_is_told_of_an_entry_that_needs_more():
    assert told(is_somebody, scopes="see") == []
    assert told(is_somebody, check=lambda user: user.is_staff) == []
