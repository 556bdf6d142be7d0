"""JSON Web Tokens of an external issuer, checked here by the issuer's public keys.

Sources: RFC 7519, RFC 8725 (best practices), RFC 9068. Needs the extra `jwt`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django_mcp.auth.authenticator import MAX_AGE_S, BearerAuthenticator
from django_mcp.auth.principal import Principal, Rejection
from django_mcp.contrib.issuers import (
    Audiences,
    FetchError,
    FindUser,
    UserFinder,
    check_url,
    to_auth_info,
)
from django_mcp.contrib.jwt.keys import KEY_TYPES, KeySet
from django_mcp.execution.outages import Warner
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from jwt import PyJWK

_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class JWTAuthenticator(BearerAuthenticator):
    """Knows the tokens that one issuer makes for this server.

    Args:
        issuer: the `iss` of its tokens, to the letter.
        audience: what `aud` must hold, to the letter: this server's address, or several names. A token for
            the address of an endpoint of this site is accepted there alone.
        jwks_url: where its keys are; None: as its OpenID Connect metadata says.
        algorithms: the only ones accepted.
        token_types: which `typ` a token's header may have (RFC 9068 section 4), in either case and with
            or without `application/`; None stands for a token without one. Many issuers write "JWT".
        leeway_s: by how much clocks may differ.
        user_field: the field of the user model that equals the claim `user_claim`; without it
            (and without `find_user`) principals have no account here.
        user_claim: which claim identifies the user. `email` and `phone_number` count only if the issuer
            has verified them (`email_verified`).
        find_user: a function that takes the claims and returns the user, or None.
        required_scopes: what every token must be good for.
        timeout_s: for each answer of the issuer.
        cache_s: seconds for which a verdict is remembered, 2 at most.

    Raises:
        ValueError: an algorithm is none of `KEY_TYPES`, an address is not https, nobody is named as
            audience, no type of token is named, or users can change the claim `user_claim`.
        TypeError: the algorithms or the token types are one string.
        ImportError: the extra `jwt` is not installed.
    """

    kind = "jwt"

    def __init__(
        self,
        *,
        issuer: str,
        audience: str | Sequence[str],
        jwks_url: str | None = None,
        algorithms: Sequence[str] = ("RS256",),
        token_types: Sequence[str | None] = ("at+jwt", None),
        leeway_s: float = 30.0,
        user_field: str | None = None,
        user_claim: str = "sub",
        find_user: FindUser | None = None,
        required_scopes: Sequence[str] = (),
        timeout_s: float = 5.0,
        cache_s: float = MAX_AGE_S,
    ) -> None:
        import jwt

        super().__init__(cache_s=cache_s)
        if isinstance(algorithms, str):
            raise TypeError(f"algorithms must be a list, such as [{algorithms!r}]")
        unknown = [algorithm for algorithm in algorithms if algorithm not in KEY_TYPES]
        if unknown or not algorithms:
            raise ValueError(f"algorithms must be out of {', '.join(KEY_TYPES)}; not {unknown}")
        self._jwt = jwt
        self._issuer = check_url(issuer, "issuer")
        self._audiences = Audiences(audience)
        if jwks_url is not None:
            check_url(jwks_url, "jwks_url")
        self._algorithms = frozenset(algorithms)
        self._token_types = _read_types(token_types)
        self._other_types = Warner()
        self._leeway_s = leeway_s
        self._keys = KeySet(
            url=jwks_url, issuer=issuer, algorithms=self._algorithms, timeout_s=timeout_s
        )
        self._users = UserFinder(field=user_field, claim=user_claim, function=find_user)
        self.authorization_servers = (issuer,)
        self.required_scopes = tuple(required_scopes)

    def is_mine(self, token: str) -> bool:
        """Return whether a token looks like a JSON Web Token of this issuer, before it is checked."""
        if not _TOKEN.fullmatch(token):
            return False
        try:
            claims = self._jwt.decode(token, options={"verify_signature": False})
        except (self._jwt.PyJWTError, ValueError, RecursionError):
            # A token of three parts is nobody else's; it will be refused for what is wrong.
            return True
        # Several issuers can be accepted, each by an authenticator of its own.
        return claims.get("iss") == self._issuer

    def variant(self, exchange: Exchange) -> str | None:
        """Return the resource that a token for an address has to be for."""
        return self._audiences.find_resource(exchange)

    async def verify(self, token: str, exchange: Exchange) -> Principal | Rejection | None:
        """See `BearerAuthenticator.verify`."""
        try:
            header = self._jwt.get_unverified_header(token)
        except (self._jwt.PyJWTError, ValueError, RecursionError):
            return _MALFORMED
        algorithm = header.get("alg")
        # Pinned before any key is looked for: the token does not choose how it is checked.
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            return _ALGORITHM
        # No extension is understood here, and an empty list of them is malformed (RFC 7515 section 4.1.11).
        if "crit" in header:
            return _ALGORITHM
        key_id = header.get("kid")
        try:
            keys = await self._keys.find(key_id if isinstance(key_id, str) else None, algorithm)
        except FetchError as error:
            return Rejection(reason=str(error), error=None, status=503)
        claims = self._check(token, keys, algorithm)
        if isinstance(claims, Rejection):
            return claims
        # Now the type is what the issuer wrote, so the log can quote it.
        if not self._has_right_type(header.get("typ")):
            return _TYPE
        elsewhere = self._audiences.judge(claims, exchange)
        if elsewhere is not None:
            return elsewhere
        auth = to_auth_info(self.kind, claims)
        if isinstance(auth, Rejection):
            return auth
        return await self._users.to_principal(auth, issuer=self._issuer, source=self)

    def _has_right_type(self, typ: object) -> bool:
        if _normalize_type(typ) in self._token_types:
            return True
        shown = typ[:40] if isinstance(typ, str) else typ and "..."
        self._other_types.warn(
            "Refused a token of the issuer because of its type. If its access tokens look like this, set %s.",
            f"JWTAuthenticator(token_types=[{shown!r}])",
        )
        return False

    def _check(self, token: str, keys: Sequence[PyJWK], algorithm: str) -> Any:
        """Return the claims of a token that one of the keys signed, or why it is refused."""
        for key in keys:
            try:
                return self._jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    issuer=self._issuer,
                    audience=self._audiences.names,
                    leeway=self._leeway_s,
                    options={"require": ["exp", "iss", "aud", "sub"]},
                )
            except self._jwt.InvalidSignatureError:
                continue
            except self._jwt.ExpiredSignatureError:
                return Rejection(reason="The token has expired")
            except self._jwt.InvalidAudienceError:
                return Rejection(reason="The token is for somebody else")
            except (self._jwt.PyJWTError, ValueError, OverflowError, RecursionError):
                return Rejection(reason="The token's claims are not acceptable")
        return Rejection(reason="The token is not signed by a key of its issuer")


def _read_types(types: Any) -> frozenset[str | None]:
    if isinstance(types, str):
        raise TypeError(f"token_types must be a list, such as [{types!r}]")
    if not types or not all(kind is None or (isinstance(kind, str) and kind) for kind in types):
        raise ValueError('token_types must name at least one type, such as "JWT"')
    return frozenset(_normalize_type(kind) for kind in types)


def _normalize_type(value: Any) -> str | None:
    """Return a media type as RFC 7515 section 4.1.9 compares it; "" stands for what is none."""
    if value is None:
        return None
    return value.lower().removeprefix("application/") if isinstance(value, str) else ""


_MALFORMED = Rejection(reason="The token is malformed")
_ALGORITHM = Rejection(reason="The token's algorithm is not accepted")
_TYPE = Rejection(reason="The token's type is not accepted: an access token is needed")
