"""What goes with the registration of a tool: parameters that are forms, and the tool that shows its form.

Forms of Django are loaded only where a site has some.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from django_mcp.extensions.apps.core.app import App, shown_of
from django_mcp.registry.entries import ToolEntry
from django_mcp.servers import MCPServer


def prepare(
    server: MCPServer, function: Callable[..., Any], options: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return the function to register, whose parameters that are forms take what clients send."""
    app = options.get("app")
    is_form = isinstance(app, App) and isinstance(app.form, type)
    if not is_form and "django.forms.forms" not in sys.modules:
        return function
    from django_mcp.extensions.apps.site.form_parameters import take_forms

    return take_forms(server, function, app if is_form else None)


def register_companion(server: MCPServer, entry: ToolEntry) -> None:
    """Register the tool that shows the form of another, if that has one."""
    opening = shown_of(entry).opening
    if opening is None:
        return
    from django_mcp.extensions.apps.site.forms import register_opening_tool

    register_opening_tool(server, entry, opening)


def remove_companion(server: MCPServer, name: str) -> None:
    """Remove the tool that shows the form of another."""
    for tool in list(server._registry.registered["tools"].values()):
        if shown_of(tool).sends_to == name:
            server._registry.remove("tools", tool.name)
