"""The permissions of users by Django's authentication backends, and which of them changed."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from django_mcp.auth.principal import Principal
from django_mcp.execution.threads import run_in_pool
from django_mcp.log import logger
from django_mcp.registry.access import Rule, note_verdict, read_verdict
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import describe_source, find_near
from django_mcp.server.exchange.visibility import Requirements, VisibleEntries

if TYPE_CHECKING:
    from django.db.models import Model


def find_granted(
    user: Any, rules: Iterable[Rule], requirements: Requirements | None = None
) -> frozenset[Rule]:
    """Return the rules that hold for a user as it is in the database now.

    None holds for a user who is inactive or deleted. The log names the entries among the requirements
    whose rule fails.
    """
    if _is_stored(user):
        # The given one may be as old as its stream, and caches its permissions.
        model = user.__class__
        user = model._default_manager.using(user._state.db).filter(pk=user.pk).first()
    if user is None or not (user.is_active or user.is_anonymous):
        return frozenset()
    granted = {rule for rule in rules if callable(rule) and holds(rule, user, requirements)}
    names = {rule for rule in rules if isinstance(rule, str)}
    return frozenset(granted | _find_permissions(user, names))


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
    return VisibleEntries(requirements, find_granted(user, requirements.all_rules, requirements))


def may_change_without_signal(user: Any) -> bool:
    """Return whether a user's permissions may change without a signal.

    They may inside of a transaction, as in a test case, and for users who were never saved.
    """
    from django.db import connections

    is_real = user.is_anonymous or _is_stored(user)
    return not is_real or any(
        connection.in_atomic_block for connection in connections.all(initialized_only=True)
    )


def _is_stored(user: Any) -> bool:
    return user.pk is not None and not user._state.adding


def is_granted_by(rule: Callable[..., Any], user: Any) -> bool:
    """Return the result of a permission function; raise its exceptions."""
    verdict = rule(user)
    note_verdict(rule, verdict)
    return read_verdict(verdict)


def holds(rule: Callable[..., Any], user: Any, requirements: Requirements | None = None) -> bool:
    """Return the result of a permission function; one that fails grants nothing."""
    try:
        return is_granted_by(rule, user)
    except (Exception, SystemExit):  # the site's code must not grant by failing
        names = [] if requirements is None else list(_names_of(rule, requirements))
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        of = f" of {', '.join(names[:_MAX_NAMES])}{more}" if names else ""
        logger.exception("The permission %s%s failed, so it was refused", describe_source(rule), of)
        return False


_MAX_NAMES = 3
"""Entries that a message names."""


def _names_of(rule: Callable[..., Any], requirements: Requirements) -> Iterator[str]:
    """Yield what the entries are called that need a rule, such as "tool find_orders"."""
    for guarded, rules in requirements.rules.items():
        if rule in rules:
            if isinstance(guarded, Entry):
                yield f"{guarded.kind.word} {guarded.name}"
            else:
                yield guarded.source


def signed_in(user: Any) -> bool:
    """Return whether a caller is signed in: a function for `permission=` and `listed_if=`."""
    return bool(getattr(user, "is_authenticated", False))


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
        instance = self.model._default_manager.filter(**wanted).first()
        has_perm = getattr(user, "has_perm", None)
        return instance is not None and has_perm is not None and has_perm(self.permission, instance)


_NAME = re.compile(r"[A-Za-z_]\w*\.[^\s.][^\s]*")


def find_known_permissions() -> set[str]:
    """Return the permissions that the models of the installed apps have."""
    # Loads `django.db`, which importing a server must not.
    from django.apps import apps
    from django.contrib.auth import get_permission_codename

    known: set[str] = set()
    for model in apps.get_models():
        options = model._meta
        codenames = [
            get_permission_codename(permission, options)
            for permission in options.default_permissions
        ]
        codenames += [codename for codename, _ in options.permissions]
        known.update(f"{options.app_label}.{codename}" for codename in codenames)
    return known


_GRANTING = (
    "has_perm", "get_all_permissions", "get_user_permissions", "get_group_permissions", "_get_permissions",
)  # fmt: skip
"""The methods of users and backends that say which permissions a user has."""


def is_asked_of_django(user_model: type[Any]) -> bool:
    """Return whether Django's own code alone says which permissions users of a model have."""
    # That of django-guardian knows those of the models as well.
    return _all_are_of(("django", "guardian"), user_model)


def knows_models_alone(user_model: type[Any]) -> bool:
    """Return whether no backend, nor the users themselves, grants a permission on one object."""
    return _all_are_of(("django",), user_model)


def _all_are_of(packages: Collection[str], user_model: type[Any]) -> bool:
    """Return whether the methods of users and backends that grant permissions are all of some packages."""
    from django.contrib.auth import get_backends

    givers = (user_model, *map(type, get_backends()))
    methods = [getattr(giver, name, None) for giver in givers for name in _GRANTING]
    return all(each is None or each.__module__.partition(".")[0] in packages for each in methods)


def find_unknown_permissions(requirements: Requirements) -> Iterator[tuple[str, str, str | None]]:
    """Yield entries' sources with the unknown permissions that they need, and the nearest known ones."""
    known = find_known_permissions()
    for guarded, rules in requirements.rules.items():
        for rule in sorted(rule for rule in rules if isinstance(rule, str)):
            if rule not in known or not _NAME.fullmatch(rule):
                yield guarded.source, rule, find_near_permission(rule, known)


def find_near_permission(name: str, known: Iterable[str]) -> str | None:
    """Return the known permission of which a name is a near miss; None, if there is none.

    That is one with typing errors or a plural, or with an equal codename of another app. It is not another action
    on the same model, although most of its letters are the same.
    """
    candidates = [each for each in sorted(known) if each != name and _is_near_miss(name, each)]
    return next(iter(find_near(name, candidates, cutoff=0)), None)


def _is_near_miss(name: str, permission: str) -> bool:
    label, _dot, codename = name.lower().rpartition(".")
    its_label, _dot, its_codename = permission.lower().partition(".")
    words, its_words = _split(codename), _split(its_codename)
    if words == its_words:
        return True
    # A name without a label may be one of any app.
    return (not label or _is_near(label, its_label)) and _are_near(words, its_words)


def _split(codename: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", codename) if word]


def _are_near(words: list[str], others: list[str]) -> bool:
    if len(words) == len(others):
        # Each for itself, since long equal words would hide a short one that is another.
        return all(map(_is_near, words, others))
    return _is_near("".join(words), "".join(others), 0.9)


def _is_near(word: str, other: str, cutoff: float = 0.75) -> bool:
    """Return whether a word may be another with typing errors, such as `viwe` or `categories`."""
    short, long = sorted((word, other), key=len)
    # Letters in front make another word: `publish` and `unpublish`.
    is_prefixed = long.endswith(short) and len(long) > len(short) + 1
    return not is_prefixed and bool(find_near(word, [other], cutoff=cutoff))


Grants: TypeAlias = frozenset[tuple[Any, Any]]
"""The rights of a user: pairs of a kind and a value."""

Function: TypeAlias = Callable[..., Any]
"""A permission that is a function of the user."""

ASK_S: Final = 0.5
"""How long functions are called in a round; the others come first in the next one."""

_FLAGS = ("is_active", "is_staff", "is_superuser")


class GrantWatch:
    """Remembers the grants of principals from their last check."""

    def __init__(self) -> None:
        self._judged: WeakKeyDictionary[Principal, Grants] = WeakKeyDictionary()
        self._granted_by: dict[tuple[Any, Function], bool] = {}

    async def find_changed(
        self, principals: Mapping[Principal, Collection[Function]]
    ) -> dict[Principal, Grants]:
        """Return the principals that are new or whose grants changed, with their grants.

        Each is given with the permission functions of what they have open.
        """
        known = {
            principal: principal.user.pk
            for principal in principals
            if principal.user.pk is not None
        }
        if not known:
            return {}
        asked = {(pk, function) for each, pk in known.items() for function in principals[each]}
        # Those called longest ago come first.
        due = [
            *(asked - self._granted_by.keys()),
            *(question for question in self._granted_by if question in asked),
        ]
        user_ids = set(known.values())
        grants_of_rows, verdicts = await run_in_pool(lambda: (_read_rows(user_ids), _ask(due)))
        kept = self._granted_by
        waiting = {
            question: kept[question]
            for question in due
            if question in kept and question not in verdicts
        }
        self._granted_by = {**waiting, **verdicts}
        changed = {}
        for principal, pk in known.items():
            granted = {
                (function, True)
                for function in principals[principal]
                if self._granted_by.get((pk, function))
            }
            grants = grants_of_rows.get(pk, frozenset()) | granted
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
    from django.contrib.auth.models import Group, PermissionsMixin

    model: Any = get_user_model()
    if not issubclass(model, PermissionsMixin):
        # The permissions of its users are in other tables.
        return {}

    users = model._default_manager.filter(pk__in=user_ids).order_by()
    columns = {field.name for field in model._meta.concrete_fields}
    flags = [flag for flag in _FLAGS if flag in columns]
    flags_by_key = {
        pk: set(zip(flags, values, strict=True)) for pk, *values in users.values_list("pk", *flags)
    }
    for name in ("user_permissions", "groups"):
        for pk, of in users.values_list("pk", name):
            flags_by_key.setdefault(pk, set()).add((name, of))
    groups = {of for pairs in flags_by_key.values() for name, of in pairs if name == "groups"}
    through: Any = Group.permissions.through
    rows = through._default_manager.filter(group_id__in=groups - {None})
    permissions: dict[Any, set[Any]] = {}
    for group, permission in rows.values_list("group_id", "permission_id"):
        permissions.setdefault(group, set()).add(permission)
    of_groups = {group: frozenset(each) for group, each in permissions.items()}
    return {
        pk: frozenset(
            (name, (of, of_groups.get(of)) if name == "groups" else of) for name, of in each
        )
        for pk, each in flags_by_key.items()
    }


def _ask(due: Collection[tuple[Any, Function]]) -> dict[tuple[Any, Function], bool]:
    """Call functions with users as they are in the database, until `ASK_S` is over."""
    if not due:
        return {}
    from django.contrib.auth import get_user_model

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
