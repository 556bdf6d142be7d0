"""Whether the authentication classes of a view are all that guards it, since they do not run for a tool."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from rest_framework.request import Request

from django_mcp.contrib.drf.actions import ViewAction
from django_mcp.contrib.drf.listing import check_permissions


def find_guard(action: ViewAction, variables: Collection[str], callback: Any) -> str | None:
    """Return the name of the class that alone keeps requests without credentials from an action.

    Such a class raises an exception for them, while the permission classes would let them pass. None: the
    action has no such class, or the site gave a function in place of it.

    Args:
        action: of a view.
        variables: the names of those in its URL.
        callback: what `as_view()` returned for a URL of it.
    """
    if action.auth is not None:
        return None
    try:
        view = check_permissions(action, AnonymousUser(), callback, variables)
    except Exception:  # noqa: BLE001 - whatever it raises, the request gets no further
        return None
    view.swagger_fake_view = False
    request = Request(_make_bare_request(action))
    for authenticator in action.source.get_authenticators(view):
        try:
            outcome = authenticator.authenticate(request)
        except Exception:  # noqa: BLE001 - also one that needs more of the request
            return type(authenticator).__name__
        if outcome is not None:
            return None
    return None


def _make_bare_request(action: ViewAction) -> HttpRequest:
    request = HttpRequest()
    request.method = action.method.upper()
    request.user = AnonymousUser()
    return request
