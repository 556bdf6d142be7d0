"""Clients that are identified by a metadata document, and when the document is read.

django-oauth-toolkit reads it wherever a client id occurs, for any caller. Here it is read only at
the authorization endpoint, which a new client uses first: a client that is not in the database has
neither a code to exchange nor a token to revoke.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from oauth2_provider.cimd import CIMDError, is_cimd_client_id
from oauth2_provider.models import get_application_model
from oauth2_provider.settings import oauth2_settings
from oauthlib.oauth2.rfc6749.errors import FatalClientError

from django_mcp.contrib.oauth.client_metadata import Unusable
from django_mcp.contrib.oauth.limits import find_wait_for_room_s, new_clients_of
from django_mcp.contrib.oauth.resolving import resolve
from django_mcp.contrib.oauth.sign_ins import Step, report, report_refused
from django_mcp.execution.outages import Warner

is_document_id = is_cimd_client_id

_too_many_asked, _too_many_known = Warner(), Warner()


class TooManyClients(FatalClientError):
    """The document of a client is not read now, because too many others were."""

    error = "temporarily_unavailable"
    status_code = 429


class UnusableDocument(FatalClientError):
    """No client can be made from a document. The page says so, and nothing is redirected."""

    error = "invalid_client"
    status_code = 400


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
        TooManyClients: it is unknown, and no more clients are accepted now.
        UnusableDocument: it is unknown, and its document cannot be read or used.
    """
    if not oauth2_settings.CIMD_ENABLED:
        return
    known = find_client(client_id)
    if known is not None and not _is_stale(known):
        return
    address = request.headers.get("REMOTE_ADDR", "")
    if not new_clients_of(address).take():
        if known is None:
            _too_many_asked.warn("Too many documents of clients were asked for from %s", address)
            raise TooManyClients(
                description=_("Too many new clients came from your network. Try again later.")
            )
    elif known is not None or not find_wait_for_room_s("cimd"):
        _resolve(client_id, request, is_known=known is not None)
    else:
        _too_many_known.warn(
            "A client is refused: there are as many as %s allows", "OAUTH_MAX_REGISTERED"
        )
        raise TooManyClients(description=_("There are too many clients. Try again later."))


def _resolve(client_id: str, request: Any, *, is_known: bool) -> None:
    try:
        client = resolve(client_id, request)
    except Unusable as error:
        report_refused(Step.DOCUMENT, request, error, client_id)
        told = _(
            "What the application says of itself cannot be used. Its makers have to correct it."
        )
        description = f"{told} {error}"
    except CIMDError as error:
        remedy = "Check that this site can reach it. It is asked again in a minute."
        report(Step.DOCUMENT, request, client=client_id, reason=f"{error}", remedy=remedy)
        # The reason could tell what this server can reach.
        description = _(
            "What the application says of itself cannot be read. Try again in a minute."
        )
    else:
        report(Step.DOCUMENT, request, client=client)
        return
    if not is_known:
        raise UnusableDocument(description=description)


def _is_stale(application: Any) -> bool:
    # A client without this date has no document, and stays as it is.
    until = application.cimd_expires_at
    return until is not None and bool(timezone.now() > until)
