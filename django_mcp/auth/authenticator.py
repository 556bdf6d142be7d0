"""What an authenticator is: it knows one kind of credentials, and tells whose they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.auth.principal import Principal
from django_mcp.handlers.threads import run_in_pool
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest

__all__ = ["Authenticator", "Rejection"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejection:
    """Refuse a request for its bad credentials.

    Attributes:
        reason: one sentence for the client's developer and the log; nothing of the credentials.
        error: the code of RFC 6750 section 3.1; None where no bearer token was presented.
        status: 401; 400 when the credentials cannot be read, 503 when nobody can check them now.
    """

    reason: str
    error: str | None = "invalid_token"
    status: int = 401


class Authenticator:
    """Knows one kind of credentials. A server asks its authenticators in order, on every request.

    Subclasses implement `authenticate`, with or without `async`; without, it runs in a thread.
    One object serves all requests at the same time.
    """

    kind: str = "custom"
    """Names the kind of credentials, in principals' keys and in `AuthInfo.authenticator`."""

    authorization_servers: tuple[str, ...] = ()
    """Issuers whose tokens are taken, for the metadata of the protected resource (RFC 9728)."""

    needs_authorization_server: bool = False
    """Whether clients get these credentials from an authorization server, which must then be named.

    A site with such an authenticator and without an authorization server for it does not start.
    """

    is_of_this_site: bool = False
    """Whether this site's own authorization server issues the tokens."""

    required_scopes: tuple[str, ...] = ()
    """Scopes that every token must have, told in the challenge."""

    def authenticate(self, exchange: Exchange) -> Any:
        """Return the `Principal`, a `Rejection`, or None when there are no credentials of this kind.

        Args:
            exchange: the request without its body, which has not been read.
        """
        raise NotImplementedError

    def find_authorization_servers(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the issuers whose tokens are taken; for one that is this site, by its own address.

        Args:
            request: what asks for the metadata, or is refused.
        """
        return self.authorization_servers

    def names_authorization_server(self) -> bool:
        """Return whether clients can learn where to get a token."""
        is_found_by_request = (
            type(self).find_authorization_servers is not Authenticator.find_authorization_servers
        )
        return is_found_by_request or bool(self.authorization_servers)

    def challenge(self, exchange: Exchange) -> str | None:
        """Return what to say in `WWW-Authenticate`, as a scheme with its parameters.

        `Bearer` alone stands for the server's one bearer challenge, with realm, scope and metadata.
        """
        return None

    def find_problems(self) -> list[str]:
        """Return what of the site keeps it from working, for the system checks; a sentence each."""
        return []

    async def find_ended(self, principals: Collection[Principal]) -> set[Principal]:
        """Return those of its principals whose credentials no longer hold.

        Called every few seconds for open streams and running calls, so it takes one query for all. The
        default is `find_withdrawn`. Override it if credentials can end earlier than their user.
        """
        return await self.find_withdrawn(principals)

    async def find_withdrawn(self, principals: Collection[Principal]) -> set[Principal]:
        """Return those of its principals who may not act any more, with whichever credentials.

        Asked every few seconds for running tasks, which outlive the tokens they were begun with,
        perhaps in a process that knows a principal by its key and `auth` alone. The default looks
        for deactivated users. Override it if credentials can be revoked.
        """
        from django_mcp.auth.users import find_without_active_user

        return await run_in_pool(partial(find_without_active_user, principals))
