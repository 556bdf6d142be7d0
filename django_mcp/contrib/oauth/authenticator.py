"""Authentication by access tokens of django-oauth-toolkit.

The toolkit itself accepts a token without a resource for any endpoint, and one for `/mcp` for all
below it. Here a token has to name the endpoint it is used at (RFC 8707, 2026-07-28
basic/authorization).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.auth.addresses import canonical_uri, resource_of
from django_mcp.auth.authenticator import BearerAuthenticator
from django_mcp.auth.principal import AuthInfo, Principal, Rejection, make_key
from django_mcp.auth.users import active_filter, is_active
from django_mcp.execution.primary import reading_primary
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest


class OAuthAuthenticator(BearerAuthenticator):
    """Accepts the access tokens of this site's own authorization server, with one query for each."""

    kind = "oauth"
    is_of_this_site = True
    reads_models = ("django_mcp_oauth",)

    def find_authorization_servers(self, request: HttpRequest) -> tuple[str, ...]:
        """See `Authenticator.find_authorization_servers`: this site itself."""
        from django_mcp.contrib.oauth.metadata import issuer_of

        return (issuer_of(request),)

    def variant(self, exchange: Exchange) -> str | None:
        """Return the resource that a token has to be for."""
        return (
            None
            if exchange.caller.build_request is None
            else resource_of(exchange.caller.build_request())
        )

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        """See `BearerAuthenticator.verify`."""
        resource = self.variant(exchange)
        return await run_in_pool(partial(self._look_up, token, resource))

    @reading_primary()
    def _look_up(self, token: str, resource: str | None) -> Principal | Rejection:
        from oauth2_provider.models import get_access_token_model

        checksum = hashlib.sha256(token.encode("latin-1", "replace")).hexdigest()
        tokens = get_access_token_model().objects.select_related("user", "application")
        row = tokens.filter(token_checksum=checksum).first()
        if row is None or row.is_expired():
            return _UNKNOWN
        if row.user is not None and not is_active(row.user):
            return _UNKNOWN
        if not _is_usable(row.application, resource):
            return _UNKNOWN
        if resource is None or resource not in map(canonical_uri, row.resource):
            return _FOR_ANOTHER
        return self._to_principal(row)

    def _to_principal(self, token: Any) -> Principal:
        client_id = token.application.client_id
        subject = client_id if token.user is None else str(token.user.pk)
        return Principal(
            key=make_key(self.kind, subject, client_id),
            user=token.user,
            auth=AuthInfo(
                subject=subject,
                client_id=client_id,
                scopes=frozenset(token.scope.split()),
                expires_at=token.expires.timestamp(),
                authenticator=self.kind,
            ),
            source=self,
            handle=token.pk,
        )

    async def find_ended(
        self, principals: Collection[Principal], *, for_tasks: bool = False
    ) -> set[Principal]:
        """See `Authenticator.find_ended`.

        A refreshed token has ended too. A task ends with the last token of its client.
        """
        find = _find_without_tokens if for_tasks else _find_ended
        return await run_in_pool(partial(find, principals))


_UNKNOWN = Rejection(reason="The access token is unknown, expired or revoked")
_FOR_ANOTHER = Rejection(reason="The access token is not for this resource")


def _is_usable(application: Any, resource: str | None) -> bool:
    from oauthlib.common import Request

    # A site with an application model of its own may disable clients in it.
    return application is not None and bool(application.is_usable(Request(resource or "")))


@reading_primary()
def _find_ended(principals: Collection[Principal]) -> set[Principal]:
    from django.db.models import Q
    from django.utils import timezone
    from oauth2_provider.models import get_access_token_model

    valid = get_access_token_model().objects.filter(
        Q(user=None) | Q(**active_filter("user__")),
        pk__in={principal.handle for principal in principals},
        expires__gt=timezone.now(),
    )
    known = set(valid.values_list("pk", flat=True))
    return {principal for principal in principals if principal.handle not in known}


@reading_primary()
def _find_without_tokens(principals: Collection[Principal]) -> set[Principal]:
    from django.db.models import Q
    from django.utils import timezone
    from oauth2_provider.models import get_access_token_model, get_refresh_token_model

    clients = {principal: _client_of(principal) for principal in principals}
    theirs = Q(application__client_id__in={client for _user, client in clients.values()})
    theirs &= Q(user=None) | Q(**active_filter("user__"))
    living = set()
    for tokens in (
        get_access_token_model().objects.filter(theirs, expires__gt=timezone.now()),
        get_refresh_token_model().objects.filter(theirs, revoked=None),
    ):
        living |= set(tokens.values_list("user", "application__client_id").distinct())
    return {each for each, client in clients.items() if client not in living}


def _client_of(principal: Principal) -> tuple[Any, str | None]:
    return principal.user.pk, None if principal.auth is None else principal.auth.client_id
