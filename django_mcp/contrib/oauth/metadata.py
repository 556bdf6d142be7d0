"""The authorization server's metadata: django-oauth-toolkit's, for a single issuer."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import get_script_prefix, reverse
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import ConnectDiscoveryInfoView, OAuthServerMetadataView

from django_mcp.auth.addresses import origin_of
from django_mcp.contrib.oauth.key_sets import ALGORITHMS
from django_mcp.contrib.oauth.protected_resources import find_endpoint
from django_mcp.contrib.oauth.tokens import DEVICE_CODE
from django_mcp.endpoints.well_known import refusal
from django_mcp.protocol.json import decode


def issuer_of(request: HttpRequest) -> str:
    """Return the issuer of this site's tokens, as in metadata and authorization responses."""
    fixed: str = oauth2_settings.OIDC_ISS_ENDPOINT
    return fixed or origin_of(request) + get_script_prefix().rstrip("/")


def token_endpoint_of(request: HttpRequest) -> str:
    """Return the address of the token endpoint, as in the metadata."""
    path, fixed = reverse("oauth2_provider:token"), urlsplit(oauth2_settings.OIDC_ISS_ENDPOINT)
    origin = f"{fixed.scheme}://{fixed.netloc}" if fixed.netloc else origin_of(request)
    return origin + path


class _OfOneIssuer:
    """Responds at the well-known path, alone or followed by the issuer's or an endpoint's path.

    Clients of 2025-03-26 treat an endpoint as its own authorization server and append its path.
    """

    def get(self, request: HttpRequest, issuer_path: str = "") -> HttpResponse:
        if issuer_path and not _is_known(issuer_path, request):
            return refusal("not_found", "There is no authorization server of this path", 404)
        response = super().get(request)  # type: ignore[misc]
        data: dict[str, Any] = cast("dict[str, Any]", decode(response.content))
        data["issuer"] = issuer_of(request)
        data["code_challenge_methods_supported"] = ["S256"]
        for endpoint in ("token_endpoint", "revocation_endpoint"):
            if "private_key_jwt" in data.get(f"{endpoint}_auth_methods_supported", ()):
                # Required beside the method (RFC 8414 section 2).
                name = f"{endpoint}_auth_signing_alg_values_supported"
                data[name] = list(ALGORITHMS)
        if "grant_types_supported" in data:
            data["grant_types_supported"] = [
                grant for grant in data["grant_types_supported"] if grant != DEVICE_CODE
            ]
        return JsonResponse(data)


def _is_known(path: str, request: HttpRequest) -> bool:
    url = f"{origin_of(request)}/{path}".rstrip("/")
    return url == issuer_of(request) or find_endpoint(url, request) is not None


class ServerMetadata(_OfOneIssuer, OAuthServerMetadataView):
    """RFC 8414, at `/.well-known/oauth-authorization-server`."""


class OpenIDConfiguration(_OfOneIssuer, ConnectDiscoveryInfoView):
    """OpenID Connect Discovery, at `/.well-known/openid-configuration` while OIDC is on."""
