"""The preview of a tool's page: the page in a sandboxed frame, to which a script of the admin is the host.

The frame has a URL of its own, since a page in `srcdoc` would be held to the policy of the admin, which allows
no script in the markup. Its policy is the one that hosts make of the origins that the app declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _t
from django.views.decorators.http import require_POST

from django_mcp import __version__
from django_mcp.admin.base import get_server_or_404, require_permissions
from django_mcp.admin.texts import escape_invisible
from django_mcp.extensions.apps.admin import find_app
from django_mcp.extensions.apps.admin.as_user import (
    PARAMETER,
    call_view,
    find_choice,
    find_chosen,
    is_for_others,
    make_principal,
    make_request,
    note_preview,
)
from django_mcp.extensions.apps.core.app import EXTENSION, App, Csp, shown_of
from django_mcp.extensions.apps.core.extension import AppsExtension
from django_mcp.inprocess.results import MCPError
from django_mcp.pages.policy import HEADER
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.servers import MCPServer

if TYPE_CHECKING:
    from django_mcp.admin.base import Page

_STYLES = ("admin/css/forms.css",)
_SCRIPTS = (
    "admin/js/vendor/jquery/jquery.min.js",
    "admin/js/jquery.init.js",
    "admin/js/admin/RelatedObjectLookups.js",
)
"""Files of Django's admin for the window in which a user is chosen."""


def find_section(
    page: Page, request: HttpRequest, server: MCPServer, entry: Entry
) -> dict[str, Any] | None:
    """Return the section of an entry's page: its template, scripts and variables; None: it has none."""
    if not isinstance(entry, ToolEntry) or find_app(server.registry.tools.get(entry.name)) is None:
        return None
    given, user = request.GET.get(PARAMETER), None
    if given:
        user = find_chosen(request, given)
        if user is None or not is_for_others(server, entry):
            messages.error(request, _t("This page cannot be previewed as that user."))
            user = None
    shown = {name: shown_of(tool) for name, tool in server.registry.tools.items()}
    query = {"server": server.name, "tool": entry.name}
    caller = None
    if user is not None:
        query[PARAMETER] = user.pk
        caller = {
            "name": escape_invisible(user.get_username(), 150),
            "url": page.url_of("preview_call"),
            "sent": {"app": entry.name, PARAMETER: str(user.pk)},
        }
    choice = find_choice(page, request, server, entry, user)
    return {
        "template": "admin/django_mcp/app_preview.html",
        "styles": () if choice is None else _STYLES,
        "scripts": [*(() if choice is None else _SCRIPTS), "django_mcp/admin/app_preview.js"],
        "frames": "'self'",
        "widths": (320, 600, 900),
        "caller": caller,
        "choice": choice,
        "given": {
            "url": f"{page.url_of('preview')}?{urlencode(query)}",
            "version": __version__,
            # Hosts let pages call what is visible to them.
            "hidden": [name for name, of in shown.items() if of.visibility == ("model",)],
        },
    }


def preview_view(request: HttpRequest) -> HttpResponse:
    """Return the page of a tool, as far as the operator may read it, for a frame of the admin alone."""
    require_permissions(request, "view_disabledentry", "try_entry")
    server = get_server_or_404(request.GET.get("server"))
    tool, given = request.GET.get("tool", ""), request.GET.get(PARAMETER)
    entry = server.registry.tools.get(tool)
    app, user = find_app(entry), None
    if given is not None:
        user = find_chosen(request, given)
        if user is None or entry is None or not is_for_others(server, entry):
            raise Http404
    status, text, content_type = (
        404,
        _t("You may not read this page, or there is none."),
        "text/plain",
    )
    if app is not None:
        try:
            if user is not None:
                note_preview(request, tool, _t("Previewed as %(user)s (%(pk)s)."), user)
            text, content_type, status = _read(server, app, request, user), "text/html", 200
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


VIEWS = {"preview": preview_view, "preview_call": require_POST(call_view)}
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


def _read(server: MCPServer, app: App, request: HttpRequest, user: Any) -> str:
    extension = cast("AppsExtension", server.engine.extensions[EXTENSION])
    uri = extension.uri_of(app.template or "")
    if user is None:
        return server.read_resource(uri, user=request.user, request=request).text
    principal, source = make_principal(user, request.user), make_request(request)
    return server.read_resource(uri, user=principal, request=source).text
