"""Revoke the credentials of a session, found by the key of its principal."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable
from urllib.parse import unquote

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _t

from django_mcp.admin.base import note_actions
from django_mcp.admin.permissions import has_object_backend, may, may_any, permission_for
from django_mcp.auth.users import is_superuser
from django_mcp.models import APIKey, Session, Stream
from django_mcp.push.changed_access import announce_key


@runtime_checkable
class RevokingApp(Protocol):
    """An installed app that issues tokens, such as `django_mcp.contrib.oauth`: its `AppConfig` has these.

    Attributes:
        principal_kind: the `kind` of the authenticator of its tokens, with which the keys of principals start.
    """

    principal_kind: str

    def revoke_tokens(self, principal_key: str, user_id: Any) -> bool | None:
        """Revoke the tokens of a principal; return whether there were any, None for an unknown one."""


def may_act_on_key(user: Any, action: str, key: APIKey) -> bool:
    """Return whether a user may act on a key, which may belong to another user."""
    if is_superuser(user) or key.user_id == user.pk:
        return may(user, action, key)
    return has_object_backend() and bool(user.has_perm(permission_for(action, APIKey), key))


def revoke_key(key: APIKey, request: HttpRequest) -> bool:
    """Revoke an API key, which stays in the list; return whether it was not revoked before."""
    now = timezone.now()
    # Only one of two concurrent requests revokes it.
    if not APIKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
        return False
    announce_key(key.prefix, router.db_for_write(APIKey, instance=key))
    note_actions(request, APIKey, (str(key), _t("Revoked."), key.pk))
    return True


def can_revoke(principal_key: str) -> bool:
    """Return whether a session or stream with this key may have something to revoke."""
    kind = unquote(principal_key.partition(":")[0]).partition("#")[0]
    return kind == "api-key" or _find_app(kind) is not None


def revoke(request: HttpRequest, row: Session | Stream) -> bool | None:
    """Revoke the API key, or the tokens of an app, of a session or stream.

    Returns whether they were valid until now; None if they cannot be revoked here, as those of other issuers.

    Raises:
        PermissionDenied: the request's user may not.
    """
    if not may_any(request.user, "change", APIKey):
        raise PermissionDenied
    kind, *rest = (unquote(part) for part in row.principal_key.split(":"))
    if kind == "api-key" and len(rest) == 2:
        key = APIKey.objects.filter(prefix=rest[1].removeprefix("mcp_")).first()
        if key is None:
            return None
        if not may_act_on_key(request.user, "change", key):
            raise PermissionDenied
        return revoke_key(key, request)
    app = _find_app(kind.partition("#")[0])
    if app is None:
        return None
    # Tokens have no permissions for single objects.
    if not may(request.user, "change", APIKey):
        raise PermissionDenied
    return app.revoke_tokens(row.principal_key, row.user_id)


def _find_app(kind: str) -> RevokingApp | None:
    configs = (config for config in apps.get_app_configs() if isinstance(config, RevokingApp))
    return next((config for config in configs if config.principal_kind == kind), None)
