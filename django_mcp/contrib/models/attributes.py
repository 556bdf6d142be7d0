"""Find what is wrong with the attributes of a `ModelTools` class, such as a mistyped `permissions`.

Whether the fields exist that they name is read elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.apps import apps
from django.db.models import Model

from django_mcp.contrib.generated import STYLES
from django_mcp.registry import rules
from django_mcp.registry.problems import RegistrationError, describe_source, find_near
from django_mcp.registry.signatures import CONTEXT_NAMES, returns_nothing

_CUTOFF = 0.7
"""How like the name of an option that of a function has to be to be taken for it."""

_HAS_PERMISSION = "Write `has_permission(self, user, action)` instead."
_NARROW = "Narrow `get_queryset(self, user)` instead."
_FIELDS = "Name the fields in `fields` instead."
_FILTERS = "Name lookups in `filters` instead."
_SEARCH = "Name the fields in `search` instead."
_WRITABLE = "Name the fields that may be written in `writable` instead."
_SAVE = "Write `save_model(self, user, instance, form, change)` instead."
_FORM = "Write a `ModelForm` and name it in `form` instead."

INSTEAD = {
    "Meta": "Write its options as attributes of the class itself.",
    "clean": _FORM,
    "date_hierarchy": _FILTERS,
    "delete": "Write `delete_model(self, user, instance)` instead.",
    "delete_queryset": "Write `delete_model(self, user, instance)` instead.",
    "fieldsets": _FIELDS,
    "filter_backends": _FILTERS,
    "filter_queryset": _NARROW,
    "filterset_class": _FILTERS,
    "filterset_fields": _FILTERS,
    "formfield_for_choice_field": _FORM,
    "formfield_for_dbfield": _FORM,
    "formfield_for_foreignkey": "Write `get_choices(self, user, name, objects)` instead.",
    "formfield_for_manytomany": "Write `get_choices(self, user, name, objects)` instead.",
    "formfield_overrides": _FORM,
    "get_exclude": "Leave the fields out of `fields` and `writable` instead.",
    "get_fields": _FIELDS,
    "get_fieldsets": _FIELDS,
    "get_form": _FORM,
    "get_list_display": _FIELDS,
    "get_list_filter": _FILTERS,
    "get_list_select_related": "Name the relations in `select_related` instead.",
    "get_model_perms": _HAS_PERMISSION,
    "get_object": _NARROW,
    "get_ordering": "Write `ordering` instead.",
    "get_readonly_fields": _WRITABLE,
    "get_search_fields": _SEARCH,
    "get_search_results": _SEARCH,
    "get_sortable_by": "Write `sortable_by` instead.",
    "has_add_permission": _HAS_PERMISSION,
    "has_change_permission": _HAS_PERMISSION,
    "has_delete_permission": _HAS_PERMISSION,
    "has_module_permission": _HAS_PERMISSION,
    "has_object_permission": _NARROW,
    "has_view_or_change_permission": _HAS_PERMISSION,
    "has_view_permission": _HAS_PERMISSION,
    "list_display": _FIELDS,
    "list_editable": _WRITABLE,
    "list_filter": _FILTERS,
    "list_max_show_all": "Write `max_results` instead.",
    "list_per_page": "Write `max_results` instead.",
    "list_select_related": "Name the relations in `select_related` instead.",
    "lookup_allowed": _FILTERS,
    "ordering_fields": "Write `sortable_by` instead.",
    "pagination_class": "Write `max_results` instead.",
    "perform_create": _SAVE,
    "perform_destroy": "Write `delete_model(self, user, instance)` instead.",
    "perform_update": _SAVE,
    "permission_classes": _HAS_PERMISSION,
    "queryset": "Write `get_queryset(self, user)` instead.",
    "readonly_fields": _WRITABLE,
    "save": _SAVE,
    "save_form": _SAVE,
    "save_related": _SAVE,
    "search_fields": _SEARCH,
    "serializer_class": _FIELDS,
    "show_full_result_count": "Write `max_count` instead.",
}
"""What stands here for a name that other declarative classes know, above all `ModelAdmin`."""


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


_NAMES = rules.Rule(
    lambda value: _is_list(value) and all(isinstance(name, str) for name in value),
    "a list of names such as ['number', 'status']",
)
_NAMES_OR_NONE = _NAMES.or_none("for the default")
_BY_ACTION = rules.Rule(lambda value: isinstance(value, Mapping), "a dict by action")

OPTIONS = {
    "model": rules.Rule(
        lambda value: isinstance(value, type) and issubclass(value, Model),
        "the class of a model, such as Order",
    ),
    **dict.fromkeys(
        (
            "fields",
            "filters",
            "search",
            "sortable_by",
            "allow_sensitive",
            "select_related",
            "writes",
            "exclude",
        ),
        _NAMES,
    ),
    **dict.fromkeys(("ordering", "writable", "include"), _NAMES_OR_NONE),
    "prefetch_related": rules.Rule(_is_list, "a list of relations"),
    "name_field": rules.Rule(lambda value: isinstance(value, str), "the name of a field").or_none(
        "for a unique text"
    ),
    "everyone": rules.BOOL,
    "prefix": rules.Rule(lambda value: isinstance(value, str), "a string"),
    **dict.fromkeys(("names", "descriptions", "annotations"), _BY_ACTION),
    "max_results": rules.whole("results"),
    "toolset": rules.TOOLSET.or_none("for the label of the model's app"),
    "style": rules.choice(*STYLES),
    "max_count": rules.whole("results"),
    "aggregates": rules.BOOL,
    "app": rules.BOOL,
    "update_many": rules.BOOL,
}
"""The values of the options whose wrong types would otherwise be read as something else."""

_READING_HOOKS = ("get_queryset", "has_permission", "get_form_kwargs", "get_choices")
"""What a site overrides, and has to return something."""
HOOKS = (*_READING_HOOKS, "save_model", "delete_model")
"""What a site overrides."""


def check_options(owner: str, options: Mapping[str, Any]) -> None:
    """Raise a `RegistrationError` unless the options have values of their types."""
    for name, value in options.items():
        if name in OPTIONS:
            OPTIONS[name].demand(value, f"{owner}: {name}", RegistrationError)


def check_hooks(owner: str, tools: Any, base: type) -> None:
    """Raise a `RegistrationError` unless what a class overrides can be called as it will be."""
    for name in HOOKS:
        hook, original = getattr(tools, name), getattr(base, name)
        if getattr(hook, "__func__", hook) is original:
            continue
        parameters = list(inspect.signature(original).parameters)
        place = f"{owner}: {describe_source(hook)}"
        try:
            bound = inspect.signature(hook).bind(*parameters[1:])
            if CONTEXT_NAMES.keys() & bound.arguments.keys():
                raise TypeError  # it expects a request, as a method of ModelAdmin does
        except TypeError:
            raise RegistrationError(
                f"{place} takes other arguments. Write def {name}({', '.join(parameters)})."
            ) from None
        if inspect.iscoroutinefunction(hook):
            raise RegistrationError(f"{place} is asynchronous. Write it with def.")
        if name in _READING_HOOKS and returns_nothing(hook):
            raise RegistrationError(f"{place} never returns a value. A `return` is missing.")


def check_functions(owner: str, functions: Mapping[str, Any]) -> None:
    """Raise a `RegistrationError` unless the functions that compute fields can be called with an instance."""
    for name, function in functions.items():
        place = f"{owner}: {describe_source(function)}"
        try:
            inspect.signature(function).bind(None)
        except ValueError:
            continue  # it does not tell what it takes
        except TypeError:
            raise RegistrationError(
                f"{place} takes other arguments. Write def {name}(self, instance)."
            ) from None
        if inspect.iscoroutinefunction(function):
            raise RegistrationError(f"{place} is asynchronous. Write it with def.")


def find_unread(given: type, base: type, fields: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the public attributes of a class that nothing reads, with what to write instead.

    A name that begins with an underscore is the site's own, and so is a function whose name is like
    none that is known.

    Args:
        given: the class; the classes that it is mixed from count as well.
        base: the class that knows the names.
        fields: names of functions that compute fields.
    """
    known = {name for name in (*dir(base), *base.__annotations__) if not name.startswith("_")}
    own = [base_class for base_class in given.__mro__ if base_class not in base.__mro__]
    attributes = {
        name: value
        for base_class in reversed(own)
        for name, value in vars(base_class).items()
        if not name.startswith("_") and name not in known
    }
    for name, value in attributes.items():
        is_function = callable(value) or hasattr(type(value), "__get__")
        if is_function and name in fields:
            continue
        near = find_near(name, known, cutoff=_CUTOFF)
        if name in INSTEAD:
            yield name, INSTEAD[name]
        elif near:
            yield name, f"Did you mean `{near[0]}`?"
        elif not is_function or _is_of_admin(name):
            yield name, "Leave it out."


def _is_of_admin(name: str) -> bool:
    if not apps.is_installed("django.contrib.admin"):
        return False
    from django.contrib.admin import ModelAdmin

    return hasattr(ModelAdmin, name)
