from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.urls import include, path

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from example_project.shop.views import voucher_page

keyed = MCPServer("keyed", title="With a key", authenticators=[APIKeyAuthenticator()])


@keyed.tool(read_only=True)
def whisper(text: str) -> str:
    """Say something quietly."""
    return text.lower()


@keyed.tool(read_only=True)
def shout(text: str) -> str:
    """Say something loudly."""
    return text.upper()


urlpatterns = [
    path("", include("django_mcp.urls")),
    path("keyed/", keyed.urls),
    path("orders/<slug:number>/voucher/", voucher_page, name="voucher"),
    path("login/", LoginView.as_view(template_name="admin/login.html")),
    path("admin/", admin.site.urls),
    # Asked for by browsers of their own accord.
    path("favicon.ico", lambda request: HttpResponse(status=204)),
]
