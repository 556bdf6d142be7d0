"""A user who has nothing, with whom a view is read that asks for more than an anonymous user has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Value
from django.utils.functional import SimpleLazyObject, empty


class _Nothing:
    """What the user has in place of an object: it is false, has no members but itself, and equals no row of a query."""

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __str__(self) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _key: Any) -> Any:
        return self

    def __call__(self, *_args: Any, **_options: Any) -> Any:
        return self

    def resolve_expression(self, *args: Any, **options: Any) -> Any:
        """Return what takes its place in a query."""
        return Value(None).resolve_expression(*args, **options)


_NOTHING = _Nothing()


class _StandIn(SimpleLazyObject):  # type: ignore[type-arg]
    """The user, for whom what their class has and no row gives, such as a profile, is nothing."""

    def __getattr__(self, name: str) -> Any:
        if self._wrapped is empty:
            self._setup()
        user = self._wrapped
        try:
            value = getattr(user, name)
        except (AttributeError, ObjectDoesNotExist):
            if not hasattr(type(user), name):
                raise
            return _NOTHING
        relations = {field.name for field in user._meta.fields if field.is_relation}
        return _NOTHING if value is None and name in relations else value


def make_stand_in() -> Any:
    """Return a user whom no row belongs to."""
    return _StandIn(_make_user)


def _make_user() -> Any:
    users = get_user_model()
    key: Any = users._meta.pk
    with suppress(ValidationError):
        return users(pk=key.to_python(0))
    return users(pk=key.get_default())
