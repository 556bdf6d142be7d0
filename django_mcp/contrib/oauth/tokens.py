"""The token endpoint: django-oauth-toolkit's, for the grants that the metadata offers, and in JSON always."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import TokenView

from django_mcp.contrib.oauth.public import refusal

__all__ = ["Token"]


class Token(TokenView):
    """Changes codes and refresh tokens for access tokens (RFC 6749 section 3.2)."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer a client. The toolkit's own view would look for device codes here."""
        if request.POST.get("grant_type") not in oauth2_settings.OAUTH2_GRANT_TYPES_SUPPORTED:
            return refusal(
                "unsupported_grant_type", "The metadata says which grants there are", 400
            )
        response: HttpResponse = self.authorization_flow_token_response(request)
        # Some of the toolkit's refusals quote the request and would be taken for a page.
        response["Content-Type"] = "application/json"
        response["X-Content-Type-Options"] = "nosniff"
        response["Cache-Control"] = "no-store"
        return response
