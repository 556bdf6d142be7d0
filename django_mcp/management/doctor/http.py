"""Requests to a site as a client sends them, without following redirects, or as a signed-in user."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlencode
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode

TIMEOUT_S = 10
MAX_BYTES = 1024 * 1024


class Unreachable(Exception):
    """There was no response to a request; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the JSON object in it, or an empty one."""
        try:
            found = decode(self.body)
        except ValueError:
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


class Stream:
    """The messages of one open response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self._response = response

    def next_message(self) -> JSONObject | None:
        """Return the next message; None if none came in time, or the stream ended."""
        try:
            while line := self._response.readline(MAX_BYTES):
                if line.startswith(b"data:") and line[5:].strip():
                    found = decode(line[5:])
                    return found if isinstance(found, dict) else None
        except (OSError, http.client.HTTPException, JSONDecodeError):
            return None
        return None


def ask(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return the response to a request, whatever its status."""
    with _open(method, url, body, headers or {}, TIMEOUT_S) as response:
        names = {name.lower(): value for name, value in response.headers.items()}
        try:
            return Answer(status=response.status, headers=names, body=response.read(MAX_BYTES))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{url} did not answer to the end: {error}") from error


@contextmanager
def open_stream(
    url: str, body: bytes, headers: Mapping[str, str], timeout_s: float
) -> Iterator[Stream]:
    """Post a request and yield the stream of its response."""
    with _open("POST", url, body, headers, timeout_s) as response:
        yield Stream(response)


@contextmanager
def _open(
    method: str, url: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
) -> Iterator[http.client.HTTPResponse]:
    if not url.startswith(("http://", "https://")):
        raise Unreachable(f"{url} is not an http URL")
    # It follows no redirects, and returns every status.
    opener = OpenerDirector()
    opener.add_handler(HTTPHandler())
    opener.add_handler(HTTPSHandler())
    try:
        request = Request(url, body, dict(headers), method=method)  # noqa: S310  (checked above)
        response = opener.open(request, timeout=timeout_s)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unreachable(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from error
    with response:
        yield response


@contextmanager
def signed_in(user: Any) -> Iterator[Callable[[str], str]]:
    """Yield a function that allows the access at an authorization URL, and returns the redirect.

    The site has to share this command's session store and database.
    """
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    try:
        yield lambda url: _allow(url, f"{settings.SESSION_COOKIE_NAME}={store.session_key}")
    finally:
        store.delete()


def _allow(url: str, cookie: str) -> str:
    page = ask("GET", url, headers={"Cookie": cookie})
    if page.status != 200:
        raise Unreachable(
            f"The consent page answers {page.status} to a user who is signed in: "
            f"{page.headers.get('location', '')[:200]}"
        )
    form = _Form()
    form.feed(page.body.decode(errors="replace"))
    given = page.headers.get("set-cookie", "").split(";", 1)[0]
    headers = {
        "Cookie": f"{cookie}; {given}" if given else cookie,
        "Content-Type": "application/x-www-form-urlencoded",
        "Referer": url,
    }
    sent = ask("POST", url, urlencode({**form.fields, "allow": "true"}).encode(), headers)
    return sent.headers.get("location", url)


class _Form(HTMLParser):
    """Collects the hidden fields of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        name = found.get("name")
        if tag == "input" and found.get("type") == "hidden" and name:
            self.fields[name] = found.get("value") or ""
