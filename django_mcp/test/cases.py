"""Test cases with clients, like Django's own."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, TypeVar
from unittest import TestResult

from django.test import TestCase, TransactionTestCase

from django_mcp.calls.recorder import forget_calls
from django_mcp.servers import MCPServer
from django_mcp.sessions.site.writer import forget_sessions
from django_mcp.test.client import AsyncMCPClient, MCPClient
from django_mcp.test.conversation import BaseClient

Client = TypeVar("Client", bound=BaseClient)


def _forget_queued() -> None:
    forget_calls()
    forget_sessions()


class WithClients:
    """Creates the clients of a test on first use.

    Attributes:
        mcp_server: the server that they call; None: the default server.
        mcp_path: the path of the server in the URLconf, instead.
        mcp_revision: the protocol revision that they use; None: the newest.
        mcp_reruns: see `MCPClient`.
    """

    mcp_server: ClassVar[MCPServer | None] = None
    mcp_path: ClassVar[str | None] = None
    mcp_revision: ClassVar[str | None] = None
    mcp_reruns: ClassVar[bool] = False

    @cached_property
    def mcp(self) -> MCPClient:
        return self._watch(MCPClient(**self._options()))

    @cached_property
    def async_mcp(self) -> AsyncMCPClient:
        return self._watch(AsyncMCPClient(**self._options()))

    def _watch(self, client: Client) -> Client:
        self._watched.append(client)
        return client

    @cached_property
    def _watched(self) -> list[BaseClient]:
        return []

    def doCleanups(self) -> Any:  # noqa: N802 - the name that unittest has
        """Do the clean-ups, and report what the test has not noticed, unless it failed anyway."""
        if getattr(getattr(self, "_outcome", None), "success", True):
            for client in self._watched:
                self.addCleanup(client.report_unnoticed)  # type: ignore[attr-defined]
        return super().doCleanups()  # type: ignore[misc]

    def run(self, result: TestResult | None = None) -> TestResult | None:
        """Run the test. Calls and changes of sessions that wait to be written are not for the next."""
        _forget_queued()
        try:
            return super().run(result)  # type: ignore[misc,no-any-return]
        finally:
            # What is left at the end of the process would be written to the site's own database.
            _forget_queued()

    def _options(self) -> dict[str, Any]:
        return {
            "server": self.mcp_server,
            "path": self.mcp_path,
            "revision": self.mcp_revision,
            "reruns": self.mcp_reruns,
        }


class MCPTestCase(WithClients, TestCase):
    """Django's `TestCase` with `self.mcp` and `self.async_mcp`, see `WithClients`."""


class MCPTransactionTestCase(WithClients, TransactionTestCase):
    """Django's `TransactionTestCase` with `self.mcp` and `self.async_mcp`, see `WithClients`."""
