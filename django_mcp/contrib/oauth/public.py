"""What all our OAuth views have in common: they speak under the site's public address, and with CORS."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from django_mcp.auth.addresses import origin_of
from django_mcp.server.services.ports import StoreUnavailable

__all__ = ["FORM", "JSON", "View", "at_public_url", "open_to_pages", "refusal", "takes"]

View: TypeAlias = Callable[..., HttpResponseBase]

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"

_REQUEST_HEADERS = "Authorization, Content-Type, MCP-Protocol-Version"
MAX_AGE_S = 7200


def at_public_url(view: View) -> View:
    """Let a view of django-oauth-toolkit, which builds URLs from its request, see the public address."""

    @wraps(view)
    def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if _has_nul(request):
            # PostgreSQL refuses it, in a way that is a fault of ours.
            return refusal("invalid_request", "A parameter holds a NUL character", 400)
        parts = urlsplit(origin_of(request))
        request.META["HTTP_HOST"] = parts.netloc
        request.META.pop("HTTP_X_FORWARDED_HOST", None)
        # An instance's own stands for the method that reads the connection or the proxy's header.
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
    """Let a view answer posts of one content type alone, and leave the body of any other unread.

    It stands before whatever reads `request.POST`: after that, Django gives nobody the body of a
    multipart form.
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


def open_to_pages(*methods: str) -> Callable[[View], View]:
    """Let web pages of any origin use a view by these methods, never with their cookies.

    Clients that run in a browser read the metadata and change codes for tokens from there.
    """
    allowed = ", ".join((*methods, "OPTIONS"))

    def decorate(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "OPTIONS":
                response: HttpResponseBase = HttpResponse(status=204)
                response["Access-Control-Allow-Methods"] = allowed
                response["Access-Control-Allow-Headers"] = _REQUEST_HEADERS
                response["Access-Control-Max-Age"] = str(MAX_AGE_S)
            elif request.method not in methods:
                response = refusal("invalid_request", f"Only {allowed} is answered here", 405)
                response["Allow"] = allowed
            else:
                response = view(request, *args, **kwargs)
            response["Access-Control-Allow-Origin"] = "*"
            return response

        vars(serve)["login_required"] = False
        return serve

    return decorate


def refusal(error: str, description: str, status: int) -> JsonResponse:
    """Return an error as OAuth's endpoints tell it (RFC 6749 section 5.2)."""
    response = JsonResponse({"error": error, "error_description": description}, status=status)
    response["Cache-Control"] = "no-store"
    return response
