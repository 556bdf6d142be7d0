"""Dynamic client registration (RFC 7591) for MCP clients, with limits."""

from __future__ import annotations

import time
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse
from oauth2_provider.models import get_application_model
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import (
    DynamicClientRegistrationManagementView,
    DynamicClientRegistrationView,
)

from django_mcp.contrib.oauth.client_keys import save_keys
from django_mcp.contrib.oauth.client_metadata import (
    BASIC,
    GRANT,
    KEY,
    NONE,
    REFRESH,
    RESPONSE,
    ClientMetadata,
    Unusable,
    is_permitted,
    narrow_registration,
)
from django_mcp.contrib.oauth.limits import (
    find_wait_for_room_s,
    new_clients_of,
    registration_tries_of,
)
from django_mcp.contrib.oauth.models import ClientKeys
from django_mcp.contrib.oauth.sign_ins import Step, report, report_refused
from django_mcp.endpoints.well_known import refusal
from django_mcp.protocol.json import decode, encode, has_repeated_keys

MAX_BODY_BYTES = 16 * 1024


class ClientRegistration(DynamicClientRegistrationView):
    """Registers public and confidential clients of the authorization code grant, within limits."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Register what is supported of a client, or return an error.

        Rejected metadata does not count against the registrations of an address, so that others behind
        the same address can still register.
        """
        address = request.META.get("REMOTE_ADDR", "")
        tries, registrations = registration_tries_of(address), new_clients_of(address)
        if not tries.take():
            return _refuse_for_now("Too many registrations were tried from here", tries.wait_s)
        if not is_permitted(oauth2_settings.DCR_REGISTRATION_PERMISSION_CLASSES, request):
            response = refusal("access_denied", "Authentication is required to register", 401)
            response["WWW-Authenticate"] = "Bearer"
            return response
        try:
            is_too_long = len(request.body) > MAX_BODY_BYTES
        except RequestDataTooBig:
            is_too_long = True
        if is_too_long:
            return refusal("invalid_client_metadata", "The metadata is too long", 413)
        try:
            metadata = narrow_registration(_read(request.body))
        except Unusable as error:
            report_refused(Step.REGISTRATION, request, error)
            return refusal(error.error, str(error), 400)
        if not registrations.take():
            return _refuse_for_now(
                "Too many clients were registered from here", registrations.wait_s
            )
        registered = self._register(request, metadata)
        if registered.status_code != 201:
            registrations.give_back()
        return registered

    def _register(self, request: HttpRequest, metadata: ClientMetadata) -> HttpResponse:
        wait_s = find_wait_for_room_s("dcr")
        if wait_s:
            return _refuse_for_now("No more clients can register now", wait_s)
        # The toolkit reads the body. It knows no keys, and makes a client with a secret instead.
        request._body = encode(
            {
                "client_name": metadata.name,
                "redirect_uris": metadata.redirect_uris,
                "grant_types": [GRANT],
                "token_endpoint_auth_method": BASIC if metadata.method == KEY else metadata.method,
            }
        )
        model = get_application_model()
        with transaction.atomic(using=router.db_for_write(model)):
            response: HttpResponse = super().post(request)
            if response.status_code == 201:
                data: Any = decode(response.content)
                client = model.objects.get(client_id=data["client_id"])
                save_keys(client, metadata.keys)
                _complete(response, data, metadata)
                report(Step.REGISTRATION, request, client=client)
        return response


class Management(DynamicClientRegistrationManagementView):
    """Shows and deletes a registered client, for who has its registration token (RFC 7592)."""

    def get(self, request: HttpRequest, client_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return what is registered, with the method of a client that has keys."""
        response: HttpResponse = super().get(request, client_id, *args, **kwargs)
        if response.status_code == 200:
            data: Any = decode(response.content)
            keys = ClientKeys.objects.filter(application__client_id=client_id)
            if data["token_endpoint_auth_method"] != NONE and keys.exists():
                data["token_endpoint_auth_method"] = KEY
            response.content = encode(data)
        return response


def _refuse_for_now(description: str, wait_s: int) -> HttpResponse:
    response = refusal("temporarily_unavailable", description, 429)
    response["Retry-After"] = str(wait_s)
    return response


def _read(body: bytes) -> dict[str, Any]:
    try:
        data = decode(body)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise Unusable("The metadata", "It is no JSON object.", "Send one.")
    if has_repeated_keys(body):
        raise Unusable("The metadata", "A key occurs more than once.", "Send each once.")
    return data


def _complete(response: HttpResponse, data: dict[str, Any], metadata: ClientMetadata) -> None:
    """Answer with what was kept, and the fields that clients expect (RFC 7591 section 3.2.1)."""
    data["client_id_issued_at"] = int(time.time())
    data["grant_types"] = [GRANT, REFRESH]
    data["response_types"] = [RESPONSE]
    data["token_endpoint_auth_method"] = metadata.method
    if metadata.scopes:
        data["scope"] = " ".join(metadata.scopes)
    if metadata.method == KEY:
        # The toolkit made one, which proves nothing: assertions alone authenticate this client.
        del data["client_secret"]
    if metadata.keys is not None:
        keys = metadata.keys
        data.update({"jwks_uri": keys.uri} if keys.uri else {"jwks": decode(keys.jwks)})
        if keys.algorithm:
            data["token_endpoint_auth_signing_alg"] = keys.algorithm
    if "client_secret" in data:
        data["client_secret_expires_at"] = 0
    response.content = encode(data)
    response["Cache-Control"] = "no-store"
