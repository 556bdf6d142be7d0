"""Authentication by Django's session cookie, for pages of the site itself.

A browser also sends the cookie with requests of other sites' pages. So a request that may change
something must come from a page of this site and have the CSRF token, as a form does.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from django.apps import apps
from django.conf import settings
from django.utils import timezone

from django_mcp.auth.authenticator import MAX_AGE_S, AuthCache, Authenticator
from django_mcp.auth.principal import AuthInfo, Principal, Rejection, has_authorization, make_key
from django_mcp.execution.primary import reading_primary
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest

MAX_COOKIE_LENGTH: Final = 4096
_SESSIONS: Final = "django.contrib.sessions"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class SessionAuthenticator(Authenticator):
    """Authenticates users of the site by their session cookie.

    POST and DELETE need an `Origin` of this site (or of `CSRF_TRUSTED_ORIGINS`) and the token of
    Django's CSRF protection in its header. A request with an `Authorization` header is left to the other
    authenticators.

    Args:
        cache_s: seconds for which a session is cached, 2 at most.
    """

    kind = "session"
    limits_scopes = False

    def __init__(self, *, cache_s: float = MAX_AGE_S) -> None:
        self._cache = AuthCache(cache_s)
        # Not in the principals, since a session's key gives access to the session.
        self._sessions: WeakKeyDictionary[Principal, str] = WeakKeyDictionary()

    def find_problems(self) -> list[str]:
        if not settings.SESSION_ENGINE.endswith("db") or apps.is_installed(_SESSIONS):
            return []
        return [f"SessionAuthenticator needs {_SESSIONS} in INSTALLED_APPS"]

    async def authenticate(self, exchange: Exchange) -> Principal | Rejection | None:
        """See `Authenticator.authenticate`; the cookie of an anonymous session does not count."""
        if exchange.caller.build_request is None or has_authorization(exchange.headers):
            return None
        # A copy, since this may be the site's own request behind the view.
        request = copy.copy(exchange.caller.build_request())
        request.csrf_processing_done = False
        cookie = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
        if not cookie or len(cookie) > MAX_COOKIE_LENGTH:
            return None
        principal = await self._find(request, cookie)
        if isinstance(principal, Principal) and not settings.CSRF_USE_SESSIONS:
            return _check_origin(request) or principal
        return principal

    async def _find(self, request: HttpRequest, cookie: str) -> Principal | Rejection | None:
        if settings.CSRF_USE_SESSIONS:
            # The secret is in the session, which has to be read first.
            return await run_in_pool(partial(self._look_up, request, cookie))
        digest = hashlib.sha256(cookie.encode("utf-8", "replace")).digest()
        ask = partial(run_in_pool, partial(self._look_up, request, cookie))
        principal = self._cache.find(digest) or await self._cache.learn(digest, ask)
        if isinstance(principal, Principal):
            self._sessions[principal] = cookie
        return principal

    @reading_primary()
    def _look_up(self, request: HttpRequest, cookie: str) -> Principal | Rejection | None:
        from django.contrib.auth import get_user

        request.session = _store()(cookie)
        user = get_user(request)
        if not user.is_authenticated:
            return None
        if settings.CSRF_USE_SESSIONS:
            refusal = _check_origin(request)
            if refusal is not None:
                return refusal
        principal = Principal(
            key=make_key(self.kind, user.pk),
            user=user,
            auth=AuthInfo(subject=str(user.pk), authenticator=self.kind, has_all_scopes=True),
            source=self,
            handle=_hash_of(user),
        )
        self._sessions[principal] = cookie
        return principal

    async def find_ended(
        self, principals: Collection[Principal], *, for_tasks: bool = False
    ) -> set[Principal]:
        """See `Authenticator.find_ended`: an ended session and a changed password count."""
        if for_tasks:
            return await super().find_ended(principals, for_tasks=True)
        sessions = {principal: self._sessions.get(principal, "") for principal in principals}
        return await run_in_pool(partial(_find_ended, sessions))


@reading_primary()
def _find_ended(sessions: Mapping[Principal, str]) -> set[Principal]:
    from django.contrib.sessions.backends.db import SessionStore

    from django_mcp.auth.users import find_users

    store, cookies = _store(), set(sessions.values())
    if issubclass(store, SessionStore):
        rows = store.get_model_class().objects.filter(
            session_key__in=cookies, expire_date__gt=timezone.now()
        )
        living = set(rows.values_list("session_key", flat=True))
    else:
        # Other engines cannot read many at once.
        living = {cookie for cookie in cookies if store(cookie).load()}
    users = find_users({session.user.pk for session in sessions})
    return {
        principal
        for principal, cookie in sessions.items()
        if cookie not in living or _hash_of(users.get(principal.user.pk)) != principal.handle
    }


def _store() -> Any:
    return import_module(settings.SESSION_ENGINE).SessionStore


def _hash_of(user: Any) -> str:
    """Return the digest of a user's password; the user's sessions end when it changes."""
    session_auth_hash: str = (
        user.get_session_auth_hash() if hasattr(user, "get_session_auth_hash") else ""
    )
    return session_auth_hash


def _check_origin(request: HttpRequest) -> Rejection | None:
    """Return the rejection of a request that another site may have caused."""
    has_origin = "HTTP_ORIGIN" in request.META
    if request.method in SAFE_METHODS:
        # An `Origin` was checked before. Pages of other sites can send requests without one.
        is_foreign = request.META.get("HTTP_SEC_FETCH_SITE", "") in ("cross-site", "same-site")
        return _FOREIGN if is_foreign and not has_origin else None
    if not has_origin:
        # Every browser sends it with these methods.
        return _FOREIGN
    # Loads `django.db`, which importing a server must not.
    from django.middleware.csrf import CsrfViewMiddleware

    check: Any = CsrfViewMiddleware(_unused)
    # Instead of a page, it returns the reason of a refusal.
    check._reject = lambda _request, reason: reason
    check.process_request(request)
    # The check needs a view.
    return None if check.process_view(request, _unused, (), {}) is None else _FOREIGN


_FOREIGN = Rejection(
    reason="A session needs an Origin of this site, and its CSRF token", error=None, status=403
)


def _unused(request: HttpRequest) -> Any:
    raise NotImplementedError
