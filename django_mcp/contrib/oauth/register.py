"""Dynamic client registration (RFC 7591): django-oauth-toolkit's, for MCP clients only and not too often."""

from __future__ import annotations

import ipaddress
import time
from datetime import timedelta
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import DynamicClientRegistrationView

from django_mcp.conf import settings
from django_mcp.contrib.oauth.names import inert
from django_mcp.contrib.oauth.public import refusal
from django_mcp.contrib.oauth.redirects import is_safe_redirect
from django_mcp.protocol.json import decode, encode

__all__ = ["Registration"]

MAX_BODY_BYTES = 16 * 1024
MAX_REDIRECT_URIS = 10
HOUR_S = 3600
UNUSED_AFTER = timedelta(hours=1)
"""How old a client without a code or token has to be before it makes room for others."""

GRANTS = frozenset({"authorization_code", "refresh_token"})


class Registration(DynamicClientRegistrationView):
    """Registers clients that change codes for tokens, for anybody, within bounds."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        refused = _refuse_flood(request) or _refuse_metadata(request) or _refuse_full_house()
        if refused is not None:
            return refused
        response: HttpResponse = super().post(request, *args, **kwargs)
        if response.status_code == 201:
            _complete(response)
        return response


def _refuse_flood(request: HttpRequest) -> HttpResponse | None:
    limit = settings.OAUTH_REGISTRATIONS_PER_HOUR
    window = int(time.time()) // HOUR_S
    key = f"django_mcp:oauth:register:{_network(request.META.get('REMOTE_ADDR', ''))}:{window}"
    cache.add(key, 0, HOUR_S)
    try:
        count = cache.incr(key)
    except ValueError:
        # It went out of the cache between the two calls.
        count = 1
    if count <= limit:
        return None
    response = refusal("temporarily_unavailable", "Too many clients were registered from here", 429)
    response["Retry-After"] = str(HOUR_S - int(time.time()) % HOUR_S)
    return response


def _network(address: str) -> str:
    """Return what counts as one address: of IPv6, what one customer gets."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if ip.version == 4:
        return str(ip)
    return str(ipaddress.ip_network((ip, 64), strict=False).network_address)


def _refuse_metadata(request: HttpRequest) -> HttpResponse | None:
    if len(request.body) > MAX_BODY_BYTES:
        return refusal("invalid_client_metadata", "The metadata is too long", 413)
    try:
        data = decode(request.body)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        return refusal("invalid_client_metadata", "The metadata must be a JSON object", 400)
    name = data.get("client_name", "")
    if not isinstance(name, str) or inert(name) != name:
        return refusal("invalid_client_metadata", "client_name cannot be shown to people", 400)
    grants = data.get("grant_types", ["authorization_code"])
    if not isinstance(grants, list) or not all(
        grant in GRANTS for grant in grants if _is_text(grant)
    ):
        return refusal("invalid_client_metadata", f"Grants are: {', '.join(sorted(GRANTS))}", 400)
    return _refuse_redirects(data.get("redirect_uris"))


def _refuse_redirects(uris: object) -> HttpResponse | None:
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_REDIRECT_URIS:
        wanted = f"1 to {MAX_REDIRECT_URIS} redirect_uris are needed"
        return refusal("invalid_redirect_uri", wanted, 400)
    if not all(_is_text(uri) and is_safe_redirect(uri) for uri in uris):
        wanted = "Redirects go over https, or over http to a loopback address"
        return refusal("invalid_redirect_uri", wanted, 400)
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _refuse_full_house() -> HttpResponse | None:
    """Refuse when there are too many clients, once those that nobody uses are gone."""
    applications = get_application_model().objects.filter(registration_source="dcr")
    if applications.count() < settings.OAUTH_MAX_REGISTERED:
        return None
    unused = applications.filter(created__lt=timezone.now() - UNUSED_AFTER)
    for model in (get_grant_model(), get_refresh_token_model()):
        unused = unused.exclude(pk__in=model.objects.values("application"))
    access_tokens = get_access_token_model().objects.filter(application__isnull=False)
    # The one that came with the registration is no use of it.
    used = access_tokens.exclude(scope=oauth2_settings.DCR_REGISTRATION_SCOPE)
    unused.exclude(pk__in=used.values("application")).delete()
    if applications.count() < settings.OAUTH_MAX_REGISTERED:
        return None
    response = refusal("temporarily_unavailable", "No more clients can register now", 429)
    response["Retry-After"] = str(HOUR_S)
    return response


def _complete(response: HttpResponse) -> None:
    """Add what RFC 7591 section 3.2.1 wants beside a secret, and what clients look for."""
    data: Any = decode(response.content)
    data["client_id_issued_at"] = int(time.time())
    data["response_types"] = ["code"]
    if "client_secret" in data:
        data["client_secret_expires_at"] = 0
    response.content = encode(data)
    response["Cache-Control"] = "no-store"
