"""The gate of one server: its authenticators in order, and the refusal of whoever passes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django_mcp.auth.authenticators.base import Authenticator

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["Gate"]


class Gate:
    """Decides who a request comes from, by its headers alone.

    Attributes:
        server: whose gate it is.
        authenticators: asked in this order.
        is_public: whoever has no credentials may pass as nobody.
    """

    def __init__(
        self, server: MCPServer, authenticators: Sequence[Authenticator], *, is_public: bool
    ) -> None:
        self.server = server
        self.authenticators = tuple(authenticators)
        self.is_public = is_public

    @property
    def realm(self) -> str:
        """The server's name, for challenges."""
        return self.server.options.name

    @property
    def required_scopes(self) -> tuple[str, ...]:
        """Scopes that every token needs, whatever it is used for."""
        found = [scope for each in self.authenticators for scope in each.required_scopes]
        return tuple(dict.fromkeys(found))
