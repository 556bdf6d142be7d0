"""Revoke the credentials of a session, found by the key of its principal."""

from __future__ import annotations

from enum import Enum, auto
from itertools import chain
from typing import Any
from urllib.parse import unquote

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _t

from django_mcp.admin.pages import note_action
from django_mcp.admin.permissions import has_object_backend, may, may_any, permission_for
from django_mcp.auth.principal import make_key
from django_mcp.auth.users import revoke_tokens
from django_mcp.models import APIKey, Session, Stream
from django_mcp.push.access import announce_key


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
    return may_any(user, "change", APIKey)


def revoke_key(key: APIKey, request: HttpRequest) -> bool:
    """Revoke an API key, which stays in the list; return whether it was not revoked before."""
    now = timezone.now()
    # Only one of two concurrent requests revokes it.
    if not APIKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
        return False
    announce_key(key.prefix, router.db_for_write(APIKey, instance=key))
    note_action(request, APIKey, str(key), _t("Revoked."), key.pk)
    return True


def can_revoke(principal_key: str) -> bool:
    """Return whether a session or stream with this key may have something to revoke."""
    kind = unquote(principal_key.partition(":")[0]).partition("#")[0]
    return kind == "api-key" or (kind == "oauth" and apps.is_installed("oauth2_provider"))


def revoke(request: HttpRequest, row: Session | Stream) -> Outcome:
    """Revoke the API key, or the user's OAuth tokens of the client, of a session or stream.

    Credentials from other issuers cannot be revoked here.

    Raises:
        PermissionDenied: the request's user may not.
    """
    if not may_revoke_any(request.user):
        raise PermissionDenied
    kind, *rest = (unquote(part) for part in row.principal_key.split(":"))
    if kind == "api-key" and len(rest) == 2:
        key = APIKey.objects.filter(prefix=rest[1].removeprefix("mcp_")).first()
        if key is None:
            return Outcome.NOTHING
        if not may_act_on_key(request.user, "change", key):
            raise PermissionDenied
        return Outcome.DONE if revoke_key(key, request) else Outcome.ALREADY
    if kind.partition("#")[0] == "oauth" and apps.is_installed("oauth2_provider"):
        # Tokens have no permissions for single objects.
        if not may(request.user, "change", APIKey):
            raise PermissionDenied
        return _revoke_tokens(row.principal_key, row.user_id)
    return Outcome.NOTHING


def _revoke_tokens(principal_key: str, user_id: Any) -> Outcome:
    from oauth2_provider.models import get_access_token_model, get_refresh_token_model

    models = (get_access_token_model(), get_refresh_token_model())
    tokens = (model.objects.filter(user_id=user_id) for model in models)
    names = (each.values_list("application__client_id", flat=True) for each in tokens)
    clients = set(chain.from_iterable(names))
    # A long key is stored as a digest, so the client is searched for.
    for client in clients - {None}:
        if make_key("oauth", client if user_id is None else user_id, client) == principal_key:
            return Outcome.DONE if revoke_tokens(user_id, client) else Outcome.ALREADY
    return Outcome.NOTHING
