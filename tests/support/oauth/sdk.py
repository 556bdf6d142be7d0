"""The Python SDK's OAuth client, with a browser controlled by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from tests.support.oauth.browser import Browser

REDIRECT = "http://127.0.0.1:33418/callback"


class Storage:
    """Storage of a client between two runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class SDKClient:
    """One installation of a client: its storage, and the browser it opens."""

    def __init__(
        self, url: str, browser: Browser, *, client_metadata_url: str | None = None
    ) -> None:
        self.url = url
        self.browser = browser
        self.storage = Storage()
        self.visits: list[str] = []
        self._answer: dict[str, str] = {}
        self.provider = OAuthClientProvider(
            server_url=url,
            client_metadata=OAuthClientMetadata(
                client_name="The SDK of the tests",
                redirect_uris=[AnyUrl(REDIRECT)],
                grant_types=["authorization_code", "refresh_token"],
                token_endpoint_auth_method="none",
            ),
            storage=self.storage,
            redirect_handler=self._redirect,
            callback_handler=self._called_back,
            client_metadata_url=client_metadata_url,
        )

    async def _redirect(self, url: str) -> None:
        self.visits.append(url)
        self._answer = await anyio.to_thread.run_sync(self.browser.visit, url)

    async def _called_back(self) -> AuthorizationCodeResult:
        answer = self._answer
        return AuthorizationCodeResult(
            code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss")
        )

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ClientSession]:
        async with (
            httpx2.AsyncClient(auth=self.provider, timeout=30) as http,
            streamable_http_client(self.url, http_client=http) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            yield session

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return the result of calling a tool, from the handshake on."""
        async with self.session() as session:
            return await session.call_tool(name, arguments or {})
