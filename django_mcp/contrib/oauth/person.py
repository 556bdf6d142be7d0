"""The consent of a signed-in user, given on the consent page as a browser does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend

from django_mcp.management.doctor.http import MAX_BYTES, TIMEOUT_S, Unreachable, ask, open_response

Person: TypeAlias = Callable[[str], str]
"""Takes an authorization URL, allows the access there, and returns the URL of the redirect.

Raises `PageRefuses` if a page says that the request is not valid, and `Unreachable` if it answers otherwise.
"""


class PageRefuses(Unreachable):
    """The authorization page says that the request is not valid."""


@contextmanager
def signed_in(user: Any) -> Iterator[Person]:
    """Yield a function that allows the access at an authorization URL, and returns the redirect.

    The site has to share this command's session store and database.
    """
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = next(
        (path for path in settings.AUTHENTICATION_BACKENDS if _knows(path, user)),
        settings.AUTHENTICATION_BACKENDS[0],
    )
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    try:
        yield lambda url: _allow(url, f"{settings.SESSION_COOKIE_NAME}={store.session_key}")
    finally:
        store.delete()


def _knows(path: str, user: Any) -> bool:
    """Return whether an authentication backend returns this user for a session."""
    known_user = load_backend(path).get_user(user.pk)
    return known_user is not None


def _allow(url: str, cookie: str) -> str:
    with open_response("GET", url, None, {"Cookie": cookie}, TIMEOUT_S) as page:
        body = page.read(MAX_BYTES)
        cookies = [
            cookie,
            *(header.split(";", 1)[0] for header in page.headers.get_all("set-cookie", [])),
        ]
    location = page.headers.get("location", "")
    redirect_uri = parse_qs(urlsplit(url).query).get("redirect_uri", [""])[0]
    if page.status == 302 and redirect_uri and location.startswith(f"{redirect_uri}?"):
        # The request is refused to the client, or nobody has to be asked.
        return location
    form = _Form()
    form.feed(body.decode(errors="replace"))
    if page.status != 200:
        told = location or " ".join(" ".join(form.texts).split())
        kind = PageRefuses if page.status == 400 else Unreachable
        raise kind(
            f"The consent page answers {page.status} to a user who is signed in: {told[:400]}"
        )
    headers = {
        "Cookie": "; ".join(cookies),
        "Content-Type": "application/x-www-form-urlencoded",
        "Referer": url,
    }
    sent = ask("POST", url, urlencode({**form.fields, "allow": "true"}).encode(), headers)
    if sent.status >= 400:
        raise Unreachable(f"The consent page answers {sent.status} when its form is sent.")
    return sent.headers.get("location", url)


class _Form(HTMLParser):
    """Collects the hidden fields of a page, and the texts in its small print, where errors are."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.texts: list[str] = []
        self._is_small = False

    def handle_data(self, data: str) -> None:
        if self._is_small:
            self.texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._is_small = self._is_small and tag != "small"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._is_small = self._is_small or tag == "small"
        name = attributes.get("name")
        if tag == "input" and attributes.get("type") == "hidden" and name:
            self.fields[name] = attributes.get("value") or ""
