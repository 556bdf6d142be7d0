"""The engine of a site's server: its authentication, and what runs around each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from django_mcp.auth.authentication import Authentication, load_authenticators
from django_mcp.auth.authenticator import Authenticator
from django_mcp.conf import settings
from django_mcp.execution.threads import answer_with_loan
from django_mcp.middleware import GetReply, load_middleware
from django_mcp.registry.registry import Registry
from django_mcp.server.engine import Engine
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.extension import Extension
from django_mcp.server.options import Options
from django_mcp.server.ports import Ports

AUTHENTICATION_KEYWORDS = ("public", "authenticators")
"""Keywords of `MCPServer` for access to a server, which are no `Options`."""


class AuthenticationSettings:
    """Who may call a server: what was given to it, else the settings of `DJANGO_MCP` for the default one.

    Authenticators are loaded when they are first needed.
    """

    def __init__(self, given_name: str | None, given: Mapping[str, Any]) -> None:
        options: dict[str, Any] = {"public": False, "authenticators": ()}
        if given_name is None:
            options = {
                keyword: getattr(settings, keyword.upper()) for keyword in AUTHENTICATION_KEYWORDS
            }
        self._found = {**options, **given}
        self.is_public: bool = self._found["public"]
        self.remedy = (
            "Set DJANGO_MCP['AUTHENTICATORS'] to say who may call it, or DJANGO_MCP['PUBLIC'] "
            "to True if everybody may."
            if given_name is None
            else f"Give MCPServer({given_name!r}) authenticators=[...] to say who may call it, "
            "or public=True if everybody may."
        )

    @cached_property
    def authenticators(self) -> tuple[Authenticator, ...]:
        """The authenticators, in the order in which they are asked."""
        return tuple(load_authenticators(self._found["authenticators"]))


class SiteEngine(Engine):
    """The engine of a server of a Django site."""

    def __init__(
        self,
        ports: Ports,
        registry: Registry,
        options: Options,
        extensions: Sequence[Extension],
        authentication: AuthenticationSettings,
        middleware: Sequence[str],
    ) -> None:
        super().__init__(ports, registry, options, extensions)
        self._settings = authentication
        self._middleware = middleware

    @cached_property
    def authentication(self) -> Authentication | None:
        """The authentication of requests over HTTP; None: all requests are anonymous."""
        given = self._settings
        if given.is_public and not given.authenticators:
            return None
        return Authentication(
            self, given.authenticators, is_public=given.is_public, remedy=given.remedy
        )

    @cached_property
    def authenticate(self) -> Callable[[Exchange], Awaitable[Reply | None]] | None:
        """Authenticates a request before its body is read; None: all requests are anonymous."""
        if self.authentication is None:
            return None
        authenticate, instrument = self.authentication.authenticate, self.ports.instrument
        if instrument is None:
            return authenticate
        return instrument.watch_authentication(self, authenticate)

    @property
    def is_public(self) -> bool:
        """Whether all callers are served alike, so that responses may be shared."""
        authentication = self.authentication
        return authentication is None or authentication.is_public

    @cached_property
    def _get_reply(self) -> GetReply:
        return load_middleware(self._middleware, self._load_answer())

    def answer(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Return the reply to one POST, or one line, inside of `DJANGO_MCP["MIDDLEWARE"]`."""
        if "_get_reply" not in self.__dict__:
            # Loads `django.db`, which importing a server must not.
            from django_mcp.serving import find_serving_app

            app = find_serving_app()
            if app is not None:
                # With the view alone, this package runs nothing before the first request.
                app.prepare(is_http=exchange.headers is not None)
        return answer_with_loan(self._get_reply, exchange)

    @cached_property
    def _run_step(self) -> GetReply:
        return load_middleware(self._middleware, _run_own_step)

    def within_middleware(
        self, step: Callable[[Exchange], Awaitable[Reply]], exchange: Exchange
    ) -> Coroutine[Any, Any, Reply]:
        """See `Engine.within_middleware`."""
        exchange.step = step
        return self._run_step(exchange)

    def open_stream(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """See `Engine.open_stream`."""
        return answer_with_loan(partial(self.within_middleware, super().open_stream), exchange)

    def end_session(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """See `Engine.end_session`."""
        return answer_with_loan(partial(self.within_middleware, super().end_session), exchange)


async def _run_own_step(exchange: Exchange) -> Reply:
    """Run the step of an exchange, inside of all middleware."""
    if exchange.step is None:
        raise RuntimeError("An exchange that is no answer has no step.")
    return await exchange.step(exchange)
