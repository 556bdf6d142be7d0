"""System checks of what `admin_tools` left out."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import unwrap
from typing import Any

from django.contrib.admin import ModelAdmin

from django_mcp.contrib.generated import Report, report, report_later
from django_mcp.contrib.saving_code import HINT, NOT_WRITTEN, writes_nothing
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
    """Return the methods of a site's admin that tools run, and whose code names the session or the cookies."""
    attributes: dict[str, Any] = {}
    for cls in reversed(type(admin).__mro__):
        attributes.update(vars(cls))
    names = []
    for name in dir(ModelAdmin):
        method: Any = attributes.get(name)
        is_run = not name.endswith("_view") and not name.startswith("response_")
        # What a decorator of Django wraps keeps its own module.
        if not is_run or str(getattr(method, "__module__", "")).startswith("django."):
            continue
        code = getattr(unwrap(method), "__code__", None)
        if code is not None and not _OF_BROWSER.isdisjoint(code.co_names):
            names.append(name)
    return names


_OF_BROWSER = frozenset(("session", "COOKIES"))


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
