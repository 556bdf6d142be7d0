"""What django-oauth-toolkit's validator leaves open of RFC 9700: redirects, replayed codes, double refreshes."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_refresh_token_model
from oauth2_provider.oauth2_validators import OAuth2Validator

from django_mcp.contrib.oauth.documents import find_known, is_document_id, read_document
from django_mcp.contrib.oauth.redirects import is_safe_redirect

__all__ = ["MCPOAuth2Validator"]

DOUBLE_REFRESH_S = 10
"""How long after a refresh a second one with the same token counts as a race, and not as theft."""


class MCPOAuth2Validator(OAuth2Validator):
    """The toolkit's validator, with what MCP clients and their users have to be able to rely on."""

    def validate_client_id(self, client_id: str, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Know a client, if need be by its document: asked at the authorization endpoint alone."""
        if is_document_id(client_id):
            read_document(client_id, request)
        return bool(super().validate_client_id(client_id, request, *args, **kwargs))

    def _load_application(self, client_id: str, request: Any) -> Any:
        # The toolkit's own would fetch the document, at whichever endpoint and for whomever.
        if not is_document_id(client_id):
            return super()._load_application(client_id, request)
        known = find_known(client_id)
        request.client = known if known is not None and known.is_usable(request) else None
        return request.client

    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Refuse what is registered and yet not safe, such as http to another machine."""
        return is_safe_redirect(redirect_uri) and bool(
            super().validate_redirect_uri(client_id, redirect_uri, request, *args, **kwargs)
        )

    def _create_refresh_token(
        self, request: Any, refresh_token_code: str, access_token: Any, previous: Any
    ) -> Any:
        refresh_token = super()._create_refresh_token(
            request, refresh_token_code, access_token, previous
        )
        if request.grant_type == "authorization_code":
            refresh_token.token_family = _family_of(request.code)
            refresh_token.save(update_fields=["token_family"])
        return refresh_token

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Refuse a code that is used again, and revoke what it was changed for (RFC 6749 4.1.2)."""
        if super().validate_code(client_id, code, client, request, *args, **kwargs):
            return True
        family, tokens = _family_of(code), get_refresh_token_model()
        if tokens.objects.filter(token_family=family, application=client).exists():
            tokens.revoke_family(family)
        return False

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Refuse a refresh token that was just used, without ending the session it belongs to."""
        checksum = hashlib.sha256(refresh_token.encode()).hexdigest()
        tokens = get_refresh_token_model().objects.filter(token_checksum=checksum)
        just_used = tokens.filter(
            application=client,
            revoked__gt=timezone.now() - timedelta(seconds=DOUBLE_REFRESH_S),
        ).first()
        if just_used is not None:
            followed = get_access_token_model().objects.filter(source_refresh_token=just_used)
            if followed.exists():
                return False
        return bool(super().validate_refresh_token(refresh_token, client, request, *args, **kwargs))


def _family_of(code: str) -> UUID:
    """Return what the tokens that come of a code have in common: every process finds them by it.

    The toolkit's own families are random. Nobody gets from one back to its code.
    """
    digest = hashlib.sha256(f"django_mcp:oauth:code:{code}".encode()).digest()
    return UUID(bytes=digest[:16], version=5)
