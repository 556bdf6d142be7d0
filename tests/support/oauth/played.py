"""A known client at one site, by an HTTP client that is not the package's."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from django_mcp.contrib.oauth.published_clients import PublishedClient
from tests.support.oauth.browser import Browser, callback_of
from tests.support.oauth.published import proof
from tests.support.wire import V2026_07_28, headers_for, message


@dataclass
class Played:
    """A client at one site: the metadata it found, and how it authenticates."""

    client: PublishedClient
    url: str
    resource: dict[str, Any]
    server: dict[str, Any]
    client_id: str = ""
    secret: str = ""
    method: str = "none"

    @classmethod
    def arrive(cls, client: PublishedClient, url: str) -> Played:
        challenge = call(url, None)
        assert challenge.status_code == 401
        found = re.search(r'resource_metadata="([^"]+)"', challenge.headers["www-authenticate"])
        assert found is not None
        resource = httpx.get(found[1]).json()
        issuer = resource["authorization_servers"][0]
        server = httpx.get(f"{issuer}/.well-known/oauth-authorization-server").json()
        return cls(client, url, resource, server)

    def introduce(self) -> None:
        metadata = self.client.metadata
        if self.client.kind == "document":
            # Claude registers instead where one of the two is missing.
            assert self.server["client_id_metadata_document_supported"] is True
            assert "none" in self.server["token_endpoint_auth_methods_supported"]
            self.client_id = metadata["client_id"]
            method = metadata["token_endpoint_auth_method"]
            is_offered = method in self.server["token_endpoint_auth_methods_supported"]
            self.method = method if is_offered else "none"
            return
        answer = httpx.post(self.server["registration_endpoint"], json=metadata)
        assert answer.status_code == 201, answer.text
        data = answer.json()
        self.client_id, self.secret = data["client_id"], data.get("client_secret", "")
        self.method = data["token_endpoint_auth_method"]
        assert self.method == metadata["token_endpoint_auth_method"]
        assert set(data["grant_types"]) == {"authorization_code", "refresh_token"}
        assert data["redirect_uris"] == metadata["redirect_uris"]

    def get_tokens(self) -> dict[str, Any]:
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.client.redirect_uri,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "state": "the state",
            "resource": self.resource["resource"],
            "scope": " ".join(self.resource["scopes_supported"]),
        }
        place = Browser().arrive(f"{self.server['authorization_endpoint']}?{urlencode(query)}")
        assert place.startswith(self.client.redirect_uri + "?")
        answer = callback_of(place)
        assert answer["state"] == "the state"
        assert answer["iss"] == self.server["issuer"]
        return self.post(
            grant_type="authorization_code",
            code=answer["code"],
            redirect_uri=self.client.redirect_uri,
            code_verifier=verifier,
            resource=self.resource["resource"],
        )

    def post(self, **form: str) -> dict[str, Any]:
        form["client_id"] = self.client_id
        if self.method == "private_key_jwt":
            form |= proof(self.client_id, self.server["issuer"])
        elif self.method == "client_secret_post":
            form["client_secret"] = self.secret
        answer = httpx.post(self.server["token_endpoint"], data=form)
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        return tokens


def call(url: str, token: str | None) -> httpx.Response:
    request = message("tools/call", {"name": "find_orders", "arguments": {}}, revision=V2026_07_28)
    headers = headers_for(request, V2026_07_28)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return httpx.post(url, json=request, headers=headers, timeout=30)
