"""Limits on the codes and tokens of one user: how many clients get, and how many are kept."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from django.db.models import Count, Max, Min, QuerySet
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp.conf import settings
from django_mcp.contrib.oauth.families import end_family
from django_mcp.contrib.oauth.limits import TooMany
from django_mcp.contrib.oauth.sign_ins import Step, report
from django_mcp.execution.primary import reading_primary
from django_mcp.execution.tables import AT_ONCE

WITHIN = timedelta(hours=1)

CLIENTS_AT_LIMIT = 10
"""How many clients of one user may use up `OAUTH_TOKENS_PER_HOUR`."""

MAX_CODES = 100
"""Codes of one user. A code is used within a minute, and people share accounts at most."""

KEPT_OF_CLIENT = 10_000
KEPT_OF_USER = 20_000
"""Refresh tokens of one user that are kept, of one client and of all.

Ten programs that refresh every hour have 7,200 in 30 days."""


def check_rate(request: Any) -> None:
    """Refuse a further token where very many were issued in the last hour, for one user or to a client itself.

    An exchanged refresh token counts: its access token is deleted, and its row is kept.

    Raises:
        TooMany: it is the answer to the client.
    """
    user = None if request.grant_type == "client_credentials" else request.user
    since = timezone.now() - WITHIN
    lone = get_access_token_model().objects.filter(refresh_token=None)
    # A client's own tokens have no user.
    issued = [
        rows.filter(created__gt=since, user=user)
        for rows in (lone, get_refresh_token_model().objects)
    ]
    most = settings.OAUTH_TOKENS_PER_HOUR
    counted = [([rows.filter(application=request.client) for rows in issued], most)]
    if user is not None:
        counted.append((issued, CLIENTS_AT_LIMIT * most))
    for querysets, limit in counted:
        if sum(rows.count() for rows in querysets) >= limit:
            oldest = filter(None, (rows.aggregate(at=Min("created"))["at"] for rows in querysets))
            wait_s = math.ceil((min(oldest, default=since) - since).total_seconds())
            reason = "The client got too many tokens in the last hour"
            raise TooMany(reason, max(1, wait_s), request)


def drop_old_codes(user: Any) -> None:
    """Delete the codes of a user but the newest ones."""
    codes = get_grant_model().objects.filter(user=user)
    # A list, since MariaDB has no limit in a subquery; of the old ones, since new ones may come meanwhile.
    old = list(codes.order_by("-pk").values_list("pk", flat=True)[MAX_CODES : MAX_CODES + AT_ONCE])
    if old:
        codes.filter(pk__in=old).delete()


@reading_primary()
def keep_within_limits(request: Any) -> None:
    """Delete refresh tokens of a user above the limits: those of ended sign-ins, or else end a sign-in.

    Of a sign-in that goes on nothing is deleted, since the reuse of an exchanged token shows a theft.
    The sign-in with most tokens ends, of all clients that of the client with most.

    Args:
        request: oauthlib's, which got the latest token.
    """
    tokens = get_refresh_token_model().objects.filter(user=request.user)
    of_client = tokens.filter(application=request.client)
    for rows, most in ((of_client, KEPT_OF_CLIENT), (tokens, KEPT_OF_USER)):
        surplus = min(rows.count() - most, AT_ONCE)
        surplus -= _delete_ended(rows, surplus)
        if surplus > 0:
            _end_largest(rows, most, request)
            _delete_ended(rows, surplus)


def _delete_ended(rows: QuerySet[Any], most: int) -> int:
    """Delete up to so many tokens of sign-ins of which none works, the oldest first; return how many."""
    if most <= 0:
        return 0
    # One list for all rows: to search the tokens of a sign-in for each of them takes the square of their number.
    working = rows.filter(revoked=None, token_family__isnull=False).order_by()
    ended = rows.filter(revoked__isnull=False).exclude(
        token_family__in=working.values("token_family")
    )
    found = list(ended.order_by("pk").values_list("pk", flat=True)[:most])
    get_refresh_token_model().objects.filter(pk__in=found).delete()
    return len(found)


def _end_largest(rows: QuerySet[Any], most: int, request: Any) -> None:
    """End the sign-in with most tokens; where several have as many, the one that was not used for longest."""
    rows = rows.filter(application=_find_largest(rows, "application"))
    rows = rows.filter(token_family=_find_largest(rows, "token_family"))
    token = rows.filter(revoked=None).select_related("application").order_by("pk").first()
    if token is None:
        # It has ended meanwhile.
        return
    if token.token_family is None:
        token.revoke()
    else:
        end_family(token)
    report(
        Step.REFRESH,
        request,
        client=token.application,
        user=request.user,
        field="refresh_token",
        reason=f"More than {most} are stored, so the sign-in with most of them was ended",
        remedy="The person has to sign in again in the client, which should refresh less often.",
    )


def _find_largest(rows: QuerySet[Any], column: str) -> Any:
    counted = rows.order_by().values(column).annotate(has=Count("pk"), newest=Max("pk"))
    return counted.order_by("-has", "newest").values_list(column, flat=True).first()
