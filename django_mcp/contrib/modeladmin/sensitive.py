"""Secret fields of a `ModelAdmin`, which no tool shows, filters or sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from django import forms
from django.contrib.admin.options import InlineModelAdmin, ModelAdmin
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.auth.forms import ReadOnlyPasswordHashField
from django.core.exceptions import FieldDoesNotExist

from django_mcp.contrib.modeladmin.access import overrides
from django_mcp.contrib.modeladmin.requests import make_request_of_anybody
from django_mcp.contrib.models.paths import has_secret_values
from django_mcp.log import logger
from django_mcp.registry.secret_names import find_sensitive

_SECURITY_APPS = frozenset(
    {"oauth2_provider", "rest_framework.authtoken", "django.contrib.sessions"}
)
"""Apps whose models decide who gets in, and so are named or left out."""

_secrets: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()


def is_secret(model_admin: Any, name: str, allowed: Collection[str] = ()) -> bool:
    """Return whether a field of a `ModelAdmin`, or a path of fields, leads to a secret.

    Args:
        model_admin: has the form.
        name: such as `password` or `customer__password`.
        allowed: names that look like secrets and are none.
    """
    if name in allowed:
        return False
    if find_sensitive(name, tuple(allowed)) is not None:
        return True
    admin, first, below = model_admin, *_split(name)
    while admin is not None:
        if first in find_secret_fields(admin):
            return True
        if not below:
            return False
        admin = _find_related_admin(admin, first)
        first, below = _split(below)
    return False


def is_of_security(model: Any) -> bool:
    """Return whether a model is of an app that decides who gets in."""
    name = model._meta.app_config.name
    return name in _SECURITY_APPS or name.partition(".")[0] == "django_mcp"


def is_secret_key(model: Any, allowed: Collection[str] = ()) -> bool:
    """Return whether the primary key of a model is a secret, as that of a session or a token is."""
    key = model._meta.pk
    if key.name in allowed:
        return False
    return find_sensitive(key.name, ()) is not None or has_secret_values(key, allowed)


def find_secret_fields(model_admin: Any, request: Any = None) -> frozenset[str]:
    """Return the fields that the forms of a `ModelAdmin` have for passwords.

    Args:
        model_admin: has the forms.
        request: one that may do everything, if there is one already, since it keeps the forms.
    """
    secrets = _secrets.get(model_admin)
    if secrets is None:
        request = request or make_request_of_anybody(model_admin.admin_site)
        secrets = _secrets[model_admin] = frozenset(_read_secret_fields(model_admin, request))
    return secrets


def find_secrets_of_form(
    model_admin: Any, request: Any, obj: Any, *, is_change: bool
) -> frozenset[str]:
    """Return the fields for passwords of the form that a user gets; none, if it cannot be made."""
    try:
        fields = get_form_class(model_admin, request, obj, is_change=is_change).base_fields
    except Exception:
        # A form may need an object of the site.
        logger.debug("No form of %s", model_admin, exc_info=True)
        return frozenset()
    return frozenset(_find_secrets(fields))


def get_form_class(model_admin: Any, request: Any, obj: Any, *, is_change: bool) -> Any:
    """Return the form of a `ModelAdmin` for an object, or that of an inline for the rows of an object."""

    def make() -> Any:
        if isinstance(model_admin, InlineModelAdmin):
            return model_admin.get_formset(request, obj).form
        if not overrides(model_admin, "get_form"):
            # As it does itself, but the names may be known already, or be those of this form.
            is_readable = is_change and not model_admin.has_change_permission(request, obj)
            if _shows_whole_form(model_admin) and not is_readable:
                return model_admin.get_form(request, obj, change=is_change, fields=None)
            names = get_form_names(model_admin, request, obj)
            return model_admin.get_form(request, obj, change=is_change, fields=names)
        return model_admin.get_form(request, obj, change=is_change)

    return _make_once(request, (model_admin, "form", is_change), obj, make)


def get_form_names(model_admin: Any, request: Any, obj: Any) -> list[Any]:
    """Return the names of what is on the page of an object, fields of the form among them."""

    def make() -> list[Any]:
        if _shows_whole_form(model_admin):
            # Django makes a form for the names, which then makes the same form again.
            fields = get_form_class(model_admin, request, obj, is_change=False).base_fields
            return [*fields, *model_admin.get_readonly_fields(request, obj)]
        return list(flatten_fieldsets(model_admin.get_fieldsets(request, obj)))

    names: list[Any] = _make_once(request, (model_admin, "names"), obj, make)
    return names


def _shows_whole_form(model_admin: Any) -> bool:
    """Return whether the page of a `ModelAdmin` has all fields of Django's own form, and no names are given."""
    return (
        isinstance(model_admin, ModelAdmin)
        and model_admin.form is forms.ModelForm
        and not (model_admin.fields or model_admin.fieldsets)
        and not overrides(model_admin, "get_form", "get_fields", "get_fieldsets")
    )


_OF_OBJECT = (
    "get_form",
    "get_fieldsets",
    "get_fields",
    "get_exclude",
    "get_readonly_fields",
    "has_change_permission",
)
"""The methods of a `ModelAdmin` that make its form and take an object; Django's own do not look at it."""


def _make_once(request: Any, what: tuple[Any, ...], obj: Any, make: Callable[[], Any]) -> Any:
    """Return what is made for an object; the request that describes an admin makes each thing once."""
    made = getattr(request, "mcp_made", None)
    if made is None:
        return make()
    if isinstance(what[0], ModelAdmin) and not overrides(what[0], *_OF_OBJECT):
        obj = None  # forms take most of the time in which an admin is described
    key = (*what, id(obj))
    if key not in made:
        # With the object, so that no other one gets its id.
        made[key] = (obj, make())
    return made[key][1]


def _find_secrets(fields: Mapping[str, Any]) -> set[str]:
    return {name for name, field in fields.items() if is_secret_field(field)}


def _read_secret_fields(model_admin: Any, request: Any) -> set[str]:
    secrets = _find_secrets(getattr(model_admin.form, "declared_fields", {}))
    # Fields that a page shows without an input are not in the made form.
    widgets = getattr(getattr(model_admin.form, "_meta", None), "widgets", None) or {}
    secrets |= {name for name, widget in widgets.items() if is_secret_widget(widget)}
    for obj in (None, getattr(model_admin, "parent_model", model_admin.model)()):
        secrets |= find_secrets_of_form(model_admin, request, obj, is_change=False)
    seen: Collection[str] = ()
    if _shows_whole_form(model_admin):
        # It makes the same fields.
        with suppress(Exception):
            seen = get_form_class(model_admin, request, None, is_change=False).base_fields
    for field in model_admin.model._meta.concrete_fields:
        if field.name in secrets or field.name in seen:
            continue
        if field.is_relation or not field.editable:
            continue
        try:
            made = model_admin.formfield_for_dbfield(field, request)
        except Exception:
            logger.debug("No form field of %s", field, exc_info=True)
            continue
        if made is not None and is_secret_field(made):
            secrets.add(field.name)
    return secrets


def _find_related_admin(model_admin: Any, name: str) -> Any:
    try:
        model = model_admin.model._meta.get_field(name).related_model
    except FieldDoesNotExist:
        return None
    site = model_admin.admin_site
    if not isinstance(model, type) or not site.is_registered(model):
        return None
    return site.get_model_admin(model)


def _split(path: str) -> tuple[str, str]:
    first, _separator, below = path.partition("__")
    return first, below


def is_secret_field(field: Any) -> bool:
    """Return whether a field of a form is for passwords."""
    return isinstance(field, ReadOnlyPasswordHashField) or is_secret_widget(field.widget)


def is_secret_widget(widget: Any) -> bool:
    """Return whether a widget, or its class, is for passwords."""
    cls = widget if isinstance(widget, type) else type(widget)
    return issubclass(cls, forms.PasswordInput)
