"""What this server keeps of the metadata that a client publishes or registers (RFC 7591 section 2).

A client describes all that it can do, at every server that it meets. What this server does not
support is ignored, and a client is refused only if nothing usable is left.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from oauth2_provider.cimd import CIMDError
from oauth2_provider.models import get_application_model
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.validators import AllowedURIValidator

from django_mcp.contrib.oauth.fetcher import read_url
from django_mcp.contrib.oauth.key_sets import ALGORITHMS, KeysRefused, read_keys
from django_mcp.contrib.oauth.names import clean_name
from django_mcp.contrib.oauth.redirects import WANTED, is_own_scheme, is_safe_redirect
from django_mcp.contrib.oauth.sign_ins import SignInRefused
from django_mcp.protocol.json import encode

MAX_REDIRECT_URIS = 10
MAX_KEYS_URL = 500

GRANT, REFRESH, RESPONSE = "authorization_code", "refresh_token", "code"
NONE, BASIC, POST, KEY = "none", "client_secret_basic", "client_secret_post", "private_key_jwt"


class Unusable(SignInRefused):
    """Metadata from which no client can be made.

    Attributes:
        error: the error code of RFC 7591 section 3.2.2.
    """

    def __init__(
        self, field: str, reason: str, remedy: str, *, error: str = "invalid_client_metadata"
    ) -> None:
        super().__init__(field, reason, remedy)
        self.error = error


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """Where the public keys of a client are.

    Attributes:
        jwks: the key set itself, as JSON; empty: it is at `uri`.
        uri: the https address of the key set, or an empty text.
        algorithm: the only one that the client signs with, or an empty text.
    """

    jwks: str
    uri: str
    algorithm: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientMetadata:
    """The part of a client's metadata that this server supports.

    Attributes:
        name: on one line, without invisible characters; may be empty.
        redirect_uris: at least one.
        method: how the client authenticates at the token endpoint, unless it sends an assertion.
        keys: those of a client that can use `private_key_jwt`, else None.
        scopes: the requested scopes that this site has; None: none were requested.
    """

    name: str
    redirect_uris: tuple[str, ...]
    method: str
    keys: Keys | None
    scopes: tuple[str, ...] | None

    @property
    def is_public(self) -> bool:
        """Whether the client may do without a secret and without an assertion."""
        return self.method == NONE


def is_permitted(classes: Iterable[type[Any]] | None, *given: Any) -> bool:
    """Return whether all permission classes of the toolkit let a client in, and there is one.

    Nobody awaits what is awaitable and counts as true, so it lets nobody in.

    Args:
        classes: `DCR_REGISTRATION_PERMISSION_CLASSES` or `CIMD_REGISTRATION_PERMISSION_CLASSES`.
        given: what `has_permission` is called with.
    """
    for cls in classes or ():
        answer = cls().has_permission(*given)
        if inspect.iscoroutine(answer):
            answer.close()
        if inspect.isawaitable(answer) or not answer:
            return False
    return bool(classes)


def narrow_registration(data: Mapping[str, Any]) -> ClientMetadata:
    """Return what is kept of a registration.

    One redirect that is not allowed refuses all of them, since the client gets an answer.

    Raises:
        Unusable: nothing usable is left, or the client's name could deceive.
    """
    name = data.get("client_name", "")
    if not isinstance(name, str) or clean_name(name) != name:
        raise Unusable(
            "client_name",
            "It cannot be shown to people.",
            "Use one line of at most 80 visible characters.",
        )
    method, keys = _choose_method(data, default=BASIC, possible=(NONE, BASIC, POST, KEY))
    _check_grants(data)
    uris = _read_redirects(data)
    if len(data["redirect_uris"]) > MAX_REDIRECT_URIS:
        raise _wrong_redirect(
            f"There are more than {MAX_REDIRECT_URIS}.", "Register only those that are used."
        )
    for uri in uris:
        if not _is_allowed(uri, is_public=method == NONE):
            raise _wrong_redirect(f"{uri!r:.200} is not allowed.", WANTED)
    return ClientMetadata(
        name=name, redirect_uris=tuple(uris), method=method, keys=keys, scopes=_read_scopes(data)
    )


def narrow_document(data: Mapping[str, Any], client_id: str) -> ClientMetadata:
    """Return what is kept of the metadata document of a client.

    Redirects that are not allowed are left out: the document is the same for all servers.

    Raises:
        Unusable: it is about another client, or nothing usable is left.
    """
    if data.get("client_id") != client_id:
        raise Unusable(
            "client_id", "The document is about another client.", "Serve it at its own client_id."
        )
    for field in ("client_secret", "client_secret_expires_at"):
        if field in data:
            raise Unusable(field, "A document is public.", "Leave the secret out.")
    name = data.get("client_name", "")
    if not isinstance(name, str) or len(name) > _max_name():
        raise Unusable("client_name", "It is not a short text.", "Use one line of text.")
    method, keys = _choose_method(data, default=NONE, possible=(NONE, KEY))
    _check_grants(data)
    uris = _read_redirects(data)
    kept = [uri for uri in uris if _is_allowed(uri, is_public=method == NONE)]
    if not kept:
        raise _wrong_redirect("None of them is allowed.", WANTED)
    return ClientMetadata(
        name=clean_name(name),
        redirect_uris=tuple(kept),
        method=method,
        keys=keys,
        scopes=_read_scopes(data),
    )


def _max_name() -> int:
    max_length: int = get_application_model()._meta.get_field("name").max_length
    return max_length


def _check_grants(data: Mapping[str, Any]) -> None:
    grants = _read_texts(data, "grant_types", (GRANT,))
    if GRANT not in grants:
        raise Unusable(
            "grant_types",
            "It has no grant that clients may declare here.",
            f"Add {GRANT!r}; {REFRESH!r} is supported beside it.",
        )
    if RESPONSE not in _read_texts(data, "response_types", (RESPONSE,)):
        raise Unusable(
            "response_types", "It has no response type of this server.", f"Add {RESPONSE!r}."
        )


def _read_texts(data: Mapping[str, Any], field: str, default: Sequence[str]) -> Sequence[str]:
    value = data.get(field)
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Unusable(field, "It is not a list of texts.", "Send a JSON array of strings.")
    return value


def _choose_method(
    data: Mapping[str, Any], *, default: str, possible: Iterable[str]
) -> tuple[str, Keys | None]:
    """Return how a client authenticates without an assertion, and its keys.

    A client that offers both `none` and keys may use either of them.
    """
    chosen = data.get("token_endpoint_auth_method")
    chosen = default if chosen is None else chosen
    if not isinstance(chosen, str):
        raise Unusable("token_endpoint_auth_method", "It is not a text.", "Send a JSON string.")
    field = "token_endpoint_auth_methods_supported"
    offered = dict.fromkeys((chosen, *_read_texts(data, field, ())))
    here = [
        method
        for method in possible
        if method in oauth2_settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED
    ]
    usable = [method for method in offered if method in here]
    keys, problem = None, None
    if KEY in usable:
        try:
            keys = _read_keys(data)
        except Unusable as error:
            problem = error
            usable.remove(KEY)
    if not usable:
        raise problem or Unusable(
            "token_endpoint_auth_method",
            f"No method that the client offers ({', '.join(offered)[:200]}) is supported.",
            f"Offer one of: {', '.join(here)}.",
        )
    return (NONE if keys is not None and NONE in usable else usable[0]), keys


def _read_keys(data: Mapping[str, Any]) -> Keys:
    algorithm = data.get("token_endpoint_auth_signing_alg") or ""
    if algorithm not in ("", *ALGORITHMS):
        raise Unusable(
            "token_endpoint_auth_signing_alg",
            "The algorithm is not supported.",
            f"Sign with one of: {', '.join(ALGORITHMS)}.",
        )
    jwks, uri = data.get("jwks"), data.get("jwks_uri")
    if jwks is not None and uri is not None:
        raise Unusable("jwks", "There is a jwks_uri as well.", "Publish one of the two.")
    if jwks is not None:
        try:
            read_keys(jwks)
        except KeysRefused as error:
            raise Unusable("jwks", str(error), "Publish public RSA or EC signing keys.") from error
        return Keys(jwks=encode(jwks).decode(), uri="", algorithm=algorithm)
    try:
        if not isinstance(uri, str) or len(uri) > MAX_KEYS_URL:
            raise CIMDError("it is not a short text")
        read_url(uri)
    except CIMDError as error:
        raise Unusable(
            "jwks_uri",
            "private_key_jwt needs the client's public keys, and this is no https address of them.",
            "Publish jwks or jwks_uri.",
        ) from error
    return Keys(jwks="", uri=uri, algorithm=algorithm)


def _read_redirects(data: Mapping[str, Any]) -> list[str]:
    uris = data.get("redirect_uris")
    if not isinstance(uris, list) or not uris or not all(isinstance(uri, str) for uri in uris):
        raise _wrong_redirect(
            "It is not a list of at least one address.", "Send a JSON array of strings."
        )
    return list(dict.fromkeys(uris))


def _is_allowed(uri: str, *, is_public: bool) -> bool:
    if not is_safe_redirect(uri) or (is_own_scheme(uri) and not is_public):
        return False
    schemes = get_application_model()().get_allowed_schemes()
    validator = AllowedURIValidator(schemes, name="redirect uri", allow_path=True, allow_query=True)
    try:
        validator(uri)
    except ValidationError:
        return False
    return True


def _read_scopes(data: Mapping[str, Any]) -> tuple[str, ...] | None:
    value = data.get("scope")
    if not isinstance(value, str):
        return None
    here = set(get_scopes_backend().get_available_scopes())
    return tuple(scope for scope in dict.fromkeys(value.split()) if scope in here)


def _wrong_redirect(reason: str, remedy: str) -> Unusable:
    return Unusable("redirect_uris", reason, remedy, error="invalid_redirect_uri")
