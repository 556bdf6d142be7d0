"""The preview of a tool's page: the page in a sandboxed frame, to which a script of the admin is the host.

The frame has a URL of its own, since a page in `srcdoc` would be held to the policy of the admin, which allows
no script in the markup. Its policy is the one that hosts make of the origins that the app declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _t

from django_mcp import __version__
from django_mcp.admin.base import get_server_or_404, require_permissions
from django_mcp.extensions.apps.core.app import EXTENSION, App, Csp, Shown
from django_mcp.extensions.apps.core.extension import AppsExtension
from django_mcp.inprocess.results import MCPError
from django_mcp.pages.policy import HEADER
from django_mcp.registry.entries import Entry
from django_mcp.servers import MCPServer

if TYPE_CHECKING:
    from django_mcp.admin.base import Page


def find_section(page: Page, server: MCPServer, entry: Entry) -> dict[str, Any] | None:
    """Return the section of an entry's page: its template, scripts and variables; None: it has none."""
    if _find_app(server, entry.name) is None:
        return None
    shown = {name: _shown_of(tool) for name, tool in server.registry.tools.items()}
    query = urlencode({"server": server.name, "tool": entry.name})
    return {
        "template": "admin/django_mcp/app_preview.html",
        "scripts": ["django_mcp/admin/app_preview.js"],
        "frames": "'self'",
        "widths": (320, 600, 900),
        "given": {
            "url": f"{page.url_of('preview')}?{query}",
            "version": __version__,
            # Hosts let pages call what is visible to them.
            "hidden": [name for name, of in shown.items() if of.visibility == ("model",)],
        },
    }


def preview_view(request: HttpRequest) -> HttpResponse:
    """Return the page of a tool, as far as the operator may read it, for a frame of the admin alone."""
    require_permissions(request, "view_disabledentry", "try_entry")
    server = get_server_or_404(request.GET.get("server"))
    app = _find_app(server, request.GET.get("tool", ""))
    status, text, content_type = (
        404,
        _t("You may not read this page, or there is none."),
        "text/plain",
    )
    if app is not None:
        try:
            text, content_type, status = _read(server, app, request), "text/html", 200
        except MCPError as error:
            text = str(error)
    response = HttpResponse(text, content_type=f"{content_type}; charset=utf-8", status=status)
    response[HEADER] = write_policy(None if app is None else app.csp)
    # Django's middleware would forbid all frames.
    response["X-Frame-Options"] = "SAMEORIGIN"
    response["X-Content-Type-Options"] = "nosniff"
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store"
    return response


VIEWS = {"preview": preview_view}
"""Views of the catalogue, by the end of their URL and their name."""


def write_policy(csp: Csp | None) -> str:
    """Return the Content-Security-Policy of a page, as hosts make it of the origins that an app declares.

    `sandbox` makes the page one of no origin, also in a window of its own, so that it can read nothing of the admin.
    """
    csp = csp or Csp()
    loaded = " ".join(csp.resource)
    sources: Mapping[str, Sequence[str]] = {
        "default-src": (),
        "script-src": ("'unsafe-inline'", loaded),
        "style-src": ("'unsafe-inline'", loaded),
        "img-src": ("data:", loaded),
        "font-src": ("data:", loaded),
        "media-src": ("data:", loaded),
        "connect-src": csp.connect,
        "frame-src": csp.frame,
        "base-uri": csp.base_uri,
        "form-action": (),
    }
    directives = [
        " ".join([name, *(filter(None, of) if any(of) else ("'none'",))])
        for name, of in sources.items()
    ]
    return "; ".join(["sandbox allow-scripts", *directives, "frame-ancestors 'self'"])


def _read(server: MCPServer, app: App, request: HttpRequest) -> str:
    extension = cast("AppsExtension", server.engine.extensions[EXTENSION])
    uri = extension.uri_of(app.template or "")
    return server.read_resource(uri, user=request.user, request=request).text


def _shown_of(entry: Entry) -> Shown:
    shown: Shown = entry.extensions.get(EXTENSION, Shown())
    return shown


def _find_app(server: MCPServer, tool: str) -> App | None:
    """Return the app of a tool with a page; None: it has no page."""
    entry = server.registry.tools.get(tool)
    app = None if entry is None else _shown_of(entry).app
    return None if app is None or app.template is None else app
