"""What known MCP clients publish about themselves, or send when they register.

It is kept as data, so that tests and `mcp_doctor --oauth` can play each client against a site
without asking the client's makers.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        client_info: the name in its `clientInfo`.
        added_scopes: scopes that it requests besides those that the site names.
        challenge: where it looks for the scopes that a tool needs: `status`: in the header of a 403;
            `result`: in the tool's result.
        refreshes_at_once: whether several of its processes refresh with one token.
        registers_twice: whether it registers again a second later, and uses the first registration.
        source: public pages that show it.
        date: when `source` showed it.
    """

    name: str
    kind: Literal["document", "registration"]
    metadata: dict[str, Any]
    redirect_uri: str
    client_info: str
    added_scopes: tuple[str, ...]
    source: str
    date: date
    challenge: Literal["status", "result"] = "status"
    refreshes_at_once: bool = False
    registers_twice: bool = False

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


def find_published_clients(names: Sequence[str] = ()) -> list[PublishedClient]:
    """Return the clients of these names, in any case of their letters; without names all of them.

    Raises:
        LookupError: no client has one of the names. The text says which there are.
    """
    known = read_published_clients()
    wanted = {name.lower() for name in names}
    for name in names:
        if name.lower() not in {client.name.lower() for client in known}:
            every = ", ".join(dict.fromkeys(client.name for client in known))
            raise LookupError(f"No client is named {name!r}. There are: {every}.")
    return [client for client in known if not wanted or client.name.lower() in wanted]
