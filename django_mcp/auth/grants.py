"""Whose permissions changed in the database: two queries for everybody who has something open.

It looks at what Django's tables say of users, groups and permissions, whichever backend judges by it,
and asks the functions that decide about what is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from django_mcp.auth.principal import Principal
from django_mcp.handlers.threads import run_in_pool

__all__ = ["Function", "GrantWatch", "Grants"]

Grants: TypeAlias = frozenset[tuple[Any, Any]]
"""What a user has: which kind of thing, and of what."""

Function: TypeAlias = Callable[..., Any]
"""A permission that its author wrote as a function over the user."""

ASK_S: Final = 0.5
"""How long functions are asked in a round; those that were not, are asked first in the next. Our own limit."""

_FLAGS = ("is_active", "is_staff", "is_superuser")


class GrantWatch:
    """Remembers what principals had when they were last judged."""

    def __init__(self) -> None:
        self._judged: WeakKeyDictionary[Principal, Grants] = WeakKeyDictionary()
        self._verdicts: dict[tuple[Any, Function], bool] = {}

    async def find_changed(
        self, principals: Mapping[Principal, Collection[Function]]
    ) -> dict[Principal, Grants]:
        """Return those to be judged anew, and by what: who has other rows than before, or is new.

        Args:
            principals: each with the functions that decide about what they have open.
        """
        known = {each: each.user.pk for each in principals if each.user.pk is not None}
        if not known:
            return {}
        asked = {(pk, function) for each, pk in known.items() for function in principals[each]}
        # Who was asked longest ago comes first.
        due = [
            *(asked - self._verdicts.keys()),
            *(each for each in self._verdicts if each in asked),
        ]
        found, verdicts = await run_in_pool(partial(_read, set(known.values()), due))
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
            if self._judged.get(principal) != grants:
                changed[principal] = grants
        return changed

    def settle(self, principal: Principal, grants: Grants) -> None:
        """Remember that a principal was judged by these; until then `find_changed` returns it."""
        self._judged[principal] = grants


def _read(
    user_ids: Collection[Any], due: Collection[tuple[Any, Function]]
) -> tuple[Mapping[Any, Grants], dict[tuple[Any, Function], bool]]:
    return _read_rows(user_ids), _ask(due)


def _read_rows(user_ids: Collection[Any]) -> Mapping[Any, Grants]:
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import PermissionsMixin

    model: Any = get_user_model()
    if not issubclass(model, PermissionsMixin):
        # What its users may do is in tables that only the site knows.
        return {}

    users = model._default_manager.filter(pk__in=user_ids).order_by()
    columns = {field.name for field in model._meta.concrete_fields}
    arms = [
        users.filter(**{flag: True}).values_list("pk", _number(kind), _number(0))
        for kind, flag in enumerate(_FLAGS)
        if flag in columns
    ]
    arms.append(users.values_list("pk", _number(_PERMISSION), "user_permissions"))
    found: dict[Any, set[tuple[int, Any]]] = {}
    groups: set[Any] = set()
    for pk, kind, of in users.values_list("pk", _number(_GROUP), "groups").union(*arms):
        found.setdefault(pk, set()).add((kind, of))
        if kind == _GROUP and of is not None:
            groups.add(of)
    permissions = _read_groups(groups) if groups else {}
    return {
        pk: frozenset(
            (kind, (of, permissions.get(of))) if kind == _GROUP else (kind, of) for kind, of in each
        )
        for pk, each in found.items()
    }


def _read_groups(groups: Collection[Any]) -> Mapping[Any, frozenset[Any]]:
    """Return the permissions of groups; of each once, whatever the number of its members."""
    from django.contrib.auth.models import Group

    through: Any = Group.permissions.through
    found: dict[Any, set[Any]] = {}
    rows = through._default_manager.filter(group_id__in=groups)
    for group, permission in rows.values_list("group_id", "permission_id"):
        found.setdefault(group, set()).add(permission)
    return {group: frozenset(each) for group, each in found.items()}


_GROUP, _PERMISSION = len(_FLAGS), len(_FLAGS) + 1


def _ask(due: Collection[tuple[Any, Function]]) -> dict[tuple[Any, Function], bool]:
    """Return what functions say of users as the database has them now, as far as time allows."""
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


def _number(value: int) -> Any:
    from django.db.models import IntegerField, Value

    return Value(value, IntegerField())
