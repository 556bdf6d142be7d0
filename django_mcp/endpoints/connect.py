"""The page on which signed-in users see how to add the servers that they may use to their clients."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import connections, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from django_mcp.auth.addresses import origin_of
from django_mcp.auth.permissions import visible_to
from django_mcp.conf import settings
from django_mcp.endpoints.client_config import (
    KEY_PLACE,
    narrowing_of,
    needs_key,
    texts_of,
    ways_to_connect,
)
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.endpoints.usable_entries import find_key_readers, usable_toolsets
from django_mcp.execution.primary import reading_primary
from django_mcp.pages.policy import protect_public_page
from django_mcp.pages.views import is_switch, switch_account
from django_mcp.servers import MCPServer

CONNECT_PATH = "/mcp/connect/"


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@reading_primary()
def connect_page(request: HttpRequest) -> HttpResponse:
    """Show the servers that the user may use, with the configuration of each client."""
    if not settings.CONNECT_PAGE:
        raise Http404
    if is_switch(request):
        return switch_account(request)
    # Also where the site has no middleware against forged requests.
    return csrf_protect(_show)(request)


for _alias in connections:
    # With `ATOMIC_REQUESTS`, concurrent requests would see neither the guesses nor the keys of each other.
    connect_page = transaction.non_atomic_requests(using=_alias)(connect_page)


@sensitive_variables()
@sensitive_post_parameters("key-password")
def _show(request: HttpRequest) -> HttpResponse:
    # Its model cannot be imported unless the app is installed, which a check reports after the URLs are loaded.
    from django_mcp.endpoints.own_keys import revoke_own, show_keys

    urls = find_urls(request)
    usable = {server: url for server, url in urls.items() if _may_use(request.user, server)}
    with_keys = [server for server in usable if find_key_readers(server)]
    context: dict[str, Any] = {}
    if settings.CONNECT_KEY_DAYS is not None:
        if "revoke" in request.POST:
            revoke_own(request.user, request.POST["revoke"])
            return HttpResponseRedirect(request.path)
        context = show_keys(request, with_keys)
    new_key = context.get("new_key")
    context |= {
        "account": request.user.get_username(),
        "endpoints": [
            _describe(
                server,
                url,
                new_key if server in context.get("new_key_readers", ()) else None,
                usable_toolsets(request.user, [server]),
            )
            for server, url in usable.items()
        ],
        "authorized_url": _find_authorized(),
    }
    response = render(request, "django_mcp/connect.html", context)
    protect_public_page(response)
    response["X-Frame-Options"] = "DENY"
    return response


def find_urls(request: HttpRequest) -> dict[MCPServer, str]:
    """Return the address of each server that has one without captured values, in the order of the URLconf."""
    start = origin_of(request) + get_script_prefix().rstrip("/")
    urls: dict[MCPServer, str] = {}
    for mount in find_mounts():
        if mount.is_fixed and isinstance(mount.server, MCPServer):
            urls.setdefault(mount.server, start + mount.path)
    return urls


def _may_use(user: Any, server: MCPServer) -> bool:
    """Return whether a server has something for a user; others stay unknown to them."""
    authentication = server.engine.authentication
    is_closed = authentication is not None and not (
        authentication.is_public or authentication.authenticators
    )
    if is_closed:
        return False
    visible = visible_to(user, server.engine.derived.requirements)
    return any(visible.includes(entry) for entry in server.registry.entries())


@sensitive_variables()
def _describe(
    server: MCPServer, url: str, new_key: str | None, toolsets: list[str]
) -> dict[str, Any]:
    """Return what the page shows of a server, whose configurations have the new key if there is one."""
    name, description = texts_of(server)
    has_key = bool(new_key)
    is_keyed = not has_key and needs_key(server)
    place = KEY_PLACE if is_keyed else None
    return {
        "name": name,
        "description": description,
        "url": url,
        **narrowing_of(url, toolsets),
        "is_keyed": is_keyed,
        "has_key": has_key,
        "clients": ways_to_connect(server, url, f"Bearer {new_key}" if has_key else place),
    }


def _find_authorized() -> str:
    """Return the address of the page of what the user has allowed; empty without OAuth."""
    try:
        return reverse("oauth2_provider:authorized-token-list")
    except NoReverseMatch:
        return ""
