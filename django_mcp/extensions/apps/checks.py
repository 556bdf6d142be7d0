"""System checks of the pages of tools."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import global_settings, settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.forms import BaseModelForm
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.template.loader import get_template, render_to_string
from django.utils.translation import override

from django_mcp.checks.declared import check
from django_mcp.extensions.apps.core.app import EXTENSION, App, ArgumentsForm, Shown
from django_mcp.extensions.apps.site.called import (
    Call,
    find_called,
    find_calls,
    find_unknown_arguments,
)
from django_mcp.extensions.apps.site.examine import Examined, examine
from django_mcp.extensions.apps.site.lookups import find_bound, find_variables
from django_mcp.extensions.apps.site.ready.naming import find_actions, find_unknown_members
from django_mcp.extensions.apps.site.references import find_lost
from django_mcp.extensions.apps.site.sources import read_named_sources, read_sources
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import describe_source, did_you_mean, innermost, suggest
from django_mcp.registry.signatures import returns_nothing
from django_mcp.servers import MCPServer, all_servers


@check()
def check_apps() -> Iterator[CheckMessage]:
    """Report a page that cannot be shown, or not as it is meant."""
    for server in all_servers():
        seen: set[App] = set()
        for tool, shown in _find_shown(server):
            if shown.app is None:
                continue
            is_filled = tool.output_schema is not None or shown.confirm is not None
            if shown.app.template is not None and not is_filled:
                yield checks.Warning(
                    f"{tool.source} has a page, and no structured output for it.",
                    hint="Annotate what it returns, such as -> SalesData, or give it returns=.",
                    id="django_mcp.apps.W001",
                )
            if shown.app not in seen:
                seen.add(shown.app)
                yield from _check_templates(tool, shown.app)
            if shown.confirm is not None and not _has_place(shown.app):
                yield checks.Warning(
                    f"{tool.source} has confirm=, and its page has no place for the question.",
                    hint="Write <div data-mcp-result></div> into the page, or leave the template out for the page "
                    "of this package.",
                    id="django_mcp.apps.W009",
                )


@check()
def check_calls_of_pages() -> Iterator[CheckMessage]:
    """Report a tool for pages alone that no page calls, and a page that calls no tool of its server, or not as it can be."""
    for server in all_servers():
        shown = list(_find_shown(server))
        # Both know nothing of each other before the site is complete.
        called = {
            template: _read_calls(template)
            for _, option in shown
            for template in _templates_of(option.app)
        }
        known = set().union(*(calls.attributes | calls.quoted for calls in called.values()))
        known |= {option.sends_to for _, option in shown if option.sends_to is not None}
        # A template that makes names may call any tool.
        is_exact = not any("{" in name for name in known)
        for entry, option in shown:
            if is_exact and option.visibility == ("app",) and entry.name not in known:
                yield checks.Warning(
                    f"{entry.source} has visible_to='app', and no page of the server names it.",
                    hint=f'Call it from a page, as in <button data-mcp-call="{entry.name}">, or leave '
                    "visible_to out.",
                    id="django_mcp.apps.W004",
                )
        tools = server.registry.registered["tools"]
        for template, calls in called.items():
            for name in sorted(calls.attributes - tools.keys()):
                if name and "{" not in name:
                    yield checks.Warning(
                        f"The template {template} calls {name!r:.80}, which is no tool of the server "
                        f"{server.name}.",
                        hint="A page calls tools of its own server. Is the name right?",
                        id="django_mcp.apps.W010",
                    )
            unknown = find_unknown_arguments(calls.calls, calls.inputs, tools)
            for (tool, name), taken in unknown.items():
                yield checks.Warning(
                    f"The template {template} calls {tool} with {name!r:.80}, which is no argument of it.",
                    hint=suggest(name, taken) if taken else "It has no arguments.",
                    id="django_mcp.apps.W011",
                )


@check()
def check_references() -> Iterator[CheckMessage]:
    """Report what a page refers to, and is not there."""
    for server in all_servers():
        for lost in find_lost(server.registry.registered["tools"]):
            yield checks.Warning(
                f"The template {lost.template} has {lost.reference:.120}, and {lost.problem}.",
                hint=lost.hint,
                id="django_mcp.apps.W013" if lost.is_value else "django_mcp.apps.W012",
            )


@check()
def check_forms() -> Iterator[CheckMessage]:
    """Report a form that its page does not show, or that starts with the result of no tool."""
    for server in all_servers():
        tools = server.registry.tools
        for tool, shown in _find_shown(server):
            if shown.sends_to is not None and shown.app is not None and not _has_place(shown.app):
                yield Error(
                    f"The page {shown.app.template} has no place for the form of {shown.sends_to}.",
                    hint="Write <div data-mcp-result></div> where the fields shall be.",
                    id="django_mcp.apps.E003",
                )
            form = None if shown.opening is None else shown.opening.form
            if isinstance(form, ArgumentsForm) and form.read and form.read not in tools:
                yield Error(
                    f"{tool.source} has a form that starts with the result of {form.read}, which is no tool "
                    f"of {server.name}.",
                    hint=f"Register it on the same server, or leave read= out.{did_you_mean(form.read, tools)}",
                    id="django_mcp.apps.E004",
                )
            if keys := _find_unused_keys(tool, shown.opening):
                yield checks.Info(
                    f"{tool.source} has a ModelForm without initial=, so that the form opens empty and form.save() adds "
                    f"an object, whatever {' and '.join(keys)} says.",
                    hint="Write App(form=..., initial=...) with a function of the user and these arguments that returns "
                    "the object to change. Silence the check if the form adds objects.",
                    id="django_mcp.apps.I001",
                )


@check()
def check_missing_returns() -> Iterator[CheckMessage]:
    """Report a function beside a tool that never returns the value that it should."""
    for server in all_servers():
        for tool, shown in _find_shown(server):
            confirm, opening = shown.confirm, shown.opening
            functions = {
                "Confirm(question=...)": confirm and confirm.question,
                "Confirm(state=...)": confirm and confirm.state,
                "App(initial=...)": opening and opening.initial,
            }
            for option, function in functions.items():
                if callable(function) and returns_nothing(function):
                    yield checks.Warning(
                        f"{describe_source(function)} never returns a value, and is {option} of {tool.source}.",
                        hint="Write `return` before what it finds out.",
                        id="django_mcp.apps.W014",
                    )


def _find_unused_keys(tool: ToolEntry, opening: App | None) -> list[str]:
    """Return the required arguments beside a form of a model that changes no object, though they may name one."""
    form = None if opening is None or opening.initial is not None else opening.form
    if not (isinstance(form, type) and issubclass(form, BaseModelForm)):
        return []
    function: Any = tool.handler.function
    origin: Any = inspect.unwrap(innermost(function.stands_for))
    code = getattr(getattr(origin, "__func__", origin), "__code__", None)
    # A form that adds an object has what it belongs to set in the function.
    if code is None or {"instance", "commit"} & {*code.co_names, *_flatten(code.co_consts)}:
        return []
    required = tool.input_schema.get("required", ())
    return [name for name in required if name != function.form_parameter.name]


def _flatten(constants: Iterable[object]) -> Iterator[object]:
    """Yield constants and those in them, as the names of keywords are."""
    for each in constants:
        yield from each if isinstance(each, tuple) else [each]


@check()
def check_ready_apps() -> Iterator[CheckMessage]:
    """Report what a ready-made page names, and would not show."""
    for server in all_servers():
        for tool, shown in _find_shown(server):
            if shown.app is None:
                continue
            for name in find_unknown_members(shown.app, tool.output_schema or {}):
                yield checks.Warning(
                    f"{tool.source} has a page that shows {name!r}, which its results do not have.",
                    hint="Name a member of the output schema, such as 'number' or 'customer.name'.",
                    id="django_mcp.apps.W007",
                )
            actions = find_actions(shown.app)
            unknown = [name for name in actions if name not in server.registry.tools]
            has_key = tool.family is not None or getattr(shown.app, "key", None) is not None
            if unknown or (actions and not has_key):
                what = f"no tool {unknown[0]!r} is there" if unknown else "no key= is given"
                yield checks.Warning(
                    f"{tool.source} has a page with buttons that nobody sees: {what}.",
                    hint="Name tools of the server in actions=, and in key= the member that is their argument.",
                    id="django_mcp.apps.W008",
                )


def _find_shown(server: MCPServer) -> Iterator[tuple[ToolEntry, Shown]]:
    for tool in server.registry.tools.values():
        if EXTENSION in tool.extensions:
            yield tool, tool.extensions[EXTENSION]


def _check_templates(tool: ToolEntry, app: App) -> Iterator[CheckMessage]:
    for template in _templates_of(app):
        try:
            get_template(template)
        except TemplateDoesNotExist:
            yield Error(
                f"{tool.source} has the template {template}, which no engine of TEMPLATES finds.",
                hint=f"Write it, for instance as templates/{template} of the app of the tool.",
                id="django_mcp.apps.E001",
            )
            return
        except TemplateSyntaxError as error:
            yield Error(
                f"The template {template} of {tool.source} cannot be read: {error}",
                id="django_mcp.apps.E002",
            )
            return
    yield from _check_sources(app)
    if app.template is None:
        return
    page = ""
    for language in _languages():
        try:
            with override(language):
                page = render_to_string(app.template)
        except Exception as error:  # noqa: BLE001 - a template of the site may raise anything
            yield Error(
                f"The page {app.template} cannot be rendered in {language}: "
                f"{type(error).__name__}: {error}",
                hint="It gets no request, no user and no data: those come with the result of a call.",
                id="django_mcp.apps.E002",
            )
            return
    yield from _check_content(f"The page {app.template}", examine(page, _origins_of(app)))
    for variable in _find_personal(app.template):
        yield checks.Warning(
            f"The page {app.template} uses {variable:.80}, which is empty, since hosts keep one page for all users.",
            hint="Show it in the fragment, which has the user of each call, or put it into the result.",
            id="django_mcp.apps.W015",
        )
    if app.fragment is not None and not _may_show_part(app.template):
        yield checks.Warning(
            f"{tool.source}: the page {app.template} has no place for the fragment {app.fragment}.",
            hint="Write <div data-mcp-result></div> into the page, or leave fragment= out.",
            id="django_mcp.apps.W016",
        )


_PERSONAL = ("user", "request", "perms", "messages")
"""The variables that templates of a site have for the user of a request."""


def _find_personal(page: str) -> list[str]:
    """Return the variables of a page that stand for its user, which nothing in it gives a value."""
    sources = read_named_sources(page)
    personal = set(_PERSONAL) - {name for each in sources.values() for name in find_bound(each)}
    used = [str(variable.var) for name in sources for variable in find_variables(name)]
    return [each for each in dict.fromkeys(used) if each.partition(".")[0] in personal]


def _may_show_part(page: str) -> bool:
    """Return whether a page has a place for what the server renders, or a script, which may put it somewhere."""
    sources = read_sources(page)
    # A template of another engine is not read.
    return not sources or any(
        mark in source
        for source in sources
        for mark in ("data-mcp-result", "data-mcp-swap", "<script", "mcp_script")
    )


def _check_sources(app: App) -> Iterator[CheckMessage]:
    """Look at the part of a page, which is rendered with data alone."""
    for source in read_sources(app.fragment) if app.fragment is not None else ():
        examined = examine(source, _origins_of(app), is_part=True)
        yield from _check_content(
            f"The template {app.fragment}",
            Examined(
                # What a template writes into an attribute is not known here.
                loaded=[address for address in examined.loaded if "{" not in address],
                problems=examined.refused,
            ),
        )


def _check_content(what: str, examined: Examined) -> Iterator[CheckMessage]:
    for address in dict.fromkeys(examined.loaded):
        yield checks.Warning(
            f"{what} loads {address:.200}, which hosts refuse.",
            hint="Put the file into the page with {% mcp_style %}, {% mcp_script %} or {% mcp_image %}, "
            "or declare its origin in App(csp=Csp(resource=[...])).",
            id="django_mcp.apps.W002",
        )
    for problem in dict.fromkeys(examined.problems):
        yield checks.Warning(f"{what} has a fault: {problem}.", id="django_mcp.apps.W003")


def _has_place(app: App) -> bool:
    """Return whether the page of an app has a place for the part that the server renders."""
    sources = [] if app.template is None else read_sources(app.template)
    return app.template is None or any(
        examine(source, is_part=True).has_place for source in sources
    )


def _origins_of(app: App) -> tuple[str, ...]:
    return () if app.csp is None else app.csp.origins


def _templates_of(app: App | None) -> Iterator[str]:
    if app is not None:
        yield from filter(None, (app.template, app.fragment))


def _languages() -> list[str]:
    """Return the languages of the site: all that it names, or that of the site alone."""
    codes = [code for code, _ in settings.LANGUAGES]
    are_all = codes == [code for code, _ in global_settings.LANGUAGES]
    return [settings.LANGUAGE_CODE] if are_all else codes


@dataclass
class _Calls:
    """What a template calls: names in attributes, and texts in quotation marks of its scripts.

    Attributes:
        calls: the calls with their arguments, as far as these stand there.
        inputs: the names of the inputs that the page has without data, by id.
    """

    attributes: set[str]
    quoted: set[str]
    calls: list[Call]
    inputs: dict[str, str]


def _read_calls(template: str) -> _Calls:
    """Return what a template calls, in what it renders and in its source.

    A part of a page has rows and conditions, which only its source shows.
    """
    try:
        examined = examine(render_to_string(template, {"result": {}}), is_part=True)
    except Exception:  # noqa: BLE001 - reported as E001 or E002
        examined = Examined()
    sources = read_sources(template)
    return _Calls(
        examined.called.union(*map(find_called, sources)),
        examined.quoted,
        [*examined.calls, *(call for source in sources for call in find_calls(source))],
        examined.inputs,
    )
