"""Fields that tools show of an object: the columns of the admin's list, and the fields of its page."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import Any

from django.contrib.admin.options import InlineModelAdmin
from django.contrib.admin.utils import label_for_field, lookup_field
from django.core.exceptions import FieldDoesNotExist, ObjectDoesNotExist
from django.db import DatabaseError
from django.db.models import (
    Field,
    ForeignKey,
    Model,
    Prefetch,
    QuerySet,
    prefetch_related_objects,
)

from django_mcp.contrib.generated import MAX_KEYS, TRUNCATED, TRUNCATED_SCHEMA, or_null
from django_mcp.contrib.modeladmin.access import AdminAccess
from django_mcp.contrib.modeladmin.computed import (
    cut_querysets,
    find_objects,
    find_paths,
    to_plain,
    without_objects,
)
from django_mcp.contrib.modeladmin.sensitive import (
    find_secrets_of_form,
    get_form_class,
    get_form_names,
    is_secret,
    is_secret_key,
)
from django_mcp.contrib.models.followed import read_each
from django_mcp.contrib.models.paths import can_prefetch, is_to_many, takes_queryset
from django_mcp.contrib.models.schema import describe_field, read_value, read_values
from django_mcp.contrib.values import text_of
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject

TEXT = "text"
"""The name of what an object is called in the admin."""

FORM_HOOKS = (
    "get_exclude", "get_fields", "get_fieldsets", "get_form", "get_readonly_fields", "formfield_for_dbfield",
    "formfield_for_choice_field", "formfield_for_foreignkey", "formfield_for_manytomany",
)  # fmt: skip
"""The methods of a `ModelAdmin` that may give each user another form."""


class AdminShown:
    """Loads, reads and describes objects of a `ModelAdmin`.

    Args:
        access: decides which related objects are shown.
        request: one that may do everything.
        allow_sensitive: fields that are shown although they look like secrets.
    """

    def __init__(self, access: AdminAccess, request: Any, allow_sensitive: Collection[str]) -> None:
        self._access = access
        self._admin = access.model_admin
        self._allowed = allow_sensitive
        self._whole_request = request
        self._columns: dict[Any, _Column] = {}
        self._secrets: dict[str, bool] = {}
        self._page_names: list[Any] | None = None
        self._asks_user = access.overrides(*FORM_HOOKS)
        self.key = access.model._meta.pk
        self._read_key = read_value(self.key)
        meta = access.model._meta
        self._field_names = frozenset(
            model_field.name for model_field in (*meta.fields, *meta.many_to_many)
        )

    # -- which

    def names_of_list(self, request: Any) -> list[Any]:
        """Return the names of the columns that a user sees in the list."""
        return self._without_secrets(self._admin.get_list_display(request))

    def names_of_page(self, request: Any, obj: Any) -> list[Any]:
        """Return the names of the fields that a user sees on the page of an object."""
        if self._page_names is None or self._asks_user:
            names = get_form_names(self._admin, request, obj)
            left_out = set(self._admin.get_exclude(request, obj) or ())
            read_only = self._admin.get_readonly_fields(request, obj)
            # A field of the form alone has no value here, but the model or the admin may have a method of
            # its name, which does what the form is for: the field send_invitation stands for a button.
            known = self._field_names.union(read_only) - left_out
            names_shown = self._without_secrets(name for name in names if name in known)
            if self._asks_user:
                secrets = find_secrets_of_form(self._admin, request, obj, is_change=True)
                secrets -= set(self._allowed)
                return [name for name in names_shown if name not in secrets]
            self._page_names = names_shown
        return self._page_names

    def _without_secrets(self, names: Iterable[Any]) -> list[Any]:
        return [name for name in names if callable(name) or not self._is_secret(str(name))]

    def _is_secret(self, name: str) -> bool:
        known = self._secrets.get(name)
        if known is None:
            known = self._secrets[name] = is_secret(self._admin, name, self._allowed)
        return known

    def label_of(self, name: Any) -> str:
        """Return the name that a column has in results."""
        return self._column_of(name).label

    def find_columns(self, request: Any) -> dict[str, Any]:
        """Return the fields with a column that a user sees of every object, by name."""
        names = self.names_of_list(request)
        if not self._asks_user:
            names += self.names_of_page(request, self._access.sample)
        columns = [self._column_of(self.key.name), *self._columns_of(names)]
        return {column.label: column.field for column in columns if column.has_stored_values}

    # -- loading

    def load(self, rows: QuerySet[Any], names: Collection[Any]) -> QuerySet[Any]:
        """Return rows with the relations that are shown, to be read without further queries."""
        columns = self._columns_of(names)
        joined = [column.joined for column in columns if column.joined]
        fetched = [
            column.to_prefetch(self._form_fields) for column in columns if column.is_prefetched
        ]
        if joined:
            rows = rows.select_related(*joined)
        return rows.prefetch_related(*fetched) if fetched else rows

    def complete(self, instance: Any, names: Collection[Any]) -> None:
        """Load what is shown of one object and was not loaded with it."""
        loaded = vars(instance)
        missing = [
            column.to_prefetch(self._form_fields)
            for column in self._columns_of(names)
            if column.is_prefetched and column.loaded not in loaded
        ]
        if missing:
            prefetch_related_objects([instance], *missing)

    @cached_property
    def _form_fields(self) -> Mapping[str, Any]:
        """The fields of the form on the page of an object."""
        request, obj = self._whole_request, self._access.sample
        if isinstance(self._admin, InlineModelAdmin):
            obj = self._admin.parent_model()
        try:
            form = get_form_class(self._admin, request, obj, is_change=False)
            form_fields: Mapping[str, Any] = form().fields
        except Exception:
            logger.debug("The form of %s needs an object", self._admin, exc_info=True)
            return {}
        return form_fields

    # -- reading

    def read(
        self, request: Any, objects: Sequence[Any], names: Collection[Any]
    ) -> list[JSONObject]:
        """Return objects as JSON has them."""
        key, read_key = self.key.name, self._read_key
        values = [{key: read_key(instance)} for instance in objects]
        for column in self._columns_of(names):
            label, read = column.label, column.read_plain
            if read is not None:
                for result, value in zip(values, read(objects), strict=True):
                    result[label] = value
                continue
            for result, each, value in zip(
                values, objects, self._read_column(request, column, objects), strict=True
            ):
                if value is not _NOTHING:
                    result[label] = value
                if column.is_many and column.has_more(each):
                    result.setdefault(TRUNCATED, []).append(label)
        return values

    def _read_column(self, request: Any, column: _Column, objects: Sequence[Any]) -> list[Any]:
        """Return the values of a column that is more than a field of the model."""
        if column.is_relation:
            related = [column.find_related(instance) for instance in objects]
            others = chain.from_iterable(related)
            seen = self._access.see_related(request, column.relation.related_model, others)
            return read_each(
                related,
                lambda theirs: column.show_related(theirs, seen),
                lambda theirs: None if column.is_many or not theirs else theirs[0],
            )
        values = read_each(objects, lambda instance: column.compute(self._admin, instance))
        passed = [column.find_passed(self._admin, instance) for instance in objects]
        # What a column returns may be other objects, which are shown as their texts.
        told = [list(find_objects(value)) for value in values]
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
            else to_plain(without_objects(value, hidden))
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
        return [known.get(name) or self._column_of(name) for name in names]

    def _column_of(self, name: Any) -> _Column:
        column = self._columns.get(name)
        if column is None:
            column = _Column(self._access.model, name, self._allowed)
            if not callable(name):  # a function may be another one for each request
                self._columns[name] = column
        return column


_NOTHING = object()
"""The value of a column that an object does not have."""


class _Column:
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
            return _NOTHING
        if self.path == "__str__":
            return text_of(instance)
        try:
            _field, _attribute, value = lookup_field(self._name, instance, model_admin)
        except (AttributeError, ObjectDoesNotExist, ValueError):
            return _NOTHING
        except DatabaseError:
            raise  # its transaction is over
        except Exception:
            # Of the site, which fails for a row that it did not expect: the others are shown.
            logger.warning("The column %s of %s failed", self.label, model_admin, exc_info=True)
            return _NOTHING
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
