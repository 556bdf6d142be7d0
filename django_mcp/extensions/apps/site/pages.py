"""Pages of apps: templates that are rendered once for each language, and parts of them for each result."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.translation import get_language

from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.apps.core.app import App, Rendered
from django_mcp.extensions.apps.site.ready.describing import describe_ready, is_ready
from django_mcp.protocol.json import encode
from django_mcp.server.services import ServedCall

MAX_VALUES = 20_000
"""Of a result that is rendered, with the names of members: each may be a row of the page."""

MAX_REPEATED_CHARS = 64 * 1024 * 1024
"""What a page may become that shows the longest text of the result with each value."""


MAX_ARGUMENTS_CHARS = 20_000
"""Of the arguments of a call whose result is shown by a ready-made app, which has them in each heading and button."""


class SiteTemplates:
    """The templates that the engines of this site find."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, str | None], str] = {}

    async def render_page(self, template: str) -> str:
        """Return a page in the active language, rendered once unless `DEBUG` is on.

        It gets neither a request nor a user: hosts load a page before a call and keep it.
        """
        key = template, get_language()
        page = None if settings.DEBUG else self._pages.get(key)
        if page is None:
            page = self._pages[key] = await run_in_pool(partial(render_to_string, template))
        return page

    async def render_fragment(
        self, app: App, rendered: Rendered, call: ServedCall, room: int
    ) -> str | None:
        """Return the part of a page for the result of a call; None: it, or the result, is too large."""

        def render() -> str | None:
            # Ready-made apps show as much of a result as is bounded, but repeat the arguments.
            if is_ready(app):
                if len(encode(rendered.arguments)) > MAX_ARGUMENTS_CHARS:
                    return None
            elif not _may_be_rendered(rendered.result, rendered.arguments):
                return None
            html = _render(app, rendered)
            # Before the event loop has to encode it.
            return html if len(html) <= room and len(encode(html)) <= room else None

        # It may use the database as the handler does.
        html: str | None = await call.server.ports.scope.run(render, call)
        return html


def _render(app: App, rendered: Rendered) -> str:
    context = {
        "result": rendered.result,
        "arguments": rendered.arguments,
        "tool": rendered.tool,
        "user": rendered.user,
    }
    context |= rendered.variables
    context |= describe_ready(app, rendered)
    if app.context is not None:
        context |= app.context(rendered)
    return render_to_string(app.fragment or "", context)


def _may_be_rendered(result: Any, arguments: Any) -> bool:
    """Return whether the time and the memory to render a result are bounded, with a loop over its values.

    Each turn of the loop may show all of the arguments.
    """
    count, longest = 0, len(encode(arguments))
    left = [result]
    while left and count <= MAX_VALUES:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left += value.keys()
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str):
            longest = max(longest, len(value))
    return count <= MAX_VALUES and count * longest <= MAX_REPEATED_CHARS
