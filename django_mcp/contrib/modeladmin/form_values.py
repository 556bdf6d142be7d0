"""What the form of a `ModelAdmin` alone knows of an object: its fields that are none of the model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django import forms
from django.db import DatabaseError
from django.forms.utils import pretty_name
from django.utils.text import capfirst

from django_mcp.contrib.modeladmin.access import UPDATE, AdminAccess
from django_mcp.contrib.modeladmin.computed import to_plain
from django_mcp.contrib.modeladmin.sensitive import (
    get_form_class,
    get_form_names,
    is_secret,
    is_secret_field,
)
from django_mcp.forms import data_of_initial, find_chosen, offered_fields
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject


class FormValues:
    """Reads the values that the form on the page of an object starts with.

    Args:
        access: decides who may change an object, and so is shown its form.
        request: one that may do everything.
        shown: names of what is shown of an object otherwise.
        allow_sensitive: names of fields that look like secrets and are none.
    """

    def __init__(
        self,
        access: AdminAccess,
        request: Any,
        shown: Collection[str],
        allow_sensitive: Collection[str],
    ) -> None:
        self._access = access
        self._allowed = allow_sensitive
        meta = access.model._meta
        self._left_out = {*shown, *(each.name for each in (*meta.fields, *meta.many_to_many))}
        self._fields: dict[str, Any] = {}
        try:
            sample = access.sample
            cls = get_form_class(access.model_admin, request, sample, is_change=False)
            fields = cls.base_fields
            if cls.__init__ is forms.ModelForm.__init__ and not self._find_own(
                fields, request, sample
            ):
                return  # without a copy of all fields
            fields = cls(instance=sample).fields
            own = self._find_own(fields, request, sample)
        except Exception:
            # It may need an object of the site. What its page shows is then that of the model.
            logger.debug("No form of %s", access.model_admin, exc_info=True)
            return
        self._fields = {name: fields[name] for name in own}

    def _find_own(self, fields: Any, request: Any, obj: Any) -> list[str]:
        """Return the names of the fields on the page of an object that are of the form alone.

        A form keeps the fields that its class declares, also those that the page leaves out.
        """
        admin = self._access.model_admin
        on_page = set(get_form_names(admin, request, obj))
        return [
            name
            for name in offered_fields(fields, self._left_out, self._allowed)
            if name in on_page
            and (
                name in self._allowed
                or not (is_secret_field(fields[name]) or is_secret(admin, name, self._allowed))
            )
        ]

    @property
    def outputs(self) -> JSONObject:
        """The schemas of the values, by name."""
        return {
            name: {"title": str(capfirst(field.label) if field.label else pretty_name(name))}
            for name, field in self._fields.items()
        }

    def read(self, request: Any, instance: Any) -> JSONObject:
        """Return the values of an object, for a user who may change it; None for those without one."""
        if not self._fields or not self._access.allows(request, UPDATE, instance):
            return {}
        try:
            cls = get_form_class(self._access.model_admin, request, instance, is_change=True)
            form = cls(instance=instance)
            values = {}
            for name in self._find_own(form.fields, request, instance):
                if name in self._fields:
                    field = form.fields[name]
                    initial = form.get_initial_for_field(field, name)
                    value = None if initial is None else data_of_initial(field, initial)
                    values[name] = to_plain(self._leave_out_hidden(request, field, value))
            return values
        except DatabaseError:
            raise  # its transaction is over
        except Exception:
            # Of the site, which fails for an object that it did not expect.
            logger.warning("The form of %s failed", self._access.model_admin, exc_info=True)
            return {}

    def _leave_out_hidden(self, request: Any, field: Any, value: Any) -> Any:
        """Return the value of a field without objects that the user may not see; None in place of one."""
        if value is None or not hasattr(field, "queryset"):
            return value
        chosen = find_chosen(field, value, field.queryset.model._base_manager.all())
        name = getattr(field, "to_field_name", None) or "pk"
        seen = {str(getattr(each, name)) for each in self._access.find_related(request, chosen)}
        if isinstance(value, list | tuple):
            return [key for key in value if str(key) in seen]
        return value if str(value) in seen else None
