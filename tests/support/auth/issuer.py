"""A token issuer on a local port: its metadata, its keys, and its introspection."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

AUDIENCE = "https://testserver/mcp"
PRIVATE: dict[str, Any] = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "stranger": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(),
}
ALGORITHMS = {"rsa": "RS256", "stranger": "RS256", "ec": "ES256", "ed": "EdDSA"}


def public_jwk(name: str, kid: str | None = None, **more: Any) -> dict[str, Any]:
    algorithm = get_default_algorithms()[ALGORITHMS[name]]
    found: dict[str, Any] = json.loads(algorithm.to_jwk(PRIVATE[name].public_key()))
    return {**found, "kid": kid or name, "use": "sig", **more}


def public_pem(name: str) -> bytes:
    return (
        PRIVATE[name]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


class Issuer:
    """Counts its requests; its responses can be changed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: Counter[str] = Counter()
        self.keys = [public_jwk("rsa"), public_jwk("ec"), public_jwk("ed")]
        self.status = 200
        self.tokens: dict[str, dict[str, Any]] = {}
        self.forms: list[tuple[str, dict[str, list[str]]]] = []
        self.raw: bytes | None = None
        self.held: set[str] = set()
        """Tokens whose questions wait for `go`, if any are named; without, all wait."""
        self.came = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def answer(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": self.keys}

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        found = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": now,
            "exp": now + 300,
            "scope": "read write",
            "azp": "some-client",
            **claims,
        }
        return {name: value for name, value in found.items() if value is not None}

    def sign(
        self, key: str = "rsa", *, headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        return jwt.encode(
            self.claims(**claims),
            PRIVATE[key],
            algorithm=ALGORITHMS[key],
            headers={"kid": key, "typ": "at+jwt", **(headers or {})},
        )


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """Return a token built by hand, with any content."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked[self.path] += 1
            issuer.came.set()
            issuer.go.wait(10)
            self.say(issuer.answer(self.path))

        def do_POST(self) -> None:
            issuer.asked[self.path] += 1
            issuer.came.set()
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if not issuer.held or form["token"][0] in issuer.held:
                issuer.go.wait(10)
            issuer.forms.append((self.headers["Authorization"], form))
            self.say(issuer.tokens.get(form["token"][0], {"active": False}))

        def say(self, answer: Any) -> None:
            body = json.dumps(answer).encode() if issuer.raw is None else issuer.raw
            self.send_response(issuer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Location", f"{issuer.url}/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield issuer
        finally:
            issuer.go.set()
            server.shutdown()
            thread.join()
