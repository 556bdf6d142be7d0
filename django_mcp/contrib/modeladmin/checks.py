"""System checks of what `admin_tools` left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import isfunction, unwrap
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin

from django_mcp.contrib.generated import Report, report, report_later
from django_mcp.contrib.saving_code import HINT, NOT_WRITTEN, writes_nothing
from django_mcp.registry.problems import is_of_framework
from django_mcp.servers import MCPServer


def note_problem(server: MCPServer, what: str, problem: str, hint: str) -> None:
    """Have `manage.py check` say why something did not become a tool."""
    report(server, f"{what} is no tool: {problem}.", hint, "django_mcp.modeladmin.W001")


def note_no_models(server: MCPServer, reason: str) -> None:
    """Have `manage.py check` say that there are no tools, since there are no models."""
    hint = 'Register the models on the site that site= names, or write models=["shop.order"] or models="__all__".'
    report(server, f"admin_tools() makes no tools: {reason}.", hint, "django_mcp.modeladmin.W001")


def note_credentials(server: MCPServer, what: str, word: str, hint: str) -> None:
    """Have `manage.py check` say what is no tool, since its name is about passwords, tokens or sign-ins."""
    message = f"{what} is no tool: {word} is about passwords, tokens or sign-ins."
    report(server, message, hint, "django_mcp.modeladmin.W003")


def note_unasked(server: MCPServer, what: str, names: Sequence[str]) -> None:
    """Have `manage.py check` warn of methods that no tool runs and that may have rules."""
    message = f"{what} has methods of its own that no tool runs: {', '.join(names)}."
    hint = (
        "Move rules in them to get_queryset(), get_form() or the has_..._permission() methods. "
        "If they have none, silence this check."
    )
    report(server, message, hint, "django_mcp.modeladmin.W002")


def note_session_readers(server: MCPServer, what: str, names: Sequence[str]) -> None:
    """Have `manage.py check` warn of methods that look at the session or the cookies of a browser."""
    methods = ", ".join(f"{name}()" for name in names)
    message = f"{what} reads the session or cookies of the request in {methods}. A call has none."
    hint = (
        "Decide by request.user there, or leave the model out with exclude=. If no rule depends on them, silence "
        "this check."
    )
    report(server, message, hint, "django_mcp.modeladmin.W004")


def find_session_readers(admin: ModelAdmin[Any]) -> list[str]:
    """Return the methods of a site's admin that tools run, and whose code looks at the session or the cookies."""
    # `get_urls` names views of the site, which read what they like.
    names = [
        name
        for name in dir(ModelAdmin)
        if not name.endswith(("_view", "urls")) and not name.startswith("response_")
    ]
    return _find_readers(type(admin), names)


def note_session_of_site(server: MCPServer, site: AdminSite) -> None:
    """Have `manage.py check` warn of an admin site whose `has_permission()` looks at the session or the cookies."""
    # The default site is lazy.
    kind = site.__class__
    if readers := _find_readers(kind, ["has_permission"]):
        note_session_readers(server, f"{kind.__module__}.{kind.__qualname__}", readers)


def _find_readers(cls: type, names: Iterable[str]) -> list[str]:
    attributes: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        attributes.update(vars(each))
    return [name for name in names if _reads_browser(attributes.get(name), attributes, set())]


def _reads_browser(method: Any, attributes: dict[str, Any], seen: set[Any]) -> bool:
    """Return whether a function of the site, or one of the same package that it calls, names what only a browser sends.

    Args:
        method: a function, or anything else.
        attributes: of the class, by name.
        seen: what was looked at before.
    """
    # What a decorator of Django wraps keeps its own module.
    if method is None or is_of_framework(method):
        return False
    function = getattr(method, "__func__", method)
    function = unwrap(function) if callable(function) else function
    code = getattr(function, "__code__", None)
    if code is None or function in seen:
        return False
    seen.add(function)
    if not _OF_BROWSER.isdisjoint(code.co_names):
        return True
    called = [
        each.get(name) for name in code.co_names for each in (attributes, function.__globals__)
    ]
    # What other packages call a session is often another thing.
    package = _package_of(function)
    return any(
        _reads_browser(each, attributes, seen)
        for each in called
        if isfunction(each) and _package_of(each) == package
    )


def _package_of(function: Any) -> str:
    return str(function.__module__).partition(".")[0]


_OF_BROWSER = frozenset(("session", "COOKIES", "get_signed_cookie"))


def note_unsaved(server: MCPServer, what: str, admin: ModelAdmin[Any], name: str) -> None:
    """Have `manage.py check` warn of a method of a site's admin that is to write, and writes nothing."""
    method = getattr(admin, name)

    def find() -> Report | None:
        if method.__module__.startswith("django.") or not writes_nothing(method):
            return None
        return f"{what}: {name}() of its admin {NOT_WRITTEN}.", HINT.format(name), "django_mcp.M014"

    report_later(server, find)


def note_left_out(server: MCPServer, what: str, problem: str) -> None:
    """Have `manage.py check` say what a tool lacks."""
    hint = "Silence this check if the tools need none."
    report(server, f"{what}: {problem}.", hint, "django_mcp.modeladmin.I001")
