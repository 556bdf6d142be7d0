"""What the doctor does in the site's own database while it plays clients: it lets tokens expire, and removes all it made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp.contrib.oauth.documents import find_client
from django_mcp.contrib.oauth.models import SignIn, SupersededToken
from django_mcp.execution.primary import reading_primary


class PlayedRows:
    """The rows that come from playing clients against the site of this process.

    Rows under "Sign-ins" and records of calls stay, since they tell what happened.
    """

    def __init__(self) -> None:
        self._since = timezone.now()
        self._codes: list[str] = []
        self._access: list[str] = []
        self._refresh: list[str] = []
        self._registered: list[str] = []
        self._documents: list[str] = []

    def note_document(self, client_id: str) -> None:
        """Remember a client that is known by its document, unless the site has it already."""
        with reading_primary():
            if find_client(client_id) is None:
                self._documents.append(client_id)

    def note_registered(self, client_id: str) -> None:
        """Remember a client that registered itself."""
        self._registered.append(client_id)

    def note_code(self, code: str) -> None:
        """Remember an authorization code, which may never be exchanged."""
        self._codes.append(code)

    def note_tokens(self, access: str, refresh: str) -> None:
        """Remember a pair of tokens."""
        self._access.append(_digest(access))
        self._refresh.append(_digest(refresh))

    def expire(self, access: str) -> None:
        """Let an access token expire now."""
        tokens = get_access_token_model().objects.filter(token_checksum=_digest(access))
        tokens.update(expires=timezone.now() - timedelta(seconds=1))

    def find_refusal(self, client_id: str) -> tuple[str, str] | None:
        """Return the reason and the remedy of the last refusal of a client, as told under "Sign-ins"."""
        refused = SignIn.objects.filter(
            client_id=client_id, is_refused=True, at__gte=self._since
        ).order_by("-pk")
        row = refused.first()
        if row is None:
            return None
        return (f"{row.field}: {row.reason}" if row.field else row.reason), row.remedy

    def remove(self) -> None:
        """Delete the codes, the tokens and the clients; not the tokens that others have."""
        with reading_primary():
            get_grant_model().objects.filter(code__in=self._codes).delete()
            self._remove_tokens()
            clients = get_application_model().objects
            clients.filter(client_id__in=self._registered, registration_source="dcr").delete()
            for client in clients.filter(client_id__in=self._documents, registration_source="cimd"):
                if not _is_in_use(client):
                    client.delete()

    def _remove_tokens(self) -> None:
        tokens, access = get_refresh_token_model().objects, get_access_token_model().objects
        own = tokens.filter(token_checksum__in=self._refresh)
        families = [family for family in set(own.values_list("token_family", flat=True)) if family]
        own = tokens.filter(Q(token_checksum__in=self._refresh) | Q(token_family__in=families))
        digests = [*self._refresh, *own.values_list("token_checksum", flat=True)]
        pairs = [token for token in own.values_list("access_token", flat=True) if token]
        access.filter(Q(token_checksum__in=self._access) | Q(pk__in=pairs)).delete()
        own.delete()
        SupersededToken.objects.filter(token_checksum__in=digests).delete()


def _is_in_use(client: Any) -> bool:
    models: Iterable[Any] = (get_access_token_model(), get_refresh_token_model(), get_grant_model())
    return any(model.objects.filter(application=client).exists() for model in models)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
