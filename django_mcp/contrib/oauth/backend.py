"""The toolkit's bridge to oauthlib, for its views that authenticate clients by themselves."""

from __future__ import annotations

from typing import Any

from oauth2_provider.oauth2_backends import OAuthLibCore

from django_mcp.contrib.oauth.client_authentication import TooManyWrongSecrets


class Backend(OAuthLibCore):
    """Rejects clients over the limit of wrong secrets in views without an oauthlib endpoint.

    The token and revocation endpoints return 429. The toolkit's introspection view catches no error.
    """

    def authenticate_client(self, request: Any) -> bool:
        """Return whether a request has the right secret of its client."""
        try:
            return bool(super().authenticate_client(request))
        except TooManyWrongSecrets:
            return False
