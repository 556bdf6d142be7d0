"""Client metadata documents: fetched only from public addresses, with limits and validation."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import override_settings
from oauth2_provider.cimd import CIMDError
from oauth2_provider.models import get_application_model

from django_mcp.contrib.oauth import oauth2_provider_settings
from django_mcp.contrib.oauth.client_metadata import Unusable
from django_mcp.contrib.oauth.fetcher import BoundedMetadataFetcher, is_public, read_url
from django_mcp.contrib.oauth.resolving import resolve
from tests.support.oauth.local_documents import (
    CERTIFICATE,
    HOST,
    LocalFetcher,
    document,
    make_certificate,
    publish,
    response,
    serving,
)

REDIRECT = "https://client.example/callback"
TIMEOUT_S = 60
SHORT_S = 0.5
"""The time that servers get which never answer."""


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> Iterator[None]:
    monkeypatch.setenv(CERTIFICATE, str(certificate))
    cache.clear()
    with override_settings(
        OAUTH2_PROVIDER=oauth2_provider_settings(
            CIMD_METADATA_FETCHER="tests.support.oauth.local_documents.LocalFetcher",
            CIMD_FETCH_TIMEOUT_SECONDS=TIMEOUT_S,
        )
    ):
        yield


@pytest.fixture
def _short_timeout(local: None, settings: Any) -> None:
    settings.OAUTH2_PROVIDER = {
        **settings.OAUTH2_PROVIDER,
        "CIMD_FETCH_TIMEOUT_SECONDS": SHORT_S,
    }


def fetch(certificate: Path, answer: Any) -> dict[str, Any]:
    with serving(certificate, answer) as port:
        return LocalFetcher().fetch(f"https://{HOST}:{port}/client.json")[0]


def test_a_document_is_fetched_over_tls(certificate: Path):
    assert fetch(certificate, publish({"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    "answer",
    [
        response(b"{}", status="404 Not Found"),
        response(b"{}", status="302 Found", extra="Location: http://127.0.0.1/\r\n"),
        response(b"{}", status="307 Temporary Redirect", extra="Location: /other.json\r\n"),
        response(b"{}", content_type="text/html"),
        response(b"{"),
        response(b"[]"),
        response(b"[" * 5000),
        response(b'{"a": "' + b"x" * 20_000 + b'"}'),
        response(b"\x1f\x8b", extra="Content-Encoding: gzip\r\n"),
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX: "
        + b"x" * 100_000
        + b"\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_an_invalid_document_is_rejected(certificate: Path, answer: bytes):
    with pytest.raises(CIMDError):
        fetch(certificate, lambda connection: connection.sendall(answer))


def drip_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
    for _ in itertools.count():
        connection.sendall(b" ")
        time.sleep(SHORT_S / 5)


def drip_headers(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in itertools.count():
        connection.sendall(b"x")
        time.sleep(SHORT_S / 5)


def send_without_end(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def say_nothing(connection: socket.socket) -> None:
    connection.recv(1)


@pytest.mark.usefixtures("_short_timeout")
@pytest.mark.parametrize("answer", [drip_body, drip_headers, send_without_end, say_nothing])
def test_a_slow_server_times_out(certificate: Path, answer: Any):
    with pytest.raises(CIMDError):
        fetch(certificate, answer)


@pytest.mark.usefixtures("_short_timeout")
def test_a_silent_name_server_times_out(monkeypatch: pytest.MonkeyPatch):
    may_answer, has_answered = threading.Event(), threading.Event()

    def look_up(*_args: Any, **_options: Any) -> Any:
        may_answer.wait(10)
        has_answered.set()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    with pytest.raises(CIMDError):
        BoundedMetadataFetcher().fetch("https://slow.example/client.json")

    assert not has_answered.is_set()
    may_answer.set()


@pytest.mark.usefixtures("_short_timeout")
def test_a_server_without_a_tls_handshake_times_out():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CIMDError):
            LocalFetcher().fetch(f"https://{HOST}:{port}/client.json")


def test_a_certificate_of_another_host_is_rejected(tmp_path: Path):
    with pytest.raises(CIMDError):
        fetch(make_certificate(tmp_path, "other.test"), publish({}))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254",
        "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1",
        "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
        "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1",
        "2001::1", "2001:0:7f00:1::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::", "fc00::1",
        "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "", "localhost",
        "127.1", "0x7f000001", "2130706433", "0177.0.0.1",
    ],
)  # fmt: skip
def test_a_non_public_address_is_rejected(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450::1"])
def test_documents_are_fetched_from_public_addresses(address: str):
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]", "0",
     "[::ffff:127.0.0.1]", "localhost.", "no-such-host.invalid"],
)  # fmt: skip
def test_no_spelling_of_localhost_is_fetched(host: str, certificate: Path):
    asked: list[bytes] = []
    with (
        serving(certificate, lambda connection: asked.append(b"asked")) as port,
        pytest.raises(CIMDError),
    ):
        BoundedMetadataFetcher().fetch(f"https://{host}:{port}/client.json")

    assert asked == []


def test_a_host_with_one_private_address_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
):
    found = [(socket.AF_INET, 1, 6, "", (ip, 443)) for ip in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)

    with pytest.raises(CIMDError):
        BoundedMetadataFetcher().fetch("https://client.example/client.json")


def test_the_connection_uses_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch):
    """A name server that gives another address the second time gains nothing."""
    told = iter(["8.8.8.8", "127.0.0.1", "127.0.0.1"])
    dialled: list[tuple[str, int]] = []

    def resolve(*_args: Any, **_options: Any) -> Any:
        return [(socket.AF_INET, 1, 6, "", (next(told), 443))]

    def dial(address: tuple[str, int], **_options: Any) -> Any:
        dialled.append(address)
        raise OSError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", dial)
    with pytest.raises(CIMDError):
        BoundedMetadataFetcher().fetch("https://client.example/client.json")

    assert dialled == [("8.8.8.8", 443)]


@pytest.mark.parametrize(
    "url",
    [
        "http://client.example/client.json",
        "HTTPS://client.example/client.json",
        "ftp://client.example/client.json",
        "https:client.example/client.json",
        "https://client.example",
        "https://client.example/",
        "https:///client.json",
        "https://user@client.example/client.json",
        "https://user:password@client.example/client.json",
        "https://client.example/client.json#fragment",
        "https://client.example/../client.json",
        "https://client.example/%2e%2E/client.json",
        "https://client.example/./client.json",
        "https://client.example:99999/client.json",
        "https://client.example:x/client.json",
        "https://client.example\\@127.0.0.1/client.json",
        "https://client.example/client.json\r\nX: y",
        "https://client.example/cl ient.json",
        "https://cl\u0456ent.example/client.json",
        "https://127.0.0.1%2f.client.example/client.json",
        "https://[::1/client.json",
        "https://" + "a" * 300 + "/client.json",
        "client.json",
        "",
    ],
)
def test_an_ambiguous_url_is_no_client_id(url: str):
    with pytest.raises(CIMDError):
        read_url(url)


# -- clients from documents


def resolve_document(certificate: Path, **changes: Any) -> Any:
    published: dict[str, Any] = {}
    with serving(certificate, publish(published)) as port:
        client_id = f"https://{HOST}:{port}/client.json"
        published.update(document(client_id, REDIRECT))
        published.update(changes)
        return resolve(client_id, None)


@pytest.mark.django_db
def test_a_document_creates_a_public_client(certificate: Path):
    found = resolve_document(certificate)

    assert found.client_type == "public"
    assert found.redirect_uris == REDIRECT
    assert not found.skip_authorization


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"client_id": "https://other.example/client.json"}, "client_id"),
        ({"client_id": None}, "client_id"),
        ({"redirect_uris": []}, "redirect_uris"),
        ({"redirect_uris": "https://client.example/"}, "redirect_uris"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "redirect_uris"),
        ({"redirect_uris": ["zed://oauth/callback", "http://client.example/"]}, "redirect_uris"),
        ({"redirect_uris": ["https://client.example/", 7]}, "redirect_uris"),
        ({"client_secret": "a secret"}, "client_secret"),
        ({"client_secret_expires_at": 0}, "client_secret_expires_at"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "jwks_uri"),
        ({"token_endpoint_auth_method": ["none"]}, "token_endpoint_auth_method"),
        (
            {"token_endpoint_auth_methods_supported": "none"},
            "token_endpoint_auth_methods_supported",
        ),
        ({"grant_types": ["client_credentials"]}, "grant_types"),
        ({"grant_types": ["refresh_token"]}, "grant_types"),
        ({"response_types": ["token"]}, "response_types"),
        ({"client_name": {"a": 1}}, "client_name"),
        ({"client_name": "A" * 9000}, "client_name"),
    ],
)
def test_an_invalid_document_creates_no_client(
    certificate: Path, changes: dict[str, Any], field: str
):
    with pytest.raises(Unusable) as refused:
        resolve_document(certificate, **changes)

    assert refused.value.field == field
    assert not get_application_model().objects.exists()


@pytest.mark.django_db
def test_what_a_document_declares_beside_is_ignored(certificate: Path):
    found = resolve_document(
        certificate,
        grant_types=[
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "authorization_code",
            "implicit",
        ],
        response_types=["token", "code"],
        redirect_uris=["http://other.example/", REDIRECT, "zed://callback", "vscode://a.b/c"],
        token_endpoint_auth_method="tls_client_auth",
        token_endpoint_auth_methods_supported=["client_secret_basic", "none"],
        client_name="Bank\u202e of the tests",
        jwks={"keys": "none"},
    )

    assert found.client_type == "public"
    assert found.authorization_grant_type == "authorization-code"
    assert found.redirect_uris.split() == [REDIRECT, "vscode://a.b/c"]
    assert found.name == "Bank of the tests"


@pytest.mark.django_db
def test_a_document_does_not_take_over_a_client_that_was_added_by_hand(certificate: Path):
    published: dict[str, Any] = {}
    with serving(certificate, publish(published)) as port:
        client_id = f"https://{HOST}:{port}/client.json"
        published.update(document(client_id, REDIRECT))
        get_application_model().objects.create(
            client_id=client_id,
            client_type="confidential",
            authorization_grant_type="authorization-code",
            redirect_uris="https://own.example/",
        )
        with pytest.raises(CIMDError):
            resolve(client_id, None)

    assert get_application_model().objects.get().redirect_uris == "https://own.example/"


@pytest.mark.django_db
def test_a_document_is_fetched_once_and_failures_are_cached(certificate: Path):
    asked: list[str] = []
    lock = threading.Lock()

    def answer(connection: socket.socket) -> None:
        with lock:
            asked.append("once")
        connection.sendall(response(json.dumps({"client_id": "another"}).encode()))

    with serving(certificate, answer) as port:
        client_id = f"https://{HOST}:{port}/client.json"
        for _ in range(5):
            with pytest.raises(Unusable):
                resolve(client_id, None)

    assert asked == ["once"]
