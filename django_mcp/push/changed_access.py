"""Changed permissions and API keys: every process drops what it cached, and checks what is open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, TypeAlias

from django.apps import apps
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from django_mcp.auth.access import permissions_changed
from django_mcp.auth.authenticator import forget_cached
from django_mcp.auth.principal import KEY_START
from django_mcp.push.process_hub import process_hub
from django_mcp.push.upkeep import check_all, offer_lists
from django_mcp.server.services import ServerHub
from django_mcp.server.streams.process_messages import ProcessMessage
from django_mcp.server.streams.stream import PushStream

MAX_NAMED = 500
"""Users or keys named in one message. If more have changed, it says that any may have."""

Names: TypeAlias = list[str] | None
"""The users or keys that have changed; None: any may have."""

_PERMISSION_FIELDS = frozenset({"is_active", "is_superuser", "is_staff"})
_CHANGES = frozenset({"post_add", "post_remove", "post_clear"})


class PermissionsChanged(ProcessMessage, tag="permissions"):
    """The permissions of users have changed."""

    names: Names


class KeysChanged(ProcessMessage, tag="keys"):
    """API keys have changed."""

    names: Names


class Changed:
    """Reports changes to all processes after their commit. Several in one transaction are one message.

    Each process drops what it cached (`forget`) and checks what is open (`recheck`).
    """

    def __init__(
        self,
        kind: type[PermissionsChanged | KeysChanged],
        forget: Callable[[Names], None],
        recheck: Callable[[ServerHub, Names], Coroutine[Any, Any, object]],
    ) -> None:
        self.kind = kind
        self._forget = forget
        self._recheck = recheck
        self._local = threading.local()

    def announce_after_commit(self, names: Collection[Any] | None, using: str) -> None:
        """Report changes to this process and the others once the transaction is committed."""
        waiting: dict[str, set[str] | None] = vars(self._local).setdefault("waiting", {})
        known = waiting.setdefault(using, set())
        waiting[using] = None if names is None or known is None else known | set(map(str, names))
        # For each change, since a savepoint of it may be rolled back; the first call reports them all.
        transaction.on_commit(partial(self._report, waiting, using), using=using)

    def _report(self, waiting: dict[str, set[str] | None], using: str) -> None:
        if using not in waiting:
            return
        reports = waiting.pop(using)
        names = None if reports is None or len(reports) > MAX_NAMED else sorted(reports)
        self._forget(names)
        hub = process_hub()
        if hub.is_running and hub.loop is not None:
            hub.loop.call_soon_threadsafe(self._announce, hub, names)
        else:
            hub.bus.send_now(self.kind(names=names).to_wire())

    def _announce(self, hub: ServerHub, names: Names) -> None:
        hub.broadcast(self.kind(names=names))
        hub.spawn(self._recheck(hub, names))

    def take(self, hub: ServerHub, message: PermissionsChanged | KeysChanged) -> None:
        """Receive changes from another process."""
        self._forget(message.names)
        hub.spawn(self._recheck(hub, message.names))


async def _recheck_permissions(hub: ServerHub, users: Names) -> None:
    """Close what these users may not have open any more, and have the others read their lists again."""
    notified = await check_all(hub)
    for stream in list(hub.streams.values()):
        if stream not in notified and stream.is_active and _is_of(stream, users):
            offer_lists(hub, stream)


def _is_of(stream: PushStream, users: Names) -> bool:
    if not getattr(stream.principal, "is_authenticated", False):
        return False
    user = getattr(stream.principal, "user", stream.principal)
    return users is None or str(getattr(user, "pk", None)) in users


changed_permissions = Changed(PermissionsChanged, permissions_changed, _recheck_permissions)
"""Named by the primary keys of users."""

changed_keys = Changed(KeysChanged, forget_cached, lambda hub, _names: check_all(hub))
"""Named by the client ids of API keys."""


def announce_key(prefix: str, using: str) -> None:
    """Report a changed API key to all processes once the transaction is committed."""
    changed_keys.announce_after_commit([f"{KEY_START}{prefix}"], using)


def _join(hub: ServerHub) -> None:
    for changed in (changed_permissions, changed_keys):
        hub.on(changed.kind, partial(changed.take, hub))


# -- the signals of Django


def connect() -> None:
    """Connect to the signals of API keys and of the models of `django.contrib.auth`, here and elsewhere."""
    from django_mcp.models import APIKey

    process_hub().on_start.append(_join)
    uid = "django_mcp.push.changed_access"
    # Also for keys that are deleted with their user.
    post_save.connect(_key_changed, sender=APIKey, dispatch_uid=uid)
    post_delete.connect(_key_changed, sender=APIKey, dispatch_uid=uid)
    if not apps.is_installed("django.contrib.auth"):
        return
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group, Permission

    user_model = get_user_model()
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


def _key_changed(instance: Any, using: str, *, created: bool = False, **_: Any) -> None:
    if not created:
        announce_key(instance.prefix, using)


def _user_changed(
    instance: Any, using: str, update_fields: Collection[str] | None = None, **_: Any
) -> None:
    # Each login writes `last_login`.
    if update_fields is None or not _PERMISSION_FIELDS.isdisjoint(update_fields):
        _announce({instance.pk}, using)


def _all_changed(using: str, action: str = "post_add", **_: Any) -> None:
    if action in _CHANGES:
        _announce(None, using)


def _group_goes(instance: Any, using: str, **_: Any) -> None:
    # After the deletion its members are unknown.
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import PermissionsMixin

    model: Any = get_user_model()
    if not issubclass(model, PermissionsMixin):
        _announce(None, using)
        return
    members = model._base_manager.using(using).filter(groups=instance)
    _announce(set(members.values_list("pk", flat=True)), using)


def _members_changed(
    instance: Any, *, action: str, reverse: bool, pk_set: set[Any] | None, using: str, **_: Any
) -> None:
    if action in _CHANGES:
        _announce(pk_set if reverse else {instance.pk}, using)


def _announce(user_ids: Collection[Any] | None, using: str) -> None:
    # Now for reads inside of the transaction, and after the commit for all processes.
    permissions_changed(user_ids)
    changed_permissions.announce_after_commit(user_ids, using)
