"""The common part of all OAuth views: they use the site's public URL, and the database that is written to."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase

from django_mcp.auth.addresses import origin_of
from django_mcp.endpoints.well_known import View, refusal
from django_mcp.execution.primary import reading_primary
from django_mcp.server.ports import StoreUnavailable

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"

MAX_QUERY = 16 * 1024

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

REPEATABLE = frozenset({"resource"})
"""Parameters that may occur several times (RFC 8707 section 2)."""


Refuse: TypeAlias = Callable[[HttpRequest, str, str, int], HttpResponse]
"""Makes a response of a request, an error code of RFC 6749, its description and a status."""


def _refuse_program(
    _request: HttpRequest, error: str, description: str, status: int
) -> HttpResponse:
    return refusal(error, description, status)


def at_public_url(view: View, refuse: Refuse = _refuse_program) -> View:
    """Give a view of django-oauth-toolkit, which builds URLs from its request, the public URL.

    Args:
        refuse: makes the response to a request that the view must not get.
    """

    @wraps(view)
    @reading_primary()
    def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        problem = _find_problem(request)
        if problem is not None:
            return refuse(request, "invalid_request", problem, 400)
        parts = urlsplit(origin_of(request))
        request.META["HTTP_HOST"] = parts.netloc
        request.META.pop("HTTP_X_FORWARDED_HOST", None)
        # The instance attribute replaces the method that reads the connection or the proxy's header.
        vars(request)["_get_scheme"] = lambda: parts.scheme
        _forget_proxy(request, parts.scheme)
        try:
            return view(request, *args, **kwargs)
        except StoreUnavailable:
            response = refuse(request, "temporarily_unavailable", "Nothing can be counted now", 503)
            response["Retry-After"] = "2"
            return response

    return serve


def find_repeated(parameters: QueryDict) -> str | None:
    """Return a parameter that occurs more than once, which OAuth forbids (RFC 6749 section 3.2).

    Two programs that read the same request could take different ones of its values.
    """
    return next(
        (name for name, values in parameters.lists() if len(values) > 1 and name not in REPEATABLE),
        None,
    )


def takes(content_type: str) -> Callable[[View], View]:
    """Let a view accept posts of one content type only, without reading any other body.

    Nothing in the URL counts, since URLs with secrets get into logs (RFC 6749 section 2.3.1). It must come before anything that reads `request.POST`: after that, the body of a multipart form
    is no longer available.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "POST" and request.content_type != content_type:
                return refusal("invalid_request", f"The Content-Type must be {content_type}", 415)
            if request.method == "POST" and request.GET:
                return refusal("invalid_request", "Parameters belong in the body, not the URL", 400)
            return view(request, *args, **kwargs)

        return serve

    return decorate


def _find_problem(request: HttpRequest) -> str | None:
    query = request.META.get("QUERY_STRING", "")
    if _BROKEN_ESCAPE.search(query):
        # oauthlib raises another error for it, and for no other characters that Django lets through.
        return "The parameters have a percent sign without two hexadecimal digits"
    if len(query) > MAX_QUERY:
        return f"The parameters have more than {MAX_QUERY} characters"
    try:
        given = (request.GET, request.POST)
    except SuspiciousOperation:
        return "The request has too many parameters, or is too long"
    except BadRequest:
        return "The body is not a form in UTF-8"
    if any(
        "\0" in text for query_dict in given for _, texts in query_dict.lists() for text in texts
    ):
        # PostgreSQL would reject it with an internal error.
        return "A parameter holds a NUL character"
    # The authorization endpoint, which alone uses GET with parameters, redirects with this error.
    return None if find_repeated(request.POST) is None else "A parameter occurs more than once"


def _forget_proxy(request: HttpRequest, scheme: str) -> None:
    if settings.SECURE_PROXY_SSL_HEADER:
        name, secure_value = settings.SECURE_PROXY_SSL_HEADER
        request.META[name] = secure_value if scheme == "https" else "http"
