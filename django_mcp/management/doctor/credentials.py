"""Which credentials a server accepts, as advice for someone whose request had none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django_mcp.auth.authenticators import (
    APIKeyAuthenticator,
    Authenticator,
    BearerAuthenticator,
    SessionAuthenticator,
)
from django_mcp.management.shell.token import TOKEN_VARIABLE
from django_mcp.servers import MCPServer

_PLACE = f"the environment variable {TOKEN_VARIABLE}"
_FLOW = "Have the OAuth flow bring a token with --oauth --user NAME."


def advise(server: MCPServer | None) -> str:
    """Return how to give the command credentials that a server accepts.

    Args:
        server: None: the command does not know which one has the endpoint.
    """
    if server is None or server.gate is None:
        return f"Put a token into {_PLACE}. {_FLOW}"
    found = dict.fromkeys(_find_ways(server.gate.authenticators))
    if not found:
        return (
            "No authenticator of the server takes a token, and this command can send nothing else: "
            "try the endpoint with a client that has such credentials."
        )
    return " Or: ".join(found)


def _find_ways(authenticators: Sequence[Authenticator]) -> Iterator[str]:
    for each in authenticators:
        if isinstance(each, APIKeyAuthenticator):
            yield f"Create an API key in the admin, under API keys, and put it into {_PLACE}."
        elif each.is_of_this_site:
            yield _FLOW
        elif isinstance(each, BearerAuthenticator):
            issuers = ", ".join(each.authorization_servers) or "its authorization server"
            yield f"Put an access token of {issuers} into {_PLACE}."
        elif not isinstance(each, SessionAuthenticator):
            yield f"If {type(each).__name__} accepts bearer tokens, put one into {_PLACE}."
