"""A client's details, reduced to what a server may keep after the request."""

from __future__ import annotations

from collections.abc import Collection

from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, encode

MAX_CLIENT_BYTES = 8 * 1024
"""Bytes of `clientInfo` and the client's capabilities together, encoded as JSON. Our own limit."""

_INFO = frozenset({"name", "title", "version", "description", "websiteUrl", "icons"})
_CAPABILITIES = frozenset(
    {"roots", "sampling", "elicitation", "tasks", "experimental", "extensions"}
)


def limit_client_details(
    client_info: JSONObject | None, capabilities: JSONObject
) -> tuple[JSONObject | None, JSONObject] | Refusal:
    """Return the fields of both that the protocol defines, or a refusal if they are too large.

    Icons are dropped if the rest then fits the limit. Neither argument is changed.
    """
    found = _pick(capabilities, _CAPABILITIES)
    size = 0
    for names in (_INFO, _INFO - {"icons"}):
        info = None if client_info is None else _pick(client_info, names)
        size = len(encode([info, found]))
        if size <= MAX_CLIENT_BYTES:
            return info, found
    return invalid_params(
        f"clientInfo and the client capabilities have {size} bytes together; at most "
        f"{MAX_CLIENT_BYTES} are accepted. Shorten them, for example under experimental."
    )


def _pick(value: JSONObject, names: Collection[str]) -> JSONObject:
    return {name: each for name, each in value.items() if name in names}
