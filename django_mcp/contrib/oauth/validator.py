"""The validator of django-oauth-toolkit with further rules of RFC 9700 and RFC 8707.

It checks redirects, replayed codes, concurrent refreshes, and the resources of tokens.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError, router, transaction
from django.db.models import F, Q
from django.utils import timezone
from oauth2_provider.models import (
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
    refresh_token_expire_timedelta,
)
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error, InvalidGrantError
from oauthlib.oauth2.rfc6749.utils import scope_to_list

from django_mcp.contrib.oauth.approvals import ApprovedResources, are_among, listed_resources
from django_mcp.contrib.oauth.client_authentication import ClientAuthentication
from django_mcp.contrib.oauth.documents import find_client, is_document_id, read_document
from django_mcp.contrib.oauth.families import (
    end_family,
    find_problem,
    find_root,
    find_scope,
    is_late,
    lock_family,
    note_superseded,
    take_reuse,
)
from django_mcp.contrib.oauth.issued import check_rate, drop_old_codes, keep_within_limits
from django_mcp.contrib.oauth.redirects import is_own_scheme, is_safe_redirect
from django_mcp.contrib.oauth.room import note_use
from django_mcp.contrib.oauth.scopes import find_requested
from django_mcp.contrib.oauth.sign_ins import Step, report
from django_mcp.log import logger

_AT_TOKEN_ENDPOINT = "_at_token_endpoint"  # noqa: S105
"""An attribute of oauthlib's request. Parameters are read as attributes too, but are not in `vars`."""


_ID_TOKEN = "_id_token"  # noqa: S105
"""The same: the `jti` of the ID token that was saved for a request."""


class MCPOAuth2Validator(ClientAuthentication):
    """The toolkit's validator, with stricter rules for MCP clients."""

    def validate_client_id(self, client_id: str, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Find a client, by its document if necessary: only the authorization endpoint calls this."""
        if is_document_id(client_id):
            read_document(client_id, request)
        is_known = bool(super().validate_client_id(client_id, request, *args, **kwargs))
        if is_known:
            note_use(request.client)
        return is_known

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

    def validate_silent_login(self, request: Any) -> bool:
        """Return whether somebody is signed in, for `prompt=none` of OpenID Connect: nobody else gets here."""
        return True

    def validate_silent_authorization(self, request: Any) -> bool:
        """Return whether the consent page may be left out, for the same: it is shown each time."""
        return False

    def finalize_id_token(self, id_token: Any, token: Any, token_handler: Any, request: Any) -> Any:
        """Sign an ID token with the key of the site, unless somebody chose otherwise for the client."""
        _let_sign(request.client)
        return super().finalize_id_token(id_token, token, token_handler, request)

    def _get_client_by_audience(self, audience: Any) -> Any:
        return _let_sign(super()._get_client_by_audience(audience))

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
        grant = super()._create_authorization_code(request, code, expires)
        drop_old_codes(request.user)
        return grant

    def _save_id_token(
        self, jti: str, request: Any, expires: Any, *args: Any, **kwargs: Any
    ) -> Any:
        vars(request)[_ID_TOKEN] = jti
        return super()._save_id_token(jti, request, expires, *args, **kwargs)

    def save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Save the tokens of a response. If they are refused, delete the ID token, which is saved before."""
        try:
            return super().save_bearer_token(token, request, *args, **kwargs)
        except Exception:
            jti = vars(request).get(_ID_TOKEN)
            if jti is not None:
                _delete_id_token(jti)
            raise

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        self._save_pair(token, request, *args, **kwargs)
        if request.user is not None:
            # Later, so that it holds no lock of another sign-in while it waits for one.
            keep = partial(keep_within_limits, request)
            using = router.db_for_write(get_refresh_token_model())
            transaction.on_commit(keep, using=using, robust=True)

    def _save_pair(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        if _AT_TOKEN_ENDPOINT not in vars(request):
            # An authorization request may have any parameter, and this one changes what follows.
            request.grant_type = None
        # The toolkit would read a parameter of this name.
        vars(request).setdefault("refresh_token_instance", None)
        if request.grant_type == "refresh_token":
            self._save_refreshed(token, request, *args, **kwargs)
            return
        grants = _grants_of(request)
        # A write comes first: it waits for a concurrent request with the same code, on every database. The loser then finds nothing left to use. SQLite would not let a transaction
        # that has read wait.
        if grants is not None and not grants.update(updated=F("updated")):
            raise InvalidGrantError(request=request)
        check_rate(request)
        super()._save_bearer_token(token, request, *args, **kwargs)
        if request.grant_type == "authorization_code":
            super().invalidate_authorization_code(request.client_id, request.code, request)
            report(Step.TOKEN, request, client=request.client, user=request.user)

    def _save_refreshed(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        """Exchange a refresh token, or give a further pair for one that a concurrent request exchanged."""
        if not lock_family(request.refresh_token_instance):
            raise InvalidGrantError(request=request)
        # It may have changed since it was found valid.
        tokens = get_refresh_token_model().objects.select_related("access_token")
        known = tokens.filter(pk=request.refresh_token_instance.pk).first()
        if known is None or (known.revoked is None and known.access_token is None):
            raise InvalidGrantError(request=request)
        problem = None if known.revoked is None else take_reuse(known)
        if problem is not None:
            _refuse_refresh(request, known, problem)
            raise InvalidGrantError(request=request)
        check_rate(request)
        if known.revoked is None:
            note_superseded(known)
            super()._save_bearer_token(token, request, *args, **kwargs)
            return
        # The toolkit would return the first pair, of which only digests are stored.
        self._check_and_set_request_resource(request)
        lifetime_s = token.get("expires_in", oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS)
        expires = timezone.now() + timedelta(seconds=lifetime_s)
        access_token = self._create_access_token(expires, request, token)
        self._create_refresh_token(request, token["refresh_token"], access_token, known)

    def get_original_scopes(
        self, refresh_token: str, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the scopes of a refresh token, also of a superseded one."""
        known = request.refresh_token_instance
        if known.revoked is not None:
            return find_scope(known)
        return super().get_original_scopes(refresh_token, request, *args, **kwargs)

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
        superseded = tokens.objects.filter(token_family=family, application=client).first()
        if superseded is not None:
            end_family(superseded)
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
        same_tokens = tokens.objects.filter(token_checksum=checksum).select_related("access_token")
        # Several rows may have the digest, at most one of which is valid.
        known = same_tokens.order_by(F("revoked").desc(nulls_first=True)).first()
        if known is None:
            _refuse_refresh(request, None, "The token is unknown")
            return False
        problem = None
        if known.revoked is not None and is_late(known):
            problem = "The token was exchanged or revoked before"
            if oauth2_settings.REFRESH_TOKEN_REUSE_PROTECTION:
                # Only its thief, or its owner after a thief, would still use it.
                end_family(known)
                problem += ", so all tokens of this sign-in were ended"
        elif known.application != client:
            problem = "The token is another client's"
        elif known.revoked is not None:
            problem = find_problem(known)
        elif known.access_token is None:
            problem = "The access token of this refresh token was revoked"
        elif _has_expired(known):
            problem = "The token has expired, since it was not used for long"
        if problem is not None:
            _refuse_refresh(request, known, problem)
            return False
        known.family_root = find_root(known)
        request.user = known.user
        request.refresh_token = refresh_token
        request.refresh_token_instance = known
        return True

    def revoke_token(
        self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Revoke a token with all tokens of its family (RFC 7009 section 2.1).

        It waits for concurrent requests that make further ones.
        """
        checksum = hashlib.sha256(token.encode()).hexdigest()
        tokens = get_refresh_token_model()
        own = tokens.objects.filter(application=request.client)
        of_token = Q(token_checksum=checksum) | Q(access_token__token_checksum=checksum)
        for known in own.filter(of_token).exclude(token_family=None):
            end_family(known)
        with transaction.atomic(using=router.db_for_write(tokens)):
            tokens.objects.filter(token_checksum=checksum).update(updated=F("updated"))
            super().revoke_token(token, token_type_hint, request, *args, **kwargs)


def _let_sign(client: Any) -> Any:
    # Clients that register themselves choose no algorithm, and the toolkit would raise an error.
    if client is not None and not client.algorithm:
        client.algorithm = client.RS256_ALGORITHM
    return client


def _refuse_refresh(request: Any, token: Any, reason: str) -> None:
    report(
        Step.REFRESH,
        request,
        client=request.client or request.client_id,
        user=None if token is None else token.user,
        field="refresh_token",
        reason=reason,
        remedy="The person has to sign in again in the client.",
    )


def _has_expired(token: Any) -> bool:
    lifetime = refresh_token_expire_timedelta()
    # Each use makes a new one.
    return lifetime is not None and token.created + lifetime <= timezone.now()


def _delete_id_token(jti: Any) -> None:
    """Delete an ID token that was refused; if that fails, the refusal is what the client is told."""
    try:
        get_id_token_model().objects.filter(jti=jti).delete()
    except DatabaseError:
        logger.exception("Could not delete an ID token that was refused. It ends with its time")


def _grants_of(request: Any) -> Any:
    """Return a query for the row that a token request uses up, or None."""
    match request.grant_type:
        case "authorization_code":
            return get_grant_model().objects.filter(code=request.code, application=request.client)
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
