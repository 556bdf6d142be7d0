"""What a user may do, asked of Django's authentication backends. Off the event loop only."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from django_mcp.registry.access import Rule
from django_mcp.server.exchange.visibility import Offer, Requirements

if TYPE_CHECKING:
    from django.db.models import Model

__all__ = [
    "find_granted",
    "is_granted_by",
    "may_change_untold",
    "object_permission",
    "offer_to",
]

logger = logging.getLogger("django_mcp")


def find_granted(user: Any, rules: Iterable[Rule]) -> frozenset[Rule]:
    """Return those of the rules that hold for a user, as the database has the user now.

    Nothing holds for an inactive user, and nothing for one who is gone.
    """
    if _is_stored(user):
        # The one at hand may be as old as its stream, and remembers its permissions.
        model = user.__class__
        user = model._default_manager.using(user._state.db).filter(pk=user.pk).first()
    if user is None or not (user.is_active or user.is_anonymous):
        return frozenset()
    found = {rule for rule in rules if callable(rule) and _holds(rule, user)}
    names = {rule for rule in rules if isinstance(rule, str)}
    return frozenset(found | _find_permissions(user, names))


def _find_permissions(user: Any, names: set[str]) -> set[str]:
    # Models, which importing this must not load.
    from django.contrib.auth import get_backends
    from django.contrib.auth.backends import ModelBackend
    from django.contrib.auth.models import AnonymousUser, PermissionsMixin

    has_perm = getattr(user, "has_perm", None)
    if not names or has_perm is None:
        return set()
    is_plain = type(user).has_perm in (PermissionsMixin.has_perm, AnonymousUser.has_perm)
    if is_plain and all(type(backend) is ModelBackend for backend in get_backends()):
        # What `has_perm` comes to with Django's own backend, for a thousand names at once.
        is_super = user.is_active and user.is_superuser
        return names if is_super else names & user.get_all_permissions()
    # Any other backend may know `has_perm` only, or veto in it.
    return set(filter(has_perm, names))


def offer_to(user: Any, requirements: Requirements) -> Offer:
    """Return what there is for a user, however they were authenticated; for synchronous code."""
    return Offer(requirements, find_granted(user, requirements.all_rules))


def may_change_untold(user: Any) -> bool:
    """Return whether what was found for a user may be undone without a signal.

    So it is inside of a transaction, as in a test case, and with users who were never saved.
    """
    from django.db import connections

    is_real = user.is_anonymous or _is_stored(user)
    return not is_real or any(
        each.in_atomic_block for each in connections.all(initialized_only=True)
    )


def _is_stored(user: Any) -> bool:
    return user.pk is not None and not user._state.adding


def is_granted_by(rule: Callable[..., Any], user: Any) -> bool:
    """Tell what a permission that is a function says of a user; raises what it raises."""
    verdict = rule(user)
    if inspect.iscoroutine(verdict):
        # True in a condition, whatever it would come to.
        verdict.close()
        raise TypeError("permission functions must be synchronous")
    return bool(verdict)


def _holds(rule: Callable[..., Any], user: Any) -> bool:
    try:
        return is_granted_by(rule, user)
    except (Exception, SystemExit):  # the site's code, which must not grant by failing
        logger.exception("The permission %r failed, so it was refused", rule)
        return False


class object_permission:  # noqa: N801 - called as a function is
    """Make a `check=` that asks Django's backends for a permission on one object.

    `check=object_permission("shop.view_order", Order, number="number")` looks the order up whose
    `number` is the argument `number`, and asks `user.has_perm("shop.view_order", order)`. An order
    that is not there and one that is forbidden are refused alike. Django's own backend knows no
    permissions on objects and grants them to superusers only: have another one that does.

    Args:
        permission: `app.codename`.
        model: what is looked up.
        lookups: the argument's name by the field or lookup that it is compared with.
    """

    def __init__(self, permission: str, model: type[Model], **lookups: str) -> None:
        if not lookups:
            raise TypeError("object_permission() needs a lookup, such as pk='pk'")
        self.permission = permission
        self.model = model
        self.lookups = lookups
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ("user", *dict.fromkeys(lookups.values()))
        self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __repr__(self) -> str:
        return f"object_permission({self.permission!r}, {self.model.__name__})"

    def __call__(self, user: Any, **arguments: Any) -> bool:
        wanted = {lookup: arguments[name] for lookup, name in self.lookups.items()}
        found = self.model._default_manager.filter(**wanted).first()
        has_perm = getattr(user, "has_perm", None)
        return found is not None and has_perm is not None and has_perm(self.permission, found)
