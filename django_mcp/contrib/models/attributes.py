"""Find the attributes of a `ModelTools` class that nothing reads, such as a mistyped `permissions`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from django.apps import apps

from django_mcp.registry.problems import find_near

_CUTOFF = 0.7
"""How like the name of an option that of a function has to be to be taken for it."""

_HAS_PERMISSION = "Write `has_permission(self, user, action)` instead."
_NARROW = "Narrow `get_queryset(self, user)` instead."
_FIELDS = "Name the fields in `fields` instead."
_FILTERS = "Name lookups in `filters` instead."
_SEARCH = "Name the fields in `search` instead."
_WRITABLE = "Name the fields that may be written in `writable` instead."
_FORM = "Write a `ModelForm` and name it in `form` instead."

INSTEAD = {
    "Meta": "Write its options as attributes of the class itself.",
    "date_hierarchy": _FILTERS,
    "delete_queryset": "Write `delete_model(self, user, instance)` instead.",
    "fieldsets": _FIELDS,
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
    "has_view_or_change_permission": _HAS_PERMISSION,
    "has_view_permission": _HAS_PERMISSION,
    "list_display": _FIELDS,
    "list_editable": _WRITABLE,
    "list_filter": _FILTERS,
    "list_max_show_all": "Write `max_results` instead.",
    "list_per_page": "Write `max_results` instead.",
    "list_select_related": "Name the relations in `select_related` instead.",
    "lookup_allowed": _FILTERS,
    "permission_classes": _HAS_PERMISSION,
    "queryset": "Write `get_queryset(self, user)` instead.",
    "readonly_fields": _WRITABLE,
    "save_form": "Write `save_model(self, user, instance, form, change)` instead.",
    "save_related": "Write `save_model(self, user, instance, form, change)` instead.",
    "search_fields": _SEARCH,
    "show_full_result_count": "Write `max_count` instead.",
}
"""What stands here for a name that other declarative classes know, above all `ModelAdmin`."""


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
