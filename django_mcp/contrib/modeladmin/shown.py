"""Fields that tools show of an object: the columns of the admin's list, and the fields of its page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from django.contrib.admin.options import InlineModelAdmin
from django.db.models import QuerySet, prefetch_related_objects

from django_mcp.contrib.generated import TRUNCATED, TRUNCATED_SCHEMA
from django_mcp.contrib.modeladmin.access import AdminAccess
from django_mcp.contrib.modeladmin.columns import NOTHING, AdminColumn
from django_mcp.contrib.modeladmin.computed import find_objects, to_plain, without_objects
from django_mcp.contrib.modeladmin.sensitive import (
    find_secrets_of_form,
    get_form_class,
    get_form_names,
    is_secret,
)
from django_mcp.contrib.models.followed import read_each
from django_mcp.contrib.models.schema import describe_field, read_value
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject

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
        self._columns: dict[Any, AdminColumn] = {}
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
                if value is not NOTHING:
                    result[label] = value
                if column.is_many and column.has_more(each):
                    result.setdefault(TRUNCATED, []).append(label)
        return values

    def _read_column(self, request: Any, column: AdminColumn, objects: Sequence[Any]) -> list[Any]:
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
            NOTHING
            if value is NOTHING
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

    def _columns_of(self, names: Collection[Any]) -> list[AdminColumn]:
        known = self._columns
        return [known.get(name) or self._column_of(name) for name in names]

    def _column_of(self, name: Any) -> AdminColumn:
        column = self._columns.get(name)
        if column is None:
            column = AdminColumn(self._access.model, name, self._allowed)
            if not callable(name):  # a function may be another one for each request
                self._columns[name] = column
        return column
