"""One field or column that tools show of an object: how it is loaded, computed and described."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.contrib.admin.utils import label_for_field, lookup_field
from django.core.exceptions import FieldDoesNotExist, ObjectDoesNotExist
from django.db import DatabaseError
from django.db.models import Field, ForeignKey, Model, Prefetch

from django_mcp.contrib.generated import MAX_KEYS
from django_mcp.contrib.modeladmin.computed import cut_querysets, find_paths, to_plain
from django_mcp.contrib.modeladmin.sensitive import is_secret_key
from django_mcp.contrib.models.paths import can_prefetch, is_to_many, takes_queryset
from django_mcp.contrib.models.schema import describe_field, read_values
from django_mcp.forms.values import text_of
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import or_null

TEXT = "text"
"""The name of what an object is called in the admin."""

NOTHING = object()
"""The value of a column that an object does not have."""


class AdminColumn:
    """One thing that is shown of an object.

    Attributes:
        label: its name in results.
        field: the field of the model; None, if it is computed or of another model.
        relation: the relation that it goes through first; None, if there is none.
        is_relation: whether it is a relation of the model itself.
        is_prefetched: whether it is a to-many relation whose rows can be prefetched.
        loaded: the attribute of an instance that has the objects of a to-many relation, up to one more
            than are shown. Computed columns may still read all of them by the name of the relation.
        joined: the path of the relations that lead to it, as far as rows can be joined; "": none.
        read_plain: reads its values from instances, if that takes no more than these.
    """

    def __init__(self, model: type[Model], name: Any, allowed: Collection[str]) -> None:
        self._name = name
        self.field: Any = None
        self.relation: Any = None
        self.path = "" if callable(name) else str(name)
        self.label = getattr(name, "__name__", "") if callable(name) else str(name)
        if self.label == "__str__":
            self.label = TEXT
        self._whole = "" if self.path == "__str__" else self.path
        first, _separator, self._below = self.path.partition("__")
        field = None if not first else _find_field(model, first)
        if field is None:
            self._below = ""
        elif field.is_relation:
            self.relation, self.path = field, first
            self.field = None if self._below else field
        elif not self._below:
            self.field = field
        self.is_many = self.relation is not None and is_to_many(self.relation)
        # The manager of another package loads the rows.
        self._is_own = self.is_many and not takes_queryset(model, self.relation)
        self.is_prefetched = self.is_many and can_prefetch(model, self.relation)
        self.loaded = f"mcp_objects_of_{self.path}"
        self.is_relation = self.relation is not None and not self._below
        self.joined = "" if self.is_many else _find_joined(model, self._whole)
        other = None if self.relation is None else self.relation.related_model
        self._hides_key = other is not None and is_secret_key(other, allowed)
        self.read_plain: Callable[[Sequence[Any]], list[Any]] | None = None
        self._is_bytes = False
        if self.field is not None and self.relation is None:
            self._is_bytes = self.field.get_internal_type() == "BinaryField"
            self.read_plain = None if self._is_bytes else read_values(self.field)

    @property
    def has_stored_values(self) -> bool:
        """Whether what is shown is stored in a column of the model."""
        if self.is_relation:
            return not (self.is_many or self._hides_key) and self.field is not None
        return self.read_plain is not None

    def to_prefetch(self, form_fields: Mapping[str, Any]) -> Prefetch[Any] | str:
        """Return what loads a to-many relation, with what the form of the admin would join."""
        if self._is_own:
            return self.path
        rows = self.relation.related_model._default_manager.all()
        offered = getattr(form_fields.get(self.path), "queryset", None)
        if offered is not None:
            rows.query.select_related = offered.query.select_related
        rows = rows if rows.ordered else rows.order_by("pk")
        query = rows.query
        # Django cannot load a part of these.
        is_whole = (
            hasattr(self.relation, "object_id_field_name")  # a GenericRelation
            or query.distinct
            or query.group_by
            or query.combinator
        )
        cut = rows if is_whole else rows[: MAX_KEYS + 1]
        return Prefetch(self.path, cut, to_attr=self.loaded)

    def find_related(self, instance: Any) -> list[Any]:
        """Return the objects that the relation leads to."""
        if self.is_many:
            return list(self._rows_of(instance)[:MAX_KEYS])
        try:
            related = getattr(instance, self.path, None)
        except ObjectDoesNotExist:
            related = None
        return [] if related is None else [related]

    def has_more(self, instance: Any) -> bool:
        """Return whether the to-many relation leads to more objects than are shown."""
        return len(self._rows_of(instance)) > MAX_KEYS

    def _rows_of(self, instance: Any) -> Any:
        return (
            getattr(instance, self.path).all() if self._is_own else getattr(instance, self.loaded)
        )

    def find_passed(self, model_admin: Any, instance: Any) -> list[Model]:
        """Return the objects that a path leads through, and ends at: that of the name, or those of its order.

        A computed column that says what it is ordered by tells of that.
        """
        passed: list[Model] = []
        for path in self._find_paths(model_admin):
            current: Any = instance
            for part in path.split("__"):
                current = _follow(current, part)
                if isinstance(current, Model):
                    passed.append(current)
                if current is None or hasattr(current, "get_queryset"):
                    # Nothing, or the manager of several objects.
                    break
        return passed

    def _find_paths(self, model_admin: Any) -> list[str]:
        if "__" in self._whole.strip("_"):
            return [self._whole]
        computes = self._name if callable(self._name) else None
        if self._whole:
            computes = getattr(model_admin, self._whole, None)
            computes = computes or getattr(model_admin.model, self._whole, None)
        computes = getattr(computes, "fget", None) or computes
        order = getattr(computes, "admin_order_field", "")
        return [order.removeprefix("-")] if isinstance(order, str) else list(find_paths(order))

    def show_related(self, related: Sequence[Any], seen: Collection[Any]) -> Any:
        """Return those of the related objects that the user sees, or the key of one that is hidden.

        Args:
            related: what `find_related` has found.
            seen: the keys of those that the user sees.
        """
        shown = [
            {
                "pk": None if self._hides_key else to_plain(instance.pk),
                TEXT: self._text_of(instance) if instance.pk in seen else None,
            }
            for instance in related
            if not self.is_many or instance.pk in seen
        ]
        if self.is_many:
            return shown
        return shown[0] if shown else None

    def _text_of(self, related: Any) -> str | None:
        """Return what a related object is called; None, if that tells a key which is a secret."""
        text = text_of(related)
        return None if self._hides_key and str(related.pk) in (text or "") else text

    def compute(self, model_admin: Any, instance: Any) -> Any:
        """Return the value that the admin shows; lists of objects are cut."""
        if self._is_bytes:
            return NOTHING
        if self.path == "__str__":
            return text_of(instance)
        try:
            _field, _attribute, value = lookup_field(self._name, instance, model_admin)
        except (AttributeError, ObjectDoesNotExist, ValueError):
            return NOTHING
        except DatabaseError:
            raise  # its transaction is over
        except Exception:
            # Of the site, which fails for a row that it did not expect: the others are shown.
            logger.warning("The column %s of %s failed", self.label, model_admin, exc_info=True)
            return NOTHING
        return cut_querysets(value)

    def describe(self, model_admin: Any) -> JSONObject:
        if self.read_plain is not None:
            return describe_field(self.field, is_input=False)
        if self.is_relation:
            schema: JSONObject = {
                "type": "object",
                "properties": {
                    "pk": {},
                    TEXT: {
                        "type": ["string", "null"],
                        "description": "null, if you may not see it.",
                    },
                },
            }
            title = {"title": getattr(self.field, "verbose_name", self.label)}
            if self.is_many:
                return {"type": "array", "items": schema, **title}
            return {**or_null(schema), **title}
        try:
            label: Any = label_for_field(self._name, model_admin.model, model_admin)
        except (AttributeError, FieldDoesNotExist):
            label = self.label
        return {"title": str(label)}


def _find_field(model: type[Model], name: str) -> Any:
    try:
        field: Any = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    if not field.is_relation:
        return field
    # Like the admin, which shows neither reverse nor generic relations as fields.
    is_shown = isinstance(field, Field) and field.related_model is not None and field.name == name
    return field if is_shown else None


def _follow(instance: Any, name: str) -> Any:
    """Return what a part of a path leads to; None: nothing. The column of a foreign key leads to its object."""
    if isinstance(instance, Model):
        with suppress(FieldDoesNotExist):
            field: Any = instance._meta.get_field(name)
            name = field.name if isinstance(field, ForeignKey) else name
    try:
        return getattr(instance, name, None) if name else None
    except ObjectDoesNotExist:
        return None


def _find_joined(model: type[Model], path: str) -> str:
    """Return the relations at the start of a path that lead to one object each."""
    names: list[str] = []
    current: Any = model
    for part in path.split("__"):
        field = _find_field(current, part) if part else None
        if field is None or not field.is_relation or is_to_many(field):
            break
        names.append(part)
        current = field.related_model
    return "__".join(names)
