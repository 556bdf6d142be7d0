"""Resources that change, and tools that send notifications about it."""

from __future__ import annotations

import os
from typing import Any

from django_mcp import Context, default_server, resource, tool
from tests.support.site.guarded.servers import SEE


@tool
def who(ctx: Context) -> str:
    """Tell who calls and which process answers."""
    return f"{ctx.user.get_username() or 'nobody'} {os.getpid()}"


@resource("counter://{name}")
def counter(name: str) -> str:
    return name


@resource("secret://{name}", permission=SEE)
def secret(name: str) -> str:
    return f"canary {name}"


@tool
async def update(uri: str, times: int = 1) -> int | None:
    """Tell that a resource was updated."""
    reached: int | None = None
    for _ in range(times):
        reached = await default_server.anotify_resource_updated(uri)
    return reached


@tool
async def tell(method: str, params: dict[str, Any]) -> int | None:
    """Send a notification of the site's own to all sessions."""
    return await default_server.anotify(method, params)


@tool
async def tell_mine(ctx: Context, method: str, params: dict[str, Any]) -> int | None:
    """Send a notification to the session of the call."""
    return await default_server.anotify(method, params, session=ctx.session_key)


@tool
async def lists_changed() -> int | None:
    """Tell that the list of tools is another."""
    return await default_server.anotify_list_changed("tools")


@tool
def count_users() -> int:
    """Ask the database."""
    from django.contrib.auth.models import User

    return User.objects.count()


@tool
def keep(ctx: Context, text: str) -> str:
    """Add to what the session keeps, and return all of it."""
    ctx.session["kept"] = [*ctx.session.get("kept", ()), text]
    return " ".join(ctx.session["kept"])
