"""Capabilities that follow from nothing registered: a site says so itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.names import is_extension_id
from django_mcp.protocol.ranges import CAPABILITY

__all__ = ["Advertising"]


class Advertising:
    """The part of a server that tells clients what else it can do."""

    def __init__(self) -> None:
        super().__init__()
        self._extensions: dict[str, JSONObject] = {}
        self._experimental: dict[str, JSONObject] = {}

    def advertise_extension(
        self, identifier: str, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Tell clients that the server has an extension, where the revision knows them.

        Whether a client has it too, a handler sees in `ctx.client_extensions`.

        Args:
            identifier: such as `"com.example/receipts"`: a prefix, a slash and a name.
            settings: a JSON object, as the extension defines it.

        Raises:
            ValueError: it cannot be called this (2026-07-28 basic, Extensions), or the settings
                have no form in JSON.
        """
        if not is_extension_id(identifier):
            raise ValueError(
                f"{identifier!r} is no name for an extension: use a domain of yours backwards, a "
                f"slash and a name, such as 'com.example/receipts'."
            )
        self._extensions[identifier] = _plain(identifier, settings)

    def advertise_experimental(self, name: str, settings: Mapping[str, Any] | None = None) -> None:
        """Tell clients of something that is in no specification yet.

        Args:
            name: any; clients that do not know it take no notice.
            settings: a JSON object.

        Raises:
            ValueError: the name is empty, or the settings have no form in JSON.
        """
        if not name:
            raise ValueError("An experimental capability needs a name.")
        self._experimental[name] = _plain(name, settings)

    def extra_capabilities(
        self, *, serves_ranges: bool, read_chunk_bytes: int | None
    ) -> JSONObject:
        """Return what was advertised, as it stands among the capabilities.

        Args:
            serves_ranges: whether resources can be read in parts.
            read_chunk_bytes: see `Options`.
        """
        found: JSONObject = {}
        experimental = dict(self._experimental)
        if serves_ranges:
            clamp = {} if read_chunk_bytes is None else {"maxChunkBytes": read_chunk_bytes}
            experimental[CAPABILITY] = {"enabled": True, **clamp}
        if experimental:
            found["experimental"] = experimental
        if self._extensions:
            found["extensions"] = dict(self._extensions)
        return found


def _plain(name: str, settings: Mapping[str, Any] | None) -> JSONObject:
    try:
        plain = decode(encode(dict(settings or {})))
    except (TypeError, ValueError) as error:
        raise ValueError(f"The settings of {name!r} have no form in JSON: {error}") from error
    found: JSONObject = plain
    return found
