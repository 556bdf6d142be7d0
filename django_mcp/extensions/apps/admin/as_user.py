"""Preview a page as another user: who may, of which tools, and the calls, which can only read.

The handlers get a request without anything of a browser's, and a principal whose key names both the user and the
operator.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from django.contrib.admin.widgets import ForeignKeyRawIdWidget
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _t

from django_mcp.admin.base import get_server_or_404, note_actions, require_permissions
from django_mcp.admin.texts import escape_invisible
from django_mcp.admin.try_it import (
    PASSED_ON,
    read_body,
    refuse_call,
    revision_tried,
    stream_call,
)
from django_mcp.auth.principal import AuthInfo, Principal, make_key
from django_mcp.auth.users import find_users, is_active, is_superuser
from django_mcp.extensions.apps.admin import find_app
from django_mcp.models import DisabledEntry
from django_mcp.protocol.errors import invalid_params
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.visibility import only_reads
from django_mcp.servers import MCPServer

if TYPE_CHECKING:
    from django_mcp.admin.base import Page

PARAMETER = "as_user"
"""Of the pages' URLs and the body of a call: the primary key of the user."""

KIND = "admin-preview"
"""The kind of credentials of such calls, with which the key of their principal begins."""

MAX_KEY_LENGTH = 100


def may_choose(operator: Any) -> bool:
    """Return whether an operator may preview pages as another user."""
    return is_active(operator) and is_superuser(operator)


def is_for_others(server: MCPServer, entry: ToolEntry) -> bool:
    """Return whether the page of a tool can be previewed as another user: nothing but reading opens it."""
    other = server.registry.tools.get(entry.used_with or "")
    return only_reads(entry) and (other is None or only_reads(other))


def find_chosen(request: HttpRequest, given: object) -> Any:
    """Return the active user of a primary key; None if there is none.

    For operators who may not choose a user, the parameter does not exist: they get Http404.
    """
    if not may_choose(request.user):
        raise Http404
    text = str(given)
    if not isinstance(given, str | int) or len(text) > MAX_KEY_LENGTH or "\0" in text:
        return None
    try:
        pk = get_user_model()._meta.pk.to_python(text)
        users = find_users([pk])
    except (ValidationError, ValueError, OverflowError):
        return None
    return next((user for user in users.values() if is_active(user)), None)


def make_principal(user: Any, operator: Any) -> Principal:
    """Return the principal of a user on whose behalf an operator calls what only reads."""
    return Principal(
        key=make_key(KIND, user.pk, operator.pk),
        user=user,
        auth=AuthInfo(
            subject=str(user.pk),
            client_id=str(operator.pk),
            authenticator=KIND,
            has_all_scopes=True,
            read_only=True,
        ),
    )


def make_request(source: HttpRequest) -> HttpRequest:
    """Return a request to the site at which a request has arrived, and with nothing else of that."""
    return WSGIRequest(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/",
            "SERVER_NAME": source.META.get("SERVER_NAME", ""),
            "SERVER_PORT": source.META.get("SERVER_PORT", ""),
            "HTTP_HOST": source.get_host(),
            "wsgi.url_scheme": source.scheme,
            "wsgi.input": BytesIO(),
        }
    )


def note_preview(request: HttpRequest, name: str, message: str, user: Any) -> None:
    """Record in the admin's history what an operator has done as a user with a tool."""
    named = {"user": escape_invisible(user.get_username(), 150), "pk": user.pk}
    note_actions(request, DisabledEntry, (escape_invisible(name, 200), message % named, None))


def find_choice(
    page: Page, request: HttpRequest, server: MCPServer, entry: ToolEntry, user: Any
) -> dict[str, Any] | None:
    """Return the form that chooses the user of a preview; None: nobody can be chosen here."""
    if not may_choose(request.user) or not is_for_others(server, entry):
        return None
    relation = DisabledEntry._meta.get_field("disabled_by").remote_field
    field = ForeignKeyRawIdWidget(relation, page.admin_site)
    value = None if user is None else user.pk
    attributes = {"id": f"id_{PARAMETER}", "maxlength": MAX_KEY_LENGTH, "autocomplete": "off"}
    return {
        "field": field.render(PARAMETER, value, attributes),
        "name": None if user is None else escape_invisible(user.get_username(), 150),
        "kept": [
            (name, value)
            for name, value in request.GET.items()
            if name not in (PARAMETER, "call") and "\0" not in value
        ],
    }


def call_view(request: HttpRequest) -> HttpResponseBase:
    """Call a tool that reads for the page of another one, as the chosen user, and stream the messages."""
    require_permissions(request, "view_disabledentry", "try_entry")
    given = read_body(request, ("server", "revision", "method", "params", "app", PARAMETER))
    user = None if given is None else find_chosen(request, given.get(PARAMETER))
    params = None if given is None else given.get("params")
    if given is None or not isinstance(params, dict):
        return JsonResponse({"error": "not a call"}, status=400)
    server = get_server_or_404(given.get("server"))
    opening = server.registry.tools.get(str(given.get("app")))
    if user is None or opening is None or find_app(opening) is None:
        raise Http404
    name = params.get("name")
    refused = _find_refusal(server, opening, given.get("method"), name)
    if refused is not None:
        return refuse_call(invalid_params(refused))
    note_preview(request, str(name), _t("Called as %(user)s (%(pk)s) from the catalogue."), user)
    source = make_request(request)
    caller = Caller(principal=make_principal(user, request.user), build_request=lambda: source)
    params = {key: value for key, value in params.items() if key in PASSED_ON}
    revision = revision_tried(server, given.get("revision"))
    return stream_call(
        request, server, "tools/call", params, revision, caller=caller, may_ask=False
    )


def _find_refusal(
    server: MCPServer, opening: ToolEntry, method: object, name: object
) -> str | None:
    """Return why a call for the page of a tool may not be made as another user; None: it may."""
    if not is_for_others(server, opening):
        return _t("Only the page of a tool that reads can be previewed as another user.")
    if method != "tools/call" or not isinstance(name, str):
        return _t("As another user, only tools can be called.")
    entry = server.registry.tools.get(name)
    if entry is not None and not is_for_others(server, entry):
        told = _t("As another user, only tools that read can be called, and “%(name)s” may write.")
        return told % {"name": escape_invisible(entry.name, 200)}
    return None
