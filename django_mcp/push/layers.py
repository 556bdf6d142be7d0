"""The channel layer of the site as people know it: its class and its addresses, without passwords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as site_settings

IN_MEMORY = "channels.layers.InMemoryChannelLayer"

_REDIS = "channels_redis."
_DEFAULT_ADDRESS = "localhost:6379"


def has_shared_layer() -> bool:
    """Return whether there is a channel layer that more than one process can reach."""
    return bool(_default_layer().get("BACKEND", IN_MEMORY) != IN_MEMORY)


def describe_layer() -> str:
    """Return the class of the layer `default`, with its addresses where they are known."""
    layer = _default_layer()
    backend = str(layer.get("BACKEND", IN_MEMORY))
    addresses = ", ".join(dict.fromkeys(_find_addresses(layer)))
    if not addresses and backend.startswith(_REDIS):
        addresses = _DEFAULT_ADDRESS
    name = backend.rpartition(".")[2]
    return f"{name} at {addresses}" if addresses else name


def _default_layer() -> Mapping[str, Any]:
    layers: Any = getattr(site_settings, "CHANNEL_LAYERS", None) or {}
    layer = layers.get("default")
    return layer if isinstance(layer, Mapping) else {}


def _find_addresses(layer: Mapping[str, Any]) -> Iterator[str]:
    config = layer.get("CONFIG")
    hosts = config.get("hosts") if isinstance(config, Mapping) else None
    for host in hosts if isinstance(hosts, list | tuple) else ():
        if not isinstance(host, Mapping):
            yield _to_address(host)
        elif "address" in host:
            yield _to_address(host["address"])
        elif "sentinels" in host:
            yield from map(_to_address, host["sentinels"])
        else:
            yield _to_address(f"redis://{host.get('host', 'localhost')}:{host.get('port', 6379)}")


def _to_address(value: Any) -> str:
    """Return a host with its port, or the path of a socket. The rest of a URL may hold a password."""
    if isinstance(value, list | tuple):
        return ":".join(str(part) for part in value[:2])
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        host, port = parts.hostname, parts.port or 6379
        if "@" in value and "@" not in parts.netloc:
            # A character of the password that is not escaped has ended the host too early.
            return "an address that is no URL"
    except ValueError:
        return "an address that is no URL"
    if parts.scheme == "unix":
        return parts.path
    return f"{host}:{port}" if host else "an address that is no URL"
