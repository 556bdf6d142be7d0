"""The base class of authenticators: each finds the principal of one kind of credentials."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.auth.principal import Principal
from django_mcp.auth.reasking import Reasker
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest


class Authenticator:
    """Authenticates by one kind of credentials. A server asks its authenticators in order.

    Subclasses implement `authenticate`, with or without `async`; without, it runs in a thread.
    One object serves all requests at the same time.
    """

    kind: str = "custom"
    """Names the kind of credentials, in principals' keys and in `AuthInfo.authenticator`."""

    authorization_servers: tuple[str, ...] = ()
    """Issuers whose tokens are accepted, for the metadata of the protected resource (RFC 9728)."""

    needs_authorization_server: bool = False
    """Whether clients get these credentials from an authorization server.

    A site with such an authenticator and without an authorization server for it does not start.
    """

    is_of_this_site: bool = False
    """Whether this site's own authorization server issues the tokens."""

    required_scopes: tuple[str, ...] = ()
    """Scopes that every token must have; the challenge names them."""

    _reasker: Reasker | None = None
    """Checks the credentials of open streams one by one, if no query can check all at once."""

    def authenticate(self, exchange: Exchange) -> Any:
        """Return the `Principal`, a `Rejection`, or None when there are no credentials of this kind.

        Args:
            exchange: the request without its body, which has not been read.
        """
        raise NotImplementedError

    def find_authorization_servers(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the issuers whose tokens are accepted; this site is named by its own address.

        Args:
            request: the request for the metadata, or the one that is refused.
        """
        return self.authorization_servers

    def names_authorization_server(self) -> bool:
        """Return whether clients can find out where to get a token."""
        is_found_by_request = (
            type(self).find_authorization_servers is not Authenticator.find_authorization_servers
        )
        return is_found_by_request or bool(self.authorization_servers)

    def challenge(self, exchange: Exchange) -> str | None:
        """Return a challenge for `WWW-Authenticate`: a scheme with its parameters.

        `Bearer` alone stands for the server's bearer challenge, with realm, scope and metadata.
        """
        return None

    def find_problems(self) -> list[str]:
        """Return problems of the site's configuration for the system checks; a sentence each."""
        return []

    async def find_ended(
        self, principals: Collection[Principal], *, for_tasks: bool = False
    ) -> set[Principal]:
        """Return those of its principals whose credentials no longer hold.

        Called every few seconds for open streams, running calls and tasks, so it takes one query for
        all. The default finds deactivated users, and what the `_reasker` finds. Override it if
        credentials can end earlier than their user.

        Args:
            for_tasks: these are principals of tasks, which outlive the tokens they began with. Return
                only those that may not act any more with any credentials. The process may know a
                principal by its key and `auth` alone.
        """
        from django_mcp.auth.users import find_without_active_user

        ended = await run_in_pool(partial(find_without_active_user, principals))
        if self._reasker is not None and not for_tasks:
            ended |= await self._reasker.find_ended(principals)
        return ended
