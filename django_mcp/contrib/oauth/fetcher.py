"""Fetch a client's metadata document or keys, from public addresses only and within a deadline.

django-oauth-toolkit's own fetcher rejects private addresses, follows no redirect and connects to the
address it has checked. Its timeout applies to each read only, so a server that sends a byte now and
then holds a worker for hours. Here one deadline covers everything from the DNS lookup on, and closes
the connection.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import SplitResult, urlsplit

from oauth2_provider.cimd import CIMDError, SafeMetadataFetcher
from oauth2_provider.settings import oauth2_settings

from django_mcp.contrib.deadlines import hanging_up_at

_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_TUNNELS = (ipaddress.IPv6Network("2002::/16"), ipaddress.IPv6Network("2001::/32"))
"""6to4 and Teredo: an IPv4 address, perhaps a private one, inside of an IPv6 one."""

MAX_HOST = 253
MAX_ADDRESSES = 2
"""Addresses of a host that are tried."""


def fetch_json(url: str) -> tuple[dict[str, Any], int]:
    """Return the JSON object at a client's URL, and for how many seconds it may be cached.

    The fetcher of the setting `CIMD_METADATA_FETCHER` reads it.

    Raises:
        CIMDError: there is none, it may not be fetched, or too many others are being fetched. The
            text is for the log only.
    """
    with _slot():
        try:
            fetched: tuple[dict[str, Any], int] = oauth2_settings.CIMD_METADATA_FETCHER().fetch(url)
        except CIMDError:
            raise
        except Exception as error:
            # A fetcher of the site may have errors of its own, and anybody can cause them.
            raise CIMDError(f"the fetcher failed: {error!r}") from error
    return fetched


@contextmanager
def _slot() -> Iterator[None]:
    most = oauth2_settings.CIMD_MAX_CONCURRENT_FETCHES
    if not most:
        yield
        return
    slots = _slots(most)
    if not slots.acquire(blocking=False):
        raise CIMDError("too many others are being fetched")
    try:
        yield
    finally:
        slots.release()


@cache
def _slots(most: int) -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(most)


class BoundedMetadataFetcher(SafeMetadataFetcher):
    """Fetches documents over https from public addresses, within one deadline and one size."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document at a URL and for how many seconds it may be cached.

        Raises:
            CIMDError: there is none, or it may not be fetched. The text is for the log only.
        """
        parts = read_url(client_id)
        deadline = time.monotonic() + oauth2_settings.CIMD_FETCH_TIMEOUT_SECONDS
        addresses = self._resolve_before(deadline, str(parts.hostname), parts.port or 443)
        reason: Exception | None = None
        for address in addresses[:MAX_ADDRESSES]:
            try:
                return self._fetch_from(address, parts, deadline)
            except (OSError, HTTPException) as error:
                reason = error
            except RecursionError as error:
                raise CIMDError("the document is nested too deeply") from error
            if time.monotonic() >= deadline:
                break
        raise CIMDError(f"could not fetch the document in time: {reason}") from reason

    def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, all of which are public.

        Raises:
            CIMDError: there is none, or one of them is not public.
        """
        try:
            addresses_found = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            raise CIMDError(f"could not resolve {host}") from error
        addresses = list(dict.fromkeys(str(info[4][0]) for info in addresses_found))
        if not addresses or not all(map(is_public, addresses)):
            raise CIMDError(f"{host} has an address that is not public")
        return addresses

    def _resolve_before(self, deadline: float, host: str, port: int) -> list[str]:
        """Resolve a host as `resolve` does, but stop at the deadline.

        A lookup cannot be cancelled, so it has a thread of its own, which ends when the system's
        resolver gives up. `CIMD_MAX_CONCURRENT_FETCHES` limits how many start within one deadline.
        """
        future: Future[list[str]] = Future()

        def look_up() -> None:
            try:
                future.set_result(self.resolve(host, port))
            except BaseException as error:  # noqa: BLE001  (raised where the result is awaited)
                future.set_exception(error)

        threading.Thread(target=look_up, daemon=True).start()
        try:
            return future.result(max(deadline - time.monotonic(), 0))
        except TimeoutError as error:
            raise CIMDError(f"could not resolve {host} in time") from error

    def open(self, address: str, port: int, host: str, timeout_s: float) -> socket.socket:
        """Return a connection to a checked address, with TLS for the host's name."""
        plain = socket.create_connection((address, port), timeout=timeout_s)
        try:
            # The handshake happens in `_fetch_from`, under its deadline.
            return ssl.create_default_context().wrap_socket(
                plain, server_hostname=host, do_handshake_on_connect=False
            )
        except BaseException:
            plain.close()
            raise

    def _fetch_from(
        self, address: str, parts: SplitResult, deadline: float
    ) -> tuple[dict[str, Any], int]:
        host = str(parts.hostname)
        left_s = max(deadline - time.monotonic(), 0.01)
        with self.open(address, parts.port or 443, host, left_s) as connection:
            with hanging_up_at(deadline) as watch:
                watch(connection)
                if isinstance(connection, ssl.SSLSocket):
                    connection.do_handshake()
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.sendall(
                    f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                    "Accept: application/json, application/*+json\r\n"
                    "Accept-Encoding: identity\r\nUser-Agent: django-mcp-endpoints\r\n"
                    "Connection: close\r\n\r\n".encode("ascii")
                )
                with HTTPResponse(connection, method="GET") as response:
                    response.begin()
                    document: tuple[dict[str, Any], int] = self._read_document(response)
            if time.monotonic() >= deadline:
                raise TimeoutError
            return document


def read_url(client_id: str) -> SplitResult:
    """Return the parts of a URL that may be a client's id.

    It must have the one spelling that all parsers read alike: the draft's rules (section 3), nothing
    escaped in the host, and only printable ASCII. The draft allows an IP address as host, which has
    to be public like a name's.

    Raises:
        CIMDError: it may not.
    """
    if not client_id.isascii() or any(char <= " " or char in '\\#"<>\x7f' for char in client_id):
        raise CIMDError("the URL has characters that it may not have")
    try:
        parts = urlsplit(client_id)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise CIMDError("the URL cannot be read") from error
    if parts.scheme != "https" or not client_id.startswith("https://"):
        raise CIMDError("the URL must use https")
    if not host or len(host) > MAX_HOST or "@" in parts.netloc or "%" in parts.netloc:
        raise CIMDError("the URL must have a plain host")
    if parts.path in ("", "/") or any(
        part.lower().replace("%2e", ".") in (".", "..") for part in parts.path.split("/")
    ):
        raise CIMDError("the URL must have a path without dot segments")
    return parts


def is_public(address: str) -> bool:
    """Return whether an address is public, and contains no other address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and (
        ip not in _GLOBAL_UNICAST or any(ip in tunnel for tunnel in _TUNNELS)
    ):
        return False
    return ip.is_global and not ip.is_multicast
