"""URLs of the authorization server, in the namespace that django-oauth-toolkit uses.

`include("django_mcp.urls")` includes them: the metadata at the root, the rest below `OAUTH_PREFIX`.
Other views of the toolkit (registering clients by hand, introspection, the device flow) are left
out: the admin does the first, and no MCP client needs the others.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, path
from oauth2_provider import views as toolkit
from oauth2_provider.models import get_application_model
from oauth2_provider.settings import oauth2_settings

from django_mcp.conf import read_on_import
from django_mcp.contrib.oauth.authorized import authorized_page
from django_mcp.contrib.oauth.consent import ConsentView, refuse_on_page
from django_mcp.contrib.oauth.metadata import OpenIDConfiguration, ServerMetadata
from django_mcp.contrib.oauth.public import FORM, JSON, at_public_url, takes
from django_mcp.contrib.oauth.register import ClientRegistration, Management
from django_mcp.contrib.oauth.sign_ins import Step, reporting
from django_mcp.contrib.oauth.tokens import Token
from django_mcp.endpoints.well_known import View, open_to_pages
from django_mcp.pages.style import style_pattern

app_name = "oauth2_provider"


def _document(view: type[Any]) -> View:
    return open_to_pages("GET", "HEAD")(at_public_url(view.as_view()))


def _endpoint(view: type[Any], *methods: str) -> View:
    return open_to_pages(*methods)(at_public_url(view.as_view()))


def _taker(content_type: str, view: type[Any], step: Step) -> View:
    served = takes(content_type)(at_public_url(view.as_view()))
    return open_to_pages("POST")(reporting(step)(served))


def application_page(_request: HttpRequest, pk: str) -> HttpResponse:
    """Redirect to a client's page in the admin, in place of the toolkit's own page."""
    options = get_application_model()._meta
    try:
        return redirect(f"admin:{options.app_label}_{options.model_name}_change", pk)
    except NoReverseMatch as error:
        raise Http404 from error


_prefix = read_on_import("OAUTH_PREFIX")
_metadata = ".well-known/oauth-authorization-server"
_consent = ConsentView.as_view()
# Both start with reads. In one transaction with them, SQLite would refuse to wait for a write.
_token = transaction.non_atomic_requests(_taker(FORM, Token, Step.TOKEN))
_revoke = transaction.non_atomic_requests(_taker(FORM, toolkit.RevokeTokenView, Step.REVOCATION))

urlpatterns = [
    path(_metadata, _document(ServerMetadata), name="oauth-server-metadata"),
    path(f"{_metadata}/<path:issuer_path>", _document(ServerMetadata)),
    path(
        f"{_prefix}authorize/",
        reporting(Step.AUTHORIZATION)(at_public_url(_consent, refuse_on_page)),
        name="authorize",
    ),
    path(f"{_prefix}token/", _token, name="token"),
    path(f"{_prefix}revoke/", _revoke, name="revoke-token"),
    path(
        f"{_prefix}register/",
        _taker(JSON, ClientRegistration, Step.REGISTRATION),
        name="dcr-register",
    ),
    path(
        f"{_prefix}register/<str:client_id>/",
        _endpoint(Management, "GET", "DELETE"),
        name="dcr-register-management",
    ),
    path(f"{_prefix}applications/<slug:pk>/", application_page, name="detail"),
    path(f"{_prefix}authorized/", authorized_page, name="authorized-token-list"),
    style_pattern(_prefix),
]

if oauth2_settings.OIDC_ENABLED:
    _discovery = ".well-known/openid-configuration"
    urlpatterns += [
        path(_discovery, _document(OpenIDConfiguration), name="oidc-connect-discovery-info"),
        path(f"{_discovery}/<path:issuer_path>", _document(OpenIDConfiguration)),
        path(f"{_prefix}jwks.json", _document(toolkit.JwksInfoView), name="jwks-info"),
        path(
            f"{_prefix}userinfo/", _endpoint(toolkit.UserInfoView, "GET", "POST"), name="user-info"
        ),
    ]
