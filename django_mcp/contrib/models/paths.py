"""Paths of model fields, such as `customer__username`, as the options of `ModelTools` have them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db.models import ForeignKey, ForeignObjectRel, Model

from django_mcp.registry.problems import did_you_mean, find_near
from django_mcp.registry.secret_names import find_sensitive, split_words


class PathError(Exception):
    """A path leads nowhere; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Path:
    """A path of fields.

    Attributes:
        text: as written.
        fields: from the model on; the last one may be a relation.
        rest: what follows the fields: transforms and a lookup.
    """

    text: str
    fields: tuple[Any, ...]
    rest: tuple[str, ...] = ()

    @property
    def field(self) -> Any:
        """The last field."""
        return self.fields[-1]

    @property
    def is_to_many(self) -> bool:
        """Whether one row has several values."""
        return any(is_to_many(field) for field in self.fields)

    @property
    def is_nullable(self) -> bool:
        """Whether a row may have no value."""
        return any(field.null or isinstance(field, ForeignObjectRel) for field in self.fields)

    @property
    def lookup(self) -> str:
        """The path of the fields alone."""
        return "__".join(field.name for field in self.fields)


def read_path(model: type[Model], text: str) -> Path:
    """Return the path of fields that begins at a model.

    Raises:
        PathError: it begins with no field of the model.
    """
    fields: list[Any] = []
    parts = text.split("__")
    current: Any = model
    while parts and current is not None:
        try:
            field = current._meta.pk if parts[0] == "pk" else current._meta.get_field(parts[0])
        except FieldDoesNotExist:
            break
        if field.is_relation and field.related_model is None:
            raise PathError(f"{text!r} goes through {parts[0]!r}, which may be of any model")
        fields.append(field)
        parts.pop(0)
        current = field.related_model if field.is_relation else None
    if not fields:
        name = text.split("__")[0]
        near = name_near(name, field_names(model))
        raise PathError(f"{model._meta.label} has no field {name!r}{near}")
    return Path(text=text, fields=tuple(fields), rest=tuple(parts))


def read_whole_path(model: type[Model], text: str) -> Path:
    """Return a path that has to end with a field; raises `PathError` if it does not."""
    path = read_path(model, text)
    if path.rest:
        related = path.field.related_model if path.field.is_relation else None
        near = "" if related is None else name_near(path.rest[0], field_names(related))
        raise PathError(f"{path.lookup!r} has no field {path.rest[0]!r}{near}")
    return path


def field_names(model: type[Model]) -> list[str]:
    """Return the names of the fields of a model, those of relations that lead to it included."""
    return [field.name for field in model._meta.get_fields()]


def name_near(name: str, known: Iterable[str]) -> str:
    """Return which known names are like a wrong one, as the end of a sentence, or an empty text."""
    near = find_near(name, known, most=2)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def is_to_many(field: Any) -> bool:
    """Return whether a relation leads to several rows."""
    return bool(field.many_to_many or field.one_to_many)


def takes_queryset(model: type[Model], relation: Any) -> bool:
    """Return whether Django loads the rows of a to-many relation, which can be told what to load.

    Managers of other packages load their rows in a way of their own, such as those of tags.
    """
    return _is_of_django(_find_prefetch(model, relation))


def can_prefetch(model: type[Model], relation: Any) -> bool:
    """Return whether the rows of a to-many relation can be prefetched."""
    return _find_prefetch(model, relation) is not None


def _find_prefetch(model: type[Model], relation: Any) -> Any:
    """Return the method that prefetches the rows of a to-many relation; None, if its manager has none."""
    is_reverse = isinstance(relation, ForeignObjectRel)
    accessor = (relation.get_accessor_name() if is_reverse else relation.name) or ""
    descriptor = inspect.getattr_static(model, accessor, None)
    manager = None
    if _is_of_django(getattr(type(descriptor), "__get__", None)):
        manager = getattr(descriptor, "related_manager_cls", None)
    if manager is None:
        with suppress(Exception):  # of a package that needs more than an instance with a key
            instance = model()
            instance.pk = 1
            manager = getattr(instance, accessor)
    return getattr(manager, "get_prefetch_querysets", None)


def _is_of_django(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "django"


def find_unknown_fields(names: Iterable[str], others: Collection[str] = ()) -> dict[str, str]:
    """Return those names, or paths, that no field of any model can be meant by, with the sentence of the nearest.

    Args:
        names: as an option gives them, without a model. A look-up may follow, as in those of filters.
        others: that are known too, such as those of the fields of a form.
    """
    models = apps.get_models(include_auto_created=True)
    fields = [field for model in models for field in model._meta.get_fields()]
    known = {"pk", *others}
    known.update(
        name for field in fields for name in (field.name, getattr(field, "attname", field.name))
    )
    one_of_each: Iterable[Any] = {type(field): field for field in fields}.values()
    lookups = {
        name for field in one_of_each for name in getattr(field, "get_lookups", dict[str, Any])()
    }

    def is_known(name: str) -> bool:
        first, *further = name.split("__")
        return name in known or (first in known and (known | lookups).issuperset(further))

    return {name: did_you_mean(name, known) for name in names if not is_known(name)}


def has_secret_values(field: Any, allowed: Collection[str] = ()) -> bool:
    """Return whether the values of a field are secrets, whatever it is called: those that identify a token.

    A relation has the values of another field, and so has the primary key of a child model.

    Args:
        field: of a model.
        allowed: names of other fields that look like secrets and are none.
    """
    while field.is_relation and field.related_model is not None:
        is_key = isinstance(field, ForeignKey)
        field = field.target_field if is_key else field.related_model._meta.pk
        if field.name in allowed:
            return False
        if find_sensitive(field.name, ()) is not None:
            return True
    # A text that identifies a token is the token.
    is_text = field.get_internal_type() in ("CharField", "TextField")
    words = split_words(field.model._meta.object_name)
    is_identity = is_text and getattr(field, "primary_key", False)
    return is_identity and find_sensitive(words, ()) is not None
