"""The state of a client during the OAuth test, and its requests."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Any
from urllib.parse import urlencode

from django_mcp.management.doctor.http import Answer, ask

__all__ = ["REDIRECT", "Visit"]

REDIRECT = "http://127.0.0.1:33418/callback"


class Visit:
    """One client at one endpoint.

    Attributes:
        resource, server: the two metadata documents, once they are read.
        client_id, management: of its registration; the second is where and how to delete it.
        state, verifier: of its one authorization.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.resource: dict[str, Any] = {}
        self.server: dict[str, Any] = {}
        self.client_id = ""
        self.management: tuple[str | None, str | None] = (None, None)
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(16)

    def authorization_url(self, **changes: str | None) -> str:
        """Return the URL for a person; `changes` replace parameters, None removes one."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "state": self.state,
            "resource": str(self.resource["resource"]),
            "scope": " ".join(
                self.resource.get("scopes_supported") or self.server.get("scopes_supported") or ()
            ),
            **changes,
        }
        given = {name: value for name, value in query.items() if value is not None}
        return f"{self.server['authorization_endpoint']}?{urlencode(given)}"

    def post(self, endpoint: str, form: dict[str, str]) -> Answer:
        """Return a server endpoint's response to a form."""
        return ask(
            "POST",
            str(self.server[endpoint]),
            urlencode(form).encode(),
            {"Content-Type": "application/x-www-form-urlencoded"},
        )

    def read(self, url: str) -> dict[str, Any] | None:
        """Return a metadata document, or None."""
        answer = ask("GET", url)
        return answer.json() if answer.status == 200 and answer.json() else None

    def drop(self) -> None:
        """Delete the client."""
        url, token = self.management
        if url and token:
            ask("DELETE", url, None, {"Authorization": f"Bearer {token}"})
