"""The page on which users see what they have allowed clients, and take it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Min, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from oauth2_provider.models import get_access_token_model, get_refresh_token_model
from oauth2_provider.settings import oauth2_settings

from django_mcp.contrib.oauth.names import describe_client
from django_mcp.contrib.oauth.revocation import revoke_tokens
from django_mcp.execution.primary import reading_primary
from django_mcp.pages.policy import protect_public_page
from django_mcp.pages.views import is_switch, switch_account


@dataclass(kw_only=True, slots=True)
class Authorization:
    """What a user has allowed a client.

    Attributes:
        key: primary key of the client's application.
        client: its description for people.
        scopes: names and descriptions.
        resources: addresses of the endpoints that it may use.
        since: when the user allowed it; the oldest token that is known.
        renewed: when it got its newest token.
        ends: when that expires, with all means to renew it; None: never.
    """

    key: str
    client: dict[str, Any]
    since: datetime
    renewed: datetime
    ends: datetime | None
    scopes: dict[str, str] = field(default_factory=dict)
    resources: list[str] = field(default_factory=list)


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@reading_primary()
def authorized_page(request: HttpRequest) -> HttpResponse:
    """Show what the user has allowed, and end what they take back."""
    if is_switch(request):
        return switch_account(request)
    authorizations = _find_authorizations(request.user)
    ended = authorizations.pop(request.POST.get("application", ""), None)
    if ended is not None:
        revoke_tokens(request.user.pk, ended.client["client_id"])
    response = render(
        request,
        "django_mcp/oauth/authorized.html",
        {
            "account": request.user.get_username(),
            "authorizations": authorizations.values(),
            "ended": ended and ended.client["client_name"],
        },
    )
    protect_public_page(response)
    response["X-Frame-Options"] = "DENY"
    return response


def _find_authorizations(user: Any) -> dict[str, Authorization]:
    """Return what still holds, by the key of the application, the newest first."""
    now = timezone.now()
    is_renewable = Q(refresh_token__isnull=False, refresh_token__revoked=None)
    tokens = get_access_token_model().objects.filter(Q(expires__gt=now) | is_renewable, user=user)
    firsts = get_refresh_token_model().objects.filter(user=user).order_by().values("application")
    since = dict(firsts.annotate(first=Min("created")).values_list("application", "first"))
    kept_s = oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS
    kept: timedelta | None = timedelta(seconds=kept_s) if isinstance(kept_s, int) else kept_s
    authorizations: dict[str, Authorization] = {}
    for token in tokens.select_related("application", "refresh_token").order_by("-created", "-pk"):
        application = token.application
        if application is None:
            continue
        renewal: Any = getattr(token, "refresh_token", None)
        is_renewed = renewal is not None and renewal.revoked is None
        ends = token.expires
        if is_renewed:
            ends = renewal.created + kept if kept else None
        allowed = authorizations.setdefault(
            str(application.pk),
            Authorization(
                key=str(application.pk),
                client=describe_client(application),
                since=since.get(application.pk, token.created),
                renewed=token.created,
                ends=ends,
            ),
        )
        allowed.since = min(allowed.since, token.created)
        allowed.scopes.update(token.scopes)
        allowed.resources.extend(set(token.resource) - set(allowed.resources))
    return authorizations
