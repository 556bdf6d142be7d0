"""System checks of the `ModelTools` classes that a site registered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dis import get_instructions
from inspect import unwrap
from typing import Any

from django.apps import apps
from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model

from django_mcp.checks.discarded import find_discarded
from django_mcp.conf import settings
from django_mcp.contrib.models.tools import ModelTools, registered_tools
from django_mcp.contrib.saving_code import HINT, NOT_WRITTEN, writes_nothing

__all__: list[str] = []


@register("django_mcp", Tags.models, Tags.security)
def check_model_tools(**_kwargs: Any) -> list[CheckMessage]:
    """M001 to M006, M012: a class makes no tools, since its options are wrong."""
    messages: list[CheckMessage] = []
    # A setting that cannot be read ends it, since E001 reports that.
    with suppress(ImproperlyConfigured):
        for tools in registered_tools():
            for fault in tools.find_faults():
                message = f"{tools.class_name} makes no tools: {fault.text}."
                messages.append(Error(message, hint=fault.hint, id=fault.id))
    return messages


@register("django_mcp", Tags.models)
def check_registered(**_kwargs: Any) -> list[CheckMessage]:
    """M008: a class in an app's `mcp.py` is not registered, so it makes no tools."""
    messages: list[CheckMessage] = []
    with suppress(ImproperlyConfigured):
        module = settings.AUTODISCOVER_MODULE
        names = [f"{config.name}.{module}" for config in apps.get_app_configs()]
        registered = {type(tools) for tools in registered_tools()}
        for cls in _find_final(ModelTools):
            is_discovered = any(f"{cls.__module__}.".startswith(f"{name}.") for name in names)
            if is_discovered and cls not in registered and not cls.__name__.startswith("_"):
                message = f"{cls.__module__}.{cls.__qualname__} is not registered."
                hint = (
                    f"Write {cls.__qualname__}.register() below it. Begin the name of a class that others "
                    "are to extend with an underscore."
                )
                messages.append(checks.Warning(message, hint=hint, id="django_mcp.M008"))
    return messages


@register("django_mcp", Tags.models)
def check_unread_options(**_kwargs: Any) -> list[CheckMessage]:
    """M009: a class has options for writing, and no `writes`, so that nothing reads them."""
    return [
        checks.Warning(
            f"{tools.class_name} has `{name}`, which nothing reads without `writes`.",
            hint="Write writes = [...] with some of 'create', 'update' and 'delete', or leave it out.",
            id="django_mcp.M009",
        )
        for tools in _find_registered()
        for name in ("writable", "form")
        if getattr(tools, name) is not None and not tools.writes
    ]


@register("django_mcp", Tags.models, Tags.security)
def check_writers(**_kwargs: Any) -> list[CheckMessage]:
    """M010: every user who is signed in may change every object, since nothing narrows them."""
    return [
        checks.Warning(
            f"{tools.class_name} lets every user who is signed in {' and '.join(tools.writes)} all objects.",
            hint="Define has_permission(self, user, action), or get_queryset(self, user) in place of everyone.",
            id="django_mcp.M010",
        )
        for tools in _find_registered()
        if tools.writes and tools.is_writable_by_all
    ]


@register("django_mcp", Tags.models, Tags.security)
def check_ignored_users(**_kwargs: Any) -> list[CheckMessage]:
    """M011: every user sees every object, since `get_queryset` ignores the user, though objects belong to users."""
    return [
        checks.Warning(
            f"{tools.class_name}.get_queryset() does not use the user, so that everybody sees the same objects "
            f"of {tools.model._meta.label}, which belong to users.",
            hint="Filter by the user there. If only some users may see all objects, set `permission`. If everybody "
            "may, silence this check.",
            id="django_mcp.M011",
        )
        for tools in _find_registered()
        if tools.is_visible_to_all and _belongs_to_users(tools.model) and _ignores_user(tools)
    ]


def _belongs_to_users(model: type[Model]) -> bool:
    users: Any = apps.get_model(site_settings.AUTH_USER_MODEL)
    owners = [field.related_model for field in model._meta.fields if field.is_relation]
    return any(isinstance(each, type) and issubclass(users, each) for each in (model, *owners))


def _ignores_user(tools: ModelTools) -> bool:
    """Return whether the code of `get_queryset` never loads its parameter for the user."""
    code = getattr(unwrap(type(tools).get_queryset), "__code__", None)
    if code is None or code.co_argcount < 2:
        return False
    name = code.co_varnames[1]
    # A single instruction of Python 3.13 may load two variables.
    loaded = [each.argval for each in get_instructions(code) if each.opname.startswith("LOAD")]
    return name not in code.co_cellvars and not any(
        name in each if isinstance(each, tuple) else name == each for each in loaded
    )


@register("django_mcp", Tags.models, Tags.security)
def check_discarded(**_kwargs: Any) -> list[CheckMessage]:
    """M013: a function of a class discards a queryset that it made, or calls a coroutine function without `await`."""
    return [
        checks.Warning(
            f"{tools.class_name}.{name}() {each.problem}.", hint=each.hint, id="django_mcp.M013"
        )
        for tools in _find_registered()
        for name, function in tools.own_functions.items()
        for each in find_discarded(function, returns_rows=name in ("get_queryset", "get_choices"))
    ]


@register("django_mcp", Tags.models)
def check_unsaved(**_kwargs: Any) -> list[CheckMessage]:
    """M014: `save_model` or `delete_model` writes nothing, so that calls succeed and change nothing."""
    return [
        checks.Warning(
            f"{tools.class_name}.{name}() {NOT_WRITTEN}.",
            hint=HINT.format(name),
            id="django_mcp.M014",
        )
        for tools in _find_registered()
        for name, actions in (("save_model", {"create", "update"}), ("delete_model", {"delete"}))
        if actions.intersection(tools.writes)
        and name in tools.own_functions
        and writes_nothing(getattr(tools, name))
    ]


def _find_registered() -> list[ModelTools]:
    """Return the classes that are registered; none if a setting cannot be read, since E001 reports that."""
    with suppress(ImproperlyConfigured):
        return list(registered_tools())
    return []


def _find_final(base: type[ModelTools]) -> Iterator[type[ModelTools]]:
    """Yield the classes with a model that no other class extends."""
    extended = base.__subclasses__()
    for cls in extended:
        yield from _find_final(cls)
    if not extended and getattr(base, "model", None) is not None:
        yield base
