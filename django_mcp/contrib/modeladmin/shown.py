"""Fields that tools show of an object: the columns of the admin's list, and the fields of its page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from functools import cached_property
from itertools import chain, islice
from typing import Any

from django.contrib.admin.utils import flatten_fieldsets, label_for_field, lookup_field
from django.core.exceptions import FieldDoesNotExist, ObjectDoesNotExist
from django.db.models import Field, Model, Prefetch, QuerySet, prefetch_related_objects
from django.utils.html import strip_tags

from django_mcp.contrib.generated import MAX_KEYS, TRUNCATED, TRUNCATED_SCHEMA, or_null
from django_mcp.contrib.modeladmin.access import Access
from django_mcp.contrib.modeladmin.sensitive import find_secrets_of_form, is_secret, is_secret_key
from django_mcp.contrib.models.paths import is_to_many
from django_mcp.contrib.models.schema import describe_field, read_value
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject

TEXT = "text"
"""The name of what an object is called in the admin."""

_FORM_HOOKS = (
    "get_exclude", "get_fields", "get_fieldsets", "get_form", "get_readonly_fields", "formfield_for_dbfield",
    "formfield_for_choice_field", "formfield_for_foreignkey", "formfield_for_manytomany",
)  # fmt: skip


class Shown:
    """Loads, reads and describes objects of a `ModelAdmin`.

    Args:
        access: decides which related objects are shown.
        request: one that may do everything.
        allow_sensitive: fields that are shown although they look like secrets.
    """

    def __init__(self, access: Access, request: Any, allow_sensitive: Collection[str]) -> None:
        self._access = access
        self._admin = access.model_admin
        self._allowed = allow_sensitive
        self._whole_request = request
        self._columns: dict[Any, _Column] = {}
        self._page_names: list[Any] | None = None
        self._asks_user = access.overrides(*_FORM_HOOKS)
        self.key = access.model._meta.pk
        self._read_key = read_value(self.key)

    # -- which

    def names_of_list(self, request: Any) -> list[Any]:
        """Return the names of the columns that a user sees in the list."""
        return self._without_secrets(self._admin.get_list_display(request))

    def names_of_page(self, request: Any, obj: Any) -> list[Any]:
        """Return the names of the fields that a user sees on the page of an object."""
        if self._page_names is None or self._asks_user:
            names = flatten_fieldsets(self._admin.get_fieldsets(request, obj))
            left_out = set(self._admin.get_exclude(request, obj) or ())
            found = self._without_secrets(name for name in names if name not in left_out)
            if self._asks_user:
                secrets = find_secrets_of_form(self._admin, request, obj, is_change=True)
                secrets -= set(self._allowed)
                return [name for name in found if name not in secrets]
            self._page_names = found
        return self._page_names

    def _without_secrets(self, names: Iterable[Any]) -> list[Any]:
        return [
            name
            for name in names
            if callable(name) or not is_secret(self._admin, str(name), self._allowed)
        ]

    # -- loading

    def load(self, rows: QuerySet[Any], names: Collection[Any]) -> QuerySet[Any]:
        """Return rows with the relations that are shown, to be read without further queries."""
        columns = self._columns_of(names)
        joined = [each.joined for each in columns if each.joined]
        fetched = [each.to_prefetch(self._form_fields) for each in columns if each.is_many]
        if joined:
            rows = rows.select_related(*joined)
        return rows.prefetch_related(*fetched) if fetched else rows

    def complete(self, instance: Any, names: Collection[Any]) -> None:
        """Load what is shown of one object and was not loaded with it."""
        loaded = vars(instance)
        missing = [
            each.to_prefetch(self._form_fields)
            for each in self._columns_of(names)
            if each.is_many and each.loaded not in loaded
        ]
        if missing:
            prefetch_related_objects([instance], *missing)

    @cached_property
    def _form_fields(self) -> Mapping[str, Any]:
        """The fields of the form on the page of an object."""
        request, obj = self._whole_request, self._access.model()
        try:
            form = self._admin.get_form(request, obj, change=False)
            found: Mapping[str, Any] = form().fields
        except Exception:
            logger.debug("The form of %s needs an object", self._admin, exc_info=True)
            return {}
        return found

    # -- reading

    def read(
        self, request: Any, objects: Sequence[Any], names: Collection[Any]
    ) -> list[JSONObject]:
        """Return objects as JSON has them."""
        key, read_key = self.key.name, self._read_key
        found = [{key: read_key(each)} for each in objects]
        for column in self._columns_of(names):
            label, read = column.label, column.read_plain
            if read is not None:
                for result, each in zip(found, objects, strict=True):
                    result[label] = read(each)
                continue
            for result, each, value in zip(
                found, objects, self._read_column(request, column, objects), strict=True
            ):
                if value is not _NOTHING:
                    result[label] = value
                if column.is_many and column.has_more(each):
                    result.setdefault(TRUNCATED, []).append(label)
        return found

    def _read_column(self, request: Any, column: _Column, objects: Sequence[Any]) -> list[Any]:
        """Return the values of a column that is more than a field of the model."""
        if column.is_relation:
            others = [other for each in objects for other in column.find_related(each)]
            seen = self._access.see_related(request, column.relation.related_model, others)
            return [column.read_related(each, seen) for each in objects]
        values = [column.compute(self._admin, each) for each in objects]
        passed = [column.find_passed(self._admin, each) for each in objects]
        # What a column returns may be other objects, which are shown as their texts.
        told = [list(_find_objects(value)) for value in values]
        judged = {
            other
            for instance, theirs in zip(objects, map(chain, passed, told), strict=True)
            for other in theirs
            if other is not instance and other.pk is not None
        }
        hidden = judged - self._access.see_all(request, judged)
        return [
            _NOTHING
            if value is _NOTHING
            else None
            if not hidden.isdisjoint(by)
            else to_plain(_without(value, hidden))
            for value, by in zip(values, passed, strict=True)
        ]

    # -- describing

    def describe(self, names: Collection[Any]) -> JSONObject:
        """Return the schema of an object that is shown; a user may see fewer fields."""
        properties = {self.key.name: describe_field(self.key, is_input=False)}
        for column in self._columns_of(names):
            properties[column.label] = column.describe(self._admin)
            if column.is_many:
                properties.setdefault(TRUNCATED, TRUNCATED_SCHEMA)
        return {"type": "object", "properties": properties, "required": [self.key.name]}

    def _columns_of(self, names: Collection[Any]) -> list[_Column]:
        known = self._columns
        for name in names:
            if name not in known:
                known[name] = _Column(self._access.model, name, self._allowed)
        return [known[name] for name in names]


_NOTHING = object()
"""The value of a column that an object does not have."""


def _find_objects(value: Any) -> Iterator[Model]:
    """Yield the objects in a computed value."""
    if isinstance(value, Model):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_find_objects, value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from chain.from_iterable(map(_find_objects, islice(value, MAX_KEYS)))


def _without(value: Any, hidden: Collection[Model]) -> Any:
    """Return a computed value without the objects that are hidden."""
    if not hidden:
        return value
    if isinstance(value, Model):
        return None if value in hidden else value
    if isinstance(value, Mapping):
        return {key: _without(each, hidden) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        kept = islice(value, MAX_KEYS)
        return [_without(e, hidden) for e in kept if not (isinstance(e, Model) and e in hidden)]
    return value


class _Column:
    """One thing that is shown of an object.

    Attributes:
        label: its name in results.
        field: the field of the model; None, if it is computed or of another model.
        relation: the relation that it goes through first; None, if there is none.
        is_relation: whether it is a relation of the model itself.
        loaded: the attribute of an instance that has the objects of a to-many relation, up to one more
            than are shown. Computed columns may still read all of them by the name of the relation.
        joined: the path of the relations that lead to it, as far as rows can be joined; "": none.
        read_plain: reads its value from an instance, if that takes no more than the instance.
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
        found = None if not first else _find_field(model, first)
        if found is None:
            self._below = ""
        elif found.is_relation:
            self.relation, self.path = found, first
            self.field = None if self._below else found
        elif not self._below:
            self.field = found
        self.is_many = self.relation is not None and is_to_many(self.relation)
        self.loaded = f"mcp_objects_of_{self.path}"
        self.is_relation = self.relation is not None and not self._below
        self.joined = "" if self.is_many else _find_joined(model, self._whole)
        other = None if self.relation is None else self.relation.related_model
        self._hides_key = other is not None and is_secret_key(other, allowed)
        self.read_plain: Callable[[Any], Any] | None = None
        self._is_bytes = False
        if self.field is not None and self.relation is None:
            self._is_bytes = self.field.get_internal_type() == "BinaryField"
            self.read_plain = None if self._is_bytes else read_value(self.field)

    def to_prefetch(self, form_fields: Mapping[str, Any]) -> Prefetch[Any]:
        """Return what loads a to-many relation, with what the form of the admin would join."""
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
            return list(getattr(instance, self.loaded)[:MAX_KEYS])
        try:
            found = getattr(instance, self.path, None)
        except ObjectDoesNotExist:
            found = None
        return [] if found is None else [found]

    def has_more(self, instance: Any) -> bool:
        """Return whether the to-many relation leads to more objects than are shown."""
        return len(getattr(instance, self.loaded)) > MAX_KEYS

    def find_passed(self, model_admin: Any, instance: Any) -> list[Model]:
        """Return the objects that a path leads through, and ends at: that of the name, or of its order.

        A computed column that says what it is ordered by tells of that.
        """
        found: list[Model] = []
        current: Any = instance
        for part in self._find_path(model_admin).split("__"):
            try:
                current = getattr(current, part, None) if part else None
            except ObjectDoesNotExist:
                current = None
            if isinstance(current, Model):
                found.append(current)
            if current is None or hasattr(current, "get_queryset"):
                # Nothing, or the manager of several objects.
                break
        return found

    def _find_path(self, model_admin: Any) -> str:
        if "__" in self._whole.strip("_"):
            return self._whole
        computes = self._name if callable(self._name) else None
        if self._whole:
            computes = getattr(model_admin, self._whole, None)
            computes = computes or getattr(model_admin.model, self._whole, None)
        computes = getattr(computes, "fget", None) or computes
        path = getattr(computes, "admin_order_field", "")
        return path.removeprefix("-") if isinstance(path, str) else ""

    def read_related(self, instance: Any, seen: Collection[Any]) -> Any:
        """Return the related objects that the user sees, or the key of one that is hidden."""
        found = self.find_related(instance)
        shown = [
            {
                "pk": None if self._hides_key else to_plain(each.pk),
                TEXT: str(each) if each.pk in seen else None,
            }
            for each in found
            if not self.is_many or each.pk in seen
        ]
        if self.is_many:
            return shown
        return shown[0] if shown else None

    def compute(self, model_admin: Any, instance: Any) -> Any:
        """Return the value that the admin shows; lists of objects are cut."""
        if self._is_bytes:
            return _NOTHING
        try:
            _field, _attribute, value = lookup_field(self._name, instance, model_admin)
        except (AttributeError, ObjectDoesNotExist, ValueError):
            return _NOTHING if self.label != TEXT else str(instance)
        return _cut(value) if isinstance(value, QuerySet) else value

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
        found: Any = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    if not found.is_relation:
        return found
    # Like the admin, which shows neither reverse nor generic relations as fields.
    is_shown = isinstance(found, Field) and found.related_model is not None and found.name == name
    return found if is_shown else None


def _find_joined(model: type[Model], path: str) -> str:
    """Return the relations at the start of a path that lead to one object each."""
    names: list[str] = []
    current: Any = model
    for part in path.split("__"):
        found = _find_field(current, part) if part else None
        if found is None or not found.is_relation or is_to_many(found):
            break
        names.append(part)
        current = found.related_model
    return "__".join(names)


def _cut(rows: QuerySet[Any]) -> list[Any]:
    if not rows.query.is_sliced:
        rows = rows[:MAX_KEYS]  # in its query, unless it was evaluated
    return list(islice(rows, MAX_KEYS))


def to_plain(value: Any) -> Any:
    """Return a computed value as JSON has it; what has no form there, and HTML, as text."""
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "__html__"):
        return html.unescape(strip_tags(value.__html__()))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, QuerySet):
        value = _cut(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(each) for each in islice(value, MAX_KEYS)]
    return str(value)
