"""Signals of Django's users, groups and permissions: whose permissions have changed.

Other processes are told; what is lost counts within 2 s all the same, see `access.MAX_AGE_S`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.apps import apps
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from django_mcp.auth.access import permissions_changed
from django_mcp.push.access import tell_after_commit

__all__ = ["connect"]

_JUDGED_FIELDS = frozenset({"is_active", "is_superuser", "is_staff"})
_IMPORTANT = frozenset({"post_add", "post_remove", "post_clear"})


def connect() -> None:
    """Listen to the models of `django.contrib.auth`, or to those in their place."""
    if not apps.is_installed("django.contrib.auth"):
        return
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group, Permission

    user_model = get_user_model()
    uid = "django_mcp.push.permission_signals"
    for signal in (post_save, post_delete):
        signal.connect(_user_changed, sender=user_model, dispatch_uid=uid)
        signal.connect(_all_changed, sender=Permission, dispatch_uid=uid)
    post_save.connect(_all_changed, sender=Group, dispatch_uid=uid)
    pre_delete.connect(_group_goes, sender=Group, dispatch_uid=uid)
    for name in ("groups", "user_permissions"):
        field = getattr(user_model, name, None)
        if field is not None:
            m2m_changed.connect(_members_changed, sender=field.through, dispatch_uid=uid)
    m2m_changed.connect(_all_changed, sender=Group.permissions.through, dispatch_uid=uid)


def _user_changed(
    instance: Any, using: str, update_fields: Collection[str] | None = None, **_: Any
) -> None:
    # Each login writes the user's last one.
    if update_fields is None or not _JUDGED_FIELDS.isdisjoint(update_fields):
        _tell({instance.pk}, using)


def _all_changed(using: str, action: str = "post_add", **_: Any) -> None:
    if action in _IMPORTANT:
        _tell(None, using)


def _group_goes(instance: Any, using: str, **_: Any) -> None:
    # Afterwards nobody knows who its members were; what counts is told after the commit.
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import PermissionsMixin

    model: Any = get_user_model()
    if not issubclass(model, PermissionsMixin):
        _tell(None, using)
        return
    members = model._base_manager.using(using).filter(groups=instance)
    _tell(set(members.values_list("pk", flat=True)), using)


def _members_changed(
    instance: Any, *, action: str, reverse: bool, pk_set: set[Any] | None, using: str, **_: Any
) -> None:
    if action in _IMPORTANT:
        _tell(pk_set if reverse else {instance.pk}, using)


def _tell(user_ids: Collection[Any] | None, using: str) -> None:
    # Now for reads inside of the transaction, and again for what is read before its end.
    permissions_changed(user_ids)
    tell_after_commit(user_ids, using)
