from asyncio import Event
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.urls import include, path

from django_mcp import Context, MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.extensions.apps import App
from example_project.shop.views import voucher_page
from tests.support.site.browser.hostile import SCRIPT

keyed = MCPServer("keyed", title="With a key", authenticators=[APIKeyAuthenticator()])


@keyed.tool(read_only=True)
def whisper(text: str) -> str:
    """Say something quietly."""
    return text.lower()


@keyed.tool(read_only=True)
def shout(text: str) -> str:
    """Say something loudly."""
    return text.upper()


@keyed.tool(read_only=True)
async def listen() -> str:
    """Never end."""
    await Event().wait()
    return ""


paged = MCPServer("paged", title="With pages", public=True)


@paged.tool(read_only=True, app=App(template="browser/sales.html", fragment="browser/_rows.html"))
def sales(month: str) -> dict[str, Any]:
    """Tell the sales of a month."""
    return {"month": month, "rows": [SCRIPT, "{{ 7 }}"]}


@paged.tool(read_only=True, visible_to="app", app=App(fragment="browser/_rows.html"))
def more(ctx: Context) -> dict[str, Any]:
    """Tell more."""
    return {"rows": [f"more for {ctx.user.get_username()}"]}


@paged.tool(read_only=True, visible_to="model")
def thoughts() -> dict[str, Any]:
    """Tell what is for the model alone."""
    return {}


@paged.tool(read_only=True)
async def ask(ctx: Context) -> dict[str, Any]:
    """Ask, which a page cannot answer."""
    await ctx.aelicit("Sure?", {"type": "object", "properties": {}})
    return {}


@paged.tool(visible_to="app")
def sell(ctx: Context) -> dict[str, Any]:
    """Sell something."""
    return {"seller": ctx.user.get_username()}


@paged.tool(read_only=True, app=App(template="browser/silent.html"))
def silent() -> dict[str, Any]:
    """Show a page that says nothing to its host."""
    return {}


large = MCPServer("large", title="With many tools", public=True)
for _at in range(300):
    large.register_tool(
        lambda: "",
        name=f"tool_{_at:03}",
        description="Return nothing.",
        toolset=f"set-{_at % 25}",
        read_only=True,
    )


urlpatterns = [
    path("", include("django_mcp.urls")),
    path("large/", large.urls),
    path("keyed/", keyed.urls),
    path("paged/", paged.urls),
    path("orders/<slug:number>/voucher/", voucher_page, name="voucher"),
    path("login/", LoginView.as_view(template_name="admin/login.html")),
    path("admin/", admin.site.urls),
    # Asked for by browsers of their own accord.
    path("favicon.ico", lambda request: HttpResponse(status=204)),
]
