"""System checks of the `ModelTools` classes that a site registered."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dis import get_instructions
from inspect import unwrap
from itertools import pairwise
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, router, transaction
from django.db.models import NOT_PROVIDED, AutoField, Field, Model
from django.db.models.signals import post_init, pre_save
from django.forms import ModelChoiceField, ModelForm

from django_mcp.checks.discarded import find_discarded
from django_mcp.checks.function_text import read_text
from django_mcp.checks.nobodys import find_filters_of_nobody
from django_mcp.checks.owners import belongs_to_users, find_user_model
from django_mcp.conf import settings
from django_mcp.contrib.models.tools import ModelTools, registered_tools
from django_mcp.contrib.models.uncalled import find_uncalled
from django_mcp.contrib.rights import find_rights
from django_mcp.contrib.saving_code import HINT, NOT_WRITTEN, writes_nothing
from django_mcp.forms import offered_fields
from django_mcp.servers import all_servers

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


@register("django_mcp", Tags.models)
def check_uncalled(**_kwargs: Any) -> list[CheckMessage]:
    """M023: nothing calls a method of a class, such as `validate_number`, which another framework would call."""
    return [
        checks.Warning(
            f"Nothing calls {tools.class_name}.{name}().",
            hint=f"{hint} If it is called from elsewhere, begin its name with an underscore, or silence this check.",
            id="django_mcp.M023",
        )
        for tools in _find_registered()
        # M006 tells of the names that other frameworks have for the same.
        if not tools.find_faults()
        for name, hint in find_uncalled(type(tools), ModelTools)
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
            hint="Filter by the user there. If only some users may see all objects, set `permission` to one that the "
            "others lack, which signed_in is not. If everybody may, silence this check.",
            id="django_mcp.M011",
        )
        for tools in _find_registered()
        if tools.is_visible_to_all
        and belongs_to_users(tools.model)
        and _ignores_user(type(tools).get_queryset)
        and _ignores_user(type(tools).has_permission)
    ]


@register(Tags.database)
def check_holders(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """M022: Users who are not staff have the permission of a class that shows every object, and its objects belong to users."""
    users: Any = find_user_model()
    find = getattr(getattr(users, "_default_manager", None), "with_perm", None)
    if (
        find is None
        or not hasattr(users, "is_staff")
        or router.db_for_read(users) not in (databases or ())
    ):
        return []
    messages: list[CheckMessage] = []
    for tools in _find_registered():
        given = tools.options.permission
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, Sequence) or not names or not _shows_all(tools):
            continue
        if count := _count_holders(find, names):
            whom = "1 user who is" if count == 1 else f"{count} users who are"
            message = (
                f"{tools.class_name} shows every object of {tools.model._meta.label}, which belong to users, to {whom} not "
                f"staff and {'has' if count == 1 else 'have'} {' and '.join(names)}."
            )
            hint = (
                "Filter by the user in get_queryset(), or take the permission from them. If they may see every object, "
                "silence this check."
            )
            messages.append(checks.Warning(message, hint=hint, id="django_mcp.M022"))
    return messages


def _shows_all(tools: ModelTools) -> bool:
    """Return whether all who pass the permission of a class see every object, and the objects belong to users."""
    cls = type(tools)
    return (
        tools.options.check is None
        and belongs_to_users(tools.model)
        and (tools.is_for_all or (not tools.everyone and _ignores_user(cls.get_queryset)))
        and _ignores_user(cls.has_permission)
    )


def _count_holders(find: Any, names: Sequence[str]) -> int:
    """Return how many users have all these permissions and are no staff; 0, if the tables are not there."""
    backend = "django.contrib.auth.backends.ModelBackend"
    with suppress(DatabaseError, ValueError):  # a name that is no permission, which W008 reports
        first, *others = [find(name, include_superusers=False, backend=backend) for name in names]
        with transaction.atomic(using=first.db):
            holders = first.filter(is_staff=False)
            for each in others:
                holders = holders.filter(pk__in=each.values("pk"))
            return int(holders.count())
    return 0


_SIGNED_IN = frozenset(("is_active", "is_anonymous", "is_authenticated"))


def _ignores_user(method: Any) -> bool:
    """Return whether the code of a method asks no more of its parameter for the user than whether one is signed in."""
    code = getattr(unwrap(method), "__code__", None)
    if code is None or code.co_argcount < 2:
        return False
    name = code.co_varnames[1]
    if name in code.co_cellvars:
        return False
    for each, following in pairwise(get_instructions(code)):
        # A single instruction of Python 3.13 may load two variables.
        loaded = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        if each.opname.startswith("LOAD") and name in loaded:
            reads = following.opname.startswith("LOAD_") and following.argval in _SIGNED_IN
            if loaded[-1] != name or not reads:
                return False
    return True


@register("django_mcp", Tags.models, Tags.security)
def check_discarded(**_kwargs: Any) -> list[CheckMessage]:
    """M013: a function of a class discards a queryset or a change that it made, or calls a coroutine function without `await`."""
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


@register("django_mcp", Tags.models)
def check_unset(**_kwargs: Any) -> list[CheckMessage]:
    """M015: new objects lack a value that the model requires, since nothing sets it."""
    return [
        checks.Warning(
            f"{tools.class_name} creates {tools.model._meta.label} without {', '.join(names)}, which the model "
            "requires.",
            hint="Name it in writable, set it in save_model(), give the model a default, or leave 'create' out.",
            id="django_mcp.M015",
        )
        for tools in _find_registered()
        if "create" in tools.writes and (names := _find_unset(tools))
    ]


def _find_unset(tools: ModelTools) -> list[str]:
    """Return the required fields of the model that no code of a site may set when an object is created."""
    cls, model = type(tools), tools.model
    own = any(
        getattr(cls, name) is not getattr(ModelTools, name)
        for name in ("save_model", "get_form_kwargs")
    )
    of_model = any(
        getattr(model, name) is not getattr(Model, name)
        for name in ("__init__", "save", "clean", "clean_fields", "full_clean")
    )
    is_told = pre_save.has_listeners(model) or post_init.has_listeners(model)
    if own or of_model or is_told or tools.form is not None:
        return []
    written = set(tools.writable or ())
    if tools.writable is None:
        written = {*tools.fields} - find_rights(tools.model, tools.fields, ())
    return [
        field.name
        for field in model._meta.concrete_fields
        if field.name not in written and _is_required(field)
    ]


def _is_required(field: Any) -> bool:
    return not (
        field.null
        or field.blank
        or field.has_default()
        or field.auto_created
        or field.generated
        or isinstance(field, AutoField)
        or getattr(field, "db_default", NOT_PROVIDED) is not NOT_PROVIDED
        # Such as one that makes a slug.
        or type(field).pre_save is not Field.pre_save
    )


@register("django_mcp", Tags.models, Tags.security)
def check_rights(**_kwargs: Any) -> list[CheckMessage]:
    """M016: a class writes fields that give rights, such as `is_superuser` of users."""
    return [
        checks.Warning(
            f"{tools.class_name} writes {', '.join(sorted(rights))}, which gives rights.",
            hint="Leave it out of writable and of the form. If has_permission() and get_queryset() let only those "
            "users write who may give these rights, name it in allow_sensitive.",
            id="django_mcp.M016",
        )
        for tools in _find_registered()
        if (rights := _find_rights(tools))
    ]


def _find_rights(tools: ModelTools) -> set[str]:
    """Return the fields that give rights among those that a class writes, unless it allows them."""
    written = tools.definition.written
    if written is None or written.form is None:
        return set()
    form_fields = written.form.base_fields
    return find_rights(tools.model, form_fields, tools.allow_sensitive, form_fields)


@register("django_mcp", Tags.models, Tags.security)
def check_rows_of_nobody(**_kwargs: Any) -> list[CheckMessage]:
    """M017: `get_queryset` filters by the key of a caller who may be anonymous, and finds rows that belong to nobody."""
    messages: list[CheckMessage] = []
    with suppress(ImproperlyConfigured):
        for tools in filter(lambda tools: tools.is_visible_to_anonymous, registered_tools()):
            for name, key, line in find_filters_of_nobody(tools.get_queryset, tools.model):
                message = (
                    f"{tools.class_name}.get_queryset() filters {name} by {key} in line {line}, which is None for "
                    "anonymous callers, so that they get the rows that belong to nobody."
                )
                hint = (
                    "Set permission = signed_in, or return none() if the user is not authenticated."
                )
                messages.append(checks.Warning(message, hint=hint, id="django_mcp.M017"))
    return messages


@register("django_mcp", Tags.models)
def check_unused_rules(**_kwargs: Any) -> list[CheckMessage]:
    """M018: a form or an admin of the site has code for what a class writes, and the class does not use it."""
    messages: list[CheckMessage] = []
    for tools in _find_registered():
        written = tools.definition.written
        if written is None:
            continue
        is_made = tools.form is None and written.form is not None
        forms = _find_rules(tools, written.form) if is_made else ()
        for cls, names in (*forms, *_find_saving(tools)):
            rules = ", ".join(f"{each}()" for each in names)
            message = (
                f"{tools.class_name} writes without {rules} of {cls.__module__}.{cls.__qualname__}."
            )
            hint = (
                "If it has to hold for clients too, set form= to the form, write the method of the admin into the "
                "class, or move the rule into the model, whose clean() and validators always run."
            )
            messages.append(Info(message, hint=hint, id="django_mcp.M018"))
    return messages


def _find_saving(tools: ModelTools) -> Iterator[tuple[type, list[str]]]:
    """Yield the admins of the project for a model that write objects in their own way, and the names of their methods."""
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.sites import all_sites

    # A class with a method of its own has decided.
    hooks = {"create": "save_model", "update": "save_model", "delete": "delete_model"}
    names = {hooks[each] for each in tools.writes} - tools.own_functions.keys()
    for site in all_sites:
        admin = site._registry.get(tools.model)
        own = [each for each in sorted(names) if _is_of_project(getattr(admin, each, None), tools)]
        if admin is not None and own:
            yield type(admin), own


def _is_of_project(value: Any, tools: ModelTools) -> bool:
    """Return whether a class or a method is written in the same project as a class or its model."""
    projects = {each.__module__.partition(".")[0] for each in (type(tools), tools.model)}
    return str(getattr(value, "__module__", "")).partition(".")[0] in projects - {"django"}


@register("django_mcp", Tags.models, Tags.security)
def check_choices(**_kwargs: Any) -> list[CheckMessage]:
    """M019: everybody who may write may choose every object of a model whose objects belong to users."""
    return [
        checks.Warning(
            f"{tools.class_name} writes {name!r}, and its users may choose every object of {model._meta.label} there, "
            "which belong to users.",
            hint=f"Register a ModelTools class for {model._meta.object_name} on the same server, override get_choices(), "
            "or leave the field out of writable. If everybody may choose every object, silence this check.",
            id="django_mcp.M019",
        )
        for tools in _find_registered()
        if tools.offers_all_choices and (written := tools.definition.written) is not None
        for name, model in _find_choices(written.form)
        if belongs_to_users(model) and not tools.is_judged(model)
    ]


@register("django_mcp", Tags.models)
def check_signals(**_kwargs: Any) -> list[CheckMessage]:
    """M021: a function changes objects without signals, so that nobody learns of it who subscribed to them."""
    classes = {tools.model: tools for tools in _find_registered() if tools.has_resources}
    messages: list[CheckMessage] = []
    # The extensions of a server that cannot be used end it, since E015 reports them.
    with suppress(ImproperlyConfigured):
        for server in all_servers() if classes else ():
            for entry in server.registry.entries():
                for name, model, line in _find_changes(entry.handler.origin):
                    if model in classes:
                        message = (
                            f"{entry.source} changes objects of {model._meta.label} with {name}() in line {line}, which "
                            f"sends no signals: clients that subscribed to resources of {classes[model].class_name} are "
                            "not told."
                        )
                        hint = (
                            "Call notify_changed() of django_mcp.contrib.models with the objects, or save each of "
                            "them."
                        )
                        messages.append(Info(message, hint=hint, id="django_mcp.M021"))
    return messages


_WITHOUT_SIGNALS = frozenset(
    ("update", "aupdate", "bulk_create", "abulk_create", "bulk_update", "abulk_update")
)


def _find_changes(given: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield the calls of a function that change rows without signals, with the model and the line."""
    text = read_text(given)
    if text is None:
        return
    nodes = list(ast.walk(text.node))
    names = [getattr(each, "id", getattr(each, "attr", "")) for each in nodes]
    if any(each.startswith("notify") for each in names):
        return
    for call in nodes:
        function = call.func if isinstance(call, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr in _WITHOUT_SIGNALS:
            model = text.find_model(function.value)
            if model is not None:
                yield function.attr, model, function.lineno


def _find_choices(form: Any) -> Iterator[tuple[str, type[Model]]]:
    """Yield the fields of a form that choose objects, with their model."""
    for name, field in () if form is None else form.base_fields.items():
        if isinstance(field, ModelChoiceField) and field.queryset is not None:
            yield name, field.queryset.model


@register("django_mcp", Tags.models)
def check_unsettable(**_kwargs: Any) -> list[CheckMessage]:
    """M020: `writable` or the form names a field that no argument can set, such as a file."""
    messages: list[CheckMessage] = []
    for tools in _find_registered():
        names = ", ".join(_find_unsettable(tools))
        if names:
            place = "writable" if tools.form is None else tools.form.__name__
            messages.append(
                checks.Warning(
                    f"{tools.class_name} names {names} in {place}, which no argument can set.",
                    hint="Leave it out there, or let people set it on a page of the site. Arguments carry no files, and "
                    "passwords only if allow_sensitive names them.",
                    id="django_mcp.M020",
                )
            )
    return messages


def _find_unsettable(tools: ModelTools) -> list[str]:
    """Return the fields that the site itself named to be written, and that are no arguments of a tool that writes."""
    written = tools.definition.written
    if written is None or written.form is None or not (tools.form or tools.writable):
        return []
    fields = written.form.base_fields
    # One that only tells an update which object is meant is left out of a form that others use as well.
    is_kept = tools.form is None and "create" not in tools.writes
    exclude = written.kept if is_kept else ()
    offered = {*offered_fields(fields, exclude, written.allow_sensitive)}
    if tools.form is None:
        return [name for name in tools.writable or () if name not in offered]
    meta_fields = written.form._meta.fields
    # A form has no field for a key that the database counts up, though its Meta may name it.
    named = [*(() if isinstance(meta_fields, str) else meta_fields or ()), *fields]
    return [
        name
        for name in dict.fromkeys(named)
        # The form itself hides or disables a field.
        if name not in offered and not _is_put_away(fields.get(name))
    ]


def _is_put_away(field: Any) -> bool:
    return field is not None and (field.disabled or field.widget.is_hidden)


def _find_rules(tools: ModelTools, used: Any) -> Iterator[tuple[type, list[str]]]:
    """Yield the other forms of the project for a model, and the names of what they check."""
    names = ["clean", *(f"clean_{name}" for name in used.base_fields)]
    fields = {each.name for each in tools.model._meta.get_fields()}
    for form in _find_forms(ModelForm):
        model = getattr(getattr(form, "_meta", None), "model", None)
        # One with other fields is about more than the object.
        is_of_object = model is tools.model and fields >= set(form.base_fields)
        if is_of_object and _is_of_project(form, tools):
            rules = [
                each for each in names if getattr(form, each, None) is not getattr(used, each, None)
            ]
            if rules:
                yield form, rules


def _find_forms(base: type[Any]) -> Iterator[type[Any]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _find_forms(cls)


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
