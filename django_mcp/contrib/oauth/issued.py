"""Limits on the codes and tokens of one user: how many clients get, and how many are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
)
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

from django_mcp.conf import settings
from django_mcp.execution.tables import AT_ONCE

WITHIN = timedelta(hours=1)

CLIENTS_AT_LIMIT = 10
"""How many clients of one user may use up `OAUTH_TOKENS_PER_HOUR`. Our own limit."""

MAX_CODES = 100
"""Codes of one user. Our own limit: a code is used within a minute, and people share accounts at most."""

KEPT_OF_CLIENT = 5_000
KEPT_OF_USER = 20_000
"""Refresh tokens of one user that are kept, of one client and of all. Our own limits."""


def check_rate(request: Any) -> None:
    """Refuse a further token where very many were issued in the last hour, for one user or to a client itself.

    An exchanged refresh token counts: its access token is deleted, and its row is kept.

    Raises:
        CustomOAuth2Error: it is the answer to the client.
    """
    user = None if request.grant_type == "client_credentials" else request.user
    lone = get_access_token_model().objects.filter(refresh_token=None)
    issued = [
        rows.filter(created__gt=timezone.now() - WITHIN)
        for rows in (lone, get_refresh_token_model().objects)
    ]
    of_client = sum(rows.filter(application=request.client, user=user).count() for rows in issued)
    most = settings.OAUTH_TOKENS_PER_HOUR
    is_too_much = of_client >= most
    if user is not None and not is_too_much:
        of_user = sum(rows.filter(user=user).count() for rows in issued)
        is_too_much = of_user >= CLIENTS_AT_LIMIT * most
    if is_too_much:
        raise CustomOAuth2Error(
            "temporarily_unavailable",
            description="The client got too many tokens in the last hour",
            status_code=429,
            request=request,
        )


def drop_old_codes(user: Any) -> None:
    """Delete the codes of a user but the newest ones."""
    codes = get_grant_model().objects.filter(user=user)
    # A list, since MariaDB has no limit in a subquery; of the old ones, since new ones may come meanwhile.
    old = list(codes.order_by("-pk").values_list("pk", flat=True)[MAX_CODES : MAX_CODES + AT_ONCE])
    if old:
        codes.filter(pk__in=old).delete()


def drop_old_tokens(user: Any, client: Any) -> None:
    """Delete refresh tokens of a user above the limits, exchanged ones first, of the others the oldest."""
    tokens = get_refresh_token_model().objects.filter(user=user)
    for rows, most in ((tokens.filter(application=client), KEPT_OF_CLIENT), (tokens, KEPT_OF_USER)):
        surplus = min(rows.count() - most, AT_ONCE)
        if surplus > 0:
            oldest = rows.order_by(F("revoked").asc(nulls_last=True), "pk")
            found = list(oldest.values_list("pk", "access_token")[:surplus])
            access = [access for _, access in found if access is not None]
            get_access_token_model().objects.filter(pk__in=access).delete()
            tokens.filter(pk__in=[pk for pk, _ in found]).delete()
