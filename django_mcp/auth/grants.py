"""Whose permissions changed in the database: one query for everybody who has something open.

It looks at what Django's tables say of users, groups and permissions, whichever backend judges by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from django_mcp.auth.principal import Principal
from django_mcp.handlers.threads import run_in_pool

__all__ = ["GrantWatch", "Grants"]

Grants: TypeAlias = frozenset[tuple[int, Any]]
"""What a user has: which kind of row, and of what."""

_RELATIONS = ("groups", "user_permissions", "groups__permissions")


class GrantWatch:
    """Remembers what principals had when they were last judged."""

    def __init__(self) -> None:
        self._judged: WeakKeyDictionary[Principal, Grants] = WeakKeyDictionary()

    async def find_changed(self, principals: Collection[Principal]) -> dict[Principal, Grants]:
        """Return those to be judged anew, and by what: who has other rows than before, or is new."""
        keys = {each: each.user.pk for each in principals}
        wanted = {pk for pk in keys.values() if pk is not None}
        if not wanted:
            return {}
        found = await run_in_pool(partial(_read, wanted))
        return {
            principal: found.get(pk, frozenset())
            for principal, pk in keys.items()
            if pk is not None and self._judged.get(principal) != found.get(pk, frozenset())
        }

    def settle(self, principal: Principal, grants: Grants) -> None:
        """Remember that a principal was judged by these; until then `find_changed` returns it."""
        self._judged[principal] = grants


def _read(user_ids: Collection[Any]) -> Mapping[Any, Grants]:
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import PermissionsMixin

    model: Any = get_user_model()
    if not issubclass(model, PermissionsMixin):
        # What its users may do is in tables that only the site knows.
        return {}

    users = model._default_manager.filter(pk__in=user_ids).order_by()
    supers = users.filter(is_superuser=True).values_list("pk", _number(0), _number(0))
    arms = [
        users.values_list("pk", _number(kind), relation)
        for kind, relation in enumerate(_RELATIONS, 1)
    ]
    found: dict[Any, set[tuple[int, Any]]] = {}
    for pk, kind, of in supers.union(*arms):
        found.setdefault(pk, set()).add((kind, of))
    return {pk: frozenset(each) for pk, each in found.items()}


def _number(value: int) -> Any:
    from django.db.models import IntegerField, Value

    return Value(value, IntegerField())
