"""Fetch small JSON documents over HTTP: bounded in time and size, and without redirects."""

from __future__ import annotations

import base64
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from django_mcp.protocol.json import decode

FETCHERS: Final = ThreadPoolExecutor(4, thread_name_prefix="django-mcp-fetch")
"""Threads that fetch the keys of issuers, each at most once at a time, and nothing else."""

MAX_BYTES: Final = 256 * 1024
MAX_BLOCK_BYTES: Final = 16 * 1024


class FetchError(Exception):
    """The document cannot be fetched; the text contains nothing of the request but its host."""


def check_url(url: str, what: str) -> str:
    """Return a configured URL.

    It may name any host, but the connection must be encrypted. Plain http is for this machine alone.

    Raises:
        ValueError: it is no https URL.
    """
    parts = urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        raise ValueError(f"{what} must be an https URL, not {url!r}")
    return url


def fetch_json(
    url: str,
    *,
    timeout_s: float,
    form: dict[str, str] | None = None,
    credentials: tuple[str, str] | None = None,
) -> Any:
    """Return the JSON at a URL. Blocks: call it in a thread.

    Args:
        timeout_s: until the whole answer has to be there.
        form: sent by POST; without one it is a GET.
        credentials: a client's id and secret, for Basic authentication.

    Raises:
        FetchError: there is no answer, or not one of status 200 that is small enough and JSON.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    request = urllib.request.Request(  # noqa: S310  (the opener has no handlers for other schemes)
        url,
        data=None if form is None else urlencode(form).encode(),
        headers={"Accept": "application/json", "User-Agent": "django-mcp"},
    )
    if credentials is not None:
        # Both are form-encoded first (RFC 6749 section 2.3.1).
        pair = ":".join(map(quote_plus, credentials))
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    deadline = time.monotonic() + timeout_s
    try:
        # The site's proxies as its environment has them.
        opener = make_opener(urllib.request.ProxyHandler())
        with opener.open(request, timeout=timeout_s) as response:
            body = _read(response, deadline)
            status = response.status
    except (OSError, HTTPException, ValueError) as error:
        raise FetchError(f"{host} did not answer: {type(error).__name__}") from None
    if status != 200:
        raise FetchError(f"{host} answered with status {status}")
    try:
        return decode(body)
    except ValueError:
        raise FetchError(f"{host} did not answer with JSON") from None


def _read(response: HTTPResponse, deadline: float) -> bytes:
    # A timeout of the socket starts anew with each byte; a deadline does not.
    body = b""
    while True:
        block = response.read1(MAX_BLOCK_BYTES)
        if not block:
            return body
        body += block
        if len(body) > MAX_BYTES:
            raise ValueError("too large")
        if time.monotonic() > deadline:
            raise TimeoutError


def make_opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener of HTTP URLs alone, which follows no redirects and returns every status."""
    opener = urllib.request.OpenerDirector()
    for handler in (*handlers, urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    return opener
