"""Tools that show the form of another tool: `open_change_quantity` for `change_quantity`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django_mcp.extensions.apps.core.app import App, ArgumentsForm, MakeContext
from django_mcp.registry.entries import ToolEntry
from django_mcp.servers import MCPServer

PREFIX = "open_"
"""What the name of a tool that shows a form begins with."""


def form_app_for(
    *,
    keys: Sequence[str] = (),
    read: str | None = None,
    sources: Mapping[str, str] = MappingProxyType({}),
    template: str | None = None,
    fragment: str | None = None,
    context: MakeContext | None = None,
) -> App:
    """Return the app of a generated tool that writes: its form is made from its input schema.

    Args:
        keys: the arguments that say which object is meant, such as `("number",)`; none for a new object.
        read: the name of the tool that returns the object with these `keys`; see `ArgumentsForm`.
        sources: values of that result that other arguments start with; see `ArgumentsForm`.
        template: the page; None: `django_mcp/apps/form.html`.
        fragment: the template that shows the result of the tool; None: its values in a list.
        context: returns further variables for `fragment`.
    """
    form = ArgumentsForm(keys=tuple(keys), read=read, sources=dict(sources))
    return App(form=form, template=template, fragment=fragment, context=context)


def register_opening_tool(server: MCPServer, tool: ToolEntry, app: App) -> ToolEntry:
    """Register the tool that shows the form of another tool, and return it.

    Its name is `open_` and that of the other; it has the same access rules, and is read-only. `MCPServer.register_tool`
    calls this for a tool with `app=App(form=...)`, so only what registers tools with other options calls it itself.

    Args:
        server: has the tool.
        tool: that the form calls.
        app: with the form, such as `form_app_for(...)` returns.

    Raises:
        RegistrationError: there is a tool of that name, or the form does not fit the tool.
    """
    raise NotImplementedError


__all__: Any = ["form_app_for", "register_opening_tool"]
