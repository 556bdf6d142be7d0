"""Find users with open streams or calls whose permissions changed in the database: four queries for all.

These read Django's tables of users, groups and permissions, whichever backend decides by them. Permission
functions of what is open are called as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from django_mcp.auth.principal import Principal
from django_mcp.execution.threads import run_in_pool

Grants: TypeAlias = frozenset[tuple[Any, Any]]
"""The rights of a user: pairs of a kind and a value."""

Function: TypeAlias = Callable[..., Any]
"""A permission that is a function of the user."""

ASK_S: Final = 0.5
"""How long functions are called in a round; the others come first in the next one. Our own limit."""

_FLAGS = ("is_active", "is_staff", "is_superuser")


class GrantWatch:
    """Remembers the grants of principals from their last check."""

    def __init__(self) -> None:
        self._judged: WeakKeyDictionary[Principal, Grants] = WeakKeyDictionary()
        self._verdicts: dict[tuple[Any, Function], bool] = {}

    async def find_changed(
        self, principals: Mapping[Principal, Collection[Function]]
    ) -> dict[Principal, Grants]:
        """Return the principals that are new or whose grants changed, with their grants.

        Args:
            principals: each with the permission functions of what they have open.
        """
        known = {each: each.user.pk for each in principals if each.user.pk is not None}
        if not known:
            return {}
        asked = {(pk, function) for each, pk in known.items() for function in principals[each]}
        # Those called longest ago come first.
        due = [
            *(asked - self._verdicts.keys()),
            *(each for each in self._verdicts if each in asked),
        ]
        user_ids = set(known.values())
        found, verdicts = await run_in_pool(lambda: (_read_rows(user_ids), _ask(due)))
        kept = self._verdicts
        waiting = {each: kept[each] for each in due if each in kept and each not in verdicts}
        self._verdicts = {**waiting, **verdicts}
        changed = {}
        for principal, pk in known.items():
            granted = {
                (function, True)
                for function in principals[principal]
                if self._verdicts.get((pk, function))
            }
            grants = found.get(pk, frozenset()) | granted
            if ("is_active", False) in grants:
                # Deactivated after the last recheck; the next one ends what is open.
                continue
            if self._judged.get(principal) != grants:
                changed[principal] = grants
        return changed

    def settle(self, principal: Principal, grants: Grants) -> None:
        """Remember the grants that a principal was checked by; until then `find_changed` returns it."""
        self._judged[principal] = grants


def _read_rows(user_ids: Collection[Any]) -> Mapping[Any, Grants]:
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import PermissionsMixin

    model: Any = get_user_model()
    if not issubclass(model, PermissionsMixin):
        # The permissions of its users are in other tables.
        return {}

    users = model._default_manager.filter(pk__in=user_ids).order_by()
    columns = {field.name for field in model._meta.concrete_fields}
    flags = [flag for flag in _FLAGS if flag in columns]
    found = {
        pk: set(zip(flags, values, strict=True)) for pk, *values in users.values_list("pk", *flags)
    }
    for name in ("user_permissions", "groups"):
        for pk, of in users.values_list("pk", name):
            found.setdefault(pk, set()).add((name, of))
    groups = {of for each in found.values() for name, of in each if name == "groups"}
    permissions = _read_groups(groups - {None})
    return {
        pk: frozenset(
            (name, (of, permissions.get(of)) if name == "groups" else of) for name, of in each
        )
        for pk, each in found.items()
    }


def _read_groups(groups: Collection[Any]) -> Mapping[Any, frozenset[Any]]:
    """Return the permissions of groups."""
    from django.contrib.auth.models import Group

    through: Any = Group.permissions.through
    found: dict[Any, set[Any]] = {}
    rows = through._default_manager.filter(group_id__in=groups)
    for group, permission in rows.values_list("group_id", "permission_id"):
        found.setdefault(group, set()).add(permission)
    return {group: frozenset(each) for group, each in found.items()}


def _ask(due: Collection[tuple[Any, Function]]) -> dict[tuple[Any, Function], bool]:
    """Call functions with users as they are in the database, until `ASK_S` is over."""
    if not due:
        return {}
    from django.contrib.auth import get_user_model

    from django_mcp.auth.permissions import is_granted_by

    model: Any = get_user_model()
    users = model._default_manager.in_bulk({pk for pk, _function in due})
    until_s = time.monotonic() + ASK_S
    verdicts = {}
    for pk, function in due:
        try:
            verdicts[pk, function] = pk in users and is_granted_by(function, users[pk])
        except Exception:  # noqa: BLE001 - the caller logs it
            verdicts[pk, function] = False
        if time.monotonic() > until_s:
            break
    return verdicts
