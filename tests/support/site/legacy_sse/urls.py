import asyncio
import logging
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import include, path
from django.utils.translation import get_language

from django_mcp import Context, MCPServer, tool
from django_mcp.endpoints.urlconf import legacy_patterns_of

alone = MCPServer("alone", public=True)


@dataclass
class Confirmation:
    sure: bool


@tool(toolset="voice")
def echo(text: str) -> str:
    return text


@tool
def surroundings(request: HttpRequest) -> str:
    return f"{request.method} {get_language()}"


@tool
async def stay() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        logging.getLogger("django_mcp").warning("stay was cancelled")
        raise
    return ""


@tool
async def confirm(ctx: Context) -> str:
    await ctx.aprogress(1, 2)
    # The client of this transport may speak any revision with a handshake.
    answer = await ctx.aelicit("Sure?", Confirmation)
    return answer.action


@alone.tool(toolset="voice", read_only=True)
def whisper() -> str:
    return "alone"


@alone.tool(toolset="messages")
def shout() -> str:
    return "alone"


urlpatterns = [
    path("", include("django_mcp.urls")),
    path("old/", include((legacy_patterns_of(alone), "old"))),
    path("of/<str:tenant>/", include((legacy_patterns_of(alone), "tenants"))),
]
