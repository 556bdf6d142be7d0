"""Revoke the credentials of a session, found by the key of its principal."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any
from urllib.parse import unquote

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _t

from django_mcp.admin.history import note_action
from django_mcp.admin.permissions import has_object_backend, may, permission_for
from django_mcp.auth.principal import make_key
from django_mcp.models import APIKey, Session, Stream
from django_mcp.push.keys import tell_after_commit

__all__ = ["Outcome", "may_act_on_key", "may_revoke_any", "revoke", "revoke_key"]


class Outcome(Enum):
    """The outcome of revoking."""

    DONE = auto()
    ALREADY = auto()
    NOTHING = auto()


def may_act_on_key(user: Any, action: str, key: APIKey) -> bool:
    """Return whether a user may act on a key, which may belong to another user."""
    if user.is_superuser or key.user_id == user.pk:
        return may(user, action, key)
    return has_object_backend() and bool(user.has_perm(permission_for(action, APIKey), key))


def may_revoke_any(user: Any) -> bool:
    """Return whether a user may revoke all keys, or perhaps single ones."""
    return may(user, "change", APIKey) or has_object_backend()


def revoke_key(key: APIKey, request: HttpRequest) -> bool:
    """Revoke an API key, which stays in the list; return whether it was not revoked before."""
    now = timezone.now()
    # Only one of two concurrent requests revokes it.
    if not APIKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
        return False
    tell_after_commit(key.prefix, router.db_for_write(APIKey, instance=key))
    note_action(request, APIKey, str(key), _t("Revoked."), key.pk)
    return True


def revoke(request: HttpRequest, row: Session | Stream) -> Outcome:
    """Revoke the API key, or the user's OAuth tokens of the client, of a session or stream.

    Credentials from other issuers cannot be revoked here.

    Raises:
        PermissionDenied: the request's user may not.
    """
    if not may_revoke_any(request.user):
        raise PermissionDenied
    kind, *rest = (unquote(part) for part in row.principal_key.split(":"))
    match kind, rest:
        case "api-key", [_user, client]:
            key = APIKey.objects.filter(prefix=client.removeprefix("mcp_")).first()
            return Outcome.NOTHING if key is None else _revoke_if_allowed(request, key)
    if kind.partition("#")[0] == "oauth" and apps.is_installed("oauth2_provider"):
        # Tokens have no permissions for single objects.
        if not may(request.user, "change", APIKey):
            raise PermissionDenied
        return _revoke_tokens(row.principal_key, row.user_id)
    return Outcome.NOTHING


def _revoke_if_allowed(request: HttpRequest, key: APIKey) -> Outcome:
    if not may_act_on_key(request.user, "change", key):
        raise PermissionDenied
    return Outcome.DONE if revoke_key(key, request) else Outcome.ALREADY


def _revoke_tokens(principal_key: str, user_id: Any) -> Outcome:
    from oauth2_provider.models import (
        get_access_token_model,
        get_grant_model,
        get_refresh_token_model,
    )

    access = get_access_token_model().objects.filter(user_id=user_id)
    refresh = get_refresh_token_model().objects.filter(user_id=user_id)
    names = "application__client_id"
    clients = {*access.values_list(names, flat=True), *refresh.values_list(names, flat=True)}
    # A long key is stored as a digest, so the client is searched for.
    for client in clients - {None}:
        if make_key("oauth", client if user_id is None else user_id, client) == principal_key:
            theirs = {names: client}
            # With a refresh token there would be a new access token within the hour.
            renewing = refresh.filter(revoked=None, **theirs)
            had_any = renewing.exists() or access.filter(**theirs).exists()
            for token in renewing:
                token.revoke()
            get_grant_model().objects.filter(user_id=user_id, **theirs).delete()
            access.filter(**theirs).delete()
            return Outcome.DONE if had_any else Outcome.ALREADY
    return Outcome.NOTHING
