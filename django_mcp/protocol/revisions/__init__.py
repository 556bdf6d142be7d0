"""The protocol revisions, and the conversion of results, which handlers write in the newest form."""

from __future__ import annotations

from collections.abc import Iterable

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions.records import (
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    Lowering,
    MethodRule,
    Revision,
)

__all__ = ["REVISIONS", "MethodRule", "Revision", "RevisionSet", "lower"]

REVISIONS: tuple[Revision, ...] = (
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
)
"""All revisions, oldest first."""

_BY_NAME = {revision.name: revision for revision in REVISIONS}
_WITH_HANDSHAKE = frozenset(
    known_revision.name for known_revision in REVISIONS if not known_revision.is_stateless
)

UNSTATED_HTTP_REVISION = V2025_03_26
"""The revision of an HTTP request that names none, if no session has one.

Source: 2025-06-18 basic/transports, "Protocol Version Header".
"""


_CHAINS: dict[tuple[str, str], list[Lowering]] = {}
for _place, _revision in enumerate(REVISIONS):
    for _newer in reversed(REVISIONS[_place + 1 :]):
        for _kind, _lowering in _newer.lowerings.items():
            _CHAINS.setdefault((_kind, _revision.name), []).append(_lowering)


def lower(kind: str, value: JSONObject, revision: Revision) -> JSONObject:
    """Return `value`, which is in the newest form, in the form of `revision`.

    Args:
        kind: `"capabilities"`, `"implementation"`, or a method: of the client if `value` is a result, of
            the server if it is the params of a request to the client.
        value: never changed; may be returned as it is.
        revision: the target revision.
    """
    for step in _CHAINS.get((kind, revision.name), ()):
        value = step(value)
    return value


def find_revision(name: object) -> Revision | None:
    """Return the revision called `name`, whether or not a server has enabled it."""
    return _BY_NAME.get(name) if isinstance(name, str) else None


def has_handshake(name: object) -> bool:
    """Return whether `name` is that of a revision that starts with `initialize`."""
    return type(name) is str and name in _WITH_HANDSHAKE


class RevisionSet:
    """The enabled revisions of one server.

    Raises:
        ValueError: an unknown name, or none at all.
    """

    __slots__ = ("_by_name", "handshake", "stateless", "stateless_by_name", "stateless_names")

    def __init__(self, names: Iterable[str] | None = None, *, has_stateless: bool = True) -> None:
        wanted = set(_BY_NAME) if names is None else set(names)
        unknown = wanted - set(_BY_NAME)
        if unknown or not wanted:
            known = ", ".join(_BY_NAME)
            raise ValueError(f"Unknown protocol revisions {sorted(unknown)}: choose from {known}.")
        chosen = [
            revision
            for revision in REVISIONS
            if revision.name in wanted and (has_stateless or not revision.is_stateless)
        ]
        self._by_name = {revision.name: revision for revision in chosen}
        self.handshake = tuple(revision for revision in chosen if not revision.is_stateless)
        """Revisions that start with `initialize`, oldest first."""
        self.stateless = tuple(revision for revision in chosen if revision.is_stateless)
        self.stateless_by_name = {revision.name: revision for revision in self.stateless}
        """Revisions without a handshake, by name."""
        self.stateless_names = [revision.name for revision in self.stateless]

    def find(self, name: object) -> Revision | None:
        """Return the revision called `name` if this server has enabled it."""
        return self._by_name.get(name) if isinstance(name, str) else None

    def names(self) -> list[str]:
        """Return the names of all enabled revisions, oldest first."""
        return list(self._by_name)

    def negotiate(self, requested: str) -> Revision | None:
        """Return the revision with which to answer an `initialize` that requests `requested`.

        It is the requested revision if that has a handshake, else the newest that does; None if this
        server has enabled none of these. Source: 2025-11-25 basic/lifecycle "Version Negotiation".
        """
        revision = self._by_name.get(requested)
        if revision is not None and not revision.is_stateless:
            return revision
        return self.handshake[-1] if self.handshake else None
