"""The common part of all OAuth views: they use the site's public URL."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_mcp.auth.addresses import origin_of
from django_mcp.endpoints.well_known import View, refusal
from django_mcp.server.services.ports import StoreUnavailable

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


def at_public_url(view: View) -> View:
    """Give a view of django-oauth-toolkit, which builds URLs from its request, the public URL."""

    @wraps(view)
    def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if _has_nul(request):
            # PostgreSQL would reject it with an internal error.
            return refusal("invalid_request", "A parameter holds a NUL character", 400)
        parts = urlsplit(origin_of(request))
        request.META["HTTP_HOST"] = parts.netloc
        request.META.pop("HTTP_X_FORWARDED_HOST", None)
        # The instance attribute replaces the method that reads the connection or the proxy's header.
        vars(request)["_get_scheme"] = lambda: parts.scheme
        _forget_proxy(request, parts.scheme)
        try:
            return view(request, *args, **kwargs)
        except StoreUnavailable:
            response = refusal("temporarily_unavailable", "Nothing can be counted now", 503)
            response["Retry-After"] = "2"
            return response

    return serve


def takes(content_type: str) -> Callable[[View], View]:
    """Let a view accept posts of one content type only, without reading any other body.

    It must come before anything that reads `request.POST`: after that, the body of a multipart form
    is no longer available.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "POST" and request.content_type != content_type:
                return refusal("invalid_request", f"The Content-Type must be {content_type}", 415)
            return view(request, *args, **kwargs)

        return serve

    return decorate


def _has_nul(request: HttpRequest) -> bool:
    return any(
        "\0" in text
        for values in (request.GET, request.POST)
        for _name, texts in values.lists()
        for text in texts
    )


def _forget_proxy(request: HttpRequest, scheme: str) -> None:
    if settings.SECURE_PROXY_SSL_HEADER:
        name, secure_value = settings.SECURE_PROXY_SSL_HEADER
        request.META[name] = secure_value if scheme == "https" else "http"
