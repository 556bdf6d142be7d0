"""Families of refresh tokens: all tokens that come from one consent, and end together.

A refresh exchanges a token for the next one of its family. Programs that run several processes use one
token in each of them, so a *superseded* token works again for a short grace and gives a further pair.
A token that was revoked has no row of `SupersededToken`, and never works again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import router, transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from oauth2_provider.models import get_refresh_token_model

from django_mcp.conf import settings
from django_mcp.contrib.oauth.models import SupersededToken

DOUBLE_REFRESH_S = 10
"""How long after a refresh a second one counts as a race and not as theft, whatever the grace."""

MAX_REUSES = 5
"""How many further pairs a superseded token gives within the grace."""

KEPT_FOR = timedelta(hours=1)
"""How long a row of `SupersededToken` is kept, which is longer than any grace."""


def lock_family(token: Any) -> bool:
    """Wait for other requests that change the family of a token, until the transaction ends.

    All of them wait for its oldest token. If that is deleted meanwhile, the oldest that is left takes
    its place. It writes, so it comes first in a transaction: SQLite would not let one that has read wait.

    Args:
        token: a refresh token with a `family_root`; see `find_root`.

    Returns:
        False if no token of the family is left.
    """
    tokens = get_refresh_token_model().objects
    while not tokens.filter(pk=token.family_root).update(updated=F("updated")):
        missing, token.family_root = token.family_root, find_root(token)
        if token.family_root == missing:
            return False
    return True


def find_root(token: Any) -> Any:
    """Return the primary key of the oldest token of a family, the row to lock."""
    if token.token_family is None:
        return token.pk
    family = get_refresh_token_model().objects.filter(token_family=token.token_family)
    return family.order_by("pk").values_list("pk", flat=True).first() or token.pk


def lock_families(living: QuerySet[Any]) -> None:
    """Do what `lock_family` does for the families of some tokens, within a transaction that has written."""
    # Copied, since a queryset keeps what it has found, and the caller looks again.
    by_root: dict[Any, Any] = {}
    for token in living.all():
        token.family_root = find_root(token)
        by_root[token.family_root] = token
    # In one order, so that no two requests wait for each other.
    for root in sorted(by_root):
        lock_family(by_root[root])


def end_family(token: Any) -> None:
    """Revoke all tokens of a family, also those that concurrent requests are making."""
    tokens = get_refresh_token_model()
    token.family_root = find_root(token)
    with transaction.atomic(using=router.db_for_write(tokens)):
        lock_family(token)
        tokens.revoke_family(token.token_family)


def note_superseded(token: Any) -> None:
    """Remember that a token is being exchanged, in the transaction that does it."""
    SupersededToken.objects.update_or_create(
        token_checksum=token.token_checksum,
        defaults={"at": timezone.now(), "scope": token.access_token.scope, "uses": 0},
    )


def find_scope(token: Any) -> str:
    """Return the scopes of a superseded token."""
    superseded = SupersededToken.objects.filter(token_checksum=token.token_checksum).first()
    return "" if superseded is None else superseded.scope


def is_late(token: Any) -> bool:
    """Return whether the use of a revoked token counts as theft."""
    grace_s = max(settings.OAUTH_REFRESH_GRACE_S, DOUBLE_REFRESH_S)
    return bool(token.revoked <= timezone.now() - timedelta(seconds=grace_s))


def find_problem(token: Any) -> str | None:
    """Return why a revoked token is not accepted again; None: it is."""
    grace = timedelta(seconds=settings.OAUTH_REFRESH_GRACE_S)
    known = SupersededToken.objects.filter(token_checksum=token.token_checksum).first()
    if known is None or token.token_family is None:
        return "The token was revoked"
    if timezone.now() - known.at >= grace:
        return "The token was exchanged for another one before"
    family = get_refresh_token_model().objects.filter(token_family=token.token_family)
    if not family.filter(revoked=None).exists():
        return "The tokens of this sign-in were revoked"
    if known.uses >= MAX_REUSES:
        return f"The token was used {MAX_REUSES + 1} times"
    return None


def take_reuse(token: Any) -> str | None:
    """Count a further use of a superseded token, under the lock of its family.

    Returns:
        Why it is not accepted; None: it is.
    """
    problem = find_problem(token)
    if problem is None:
        rows = SupersededToken.objects.filter(token_checksum=token.token_checksum)
        rows.update(uses=F("uses") + 1)
    return problem


def old_superseded() -> QuerySet[SupersededToken]:
    """Return the rows that no grace needs any more."""
    return SupersededToken.objects.filter(at__lt=timezone.now() - KEPT_FOR)
