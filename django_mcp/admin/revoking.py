"""Revoke what a session was opened with, by the key of its principal."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from django.apps import apps
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _t

from django_mcp.admin.history import note_action
from django_mcp.auth.principal import make_key
from django_mcp.models import APIKey

__all__ = ["revoke", "revoke_key"]


def revoke_key(key: APIKey, request: HttpRequest | None = None) -> bool:
    """Revoke an API key; tell whether it was not yet.

    Args:
        key: it stays in the list.
        request: whose user the key's history then names; None: nothing is noted.
    """
    now = timezone.now()
    # Only one of two who revoke it at once has done so.
    if not APIKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
        return False
    if request is not None:
        note_action(request, APIKey, str(key), _t("Revoked."), key.pk)
    return True


def revoke(principal_key: str, user_id: Any = None, request: HttpRequest | None = None) -> bool:
    """Revoke the API key, or the client's OAuth tokens of the user; tell whether there were any.

    What other issuers gave out is theirs to revoke.

    Args:
        principal_key: of the session.
        user_id: primary key of its user; None: a client that acts for itself.
        request: see `revoke_key`.
    """
    kind, *rest = (unquote(part) for part in principal_key.split(":"))
    match kind, rest:
        case "api-key", [_user, client]:
            key = APIKey.objects.filter(prefix=client.removeprefix("mcp_")).first()
            return key is not None and revoke_key(key, request)
    if kind.partition("#")[0] == "oauth" and apps.is_installed("oauth2_provider"):
        return _revoke_tokens(principal_key, user_id)
    return False


def _revoke_tokens(principal_key: str, user_id: Any) -> bool:
    from oauth2_provider.models import (
        get_access_token_model,
        get_grant_model,
        get_refresh_token_model,
    )

    access = get_access_token_model().objects.filter(user_id=user_id)
    refresh = get_refresh_token_model().objects.filter(user_id=user_id, revoked=None)
    names = "application__client_id"
    clients = {*access.values_list(names, flat=True), *refresh.values_list(names, flat=True)}
    # A key that would be long is a digest, so that the client is looked for.
    for client in clients - {None}:
        if make_key("oauth", client if user_id is None else user_id, client) == principal_key:
            theirs = {names: client}
            # Without these there would be a new access token within the hour.
            for token in refresh.filter(**theirs):
                token.revoke()
            get_grant_model().objects.filter(user_id=user_id, **theirs).delete()
            access.filter(**theirs).delete()
            return True
    return False
