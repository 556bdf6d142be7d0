"""The default server's URLs: `path("", include("django_mcp.urls"))` serves it at `/mcp`."""

from __future__ import annotations

from django_mcp.mounting import patterns_of
from django_mcp.servers import default_server

app_name = "django_mcp"
urlpatterns = patterns_of(default_server)
