"""Dynamic client registration (RFC 7591) for MCP clients, with limits."""

from __future__ import annotations

import time
from typing import Any

from django.http import HttpRequest, HttpResponse
from oauth2_provider.views import DynamicClientRegistrationView

from django_mcp.contrib.oauth.limits import (
    find_wait_for_room_s,
    new_clients_of,
    registration_tries_of,
)
from django_mcp.contrib.oauth.names import clean_name
from django_mcp.contrib.oauth.redirects import is_safe_redirect
from django_mcp.endpoints.well_known import refusal
from django_mcp.protocol.json import decode, encode, has_repeated_keys

MAX_BODY_BYTES = 16 * 1024
MAX_REDIRECT_URIS = 10

GRANTS = frozenset({"authorization_code", "refresh_token"})


class Registration(DynamicClientRegistrationView):
    """Registers public and confidential clients of the authorization code grant, within limits."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Register a client, or return an error.

        Rejected metadata does not count against the registrations of an address, so that others behind
        the same address can still register.
        """
        address = request.META.get("REMOTE_ADDR", "")
        tries, registrations = registration_tries_of(address), new_clients_of(address)
        if not tries.take():
            return _refuse_for_now("Too many registrations were tried from here", tries.wait_s)
        refused = _check_metadata(request)
        if refused is not None:
            return refused
        if not registrations.take():
            return _refuse_for_now(
                "Too many clients were registered from here", registrations.wait_s
            )
        response = self._register(request, *args, **kwargs)
        if response.status_code != 201:
            registrations.give_back()
        return response

    def _register(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait_s = find_wait_for_room_s("dcr")
        if wait_s:
            return _refuse_for_now("No more clients can register now", wait_s)
        response: HttpResponse = super().post(request, *args, **kwargs)
        if response.status_code == 201:
            _complete(response)
        return response


def _refuse_for_now(description: str, wait_s: int) -> HttpResponse:
    response = refusal("temporarily_unavailable", description, 429)
    response["Retry-After"] = str(wait_s)
    return response


def _check_metadata(request: HttpRequest) -> HttpResponse | None:
    if len(request.body) > MAX_BODY_BYTES:
        return refusal("invalid_client_metadata", "The metadata is too long", 413)
    try:
        data = decode(request.body)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        return refusal("invalid_client_metadata", "The metadata must be a JSON object", 400)
    if has_repeated_keys(request.body):
        return refusal("invalid_client_metadata", "A key occurs more than once", 400)
    name = data.get("client_name", "")
    if not isinstance(name, str) or clean_name(name) != name:
        return refusal("invalid_client_metadata", "client_name cannot be shown to people", 400)
    grants = data.get("grant_types", ["authorization_code"])
    if not isinstance(grants, list) or not all(
        grant in GRANTS for grant in grants if _is_text(grant)
    ):
        return refusal("invalid_client_metadata", f"Grants are: {', '.join(sorted(GRANTS))}", 400)
    return _check_redirects(data.get("redirect_uris"))


def _check_redirects(uris: object) -> HttpResponse | None:
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_REDIRECT_URIS:
        wanted = f"1 to {MAX_REDIRECT_URIS} redirect_uris are needed"
        return refusal("invalid_redirect_uri", wanted, 400)
    if not all(_is_text(uri) and is_safe_redirect(uri) for uri in uris):
        wanted = "Redirects go over https, or over http to a loopback address, without code, error, iss or state"
        return refusal("invalid_redirect_uri", wanted, 400)
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _complete(response: HttpResponse) -> None:
    """Add the fields of RFC 7591 section 3.2.1 for a secret, and those that clients expect."""
    data: Any = decode(response.content)
    data["client_id_issued_at"] = int(time.time())
    data["response_types"] = ["code"]
    if "client_secret" in data:
        data["client_secret_expires_at"] = 0
    response.content = encode(data)
    response["Cache-Control"] = "no-store"
