"""Permissions to see and end objects: for all of a model, or for single ones if a backend has such.

Django's own backend gives permissions for whole models, so rows are not checked then.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import backends as django_backends
from django.contrib.auth import get_backends, get_permission_codename
from django.db.models import Model, QuerySet

LOOKED_AT = 1000
"""Rows that are checked for a user who may not see all: the first of a list."""


def permission_for(action: str, model: type[Model]) -> str:
    """Return the full name of a permission, such as `django_mcp.end_session`."""
    info: Any = model._meta
    return f"{info.app_label}.{get_permission_codename(action, info)}"


def may(user: Any, action: str, what: type[Model] | Model) -> bool:
    """Return whether a user has a permission for all of a model, or for one object of it."""
    if not isinstance(what, Model):
        return bool(user.has_perm(permission_for(action, what)))
    name = permission_for(action, type(what))
    return user.has_perm(name) or (has_object_backend() and user.has_perm(name, what))


def may_any(user: Any, action: str, model: type[Model]) -> bool:
    """Return whether a user has a permission for all of a model, or perhaps for single objects."""
    return may(user, action, model) or has_object_backend()


def only_visible(user: Any, rows: QuerySet[Any], action: str = "view") -> QuerySet[Any]:
    """Return the ordered `rows` that a user may see, or act on.

    For a user without the permission for all, only the first `LOOKED_AT` rows are checked.
    """
    if may(user, action, rows.model):
        return rows
    return rows.filter(pk__in=find_granted(user, action, rows))


def find_granted(user: Any, action: str, rows: QuerySet[Any]) -> list[Any]:
    """Return the primary keys of the first `LOOKED_AT` rows that a backend allows a user."""
    if not has_object_backend():
        return []
    name = permission_for(action, rows.model)
    return [row.pk for row in rows[:LOOKED_AT] if user.has_perm(name, row)]


_ASKED = ("has_perm", "get_all_permissions", "get_user_permissions", "get_group_permissions")


def has_object_backend() -> bool:
    """Return whether any backend could give a permission for one object: Django's own never do."""
    return any(
        getattr(type(backend), name, None) is not None
        and getattr(type(backend), name).__module__ != django_backends.__name__
        for backend in get_backends()
        for name in _ASKED
    )
