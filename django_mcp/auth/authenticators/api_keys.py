"""API keys of this site: `Authorization: Bearer mcp_...`, or `X-API-Key`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from django.utils import timezone

from django_mcp.auth.authenticator import Authenticator, BearerAuthenticator
from django_mcp.auth.principal import (
    API_KEY,
    KEY_START,
    AuthInfo,
    Principal,
    Rejection,
    find_bearer_token,
    has_authorization,
    make_key,
)
from django_mcp.execution.own_writes import LOCKED_S, run_later
from django_mcp.execution.threads import run_in_pool
from django_mcp.log import LoggedKinds, logger
from django_mcp.process import Expiring, reset_on
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django_mcp.models.keys import APIKey

USE_RECORDED_EVERY: Final = timedelta(minutes=1)


_noting: Expiring[bool] = Expiring(10_000)
"""The keys whose use waits to be written."""

_refused: Final = LoggedKinds(100)
"""The keys whose refusal was logged, so that a client that tries again and again does not fill the log."""

reset_on(_noting.clear, settings=("DJANGO_MCP", "DATABASES", "DATABASE_ROUTERS"))


class APIKeyAuthenticator(BearerAuthenticator):
    """Accepts the keys of `django_mcp.models.APIKey`, with one query for the key and its user."""

    kind = "api-key"
    needs_authorization_server = False
    reads_models = ("django_mcp.APIKey", "django_mcp.GivenLink")

    def find_token(self, exchange: Exchange) -> str | None:
        """Return the key of either header."""
        return find_bearer_token(exchange.headers) or _find_alone(exchange)

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        alone = _find_alone(exchange)
        if alone is not None and has_authorization(exchange.headers):
            # A gateway's key may be sent with a token. An API key beside other credentials would
            # name two users.
            return _TWO if self.is_mine(alone) else await super().authenticate(exchange)
        principal = await super().authenticate(exchange)
        return _UNKNOWN if principal is None and alone is not None else principal

    def is_mine(self, token: str) -> bool:
        """Return whether a token has the prefix of API keys."""
        return token.startswith(KEY_START)

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        from django_mcp.models.keys import split_key

        parts = split_key(token)
        return _UNKNOWN if parts is None else await run_in_pool(partial(self._look_up, *parts))

    def _look_up(self, prefix: str, secret: str) -> Principal | Rejection:
        from django.db.models import Q

        from django_mcp.auth.users import is_active
        from django_mcp.models.keys import APIKey

        now = timezone.now()
        key = APIKey.objects.select_related("user").filter(prefix=prefix).first()
        # The same response for all of these, so that guessing reveals nothing.
        if key is None or not key.is_secret(secret):
            return _UNKNOWN
        if key.is_over(now) or not is_active(key.user):
            why = "revoked or has expired" if key.is_over(now) else "of an inactive user"
            if _refused.add((prefix, why)):
                logger.warning(
                    "The API key %s%s was refused, since it is %s", KEY_START, prefix, why
                )
            return _UNKNOWN
        if key.last_used_at is None or now - key.last_used_at >= USE_RECORDED_EVERY:
            # If several workers saw the key at once, the first one writes.
            is_due = Q(last_used_at=None) | Q(last_used_at__lte=now - USE_RECORDED_EVERY)
            rows = APIKey.objects.filter(is_due, pk=key.pk)

            def note() -> None:
                try:
                    rows.update(last_used_at=now)
                finally:
                    _noting.discard(pk)

            # While the write waits, the row tells further requests that it is due.
            pk = key.pk
            if _noting.get(pk) is None:
                _noting.set(pk, True, LOCKED_S)
                run_later(note)
        return principal_of_key(key, self)

    async def find_ended(
        self, principals: Collection[Principal], *, for_tasks: bool = False
    ) -> set[Principal]:
        """See `Authenticator.find_ended`.

        A key that was revoked, expired or deleted counts, and one that has fewer rights than before.
        """
        return await run_in_pool(partial(_find_ended, principals))


def _find_alone(exchange: Exchange) -> str | None:
    return None if exchange.headers is None else exchange.headers.get(API_KEY)


_TWO = Rejection(
    reason="An API key stands in X-API-Key or in Authorization, not beside other credentials",
    error="invalid_request",
    status=400,
)
_UNKNOWN = Rejection(reason="The API key is unknown, or no longer valid")


def _find_ended(principals: Collection[Principal]) -> set[Principal]:
    from django.db.models import Q

    from django_mcp.auth.users import active_filter
    from django_mcp.models.keys import APIKey

    client_ids = {
        principal: (principal.auth and principal.auth.client_id) or "" for principal in principals
    }
    prefixes = {each: id.removeprefix(KEY_START) for each, id in client_ids.items()}
    valid = APIKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=timezone.now()),
        prefix__in=set(prefixes.values()),
        revoked_at=None,
        **active_filter("user__"),
    )
    known = {key.prefix: key for key in valid}
    return {each for each, prefix in prefixes.items() if not _covers(known.get(prefix), each)}


def _covers(key: APIKey | None, principal: Principal) -> bool:
    """Return whether a key still has the rights that its principal was made with."""
    if key is None or principal.auth is None:
        return False
    before, now = principal.auth.allowed, key.allowed
    if not principal.auth.scopes <= set(key.scopes.split()):
        return False
    if now is None:
        return True
    return before is not None and now.covers(before)


def find_key(prefix: str) -> APIKey | None:
    """Return the key, with its user, by its prefix or a text that begins with it, whether or not it is valid."""
    from django_mcp.models.keys import PREFIX_BYTES, APIKey

    start = prefix.strip().removeprefix(KEY_START)[: 2 * PREFIX_BYTES]
    if not start.isalnum():
        return None
    return APIKey.objects.select_related("user").filter(prefix=start).first()


def find_valid_key(prefix: str) -> APIKey | None:
    """Do as `find_key` does; None as well if calls with the key are refused."""
    key = find_key(prefix)
    return None if key is None or why_refused(key) else key


def why_refused(key: APIKey) -> str | None:
    """Return why calls with a key are refused, for operators; None if they are not."""
    from django_mcp.auth.users import is_active

    if key.revoked_at is not None:
        return f"it was revoked at {key.revoked_at}"
    if key.is_over(timezone.now()):
        return f"it expired at {key.expires_at}"
    if not is_active(key.user):
        return f"its user {key.user.get_username()!r} is not active"
    return None


def principal_of_key(key: APIKey, source: Authenticator) -> Principal:
    """Return the principal that a key acts as, whether or not it is still valid."""
    client_id = f"{KEY_START}{key.prefix}"
    allowed = key.allowed if key.is_restricted else None
    return Principal(
        key=make_key(APIKeyAuthenticator.kind, key.user.pk, client_id),
        user=key.user,
        auth=AuthInfo(
            subject=str(key.user.pk),
            client_id=client_id,
            scopes=frozenset(key.scopes.split()),
            expires_at=key.expires_at.timestamp() if key.expires_at is not None else None,
            authenticator=APIKeyAuthenticator.kind,
            allowed_tools=None if allowed is None else allowed.tools,
            allowed_resources=None if allowed is None else allowed.resources,
            allowed_prompts=None if allowed is None else allowed.prompts,
            allowed_toolsets=None if allowed is None else allowed.toolsets,
            read_only=key.read_only,
        ),
        source=source,
    )
