"""Common parts of the authenticators of external issuers' tokens: documents over HTTP, and principals from claims."""

from __future__ import annotations

import base64
import math
import socket
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from django_mcp.auth.principal import AuthInfo, Principal, Rejection, make_key
from django_mcp.contrib.deadlines import hanging_up_at
from django_mcp.execution.threads import run_in_pool
from django_mcp.protocol.json import decode
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest

MAX_BYTES: Final = 256 * 1024
MAX_BLOCK_BYTES: Final = 16 * 1024


class FetchError(Exception):
    """The document cannot be fetched; the text contains nothing of the request but its host."""


def check_url(url: str, what: str) -> str:
    """Return a configured URL.

    It may name any host, but the connection must be encrypted. Plain http is for this machine alone.

    Raises:
        ValueError: it is no https URL.
    """
    parts = urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        raise ValueError(f"{what} must be an https URL, not {url!r}")
    return url


def fetch_json(
    url: str,
    *,
    timeout_s: float,
    form: dict[str, str] | None = None,
    credentials: tuple[str, str] | None = None,
) -> Any:
    """Return the JSON at a URL. Blocks: call it in a thread.

    Args:
        timeout_s: until the whole answer has to be there.
        form: sent by POST; without one it is a GET.
        credentials: a client's id and secret, for Basic authentication.

    Raises:
        FetchError: there is no answer, or not one of status 200 that is small enough and JSON.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    request = urllib.request.Request(  # noqa: S310  (the opener has no handlers for other schemes)
        url,
        data=None if form is None else urlencode(form).encode(),
        headers={"Accept": "application/json", "User-Agent": "django-mcp"},
    )
    if credentials is not None:
        # Both are form-encoded first (RFC 6749 section 2.3.1).
        pair = ":".join(map(quote_plus, credentials))
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    deadline = time.monotonic() + timeout_s
    try:
        with (
            hanging_up_at(deadline) as watch,
            _make_opener(watch).open(request, timeout=timeout_s) as response,
        ):
            body = _read(response)
            status = response.status
        if time.monotonic() >= deadline:
            raise TimeoutError
    except (OSError, HTTPException, ValueError) as error:
        raise FetchError(f"{host} did not answer: {type(error).__name__}") from None
    if status != 200:
        raise FetchError(f"{host} answered with status {status}")
    try:
        return decode(body)
    except ValueError:
        raise FetchError(f"{host} did not answer with JSON") from None


def _read(response: HTTPResponse) -> bytes:
    body = b""
    while True:
        block = response.read1(MAX_BLOCK_BYTES)
        if not block:
            return body
        body += block
        if len(body) > MAX_BYTES:
            raise ValueError("too large")


Watch: TypeAlias = Callable[[socket.socket], None]


class _Watched(HTTPConnection):
    """A connection that is told of before anything is sent, and before its TLS begins."""

    def __init__(self, *args: Any, watch: Watch, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch(self.sock)


class _WatchedTLS(HTTPSConnection, _Watched):
    """The same with TLS."""


class _Handler(urllib.request.HTTPHandler):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_Watched, watch=self._watch), req)


class _TLSHandler(urllib.request.HTTPSHandler):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_WatchedTLS, watch=self._watch), req)


def _make_opener(watch: Watch) -> urllib.request.OpenerDirector:
    """Return an opener of HTTP URLs alone, which follows no redirects and returns every status."""
    opener = urllib.request.OpenerDirector()
    # The site's proxies as its environment has them.
    opener.add_handler(urllib.request.ProxyHandler())
    opener.add_handler(_Handler(watch))
    opener.add_handler(_TLSHandler(watch))
    return opener


Claims: TypeAlias = Mapping[str, Any]

FindUser: TypeAlias = Callable[[Claims], Any]
"""Returns the user of claims, or None. Runs in a thread and may query the database."""


class Audiences:
    """The audiences that an authenticator accepts: addresses of this site's endpoints, and other names.

    A token for an address is good for requests to that endpoint alone, as a token of the site's own
    authorization server is. One for another name is good at every endpoint.

    Args:
        audience: one name, or several.

    Raises:
        ValueError: there is none.
    """

    def __init__(self, audience: Any) -> None:
        given = [audience] if isinstance(audience, str) else audience
        names: list[Any] = list(given) if isinstance(given, Iterable) else []
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ValueError(
                "audience must name the audience of tokens, such as this server's address"
            )
        self.names: list[str] = names
        self._has_urls = any(name.lower().startswith(("http:", "https:")) for name in self.names)

    def find_resource(self, exchange: Exchange) -> str | None:
        """Return the resource that an address must equal; None: no name is one, or there is no request."""
        if not self._has_urls or exchange.caller.build_request is None:
            return None
        # Settings import this module, and it must not need them by then.
        from django_mcp.auth.addresses import resource_of

        return resource_of(exchange.caller.build_request())

    def judge(self, claims: Claims, exchange: Exchange) -> Rejection | None:
        """Return the rejection of a token whose audiences are not good for a request, or None."""
        named = audiences_of(claims).intersection(self.names)
        if not named:
            return _FOR_SOMEBODY_ELSE
        resource = self.find_resource(exchange)
        if resource is None or exchange.caller.build_request is None:
            return None
        addresses = [_to_address(name) for name in named]
        if _without_scheme(resource) in addresses:
            return None
        request = exchange.caller.build_request()
        is_other = all(_is_endpoint(address, request) for address in addresses)
        return _FOR_ANOTHER_ADDRESS if is_other else None


def _to_address(name: str) -> str | None:
    """Return an audience as addresses are compared, by host, path and query; None: it is none.

    A proxy may not say which scheme clients use, and the path of a request has no escapes any more.
    """
    from django.utils.encoding import iri_to_uri

    from django_mcp.auth.addresses import canonical_uri

    uri = canonical_uri(iri_to_uri(name))
    return None if uri is None else unquote(_without_scheme(uri))


def _without_scheme(uri: str) -> str:
    return uri.partition("://")[2]


def _is_endpoint(address: str | None, request: HttpRequest) -> bool:
    """Return whether an address leads to an endpoint of this site, or of one of its tenants."""
    if address is None:
        return False
    from django.urls import get_script_prefix

    from django_mcp.endpoints.well_known import endpoint_at_path

    authority, slash, rest = address.partition("?")[0].partition("/")
    path, prefix = slash + rest or "/", get_script_prefix().rstrip("/")
    if not _is_host_of_site(authority, request) or not path.startswith(f"{prefix}/"):
        return False
    return endpoint_at_path(path.removeprefix(prefix)) is not None


def _is_host_of_site(authority: str, request: HttpRequest) -> bool:
    from django.conf import settings as site_settings
    from django.http.request import split_domain_port, validate_host

    from django_mcp.auth.addresses import origin_of
    from django_mcp.conf import settings

    if authority == _without_scheme(origin_of(request)):
        return True
    # Without a public address there is one for each host, such as one for each tenant.
    return settings.PUBLIC_URL is None and validate_host(
        split_domain_port(authority)[0], site_settings.ALLOWED_HOSTS
    )


_FOR_SOMEBODY_ELSE = Rejection(reason="The token is for somebody else")
_FOR_ANOTHER_ADDRESS = Rejection(reason="The token is for another address of this site")


def audiences_of(claims: Claims) -> frozenset[str]:
    """Return the audiences of a token: `aud`, a string or a list (RFC 7519 section 4.1.3)."""
    aud = claims.get("aud", ())
    every = aud if isinstance(aud, list) else [aud]
    return frozenset(audience for audience in every if isinstance(audience, str))


def scopes_of(claims: Claims) -> frozenset[str]:
    """Return the scopes of a token: `scope`, or `scp` as Microsoft and Okta call it."""
    scope = claims.get("scope")
    if scope is None:
        scope = claims.get("scp")
    words = scope.split() if isinstance(scope, str) else scope
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return frozenset()
    return frozenset(words)


def to_auth_info(kind: str, claims: Claims) -> AuthInfo | Rejection:
    """Return the information of verified claims."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        return Rejection(reason="The token names no subject")
    client_id = claims.get("client_id", claims.get("azp"))
    if not (_is_text(subject) and _is_text(client_id)):
        return Rejection(reason="The token's subject or client is no text")
    expires_at = _to_seconds(claims.get("exp"))
    if expires_at is None and claims.get("exp") is not None:
        # A stream opened with it would never end.
        return Rejection(reason="The token's exp is no number")
    return AuthInfo(
        subject=subject,
        client_id=client_id if isinstance(client_id, str) else None,
        scopes=scopes_of(claims),
        # A copy, since the cache hands it out several times.
        claims=MappingProxyType(dict(claims)),
        expires_at=expires_at,
        authenticator=kind,
    )


def _is_text(value: Any) -> bool:
    """Return whether UTF-8 can encode a value, if that is a text: JSON can hold half of a surrogate pair."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def _to_seconds(value: Any) -> float | None:
    """Return the seconds of a NumericDate (RFC 7519 section 2); None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) else None


VERIFIED_BY: Final = {"email": "email_verified", "phone_number": "phone_number_verified"}
"""Claims that identify a user only if the issuer has verified them, and the claim that says so.

Source: OpenID Connect Core 1.0 section 5.1.
"""

CHANGEABLE: Final = frozenset(
    {
        "family_name",
        "given_name",
        "middle_name",
        "name",
        "nickname",
        "preferred_username",
        "unique_name",
        "upn",
        "username",
    }
)
"""Claims that users may change, or that may be given to another user later, so they identify nobody.

Source: OpenID Connect Core 1.0 section 5.7; RFC 7662 section 2.2 for `username`, and Microsoft's reference
of claims for `unique_name` and `upn`.
"""


def check_user_claim(claim: str) -> str:
    """Return the name of the claim that identifies users.

    Raises:
        ValueError: users can change the claim at their issuer.
    """
    if claim in CHANGEABLE:
        raise ValueError(
            f"user_claim must not be {claim!r}: users of many issuers can change it, and so become "
            "somebody else here. Use 'sub', or find_user if your issuer guarantees it."
        )
    return claim


class UserFinder:
    """Finds the account of claims: by a function, or the user whose field equals a claim.

    Raises:
        ValueError: see `check_user_claim`.
    """

    def __init__(self, *, field: str | None, claim: str, function: FindUser | None) -> None:
        self._field = field
        self._claim = check_user_claim(claim)
        self._function = function

    async def to_principal(
        self, auth: AuthInfo, *, issuer: str, source: Any
    ) -> Principal | Rejection:
        """Return the principal; without `field` or `function` it has no account on this site."""
        user = None
        if self._function is not None or self._field is not None:
            verified_by = VERIFIED_BY.get(self._claim) if self._function is None else None
            if verified_by is not None and auth.claims.get(verified_by) is not True:
                return Rejection(reason=f"The token's {self._claim} is not verified")
            user = await run_in_pool(partial(self._find, auth.claims))
            if user is None:
                return _NO_ACCOUNT
        if user is None:
            key = make_key(auth.authenticator, f"{issuer} {auth.subject}", auth.client_id)
        else:
            # Clients of several issuers may have one name.
            client = issuer if auth.client_id is None else f"{issuer} {auth.client_id}"
            key = make_key(auth.authenticator, user.pk, client)
        return Principal(key=key, user=user, auth=auth, source=source)

    def _find(self, claims: Claims) -> Any:
        from django_mcp.auth.users import is_active

        if self._function is not None:
            user = self._function(claims)
        else:
            user = _find_user(str(self._field), claims.get(self._claim))
        return user if user is not None and is_active(user) else None


def _find_user(field: str, value: Any) -> Any:
    """Return the only user whose field equals a text exactly, or None."""
    from django.contrib.auth import get_user_model
    from django.core.exceptions import ValidationError
    from django.db import DataError
    from django.db.models import F

    if not isinstance(value, str) or not value:
        return None
    users = get_user_model()._default_manager
    try:
        # Two of them are an error, so neither is taken.
        matching = list(users.filter(**{field: value}).annotate(_identified_by=F(field))[:2])
    except (ValueError, OverflowError, ValidationError, DataError):
        # The field cannot have this value.
        return None
    user = matching[0] if len(matching) == 1 else None
    stored = getattr(user, "_identified_by", None)
    # Some databases compare texts without case and accents, and a number or a UUID can be written in many
    # ways.
    return user if stored is not None and str(stored) == value else None


_NO_ACCOUNT = Rejection(reason="The token's subject has no active account here")
