"""Lookup of active users: one user, a filter for queries, and users by primary key."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist


def is_active(user: Any) -> bool:
    """Return whether a user is active; a user of a model without the field always is."""
    return bool(getattr(user, "is_active", True))


def is_superuser(user: Any) -> bool:
    """Return whether a user is a superuser; one of a model without the field never is."""
    return bool(getattr(user, "is_superuser", False))


def active_filter(prefix: str = "") -> dict[str, bool]:
    """Return the filter for active users; empty for a user model without the field."""
    try:
        get_user_model()._meta.get_field("is_active")
    except FieldDoesNotExist:
        return {}
    return {f"{prefix}is_active": True}


def find_users(keys: Collection[Any]) -> dict[Any, Any]:
    """Return the active users with these primary keys."""
    users = get_user_model()._default_manager.filter(pk__in=keys, **active_filter())
    return {user.pk: user for user in users}
