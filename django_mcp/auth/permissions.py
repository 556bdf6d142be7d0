"""The permissions of a user by Django's authentication backends. In threads only."""

from __future__ import annotations

import difflib
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django_mcp.registry.access import Rule
from django_mcp.server.exchange.derived import Requirements, VisibleEntries

if TYPE_CHECKING:
    from django.db.models import Model

    from django_mcp.server.exchange.derived import Requirements

logger = logging.getLogger("django_mcp")


def find_granted(user: Any, rules: Iterable[Rule]) -> frozenset[Rule]:
    """Return the rules that hold for a user as it is in the database now.

    None holds for a user who is inactive or deleted.
    """
    if _is_stored(user):
        # The given one may be as old as its stream, and caches its permissions.
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
        # The same as `has_perm` with Django's own backend, but fast for a thousand names.
        is_super = user.is_active and user.is_superuser
        return names if is_super else names & user.get_all_permissions()
    # Another backend may have `has_perm` only, or veto in it.
    return set(filter(has_perm, names))


def visible_to(user: Any, requirements: Requirements) -> VisibleEntries:
    """Return the entries that a user may see, for synchronous code."""
    return VisibleEntries(requirements, find_granted(user, requirements.all_rules))


def may_change_untold(user: Any) -> bool:
    """Return whether a user's permissions may change without a signal.

    They may inside of a transaction, as in a test case, and for users who were never saved.
    """
    from django.db import connections

    is_real = user.is_anonymous or _is_stored(user)
    return not is_real or any(
        each.in_atomic_block for each in connections.all(initialized_only=True)
    )


def _is_stored(user: Any) -> bool:
    return user.pk is not None and not user._state.adding


def is_granted_by(rule: Callable[..., Any], user: Any) -> bool:
    """Return the result of a permission function; raise its exceptions."""
    verdict = rule(user)
    if inspect.iscoroutine(verdict):
        # A coroutine is always true.
        verdict.close()
        raise TypeError("permission functions must be synchronous")
    return bool(verdict)


def _holds(rule: Callable[..., Any], user: Any) -> bool:
    try:
        return is_granted_by(rule, user)
    except (Exception, SystemExit):  # the site's code must not grant by failing
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


_NAME = re.compile(r"[A-Za-z_]\w*\.[^\s.][^\s]*")


def find_unknown_permissions(requirements: Requirements) -> Iterator[tuple[str, str, str | None]]:
    """Yield entries' sources with the unknown permissions that they need, and the nearest known ones."""
    known = known_permissions()
    for guarded, rules in requirements.rules.items():
        for rule in sorted(rule for rule in rules if isinstance(rule, str)):
            if rule not in known or not _NAME.fullmatch(rule):
                near = difflib.get_close_matches(rule, known, n=1, cutoff=0.5)
                yield guarded.source, rule, near[0] if near else None


def known_permissions() -> set[str]:
    """Return the permissions of the installed apps' models, as `app.codename`."""
    # The machinery of models, which importing this must not load.
    from django.apps import apps
    from django.contrib.auth import get_permission_codename

    found: set[str] = set()
    for model in apps.get_models():
        options = model._meta
        codenames = [get_permission_codename(each, options) for each in options.default_permissions]
        codenames += [codename for codename, _ in options.permissions]
        found.update(f"{options.app_label}.{codename}" for codename in codenames)
    return found
