"""The form in which each client is told that a tool needs scopes, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient
from django.urls import include, path

from django_mcp import MCPServer
from django_mcp.auth.authenticators import BearerAuthenticator
from django_mcp.auth.principal import AuthInfo, Principal
from tests.support.wire import META, V2025_11_25, V2026_07_28, headers_for, message

ISSUER = "https://issuer.example"


class Tokens(BearerAuthenticator):
    """Takes every token as a list of its scopes."""

    kind = "tests"
    authorization_servers = (ISSUER,)

    async def verify(self, token: str, exchange: Any) -> Principal:
        scopes = frozenset(token.split("+"))
        info = AuthInfo(subject="ann", authenticator="tests", scopes=scopes)
        return Principal(key="token:ann", auth=info, source=self)


def make(name: str, **options: Any) -> MCPServer:
    server = MCPServer(name, authenticators=[Tokens()], public=True, **options)

    @server.tool(scopes=["orders", "mail"], meta={"x": 1})
    def order() -> str:
        return "ordered"

    @server.tool(read_only=True)
    def look() -> str:
        return "seen"

    server.prompt(name="p", scopes=["orders"])(lambda: "text")
    return server


SERVERS = {
    "auto": make("forms-auto"),
    "http": make("forms-http", auth_challenge="http"),
    "tool_result": make("forms-result", auth_challenge="tool_result"),
}
urlpatterns = [
    path("", include("django_mcp.urls")),
    *(path(f"{form}/", server.urls) for form, server in SERVERS.items()),
]

CHATGPT: list[dict[str, Any]] = [
    {"client": "openai-mcp"},
    {"client": "ChatGPT"},
    {"agent": "openai-mcp/1.0.0 (ChatGPT)"},
]
OTHERS: list[dict[str, Any]] = [
    {},
    {"client": "claude-ai", "agent": "Claude-User"},
    {"client": "Visual Studio Code"},
    {"client": 7},
    {"agent": "python-httpx/1"},
]


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__


async def send(
    form: str,
    method: str = "tools/call",
    params: dict[str, Any] | None = None,
    *,
    token: str = "",
    client: Any = None,
    agent: str = "",
) -> Any:
    info = {} if client is None else {META + "clientInfo": {"name": client, "version": "1"}}
    params = {"name": "order", **(params or {}), "_meta": info}
    request = message(method, params, revision=V2026_07_28)
    headers = {**headers_for(request, V2026_07_28), "User-Agent": agent}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return await post(AsyncClient(), f"/{form}/mcp", request, headers)


async def post(client: AsyncClient, url: str, request: Any, headers: dict[str, str]) -> Any:
    kind = headers.pop("content-type")
    return await client.post(url, request, content_type=kind, headers=headers)


@pytest.mark.parametrize("who", CHATGPT, ids=str)
@pytest.mark.parametrize("token", ["", "orders"])
async def test_chatgpt_gets_a_result_with_the_challenge(who: dict[str, Any], token: str):
    response = await send("auto", token=token, **who)

    result = response.json()["result"]
    assert response.status_code == 200
    assert result["isError"] is True
    assert "orders mail" in result["content"][0]["text"]
    (challenge,) = result["_meta"]["mcp/www_authenticate"]
    refused = await send("http", token=token)
    assert challenge.startswith("Bearer ")
    assert challenge.replace("auto", "http") == refused["www-authenticate"]


@pytest.mark.parametrize("who", OTHERS, ids=str)
@pytest.mark.parametrize(("token", "status"), [("", 401), ("orders", 403)])
async def test_others_get_the_status(who: dict[str, Any], token: str, status: int):
    response = await send("auto", token=token, **who)

    assert response.status_code == status
    assert 'scope="orders mail"' in response["www-authenticate"]
    assert "result" not in response.json()


@pytest.mark.parametrize("who", [*CHATGPT, *OTHERS], ids=str)
async def test_a_site_can_choose_one_form_for_all(who: dict[str, Any]):
    assert (await send("http", **who)).status_code == 401
    result = (await send("tool_result", **who)).json()["result"]
    assert result["_meta"]["mcp/www_authenticate"]


@pytest.mark.parametrize("form", SERVERS)
async def test_a_token_with_the_scopes_is_enough_in_every_form(form: str):
    response = await send(form, token="orders+mail", client="openai-mcp")

    assert response.json()["result"]["content"][0]["text"] == "ordered"


@pytest.mark.parametrize("form", SERVERS)
async def test_what_has_no_result_for_it_keeps_the_status(form: str):
    response = await send(form, "prompts/get", {"name": "p"}, client="openai-mcp")

    assert response.status_code == 401
    assert response["www-authenticate"]


@pytest.mark.django_db(transaction=True)
async def test_the_session_tells_the_client_of_revisions_with_a_handshake():
    client = AsyncClient()

    async def ask(method: str, params: dict[str, Any], session: str = "") -> Any:
        request = message(method, params, revision=V2025_11_25)
        headers = headers_for(request, V2025_11_25) | (
            {"Mcp-Session-Id": session} if session else {}
        )
        return await post(client, "/auto/mcp", request, headers)

    hello = {
        "protocolVersion": V2025_11_25.name,
        "capabilities": {},
        "clientInfo": {"name": "openai-mcp", "version": "1.0.0"},
    }
    session = (await ask("initialize", hello))["mcp-session-id"]
    result = (await ask("tools/call", {"name": "order"}, session)).json()["result"]

    assert result["isError"] is True
    assert result["_meta"]["mcp/www_authenticate"]


@pytest.mark.parametrize("token", ["", "orders+mail"])
async def test_tools_with_scopes_say_so(token: str):
    tools = (await send("auto", "tools/list", token=token)).json()["result"]["tools"]

    look, order = sorted(tools, key=lambda tool: str(tool["name"]))
    schemes = [{"type": "oauth2", "scopes": ["orders", "mail"]}]
    assert order["securitySchemes"] == schemes
    assert order["_meta"] == {"securitySchemes": schemes, "x": 1}
    assert "securitySchemes" not in look
    assert "_meta" not in look
