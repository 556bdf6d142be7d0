"""The stores for a server's sessions, created on first use, since they load models."""

from __future__ import annotations

from django_mcp.conf import settings
from django_mcp.execution.threads import run_in_pool
from django_mcp.server.server import MCPServer
from django_mcp.server.services.ports import AnswerBox, EventLog, SessionStore


class KeepsSessions(MCPServer):
    """A server whose `sessions`, `answers` and `events` are what `SESSION_STORE` says."""

    def _make_sessions(self) -> SessionStore:
        if settings.SESSION_STORE != "model":
            return super()._make_sessions()
        from django_mcp.sessions.store import DatabaseSessions

        return DatabaseSessions(
            lambda: self.name, lambda: self.hub, lambda: self.options, closed=self._session_closed
        )

    def _make_answers(self) -> AnswerBox:
        if settings.SESSION_STORE != "model":
            return super()._make_answers()
        from django_mcp.sessions.answers import DatabaseAnswers

        return DatabaseAnswers()

    def _make_events(self) -> EventLog:
        if settings.SESSION_STORE != "model":
            return super()._make_events()
        from django_mcp.sessions.events import DatabaseEvents

        return DatabaseEvents()

    async def _is_subscribed_elsewhere(self, uri: str) -> bool:
        if settings.SESSION_STORE != "model":
            return False
        from django_mcp.sessions.rows import is_any_subscribed

        return await run_in_pool(lambda: is_any_subscribed(self.name, uri))
