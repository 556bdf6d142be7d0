"""The toolkit's bridge to oauthlib, for its views that authenticate clients by themselves."""

from __future__ import annotations

from typing import Any

from oauth2_provider.oauth2_backends import OAuthLibCore
from oauthlib.oauth2.rfc6749.errors import InvalidClientError

from django_mcp.contrib.oauth.client_authentication import AUDIENCES, TooManyWrongSecrets
from django_mcp.contrib.oauth.metadata import issuer_of, token_endpoint_of


class Backend(OAuthLibCore):
    """Says what assertions are for, and rejects clients over the limit of wrong secrets in views without an oauthlib endpoint.

    The token and revocation endpoints return 429. The toolkit's introspection view catches no error.
    """

    def extract_headers(self, request: Any) -> dict[str, Any]:
        """Return the headers for oauthlib, with what an assertion may be for if there is one."""
        headers: dict[str, Any] = super().extract_headers(request)
        if "client_assertion" in request.POST:
            headers[AUDIENCES] = (issuer_of(request), token_endpoint_of(request))
        return headers

    def authenticate_client(self, request: Any) -> bool:
        """Return whether a request has the right secret or assertion of its client."""
        try:
            return bool(super().authenticate_client(request))
        except (TooManyWrongSecrets, InvalidClientError):
            return False
