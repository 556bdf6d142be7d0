"""Load the extensions that a site names, and check that those of a server go together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from typing import Any

from django_mcp.protocol.json import encode
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.server.extension import Extension
from django_mcp.server.streams.stream import LISTS


def load_extensions(entries: Iterable[Any]) -> list[type[Extension]]:
    """Return the classes of extensions, of which some may be given by their dotted path.

    Raises:
        ValueError, TypeError: an entry cannot be imported, or is none; the text names it.
    """
    loaded: list[type[Extension]] = []
    for entry in entries:
        extension_class: Any = entry
        if isinstance(entry, str):
            module, _, name = entry.rpartition(".")
            try:
                extension_class = getattr(import_module(module), name)
            except (ImportError, AttributeError, ValueError) as error:
                raise ValueError(f"{entry} cannot be imported: {error}") from error
        if not (isinstance(extension_class, type) and issubclass(extension_class, Extension)):
            raise TypeError(f"{entry!r} is no subclass of django_mcp.Extension")
        loaded.append(extension_class)
    return loaded


_OF_THE_PROTOCOL: Mapping[str, Collection[str]] = {
    "method": frozenset(name for revision in REVISIONS for name in revision.methods),
    "listening key": ("resourceSubscriptions", *(f"{name}ListChanged" for name in LISTS)),
    "param of calls": ("name", "arguments", "_meta", "inputResponses", "requestState"),
    "scheme of URIs": (),
}


def check_identifiers(extensions: Iterable[type[Extension]]) -> None:
    """Raise `ValueError` if two extensions have the same identifier, or one has none."""
    known: set[str] = set()
    for extension in extensions:
        if not extension.identifier:
            raise ValueError(f"The extension {extension.__name__} has no identifier.")
        if extension.identifier in known:
            raise ValueError(f"There are two extensions {extension.identifier!r}: remove one.")
        known.add(extension.identifier)


def check_names(extensions: Iterable[Extension]) -> None:
    """Check the names and the settings of the extensions of a server.

    Raises:
        ValueError: two extensions, or one and the protocol, have a name in common.
        TypeError: the settings of one have no form in JSON.
    """
    known: dict[tuple[str, str], str] = {}
    for extension in extensions:
        encode(dict(extension.settings))
        names = [
            *(("method", name) for name in extension.methods()),
            *(("listening key", name) for name in extension.listen_keys),
            *(("param of calls", name) for name in extension.call_params),
            *(("scheme of URIs", name) for name in extension.uri_schemes),
        ]
        for kind, name in names:
            if name in _OF_THE_PROTOCOL[kind]:
                raise ValueError(
                    f"{extension.identifier} has the {kind} {name!r}, which is one of the protocol."
                )
            if (kind, name) in known:
                raise ValueError(
                    f"{known[kind, name]} and {extension.identifier} have the same {kind} {name!r}."
                )
            known[kind, name] = extension.identifier
