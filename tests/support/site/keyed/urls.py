from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.urls import include, path
from django.utils import timezone

from django_mcp import Context, MCPServer, default_server
from django_mcp.models.keys import APIKey

control = MCPServer("control", public=True)
closed = MCPServer("closed")


@default_server.tool
def who_in_thread(ctx: Context) -> str:
    return str(ctx.user)


@default_server.tool(toolset="people")
async def who(ctx: Context) -> str:
    return str(ctx.user)


@default_server.tool
def request_as_seen(ctx: Context, request: HttpRequest) -> dict[str, Any]:
    """Return everything that a handler can see of the request."""
    exchange = ctx._call.exchange
    assert exchange.headers is not None
    return {
        "meta": repr(request.META),
        "headers": repr(dict(request.headers)),
        "scope": repr(getattr(request, "scope", None)),
        "environ": repr(getattr(request, "environ", None)),
        "cookies": repr(request.COOKIES),
        "exchange": repr([exchange.headers.get(name) for name in exchange.headers.names()]),
        "auth": repr(ctx.auth),
        "principal": repr([getattr(ctx.principal, name) for name in ("key", "handle")]),
    }


@control.tool
def deactivate(username: str) -> str:
    get_user_model().objects.filter(username=username).update(is_active=False)
    return "done"


@control.tool
def revoke(prefix: str) -> str:
    APIKey.objects.filter(prefix=prefix).update(revoked_at=timezone.now())
    return "done"


@control.tool
def make_key(username: str) -> str:
    user, _ = get_user_model().objects.get_or_create(username=username)
    return APIKey.objects.issue(user=user, name="a test's")[1]


@control.tool
def last_used(prefix: str) -> str:
    return str(APIKey.objects.get(prefix=prefix).last_used_at or "never")


LIMITS: dict[str, dict[str, Any]] = {
    "principal": {"throttle": {"principal": "2/d"}},
    "address": {"throttle": {"address": "2/d"}},
    "failures": {"throttle": {"failures": "2/d"}},
    "tool": {},
}


def make_limited(name: str) -> MCPServer:
    server = MCPServer(
        f"limited by {name}",
        public=True,
        authenticators=["django_mcp.auth.authenticators.APIKeyAuthenticator"],
        **LIMITS[name],
    )
    server.tool(name="who", throttle="2/d" if name == "tool" else None)(lambda: "seen")
    return server


urlpatterns = [
    *(path(f"{name}/", make_limited(name).urls) for name in LIMITS),
    path("", include("django_mcp.urls")),
    path("control/", control.urls),
    path("closed/", closed.urls),
]
