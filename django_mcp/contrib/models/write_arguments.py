"""Arguments of the tools that write a model: its form, their schemas, its version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django import forms
from django.core.exceptions import FieldError, ValidationError
from django.db import models
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors, ToolError
from django_mcp.contrib.models.schema import describe_field
from django_mcp.contrib.models.shown import Shown
from django_mcp.contrib.rights import find_rights
from django_mcp.forms import FormProblem, Tell, by_keys_alone, form_schema
from django_mcp.forms.values import to_python
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import Problem
from django_mcp.server.asking.confirming import CONFIRMATION, CONFIRMATION_SCHEMA

HINTS: dict[str, dict[str, bool]] = {
    "create": {"destructive": False},
    "update": {"idempotent": True},
    "delete": {"destructive": True, "idempotent": True},
}
"""The actions that write, with the hints of their tools."""

IF_UNMODIFIED = "if_unmodified"

VERSION_NAMES = frozenset(
    {
        "changed_at", "etag", "last_modified", "last_updated", "lock_version", "modified", "modified_at",
        "modified_on", "revision", "row_version", "updated", "updated_at", "updated_on", "version",
    }
)  # fmt: skip
"""Fields of these names change with each change of the object."""


class WriteProblem(Exception):
    """The options for writing are wrong. The text says why, `hint` what to write instead."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


class WriteOptions(Protocol):
    """The options of a `ModelTools` class that say what its tools write."""

    model: type[models.Model]
    fields: Sequence[str]
    allow_sensitive: Sequence[str]
    writes: Sequence[str]
    writable: Sequence[str] | None
    form: Any
    version_field: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What the options for writing come to.

    Attributes:
        form: the `ModelForm` class that writes; None, if objects are only deleted.
        key: the field that says which object is meant.
        version: the field that changes with each change of the object; None, if there is none.
        allow_sensitive: fields that callers may fill in although they look like secrets.
    """

    form: Any
    key: Any
    version: Any
    allow_sensitive: Sequence[str]

    @property
    def kept(self) -> tuple[str, ...]:
        """The fields that an update does not change, since they say which object is meant."""
        return (self.key.name, self.key.model._meta.pk.name)

    def describe(self, action: str, key_schema: JSONObject, tell: Tell) -> JSONObject:
        """Return the input schema of the tool of an action; `tell` says what its relations take."""
        if action == "create":
            return self.create_schema(tell)
        if action == "update":
            return self.update_schema(key_schema, tell)
        return self.delete_schema(key_schema)

    def create_schema(self, tell: Tell) -> JSONObject:
        """Return the input schema of the tool that makes an object."""
        return form_schema(self.form, allow_sensitive=self.allow_sensitive, tell=tell)

    def update_schema(self, key_schema: JSONObject, tell: Tell) -> JSONObject:
        """Return the input schema of the tool that changes an object."""
        schema = self._form_schema(tell)
        properties: JSONObject = {self.key.name: key_schema, **schema["properties"]}
        required = [self.key.name, *schema.get("required", ())]
        if self.version is not None:
            required.append(IF_UNMODIFIED)
            properties[IF_UNMODIFIED] = describe_version(self.version)
        return object_schema(properties, required=required)

    def _form_schema(self, tell: Tell) -> JSONObject:
        return form_schema(
            self.form,
            is_partial=True,
            exclude=self.kept,
            allow_sensitive=self.allow_sensitive,
            tell=tell,
        )

    def values_schemas(self, tell: Tell) -> JSONObject:
        """Return the schemas of the fields that an update of several objects changes, by name.

        Their relations take keys alone.
        """
        schemas: JSONObject = self._form_schema(by_keys_alone(tell))["properties"]
        return schemas

    def delete_schema(self, key_schema: JSONObject) -> JSONObject:
        """Return the input schema of the tool that deletes an object."""
        return object_schema(
            {self.key.name: key_schema, CONFIRMATION: CONFIRMATION_SCHEMA}, required=[self.key.name]
        )


def read_written(options: WriteOptions, shown: Shown, key: Any) -> Written:
    """Return what the options for writing come to.

    Raises:
        WriteProblem: they are wrong.
    """
    unknown = [action for action in options.writes if action not in HINTS]
    if unknown:
        raise WriteProblem(
            f"writes names {unknown[0]!r}", f"Name some of {', '.join(map(repr, HINTS))}."
        )
    version = _find_version(options, shown)
    form = None
    if set(options.writes) - {"delete"}:
        form = options.form or _make_form(options, shown, version)
    written = Written(
        form=form, key=key, version=version, allow_sensitive=tuple(options.allow_sensitive)
    )
    if form is not None:
        _check_form(options, written)
    return written


def _find_version(options: WriteOptions, shown: Shown) -> Any:
    if options.version_field is not None:
        version_column = shown.columns.get(options.version_field)
        if version_column is None and options.version_field:
            raise WriteProblem(
                f"version_field names {options.version_field!r}, which is not a field among fields",
                "Add it to fields: callers have to know it.",
            )
        return version_column
    return next((column for column in shown.columns.values() if is_version(column)), None)


def is_version(field: Any) -> bool:
    """Return whether a field changes with each change of the object."""
    return field.name in VERSION_NAMES or getattr(field, "auto_now", False)


def describe_version(version: Any) -> JSONObject:
    """Return the schema of the argument `if_unmodified`."""
    description = f"{version.name} of the object as you have read it. If it is another by now, nothing is changed."
    return {**describe_field(version, is_input=False), "description": description}


def check_unmodified(version: Any, instance: Any, arguments: Mapping[str, Any]) -> None:
    """Check that an object is as its caller has read it; without a version, it always is.

    Raises:
        ArgumentErrors: `if_unmodified` is not a value of the field.
        ToolError: the object has another version.
    """
    if version is None:
        return
    given = arguments[IF_UNMODIFIED]
    try:
        known = None if given is None else to_python(version, given)
    except ValidationError:
        problem = Problem(to_pointer([IF_UNMODIFIED]), _("Enter a valid value."))
        raise ArgumentErrors([problem]) from None
    if known != getattr(instance, version.attname):
        raise ToolError(
            _("This was changed in the meantime, so nothing was written. Read it again.")
        )


def _make_form(options: WriteOptions, shown: Shown, version: Any) -> Any:
    names = options.writable
    if names is None:
        left_out = {getattr(version, "name", None), *find_rights(options.model, options.fields, ())}
        names = [
            name
            for name in options.fields
            if name not in left_out and _is_writable(shown, name, is_new="create" in options.writes)
        ]
    if not names:
        raise WriteProblem("there is no field to write", "Name some in writable.")
    try:
        return forms.modelform_factory(options.model, fields=list(names))
    except FieldError as error:
        raise WriteProblem(
            f"writable: {error}", "Name fields of the model that can be edited."
        ) from error


def _is_writable(shown: Shown, name: str, *, is_new: bool) -> bool:
    field = shown.columns.get(name) or (name in shown.related and shown.relations[name])
    if not isinstance(field, models.Field) or not getattr(field, "editable", False):
        return False
    if isinstance(field, models.ManyToManyField):
        through: Any = field.remote_field.through
        if not through._meta.auto_created:
            return False  # its rows may need more than the two objects
    if isinstance(field, models.FileField):
        # No argument carries a file, which a new object may need; the form says so.
        return is_new and not field.blank and not field.has_default()
    return field.formfield() is not None


def _check_form(options: WriteOptions, written: Written) -> None:
    form = written.form
    is_form = isinstance(form, type) and issubclass(form, forms.BaseModelForm)
    model = getattr(getattr(form, "_meta", None), "model", None)
    if not is_form or model is None or not issubclass(options.model, model):
        raise WriteProblem(
            f"form is no ModelForm of {options.model._meta.label}",
            "Give it Meta.model, or leave form out.",
        )
    if IF_UNMODIFIED in form.base_fields:
        raise WriteProblem(
            f"the form has a field {IF_UNMODIFIED!r}, the name of another argument", "Rename it."
        )
    if "create" in options.writes:
        try:
            options.model()
        except Exception as error:
            raise WriteProblem(
                f"an object of {options.model._meta.label} cannot be made without values: {error!r}",
                "Take create out of writes.",
            ) from error
    try:
        if "create" in options.writes:
            form_schema(form, allow_sensitive=written.allow_sensitive)
        if "update" in options.writes:
            form_schema(
                form,
                is_partial=True,
                exclude=written.kept,
                allow_sensitive=written.allow_sensitive,
            )
    except FormProblem as problem:
        raise WriteProblem(str(problem), problem.hint) from problem
