"""What is deleted of OAuth: expired tokens, codes and assertions, dead clients, old sign-ins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
    refresh_token_expire_timedelta,
)

from django_mcp.contrib.oauth.assertions import expired_assertions
from django_mcp.contrib.oauth.families import old_superseded
from django_mcp.contrib.oauth.room import dead, self_registered
from django_mcp.contrib.oauth.sign_ins import old_sign_ins

DEAD_FOR = timedelta(days=30)
"""How long nobody used a client without tokens. Programs keep their registration, and rarely get another."""


def find_expired() -> Iterator[tuple[str, list[QuerySet[Any]]]]:
    """Yield names for people and rows, in the order in which `manage.py mcp_prune` deletes them."""
    yield "tokens of OAuth", expired_tokens()
    yield "exchanged tokens of OAuth", [old_superseded()]
    yield "used assertions", [expired_assertions()]
    yield (
        "clients of OAuth",
        [dead(self_registered()).filter(updated__lt=timezone.now() - DEAD_FOR)],
    )
    yield "sign-ins", [old_sign_ins()]


def expired_tokens() -> list[QuerySet[Any]]:
    """Return the tokens and codes that nobody can use, in the order in which to delete them."""
    now = timezone.now()
    access = get_access_token_model().objects.filter(refresh_token=None, expires__lt=now)
    grants = get_grant_model().objects.filter(expires__lt=now)
    id_tokens = get_id_token_model().objects.filter(access_token=None, expires__lt=now)
    return [_expired_refresh_tokens(), access, grants, id_tokens]


def _expired_refresh_tokens() -> QuerySet[Any]:
    """Return those that nobody can use, except for exchanged ones whose reuse would show a theft."""
    lifetime = refresh_token_expire_timedelta()
    is_over = Q(revoked=None, access_token=None)
    if lifetime is not None:
        until = timezone.now() - lifetime
        is_over |= Q(revoked__lte=until) | Q(revoked=None, created__lte=until)
    tokens: QuerySet[Any] = get_refresh_token_model().objects.filter(is_over)
    return tokens
