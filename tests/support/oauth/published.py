"""The documents and keys of known clients on this machine, and assertions that the keys verify."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from socket import socket
from typing import Any
from urllib.parse import urlsplit

from jwcrypto import jwk, jwt

from django_mcp.contrib.oauth.published_clients import read_published_clients
from tests.support.oauth.local_documents import response, serving_requests

KID = "key of the tests"
TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@cache
def signing_key(kty: str = "RSA", kid: str = KID) -> jwk.JWK:
    """Return a private key that is the same for the whole run."""
    sizes: dict[str, Any] = {
        "RSA": {"size": 2048},
        "EC": {"crv": "P-256"},
        "OKP": {"crv": "Ed25519"},
        "oct": {"size": 256},
    }
    return jwk.JWK.generate(kty=kty, kid=kid, **sizes[kty])


def key_set(*keys: jwk.JWK) -> dict[str, Any]:
    """Return the public part of keys as a client publishes it."""
    return {"keys": [key.export_public(as_dict=True) for key in keys]}


def sign(
    client_id: str,
    audience: Any,
    *,
    key: jwk.JWK | None = None,
    header: dict[str, Any] | None = None,
    **claims: Any,
) -> str:
    """Return an assertion of a client, whose claims may be changed, or left out by None."""
    now = int(time.time())
    told = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": now,
        "exp": now + 300,
        "jti": secrets.token_urlsafe(),
        **claims,
    }
    token = jwt.JWT(
        header={"alg": "RS256", "kid": KID, **(header or {})},
        claims={name: value for name, value in told.items() if value is not None},
    )
    # Also with algorithms that no server may accept.
    token.make_signed_token(key or signing_key())
    text: str = token.serialize()
    return text


def proof(client_id: str, audience: Any, **options: Any) -> dict[str, str]:
    """Return the form fields by which a client authenticates."""
    return {
        "client_assertion_type": TYPE,
        "client_assertion": sign(client_id, audience, **options),
    }


@contextmanager
def publishing(certificate: Path) -> Iterator[int]:
    """Serve what the known clients publish, at their own hosts and paths; yields the port."""
    pages = {}
    for client in read_published_clients():
        if client.kind == "document":
            pages[_place(client.metadata["client_id"])] = client.metadata
            if "jwks_uri" in client.metadata:
                pages[_place(client.metadata["jwks_uri"])] = key_set(signing_key())

    def answer(request: bytes, connection: socket) -> None:
        lines = request.decode().split("\r\n")
        host = next(line[6:] for line in lines if line.startswith("Host: "))
        page = pages.get(host + lines[0].split(" ")[1])
        if page is None:
            connection.sendall(response(b"{}", status="404 Not Found"))
        else:
            connection.sendall(response(json.dumps(page).encode()))

    with serving_requests(certificate, answer) as port:
        yield port


def _place(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc + parts.path
