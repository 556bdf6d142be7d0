"""Revoke what a session was opened with, by the key of its principal."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from django.apps import apps
from django.utils import timezone

from django_mcp.models import APIKey

__all__ = ["revoke"]


def revoke(principal_key: str) -> bool:
    """Revoke the API key, or the client's OAuth tokens of the user; tell whether there were any.

    What other issuers gave out is theirs to revoke.
    """
    kind, *rest = (unquote(part) for part in principal_key.split(":"))
    match kind, rest:
        case "api-key", [_user, client]:
            keys = APIKey.objects.filter(prefix=client.removeprefix("mcp_"), revoked_at=None)
            return bool(keys.update(revoked_at=timezone.now()))
        case "oauth", [user, client] if apps.is_installed("oauth2_provider"):
            return _revoke_tokens(user, client)
    return False


def _revoke_tokens(user: str, client: str) -> bool:
    from oauth2_provider.models import get_access_token_model, get_refresh_token_model

    theirs: dict[str, Any] = {"user_id": user, "application__client_id": client}
    # Without the refresh tokens there would be a new access token within the hour.
    for token in get_refresh_token_model().objects.filter(**theirs, revoked=None):
        token.revoke()
    deleted, _models = get_access_token_model().objects.filter(**theirs).delete()
    return bool(deleted)
