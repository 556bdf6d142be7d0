"""The principal: on whose behalf a request is made, and what the credentials say of it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

__all__ = ["MAX_KEY_LENGTH", "AuthInfo", "CredentialSource", "Principal", "make_key", "user_of"]

MAX_KEY_LENGTH = 128
"""Characters of a principal's key, which sessions store."""

_NO_CLAIMS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthInfo:
    """What the credentials of a request say. The credentials themselves are not in it.

    Attributes:
        subject: the principal, as the issuer of the credentials names it.
        client_id: the OAuth client, or the key, that acts for the subject; None: nobody else does.
        scopes: what the credentials are good for.
        has_all_scopes: the credentials are good for all that their user may do: they are no token
            with scopes, but a session of the site, say.
        claims: what else a token says, by its issuer's names.
        expires_at: seconds since the epoch; None: never.
        authenticator: the kind of credentials: `oauth`, `jwt`, `api-key`, `session` and so on.
        allowed_tools: the only tools that may be used; None: all.
    """

    subject: str
    authenticator: str
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    has_all_scopes: bool = False
    claims: Mapping[str, Any] = field(default_factory=lambda: _NO_CLAIMS)
    expires_at: float | None = None
    allowed_tools: frozenset[str] | None = None


class CredentialSource(Protocol):
    """Where a principal's credentials come from: every `Authenticator` is one."""

    kind: str

    async def find_ended(self, principals: Collection[Principal]) -> set[Principal]:
        """Return those of its principals whose credentials no longer hold."""

    async def find_withdrawn(self, principals: Collection[Principal]) -> set[Principal]:
        """Return those of its principals who may not act any more, with whichever credentials."""


class Principal:
    """On whose behalf an authenticated request is made.

    Args:
        key: who it is, of at most `MAX_KEY_LENGTH` characters and equal for every token that the
            same client gets for the same user; sessions and sealed states are bound to it.
        user: the Django user; None: nobody who has an account here.
        auth: what the credentials say.
        source: the authenticator, which can tell later whether the credentials still hold.
        handle: by which `source` finds the credentials again; kept in memory only, and never shown.
    """

    __slots__ = ("__weakref__", "_shared_user", "_user", "auth", "handle", "key", "source")

    is_authenticated = True

    def __init__(
        self,
        *,
        key: str,
        user: AbstractBaseUser | AnonymousUser | None = None,
        auth: AuthInfo | None = None,
        source: CredentialSource | None = None,
        handle: Any = None,
    ) -> None:
        self.key = key
        self.auth = auth
        self.source = source
        self.handle = handle
        self._user = user
        self._shared_user: AbstractBaseUser | AnonymousUser | None = None

    def for_request(self) -> Principal:
        """Return it for one more request: with a user of its own, which a handler may change."""
        found = Principal(key=self.key, auth=self.auth, source=self.source, handle=self.handle)
        found._shared_user = self._shared_user or self._user
        return found

    @property
    def user(self) -> AbstractBaseUser | AnonymousUser:
        """The Django user; `AnonymousUser` for one who has no account here."""
        if self._user is None and self._shared_user is not None:
            self._user = copy.copy(self._shared_user)
        elif self._user is None:
            from django.contrib.auth.models import AnonymousUser

            self._user = AnonymousUser()
        return self._user

    @property
    def is_usable(self) -> bool:
        """Whether it may act: without an account, or with one that was not deactivated."""
        user = self._user or self._shared_user
        return user is None or user.is_anonymous or bool(getattr(user, "is_active", True))

    def __repr__(self) -> str:
        return f"<Principal {self.key}>"


def make_key(authenticator: str, subject: object, client_id: object = None) -> str:
    """Return the key of a principal: equal for equal arguments, and for no others.

    Args:
        authenticator: the kind of credentials.
        subject: the primary key of the user, or how the issuer names who has no account here.
        client_id: the client that acts for the subject.
    """
    parts = [authenticator, str(subject)]
    if client_id is not None:
        parts.append(str(client_id))
    key = ":".join(quote(part, safe="") for part in parts)
    if len(key) <= MAX_KEY_LENGTH:
        return key
    # No quoted part has this sign in it, so that no short key can look like a long one's.
    return f"{authenticator}#{hashlib.sha256(key.encode()).hexdigest()}"


def user_of(principal: Any) -> Any:
    """Return a principal's user: its `user`, or itself when it is one."""
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

    user = getattr(principal, "user", principal)
    return user if isinstance(user, AbstractBaseUser | AnonymousUser) else AnonymousUser()
