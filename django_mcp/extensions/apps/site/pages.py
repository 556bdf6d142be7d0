"""Pages of apps: templates that are rendered once for each language, and parts of them for each result."""

from __future__ import annotations

from functools import partial

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.translation import get_language

from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.apps.core.app import App, Rendered
from django_mcp.extensions.apps.site.ready.describing import describe_ready
from django_mcp.server.services import ServedCall


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

    async def render_fragment(self, app: App, rendered: Rendered, call: ServedCall) -> str:
        """Return the part of a page for the result of a call."""
        # It may use the database as the handler does.
        html: str = await call.server.ports.scope.run(partial(_render, app, rendered), call)
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
