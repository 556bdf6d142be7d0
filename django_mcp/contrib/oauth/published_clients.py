"""What known MCP clients publish about themselves, or send when they register.

It is kept as data, so that tests and `mcp_doctor --oauth` can play each client against a site
without asking the client's makers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from typing import Any, Literal

from django_mcp.protocol.json import decode

DATA = "published_clients.json"


@dataclass(frozen=True, kw_only=True)
class PublishedClient:
    """One way in which one client introduces itself.

    Attributes:
        name: the client, as people know it; a client that does both occurs twice.
        kind: `document`: `metadata` is served at its own `client_id`; `registration`: `metadata` is
            the body that it sends to the registration endpoint.
        metadata: as the client has it, with values that this package does not support.
        redirect_uri: what its authorization request names. The port of a loopback address may differ
            from the one in `metadata`.
        added_scopes: scopes that it requests besides those that the site names.
        source: public pages that show it.
        date: when `source` showed it.
    """

    name: str
    kind: Literal["document", "registration"]
    metadata: dict[str, Any]
    redirect_uri: str
    added_scopes: tuple[str, ...]
    source: str
    date: date

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


def read_published_clients() -> list[PublishedClient]:
    """Return every client that the package knows, in the order of the file."""
    rows: Any = decode(files(__package__).joinpath(DATA).read_bytes())
    return [
        PublishedClient(
            **{
                **row,
                "added_scopes": tuple(row["added_scopes"]),
                "date": date.fromisoformat(row["date"]),
            }
        )
        for row in rows
    ]
