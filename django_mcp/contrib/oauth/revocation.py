"""End what users have allowed clients."""

from __future__ import annotations

from itertools import chain
from typing import Any

from django.db import router, transaction
from django.db.models import F
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp.auth.principal import make_key
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.contrib.oauth.families import lock_families
from django_mcp.execution.primary import reading_primary


@reading_primary()
def revoke_tokens(user_id: Any, client_id: str) -> bool:
    """End all that a user has allowed a client, or the client's own; return whether there was any."""
    theirs = {"user_id": user_id, "application__client_id": client_id}
    access = get_access_token_model().objects.filter(**theirs)
    tokens = get_refresh_token_model()
    # With a refresh token there would be a new access token within the hour.
    renewing = tokens.objects.filter(revoked=None, **theirs)
    grants = get_grant_model().objects.filter(**theirs)
    with transaction.atomic(using=router.db_for_write(tokens)):
        # A write comes first: on SQLite, a transaction that has read could not wait for others. Each of
        # these waits for concurrent exchanges, which would make further tokens.
        grants.update(updated=F("updated"))
        grants.delete()
        lock_families(renewing)
        had_any: bool = renewing.exists() or access.exists()
        for token in renewing:
            token.revoke()
        access.delete()
    return had_any


@reading_primary()
def revoke_tokens_of_principal(principal_key: str, user_id: Any) -> bool | None:
    """End the tokens of a principal of `OAuthAuthenticator`; see `RevokingApp.revoke_tokens`."""
    models = (get_access_token_model(), get_refresh_token_model())
    tokens = (model.objects.filter(user_id=user_id) for model in models)
    names = (rows.values_list("application__client_id", flat=True) for rows in tokens)
    clients = set(chain.from_iterable(names))
    # A long key is stored as a digest, so the client is searched for.
    for client in clients - {None}:
        subject = client if user_id is None else user_id
        if make_key(OAuthAuthenticator.kind, subject, client) == principal_key:
            return revoke_tokens(user_id, client)
    return None
