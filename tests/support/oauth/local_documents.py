"""Local client metadata documents over TLS, for a fetcher that may access this machine."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from django_mcp.contrib.oauth.fetcher import BoundedMetadataFetcher
from django_mcp.contrib.oauth.published_clients import read_published_clients

HOST = "client.test"
CERTIFICATE = "TESTS_CLIENT_CERTIFICATE"
"""The variable that names the file whose certificate the fetcher trusts."""

Answer = Callable[[socket.socket], None]


PUBLISHED = "TESTS_PUBLISHED_PORT"
"""The variable with the port of this machine that stands for the hosts of known clients."""

PUBLISHED_HOSTS = frozenset(
    urlsplit(client.metadata["client_id"]).hostname
    for client in read_published_clients()
    if client.kind == "document"
)


class LocalFetcher(BoundedMetadataFetcher):
    """Resolves `client.test` and the hosts of known clients to this machine, and trusts its certificate."""

    def resolve(self, host: str, port: int) -> list[str]:
        is_here = host == HOST or (host in PUBLISHED_HOSTS and PUBLISHED in os.environ)
        return ["127.0.0.1"] if is_here else super().resolve(host, port)

    def open(self, address: str, port: int, host: str, timeout_s: float) -> socket.socket:
        if host in PUBLISHED_HOSTS:
            port = int(os.environ[PUBLISHED])
        plain = socket.create_connection((address, port), timeout=timeout_s)
        context = ssl.create_default_context(cafile=os.environ[CERTIFICATE])
        return context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)


def make_certificate(folder: Path, host: str = HOST, others: Iterable[str] = ()) -> Path:
    """Write a key and its certificate for hosts into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in (host, *others)]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{host}.pem"
    file.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return file


@contextmanager
def serving(certificate: Path, answer: Answer) -> Iterator[int]:
    """Answer each connection with `answer`, which writes what it likes; yields the port."""
    with serving_requests(certificate, lambda _request, connection: answer(connection)) as port:
        yield port


@contextmanager
def serving_requests(
    certificate: Path, answer: Callable[[bytes, socket.socket], None]
) -> Iterator[int]:
    """Answer each request with `answer`, which gets its bytes; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(plain: socket.socket) -> None:
        try:
            with context.wrap_socket(plain, server_side=True) as connection:
                answer(connection.recv(65536), connection)
        except OSError:
            return

    def accept() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(plain,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def response(
    body: bytes, *, status: str = "200 OK", content_type: str = "application/json", extra: str = ""
) -> bytes:
    """Return the bytes of an HTTP response."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{extra}Connection: close\r\n\r\n".encode() + body


def document(client_id: str, redirect_uri: str, **changes: Any) -> dict[str, Any]:
    """Return a metadata document as clients publish them."""
    return {
        "client_id": client_id,
        "client_name": "A client of the tests",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        **changes,
    }


def publish(document: dict[str, Any]) -> Answer:
    """Return a handler that responds with a document."""
    return lambda connection: connection.sendall(response(json.dumps(document).encode()))
