"""Views that web pages of any origin may use, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

View: TypeAlias = Callable[..., HttpResponseBase]

_REQUEST_HEADERS = "Authorization, Content-Type, MCP-Protocol-Version"
MAX_AGE_S = 7200


def open_to_pages(*methods: str) -> Callable[[View], View]:
    """Let web pages of any origin use a view by these methods, without their cookies.

    Clients that run in a browser read the metadata and exchange codes for tokens this way.
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
    """Return an error in the form of OAuth (RFC 6749 section 5.2)."""
    response = JsonResponse({"error": error, "error_description": description}, status=status)
    response["Cache-Control"] = "no-store"
    return response
