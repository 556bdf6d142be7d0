"""Keep room for new clients: find dead ones, and those of users who have more than their share."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, router, transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    refresh_token_expire_timedelta,
)
from oauth2_provider.settings import oauth2_settings

from django_mcp.conf import settings
from django_mcp.execution.outages import Warner

HOUR_S = 3600

SOURCES = ("dcr", "cimd")
"""How clients register themselves: dynamic registration, and client-id metadata documents."""

UNUSED_AFTER = timedelta(minutes=5)
"""How long after its last use a dead client is kept: a person may be on the consent page."""

NOTED_EVERY = timedelta(minutes=1)
"""How often the use of a client is noted."""

SHARE = 10
"""One user's clients may take a tenth of `OAUTH_MAX_REGISTERED` when there is no room."""

NEARLY_FULL = 0.8
"""The part of `OAUTH_MAX_REGISTERED` from which living clients are told about."""

_nearly_full = Warner()


def self_registered() -> QuerySet[Any]:
    """Return the clients that count against `OAUTH_MAX_REGISTERED`."""
    applications: QuerySet[Any] = get_application_model().objects.filter(
        registration_source__in=SOURCES
    )
    return applications


def dead(clients: QuerySet[Any]) -> QuerySet[Any]:
    """Return the clients that have neither a token that works or can be renewed, nor a code."""
    grants = get_grant_model().objects.filter(expires__gt=timezone.now())
    for used in (grants, living_tokens()):
        clients = clients.exclude(pk__in=used.values("application"))
    return clients


def make_room(clients: QuerySet[Any], count: int) -> int:
    """Delete so many clients, and return 0; or return the seconds until they may be deleted.

    Dead clients go first, the oldest first, once they are unused for some minutes. Then the oldest of users
    who authorized more than their share go, down to the share. Other living clients stay.
    """
    unused = dead(clients).order_by("updated", "pk")
    due = unused.filter(updated__lt=timezone.now() - UNUSED_AFTER)
    # A few more at once, so that the next clients need no search.
    going = list(due.values_list("pk", flat=True)[: count + settings.OAUTH_MAX_REGISTERED // 100])
    # One may have got a token meanwhile.
    dead(clients).filter(pk__in=going).delete()
    missing = count - len(going)
    if missing <= 0:
        return 0
    surplus = _find_surplus(clients, missing)
    clients.filter(pk__in=surplus).delete()
    if len(surplus) >= missing:
        return 0
    oldest = unused.values_list("updated", flat=True).first()
    if oldest is None:
        return HOUR_S
    wait_s: float = (oldest + UNUSED_AFTER - timezone.now()).total_seconds()
    return max(1, math.ceil(wait_s))


def note_use(client: Any) -> None:
    """Keep a client for some minutes, since a person is asked about it now."""
    now = timezone.now()
    rows = self_registered().filter(pk=client.pk, updated__lt=now - NOTED_EVERY)
    # The page is shown even if a database that others write to cannot be written now.
    with suppress(DatabaseError), transaction.atomic(using=router.db_for_write(rows.model)):
        rows.update(updated=now)


def find_crowding() -> tuple[int, int] | None:
    """Return the number of living clients and the limit, if they come near it; else None."""
    most = settings.OAUTH_MAX_REGISTERED
    total = self_registered().count()
    if total < NEARLY_FULL * most:
        return None
    living = total - dead(self_registered()).count()
    return (living, most) if living >= NEARLY_FULL * most else None


def warn_if_nearly_full(total: int) -> None:
    """Warn in the log when living clients come near the limit, before clients are refused.

    Args:
        total: how many clients there are, dead ones included.
    """
    if total < NEARLY_FULL * settings.OAUTH_MAX_REGISTERED:
        return
    crowding = find_crowding()
    if crowding is not None:
        _nearly_full.warn(
            "OAuth: %s clients have tokens, and DJANGO_MCP['OAUTH_MAX_REGISTERED'] allows not many more. "
            "Raise it, or new clients are refused",
            f"{crowding[0]} of {crowding[1]}",
        )


def living_tokens() -> QuerySet[Any]:
    """Return the access tokens that work, or whose refresh token does."""
    now, lifetime = timezone.now(), refresh_token_expire_timedelta()
    is_renewable = Q(refresh_token__isnull=False, refresh_token__revoked=None)
    if lifetime is not None:
        is_renewable &= Q(refresh_token__created__gt=now - lifetime)
    tokens = get_access_token_model().objects.filter(application__isnull=False)
    # Each registration has a token to manage it, which is no use of the client.
    tokens = tokens.exclude(scope=oauth2_settings.DCR_REGISTRATION_SCOPE)
    living: QuerySet[Any] = tokens.filter(Q(expires__gt=now) | is_renewable).order_by()
    return living


def _find_surplus(clients: QuerySet[Any], count: int) -> list[Any]:
    """Return up to so many clients, which one user alone has authorized beyond the share."""
    share = max(1, settings.OAUTH_MAX_REGISTERED // SHARE)
    living = living_tokens().filter(application__in=clients)
    counted = (
        living.exclude(user=None).values("user").annotate(has=Count("application", distinct=True))
    )
    surplus: list[Any] = []
    for user, has in counted.filter(has__gt=share).values_list("user", "has"):
        others = living.exclude(user=user).values("application")
        own = clients.filter(pk__in=living.filter(user=user).values("application"))
        # The newest are those that the user works with.
        oldest = own.exclude(pk__in=others).order_by("updated", "pk")
        surplus += oldest.values_list("pk", flat=True)[: min(has - share, count - len(surplus))]
        if len(surplus) >= count:
            break
    return surplus
