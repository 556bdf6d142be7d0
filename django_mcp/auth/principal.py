"""The principal of a request, the information in its credentials, and how these are read from headers.

Sources: RFC 9110 section 11.6.2, RFC 6750 section 2.1. Tokens in the query string do not count
(2025-03-26 and later, basic/authorization "Access Token Usage").
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.visibility import Allowed

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

AUTHORIZATION: Final = "authorization"
API_KEY: Final = "x-api-key"
CREDENTIAL_HEADERS: Final = (AUTHORIZATION, API_KEY)
STRIPPED_HEADERS: Final = (*CREDENTIAL_HEADERS, "proxy-authorization")
"""Headers that handlers do not get. A proxy may add its own credentials."""

KEY_START: Final = "mcp_"
"""The prefix of API keys, by which other authenticators ignore them."""

MAX_CREDENTIAL_LENGTH: Final = 16 * 1024
"""Characters of one credential header; a token may have some thousands."""

_VISIBLE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_BEARER = re.compile(r"bearer +([a-z0-9._~+/-]+=*)", re.IGNORECASE)

MAX_KEY_LENGTH = 128
"""Characters of a principal's key, which sessions store."""

_NO_CLAIMS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthInfo:
    """The information in the credentials of a request, without the credentials.

    Attributes:
        subject: the principal's name at the issuer of the credentials.
        client_id: the OAuth client, or the key, that acts for the subject; None: the subject itself.
        scopes: the scopes of the credentials.
        has_all_scopes: the credentials have no scopes, and permit everything that their user may do,
            such as a session of the site.
        claims: all claims of a token.
        expires_at: seconds since the epoch; None: never.
        authenticator: the kind of credentials: `oauth`, `jwt`, `api-key`, `session` and so on.
        allowed_tools, allowed_resources, allowed_prompts, allowed_toolsets: the only entries that the
            credentials are for: names of tools, URIs of resources and URI templates, names of prompts,
            and names of toolsets, for all that is in them. If one of the four is given, the others are
            empty unless they are given; None for all: everything.
        read_only: of the tools, the credentials are only for those that do not write.
    """

    subject: str
    authenticator: str
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    has_all_scopes: bool = False
    claims: Mapping[str, Any] = field(default_factory=lambda: _NO_CLAIMS)
    expires_at: float | None = None
    allowed_tools: frozenset[str] | None = None
    allowed_resources: frozenset[str] | None = None
    allowed_prompts: frozenset[str] | None = None
    allowed_toolsets: frozenset[str] | None = None
    read_only: bool = False

    @property
    def allowed(self) -> Allowed | None:
        """The only entries that the credentials are for; None: they are not restricted."""
        names = (
            self.allowed_tools,
            self.allowed_resources,
            self.allowed_prompts,
            self.allowed_toolsets,
        )
        names_all = all(each is None for each in names)
        if names_all and not self.read_only:
            return None
        tools, resources, prompts, toolsets = (each or frozenset() for each in names)
        return Allowed(tools, resources, prompts, toolsets, names_all, self.read_only)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejection:
    """Refuse a request for its bad credentials.

    Attributes:
        reason: one sentence for the client's developer and the log, without anything of the credentials.
        error: the code of RFC 6750 section 3.1; None if there was no bearer token.
        status: 401; 400 if the credentials are malformed, 503 if they cannot be checked now.
    """

    reason: str
    error: str | None = "invalid_token"
    status: int = 401


_KEY_TYPES = frozenset[type]((str, int))
"""Of what identifies a user and is none."""


class Principal:
    """The caller of an authenticated request.

    Args:
        key: identifies it, with at most `MAX_KEY_LENGTH` characters. It is equal for all tokens that the
            same client gets for the same user; sessions and signed states are bound to it.
        user: the Django user; None: it has no account on this site.
        auth: the information in the credentials.
        source: the `Authenticator`, which can check later whether the credentials still hold.
        handle: by which `source` finds the credentials again; it stays in memory, and is never shown.

    Raises:
        TypeError: `user` is a name or a key.
    """

    __slots__ = ("__weakref__", "_shared_user", "_user", "auth", "handle", "key", "source")

    is_authenticated = True

    def __init__(
        self,
        *,
        key: str,
        user: AbstractBaseUser | AnonymousUser | None = None,
        auth: AuthInfo | None = None,
        source: Any = None,
        handle: Any = None,
    ) -> None:
        # Not `isinstance`, which loads a lazy user.
        if user is not None and type(user) in _KEY_TYPES:
            raise TypeError(
                f"The user of a Principal is an object of the user model, not {user!r:.60}. Leave it out for callers "
                "without an account."
            )
        self.key = key
        self.auth = auth
        self.source = source
        self.handle = handle
        self._user = user
        self._shared_user: AbstractBaseUser | AnonymousUser | None = None

    def for_request(self) -> Principal:
        """Return a copy for one more request, with its own user, which a handler may change."""
        principal = Principal(key=self.key, auth=self.auth, source=self.source, handle=self.handle)
        principal._shared_user = self._shared_user or self._user
        return principal

    @property
    def user(self) -> AbstractBaseUser | AnonymousUser:
        """The Django user; `AnonymousUser` without an account on this site."""
        if self._user is None and self._shared_user is not None:
            self._user = copy.copy(self._shared_user)
        elif self._user is None:
            from django.contrib.auth.models import AnonymousUser

            self._user = AnonymousUser()
        return self._user

    @property
    def user_pk(self) -> Any:
        """The primary key of the user; None without an account on this site."""
        return getattr(self._user or self._shared_user, "pk", None)

    @property
    def is_usable(self) -> bool:
        """Whether it may act: without an account, or with one that was not deactivated."""
        user = self._user or self._shared_user
        return user is None or user.is_anonymous or bool(getattr(user, "is_active", True))

    def __repr__(self) -> str:
        return f"<Principal {self.key}>"


def make_key(authenticator: str, subject: object, client_id: object = None) -> str:
    """Return the key of a principal. It is equal only for equal arguments.

    Args:
        authenticator: the kind of credentials.
        subject: the primary key of the user, or the issuer's name for one without an account.
        client_id: the client that acts for the subject.
    """
    parts = [authenticator, str(subject)]
    if client_id is not None:
        parts.append(str(client_id))
    key = ":".join(quote(part, safe="") for part in parts)
    if len(key) <= MAX_KEY_LENGTH:
        return key
    # No quoted part contains "#", so a short key never equals a digest.
    return f"{authenticator}#{hashlib.sha256(key.encode()).hexdigest()}"


def user_of(principal: Any) -> Any:
    """Return a principal's `user`, or the principal itself if it is a user."""
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

    user = getattr(principal, "user", principal)
    return user if isinstance(user, AbstractBaseUser | AnonymousUser) else AnonymousUser()


def find_fault(headers: Headers) -> Rejection | None:
    """Return the rejection of malformed credential headers; None if they are well-formed.

    The status is 400 (2025-03-26 and later, basic/authorization "Error Handling").
    """
    for name in CREDENTIAL_HEADERS:
        value = headers.get(name)
        if value is None:
            continue
        if headers.is_repeated(name):
            return _malformed(name, "is there more than once")
        if len(value) > MAX_CREDENTIAL_LENGTH:
            return Rejection(reason=f"The header {name.title()} is too long")
        if not _VISIBLE.fullmatch(value):
            return _malformed(name, "is empty, or has characters other than visible ASCII")
        if name == AUTHORIZATION and _is_bearer(value) and not _BEARER.fullmatch(value):
            return _malformed(name, "must be: Bearer TOKEN")
    return None


def has_authorization(headers: Headers | None) -> bool:
    """Return whether there is an `Authorization` header."""
    return headers is not None and headers.get(AUTHORIZATION) is not None


def find_bearer_token(headers: Headers | None) -> str | None:
    """Return the bearer token of well-formed headers, if there is one."""
    value = headers.get(AUTHORIZATION) if headers is not None else None
    if value is None or not _is_bearer(value):
        return None
    return value.partition(" ")[2].lstrip(" ")


def _is_bearer(value: str) -> bool:
    return value.partition(" ")[0].lower() == "bearer"


def _malformed(name: str, how: str) -> Rejection:
    return Rejection(reason=f"The header {name.title()} {how}", error="invalid_request", status=400)
