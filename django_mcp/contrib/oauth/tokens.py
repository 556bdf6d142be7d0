"""The token endpoint: django-oauth-toolkit's, for the grants in the metadata, always with JSON."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest, HttpResponse
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import TokenView

from django_mcp.contrib.oauth.assertions import expired_assertions
from django_mcp.contrib.oauth.expired import expired_tokens
from django_mcp.contrib.oauth.families import old_superseded
from django_mcp.endpoints.well_known import refusal
from django_mcp.execution.tables import Pruner, delete_some
from django_mcp.process import PerProcess

_pruner = PerProcess(lambda: Pruner(3600, first_s=random.uniform(0, 60)))  # noqa: S311
"""Not at the first request, since workers that start together would all do it."""

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
"""The grant whose pages are not part of the URLs, so it is neither served nor advertised."""


class Token(TokenView):
    """Exchanges codes and refresh tokens for access tokens (RFC 6749 section 3.2)."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return tokens, except for device codes, whose pages are not part of the URLs."""
        grant = request.POST.get("grant_type")
        if grant == DEVICE_CODE or grant not in oauth2_settings.OAUTH2_GRANT_TYPES_SUPPORTED:
            return refusal(
                "unsupported_grant_type", "The metadata says which grants there are", 400
            )
        try:
            response: HttpResponse = self.authorization_flow_token_response(request)
        except ObjectDoesNotExist:
            # A concurrent request has used the code, or revoked the new token.
            return refusal("invalid_grant", "The grant was used or revoked meanwhile", 400)
        # Some of the toolkit's errors quote the request and could be taken for a page.
        response["Content-Type"] = "application/json"
        response["X-Content-Type-Options"] = "nosniff"
        response["Cache-Control"] = "no-store"
        pruner = _pruner.get()
        if pruner.is_due:
            over = (*expired_tokens(), old_superseded(), expired_assertions())
            pruner.prune_if_due(*(partial(delete_some, rows) for rows in over))
        return response
