"""Who gets a page in the body of a refusal: a person whose browser has opened the endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from django.http import HttpRequest

from django_mcp.execution.outages import Warner
from django_mcp.protocol.headers import Headers, names_html

MakePage: TypeAlias = Callable[[HttpRequest], bytes | None]
"""Returns the HTML for such a person; None: there is none. It must not block."""

STATUSES = frozenset({400, 401, 405, 406})
"""Of the refusals that a GET without MCP's headers gets."""

OF_CLIENTS = (b"mcp-session-id", b"mcp-protocol-version", b"last-event-id", b"authorization")
"""Headers of MCP clients, which a browser that opens an address does not send."""

_trouble = Warner()


def is_browser(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the headers of a GET are those of a browser that opens an address."""
    known = Headers(list(headers))
    is_client = any(name in known.by_name for name in OF_CLIENTS)
    return names_html(known.get("accept")) and not is_client


def find_page(make_page: MakePage, build_request: Callable[[], HttpRequest]) -> bytes | None:
    """Return the page for a request; None if there is none, or it fails: the refusal says enough."""
    try:
        return make_page(build_request())
    except Exception as error:  # noqa: BLE001 - a template of the site may be wrong
        # Anybody can ask for it any number of times.
        _trouble.warn("Could not show the page for browsers: %r", error)
        return None
