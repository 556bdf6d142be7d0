"""Clients that are identified by a metadata document, and when the document is read.

django-oauth-toolkit reads it wherever a client id occurs, for any caller. Here it is read only at
the authorization endpoint, which a new client uses first: a client that is not in the database has
neither a code to exchange nor a token to revoke.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from oauth2_provider.cimd import CIMDError, is_cimd_client_id
from oauth2_provider.models import get_application_model
from oauth2_provider.settings import oauth2_settings

from django_mcp.contrib.oauth.client_metadata import Unusable
from django_mcp.contrib.oauth.limits import find_wait_for_room_s, new_clients_of
from django_mcp.contrib.oauth.refusals import LATER, DocumentRefused, RefusedRequest
from django_mcp.contrib.oauth.resolving import resolve
from django_mcp.contrib.oauth.sign_ins import SignInRefused, Step, report, report_refused

is_document_id = is_cimd_client_id

UNREADABLE = _("What the application says of itself cannot be read.")
UNUSABLE = _("What the application says of itself cannot be used.")
TOO_MANY_OF_NETWORK = _("Too many new applications came from your network.")
TOO_MANY = _("Too many applications use this site.")
IN_A_MINUTE = _("Try again in a minute.")
TELL_MAKERS = _("Its makers have to correct it. Send them the line below.")


def find_client(client_id: str) -> Any:
    """Return the client of an id from the database, or None."""
    return get_application_model().objects.filter(client_id=client_id).first()


def read_document(client_id: str, request: Any) -> None:
    """Register a client by its document, or refresh one whose document has expired.

    A client whose document cannot be used any longer stays as it was.

    Args:
        client_id: the document's URL.
        request: the toolkit's, whose headers are Django's `META`.

    Raises:
        DocumentRefused: it is unknown, and its document cannot be read or used, or no more clients are
            accepted now.
    """
    if not oauth2_settings.CIMD_ENABLED:
        return
    known = find_client(client_id)
    if known is not None and not _is_stale(known):
        return
    address = request.headers.get("REMOTE_ADDR", "")
    if not new_clients_of(address).take():
        if known is None:
            reason = "Too many documents were asked for from this address in an hour."
            remedy = "Wait, or raise OAUTH_REGISTRATIONS_PER_HOUR."
            raise _too_many(client_id, request, reason, remedy, TOO_MANY_OF_NETWORK)
    elif known is not None or not find_wait_for_room_s("cimd"):
        _resolve(client_id, request, is_known=known is not None)
    else:
        reason = "There are as many clients as OAUTH_MAX_REGISTERED allows."
        raise _too_many(client_id, request, reason, "Raise it, or delete clients.", TOO_MANY)


def _too_many(
    client_id: str, request: Any, reason: str, remedy: str, happened: Any
) -> DocumentRefused:
    refused = RefusedRequest("client_id", reason, remedy, happened, LATER)
    report_refused(Step.DOCUMENT, request, refused, client_id)
    return DocumentRefused(refused, "temporarily_unavailable", 429)


def _resolve(client_id: str, request: Any, *, is_known: bool) -> None:
    refused: SignInRefused
    try:
        client = resolve(client_id, request)
    except Unusable as error:
        refused = error
        told = RefusedRequest(error.field, error.reason, error.remedy, UNUSABLE, TELL_MAKERS)
    except CIMDError as error:
        remedy = "Check that this site can reach it. It is asked again in a minute."
        refused = SignInRefused("client_id", f"The document cannot be read: {error}.", remedy)
        # The reason could tell what this server can reach.
        reason = "The document at this address cannot be read."
        told = RefusedRequest("client_id", reason, remedy, UNREADABLE, IN_A_MINUTE)
    else:
        report(Step.DOCUMENT, request, client=client)
        return
    report_refused(Step.DOCUMENT, request, refused, client_id)
    if not is_known:
        raise DocumentRefused(told, "invalid_client", 400)


def _is_stale(application: Any) -> bool:
    # A client without this date has no document, and stays as it is.
    until = application.cimd_expires_at
    return until is not None and bool(timezone.now() > until)
