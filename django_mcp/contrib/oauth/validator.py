"""The validator of django-oauth-toolkit with further rules of RFC 9700 and RFC 8707.

It checks redirects, replayed codes, concurrent refreshes, and the resources of tokens.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import router, transaction
from django.db.models import F
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
    refresh_token_expire_timedelta,
)
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error, InvalidGrantError
from oauthlib.oauth2.rfc6749.utils import scope_to_list

from django_mcp.conf import settings
from django_mcp.contrib.oauth.approvals import ApprovedResources, are_among, listed_resources
from django_mcp.contrib.oauth.client_authentication import ClientAuthentication
from django_mcp.contrib.oauth.documents import find_client, is_document_id, read_document
from django_mcp.contrib.oauth.redirects import is_own_scheme, is_safe_redirect
from django_mcp.contrib.oauth.scopes import find_requested

DOUBLE_REFRESH_S = 10
"""How long after a refresh a second one with the same token counts as a race, and not as theft."""

_AT_TOKEN_ENDPOINT = "_at_token_endpoint"  # noqa: S105
"""An attribute of oauthlib's request. Parameters are read as attributes too, but are not in `vars`."""


_ISSUED_WITHIN = timedelta(hours=1)


def _check_rate(request: Any) -> None:
    """Refuse a further token to a client that got very many for one user, or for itself, in the last hour."""
    user = None if request.grant_type == "client_credentials" else request.user
    tokens = get_access_token_model().objects.filter(application=request.client, user=user)
    if tokens.filter(created__gt=timezone.now() - _ISSUED_WITHIN).count() >= (
        settings.OAUTH_TOKENS_PER_HOUR
    ):
        raise CustomOAuth2Error(
            "temporarily_unavailable",
            description="The client got too many tokens in the last hour",
            status_code=429,
            request=request,
        )


class MCPOAuth2Validator(ClientAuthentication):
    """The toolkit's validator, with stricter rules for MCP clients."""

    def validate_client_id(self, client_id: str, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Find a client, by its document if necessary: only the authorization endpoint calls this."""
        if is_document_id(client_id):
            read_document(client_id, request)
        return bool(super().validate_client_id(client_id, request, *args, **kwargs))

    def _load_application(self, client_id: str, request: Any) -> Any:
        if client_id and "\0" in client_id:
            # PostgreSQL rejects NUL in a query. Basic credentials can hold it.
            return None
        # The toolkit's own method would fetch the document at any endpoint and for any caller.
        if not is_document_id(client_id):
            return super()._load_application(client_id, request)
        known = find_client(client_id)
        request.client = known if known is not None and known.is_usable(request) else None
        return request.client

    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Reject unsafe redirects even if they are registered, such as http to another machine.

        A program with a scheme of its own has to be a client without a secret.
        """
        if not is_safe_redirect(redirect_uri):
            return False
        if is_own_scheme(redirect_uri) and request.client.client_type != "public":
            return False
        return bool(
            super().validate_redirect_uri(client_id, redirect_uri, request, *args, **kwargs)
        )

    def get_default_redirect_uri(
        self, client_id: str, request: Any, *args: Any, **kwargs: Any
    ) -> str | None:
        """Return the redirect of a client that has one and names none, if it is allowed."""
        uri: str = super().get_default_redirect_uri(client_id, request, *args, **kwargs)
        return uri if self.validate_redirect_uri(client_id, uri, request) else None

    def is_pkce_required(self, client_id: str, request: Any) -> bool:
        """Return whether a code needs PKCE: at the address of a program, whatever the settings say."""
        uri = request.redirect_uri
        return (bool(uri) and is_own_scheme(uri)) or bool(
            super().is_pkce_required(client_id, request)
        )

    def validate_scopes(
        self,
        client_id: str,
        scopes: list[str],
        client: Any,
        request: Any,
        *args: Any,
        **kwargs: Any,
    ) -> bool:
        """Leave out what the site ignores; a request without any other scope gets the default ones."""
        available = get_scopes_backend().get_available_scopes(application=client, request=request)
        request.scopes = find_requested(scopes, available) or self.get_default_scopes(
            client_id, request
        )
        return bool(
            super().validate_scopes(client_id, request.scopes, client, request, *args, **kwargs)
        )

    def is_within_original_scope(
        self, request_scopes: list[str], refresh_token: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Leave out of a refresh what was left out of the authorization."""
        original = scope_to_list(self.get_original_scopes(refresh_token, request))
        request.scopes = find_requested(request_scopes, original) or original
        return set(request.scopes) <= set(original)

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Mark the request as one to the token endpoint, which alone calls this."""
        vars(request)[_AT_TOKEN_ENDPOINT] = True
        return bool(
            super().validate_grant_type(client_id, grant_type, client, request, *args, **kwargs)
        )

    def _create_authorization_code(self, request: Any, code: Any, expires: Any = None) -> Any:
        named = getattr(request, "resource", None)
        if named and not isinstance(named, ApprovedResources):
            raise _not_granted(request)
        return super()._create_authorization_code(request, code, expires)

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        if _AT_TOKEN_ENDPOINT not in vars(request):
            # An authorization request may have any parameter, and this one changes what follows.
            request.grant_type = None
        # The toolkit would read a parameter of this name.
        vars(request).setdefault("refresh_token_instance", None)
        grants = _grants_of(request)
        # A write comes first: it waits for a concurrent request with the same code or refresh token,
        # on every database. The loser then finds nothing left to use. SQLite would not let a transaction
        # that has read wait.
        if grants is not None and not grants.update(updated=F("updated")):
            raise InvalidGrantError(request=request)
        _check_rate(request)
        super()._save_bearer_token(token, request, *args, **kwargs)
        if request.grant_type == "authorization_code":
            super().invalidate_authorization_code(request.client_id, request.code, request)

    def invalidate_authorization_code(
        self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Do nothing: the code ended in the transaction that saved its tokens."""

    def _check_and_set_request_resource(self, request: Any) -> None:
        # The toolkit accepts any resource in the request if the grant has none.
        allowed = _allowed_resources(request)
        super()._check_and_set_request_resource(request)
        if not are_among(request.resource, allowed):
            raise _not_granted(request)

    def _create_refresh_token(
        self, request: Any, refresh_token_code: str, access_token: Any, previous: Any
    ) -> Any:
        refresh_token = super()._create_refresh_token(
            request, refresh_token_code, access_token, previous
        )
        if request.grant_type == "authorization_code":
            refresh_token.token_family = _family_of(request.code)
            refresh_token.save(update_fields=["token_family"])
        return refresh_token

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Reject a code that is used again, and revoke its tokens (RFC 6749 4.1.2)."""
        if super().validate_code(client_id, code, client, request, *args, **kwargs):
            return True
        family, tokens = _family_of(code), get_refresh_token_model()
        if tokens.objects.filter(token_family=family, application=client).exists():
            tokens.revoke_family(family)
        return False

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Accept a valid refresh token, and end the session of one that is used again much later.

        It replaces the toolkit's method, which would treat a token that a concurrent request is using
        as stolen. The row is read once, so there is no such race.
        """
        checksum = hashlib.sha256(refresh_token.encode()).hexdigest()
        tokens = get_refresh_token_model()
        found = tokens.objects.filter(token_checksum=checksum).select_related("access_token")
        # Several rows may have the digest, at most one of which is valid.
        known = found.order_by(F("revoked").desc(nulls_first=True)).first()
        if known is None:
            return False
        if known.revoked is not None:
            if oauth2_settings.REFRESH_TOKEN_REUSE_PROTECTION and not _was_just_used(known):
                tokens.revoke_family(known.token_family)
            return False
        if known.application != client or known.access_token is None or _has_expired(known):
            return False
        request.user = known.user
        request.refresh_token = refresh_token
        request.refresh_token_instance = known
        return True

    def revoke_token(
        self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Revoke a token, after a write that waits for concurrent requests with it."""
        checksum = hashlib.sha256(token.encode()).hexdigest()
        tokens = get_refresh_token_model()
        with transaction.atomic(using=router.db_for_write(tokens)):
            tokens.objects.filter(token_checksum=checksum).update(updated=F("updated"))
            super().revoke_token(token, token_type_hint, request, *args, **kwargs)


def _was_just_used(token: Any) -> bool:
    return bool(token.revoked > timezone.now() - timedelta(seconds=DOUBLE_REFRESH_S))


def _has_expired(token: Any) -> bool:
    lifetime = refresh_token_expire_timedelta()
    return lifetime is not None and token.access_token.expires + lifetime <= timezone.now()


def _grants_of(request: Any) -> Any:
    """Return a query for the row that a token request uses up, or None."""
    match request.grant_type:
        case "authorization_code":
            return get_grant_model().objects.filter(code=request.code, application=request.client)
        case "refresh_token":
            used = request.refresh_token_instance.pk
            return get_refresh_token_model().objects.filter(pk=used, revoked=None)
        case _:
            return None


def _allowed_resources(request: Any) -> list[str]:
    """Return the resources that a new token may have."""
    match request.grant_type:
        case "authorization_code":
            grant = _grants_of(request).first()
            return [] if grant is None else list(grant.resource)
        case "refresh_token":
            return list(request.refresh_token_instance.resource)
        case "client_credentials":
            return listed_resources(request.client)
        case None if isinstance(request.resource, ApprovedResources):
            return list(request.resource)
        case _:
            # No user approves an endpoint for a password or a device code.
            return []


def _not_granted(request: Any) -> CustomOAuth2Error:
    return CustomOAuth2Error(
        error="invalid_target",
        description="The grant does not include this resource",
        state=request.state,
        request=request,
    )


def _family_of(code: str) -> UUID:
    """Return the family of the tokens of a code, which every process derives alike.

    The toolkit's own families are random. The code cannot be derived from the family.
    """
    digest = hashlib.sha256(f"django_mcp:oauth:code:{code}".encode()).digest()
    return UUID(bytes=digest[:16], version=5)
