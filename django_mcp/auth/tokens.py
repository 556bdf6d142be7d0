"""The tokens of django-oauth-toolkit that a user has let a client have."""

from __future__ import annotations

from typing import Any


def revoke_tokens(user_id: Any, client_id: str) -> bool:
    """End all that a user has allowed a client; return whether there was any.

    Args:
        user_id: primary key of the user; None: the client's own tokens.
        client_id: of the client.
    """
    from oauth2_provider.models import (
        get_access_token_model,
        get_grant_model,
        get_refresh_token_model,
    )

    theirs = {"user_id": user_id, "application__client_id": client_id}
    access = get_access_token_model().objects.filter(**theirs)
    # With a refresh token there would be a new access token within the hour.
    renewing = get_refresh_token_model().objects.filter(revoked=None, **theirs)
    had_any: bool = renewing.exists() or access.exists()
    for token in renewing:
        token.revoke()
    get_grant_model().objects.filter(**theirs).delete()
    access.delete()
    return had_any
