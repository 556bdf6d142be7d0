"""`admin_tools`: the admin of a site as tools."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.registry.access import Permission

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite, ModelAdmin

    from django_mcp.registry.entries import ToolEntry
    from django_mcp.servers import MCPServer

__all__ = ["admin_tools"]

ALL = "__all__"


def admin_tools(
    *given: object,
    server: MCPServer | None = None,
    site: AdminSite | None = None,
    models: Sequence[Any] | str | None = None,
    actions: bool | Collection[str] = True,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    prefix: str = "",
    names: Mapping[str, str] | None = None,
    descriptions: Mapping[str, Any] | None = None,
    annotations: Mapping[str, Mapping[str, Any]] | None = None,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    check: Callable[..., Any] | None = None,
    listed_if: Callable[[Any], Any] | None = None,
    max_results: int = 100,
    aggregates: bool = False,
    update_many: bool = False,
    allow_sensitive: Collection[str] = (),
    name_fields: Mapping[str, str] | None = None,
    toolset: str | None = None,
    style: str = "single",
    app: bool = False,
) -> list[ToolEntry]:
    """Register what users do in the admin as tools, by the rules of each `ModelAdmin`.

    What a tool does is known by a name: `search`, `get`, `create`, `update`, `delete`, `summarize`,
    `update_many`, or that of an action of the admin. It stands for all models, or with a model in front for one: `shop.order.get`.

    Args:
        given: nothing; all options are named.
        server: gets the tools; by default the default server.
        site: the admin site; by default `django.contrib.admin.site`.
        models: labels such as `"shop.order"`, or classes; `"__all__"`: all that the site
            has, but those of django_mcp itself, OAuth, passwords, tokens and sessions, which you have to name.
            Then each name begins with the label of the app, such as `shop_search_orders`, and what cannot
            be registered is left out.
        actions: the actions of the admin that become tools, by name; True: all but those about passwords,
            tokens and sign-ins, False: none.
        include: what becomes a tool; by default everything.
        exclude: what does not, and labels of models. The tool `delete` also takes the place of Django's
            action `delete_selected`.
        prefix: what the names of all tools begin with, before an underscore.
        names: names of tools, by what they do, without `prefix`.
        descriptions: of tools, by what they do; may be lazy.
        annotations: hints and titles of tools, by what they do.
        permission: needed in addition to what the admin asks for.
        scopes: OAuth scopes that a token needs for each tool.
        check: a function of the user and the arguments that a call has to pass in addition.
        listed_if: a function of the user that says whether the tools are listed, in place of the
            admin's permissions. These still decide about each call.
        max_results: rows on a page at most, and objects that an action is run with.
        aggregates: whether there are tools such as `summarize_orders`, which count and add up in groups.
        update_many: whether there are tools such as `update_many_orders`, which change several objects, after the
            user has agreed.
        allow_sensitive: names of fields that look like secrets and are none, and of fields that give
            rights, such as `is_superuser`, `groups` and `user_permissions`, which tools change without
            asking the user.
        name_fields: the text fields whose values name objects in arguments, by the labels of their models, such as
            `{"auth.user": "email"}`, where a model has no unique text and no natural key, or another is better.
        toolset: of all tools; by default the label of each model's app.
        style: `"compact"`: a few tools for all models, such as `search_objects`, take the place of those of
            each model in lists.
        app: whether hosts with MCP Apps show ready-made pages with the tools: tables, cards and charts.

    Returns:
        The tools. What cannot become one is left out, and `manage.py check` says why.

    Raises:
        ImproperlyConfigured: the admin is not installed, or there is no such model, or an option
            names what is not there.
        RegistrationError: an option does not fit, or there is a tool of the same name.
    """
    from django.apps import apps

    if not apps.is_installed("django.contrib.admin"):
        raise ImproperlyConfigured("admin_tools() needs django.contrib.admin in INSTALLED_APPS.")
    from django.contrib import admin
    from django.utils.module_loading import autodiscover_modules

    from django_mcp.contrib.all_or_nothing import all_or_nothing
    from django_mcp.contrib.generated import (
        GeneratedOptions,
        check_actions,
        check_rules,
        join_words,
        refuse_positional,
    )
    from django_mcp.contrib.modeladmin.tools import AdminOptions, make_tools
    from django_mcp.servers import choose_server

    refuse_positional(given, "admin_tools()", 'models=["shop.order"] names the models')
    if models is None:
        raise ImproperlyConfigured(
            'admin_tools(): write models=["shop.order"] or models="__all__".'
        )
    server = choose_server(server)
    if site is None:
        site = admin.site
    if not isinstance(site, admin.AdminSite):
        raise ImproperlyConfigured(
            f"admin_tools(): site= takes an AdminSite, such as django.contrib.admin.site, not {site!r:.100}."
        )
    check_rules("admin_tools()", permission=permission, check=check, listed_if=listed_if)
    # The app of the admin may be loaded after this one.
    autodiscover_modules("admin", register_to=site)
    own = AdminOptions(
        actions=actions if isinstance(actions, bool) else frozenset(actions),
        listed_if=listed_if,
        allow_sensitive=frozenset(allow_sensitive),
        aggregates=aggregates,
        update_many=update_many,
        is_lenient=models == ALL,
    )
    entries: list[ToolEntry] = []
    known: set[str] = set()
    offered: set[str] = set()
    # Who leaves out deletions means all of them.
    excluded = [*exclude, *(f"{name}_selected" for name in exclude if _is_deletion(name))]
    with all_or_nothing(server):
        _choose_names(server, name_fields or {})
        admins = _find_admins(server, site, models)
        left_out = {each.opts.label_lower for each in admins} & {name.lower() for name in exclude}
        # The names of what a model without tools would have are not known.
        has_problems = models != ALL and len(admins) < len(models)
        _check_labels(exclude, site._registry if models == ALL else models)
        _check_sensitive(allow_sensitive, admins)
        for model_admin in admins:
            label = model_admin.opts.label_lower
            if label in left_out:
                continue
            if own.is_lenient and _is_refused(server, model_admin.model):
                has_problems = True
                continue
            options = GeneratedOptions(
                include=None if include is None else {*_names_for(label, include)},
                exclude={*_names_for(label, excluded)},
                # A new model renames no tools of others.
                prefix=join_words(prefix, model_admin.opts.app_label) if own.is_lenient else prefix,
                names=_values_for(label, names or {}),
                descriptions=_values_for(label, descriptions or {}),
                annotations=_values_for(label, annotations or {}),
                permission=permission,
                scopes=scopes,
                check=check,
                max_results=max_results,
                toolset=toolset,
                style=style,
                app=app,
            )
            tools = make_tools(server, site, model_admin, options, own)
            if tools is None:
                has_problems = True
                continue
            offered |= {*tools.offered}
            known |= {*tools.actions, *(f"{label}.{action}" for action in tools.actions)}
            entries += tools.register()
        if not has_problems:
            check_actions(
                "admin_tools(): the admin",
                sorted(offered),
                actions=() if isinstance(actions, bool) else actions,
            )
            check_actions(
                "admin_tools(): the admin",
                [*sorted(known), *(name for name in exclude if name.lower() in left_out)],
                include=include,
                exclude=exclude,
                names=names,
                descriptions=descriptions,
                annotations=annotations,
            )
    return entries


def _check_labels(exclude: Collection[str], models: Iterable[Any]) -> None:
    """Refuse a label of a model, such as `shop.order`, that none of the models has."""
    from django_mcp.registry.problems import did_you_mean

    labels = [each.lower() if isinstance(each, str) else each._meta.label_lower for each in models]
    for name in exclude:
        # A name with two is of an action of a model.
        if name.count(".") == 1 and name.lower() not in labels:
            raise ImproperlyConfigured(
                f"admin_tools(): models= has no model {name!r}, which exclude= names."
                f"{did_you_mean(name, labels)}"
            )


def _check_sensitive(names: Collection[str], admins: Iterable[Any]) -> None:
    """Refuse a name in `allow_sensitive` that no field of a model or of a form of the admins has."""
    from django_mcp.contrib.modeladmin.access import overrides
    from django_mcp.contrib.models.paths import find_unknown_fields

    if isinstance(names, str):
        raise ImproperlyConfigured(f"admin_tools(): write allow_sensitive=[{names!r}].")
    others: set[str] = set()
    has_own_forms = False
    for model_admin in admins:
        for each in (model_admin, *model_admin.inlines):
            for form in (each.form, getattr(each, "add_form", None)):
                others.update(getattr(form, "base_fields", ()))
            others.update(name for name in (each.fields or ()) if isinstance(name, str))
            others.update(name for name in each.readonly_fields if isinstance(name, str))
        has_own_forms = has_own_forms or overrides(model_admin, "get_form")
    for name, advice in find_unknown_fields(names, others).items():
        # A form that is made for each request may have any fields.
        if advice or not has_own_forms:
            raise ImproperlyConfigured(
                f"admin_tools(): there is no field {name!r}, which allow_sensitive= names.{advice}"
            )


def _is_deletion(name: str) -> bool:
    return name.rpartition(".")[2] == "delete"


def _choose_names(server: MCPServer, name_fields: Mapping[str, str]) -> None:
    from django.apps import apps

    from django_mcp.contrib.models.name_fields import choose_name_field

    for label, name in name_fields.items():
        try:
            model = apps.get_model(label)
        except (LookupError, ValueError) as error:
            raise ImproperlyConfigured(
                f"admin_tools(): name_fields= names {label!r}: {error}"
            ) from error
        problem = choose_name_field(server, model, name)
        if problem is not None:
            raise ImproperlyConfigured(f"admin_tools(): name_fields= of {label}: {problem}.")


def _find_admins(
    server: MCPServer, site: AdminSite, models: Sequence[Any] | str
) -> list[ModelAdmin[Any]]:
    from django.apps import apps
    from django.db.models import Model

    from django_mcp.contrib.modeladmin.checks import (
        note_no_models,
        note_problem,
        note_session_of_site,
    )
    from django_mcp.contrib.modeladmin.sensitive import is_of_security
    from django_mcp.registry.problems import did_you_mean

    note_session_of_site(server, site)
    if models == ALL:
        found = [model for model in site._registry if not is_of_security(model)]
        if not found:
            note_no_models(server, f"the admin site {site.name!r} has no models")
        return [site.get_model_admin(model) for model in found]
    if not models:
        note_no_models(server, "models= is empty")
    if isinstance(models, str):
        raise ImproperlyConfigured(f'admin_tools(): write models=["{models}"].')
    admins = []
    for named_model in models:
        try:
            model = apps.get_model(named_model) if isinstance(named_model, str) else named_model
        except (LookupError, ValueError) as error:
            labels = [model._meta.label_lower for model in site._registry]
            raise ImproperlyConfigured(
                f"admin_tools(): there is no model {named_model!r}.{did_you_mean(named_model, labels)}"
            ) from error
        if not (isinstance(model, type) and issubclass(model, Model)):
            raise ImproperlyConfigured(
                f"admin_tools(): models= takes models or labels such as 'shop.order', not {model!r:.100}."
            )
        if site.is_registered(model):
            admins.append(site.get_model_admin(model))
            continue
        note_problem(
            server,
            model._meta.label,
            f"the admin site {site.name!r} has no ModelAdmin for it",
            "Register one before admin_tools() is called, or take the model out of models=.",
        )
    return admins


def _is_refused(server: MCPServer, model: type[Any]) -> bool:
    """Return whether a model that nobody named is about passwords or tokens; `manage.py check` then says so."""
    from django_mcp.contrib.credentials import find_credential_word
    from django_mcp.contrib.modeladmin.checks import note_credentials

    word = find_credential_word([model.__name__])
    if word is None:
        return False
    label = model._meta.label_lower
    hint = f"Name it if it may have tools: models=[{label!r}]. Or leave it out with exclude=[{label!r}]."
    note_credentials(server, model._meta.label, word, hint)
    return True


def _names_for(label: str, names: Iterable[str]) -> Iterable[str]:
    return (name.removeprefix(f"{label}.") for name in names)


def _values_for(label: str, values: Mapping[str, Any]) -> dict[str, Any]:
    start = f"{label}."
    values_there = {name: value for name, value in values.items() if "." not in name}
    of_model = {name: value for name, value in values.items() if name.startswith(start)}
    return {**values_there, **{name.removeprefix(start): value for name, value in of_model.items()}}
