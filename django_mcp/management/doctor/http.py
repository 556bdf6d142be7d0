"""Send one request to a site as a client would, without following redirects."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, cast

from django_mcp.protocol.json import decode

__all__ = ["Answer", "Unreachable", "ask"]

TIMEOUT_S = 10
MAX_BYTES = 1024 * 1024


class Unreachable(Exception):
    """There was no response."""


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


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def ask(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return the response to a request, whatever its status.

    Raises:
        Unreachable: there was none; the text says why.
    """
    if not url.startswith(("http://", "https://")):
        raise Unreachable(f"{url} is not an http URL")
    try:
        request = urllib.request.Request(  # noqa: S310  (checked above)
            url, data=body, headers=dict(headers or {}), method=method
        )
        with _opener.open(request, timeout=TIMEOUT_S) as response:
            return Answer(
                status=response.status,
                headers=_lower(response.headers),
                body=response.read(MAX_BYTES),
            )
    except urllib.error.HTTPError as error:
        with error:
            return Answer(
                status=error.code, headers=_lower(error.headers), body=error.read(MAX_BYTES)
            )
    except (OSError, ValueError) as error:
        raise Unreachable(f"{url} cannot be reached: {error}") from error


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
