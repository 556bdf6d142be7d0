"""The default server's URLs: `path("", include("django_mcp.urls"))` serves it at `/mcp`.

They include the documents that clients request at the root, for all servers; with
`django_mcp.contrib.oauth` installed, the pages of OAuth as well. django-oauth-toolkit needs its own
namespace at the root, so each part has a namespace and the module has none.
"""

from __future__ import annotations

from django.urls import include, path

from django_mcp.endpoints.well_known import patterns
from django_mcp.servers import default_server

urlpatterns = [
    path("", include((default_server.urls[0], "django_mcp"))),
    *patterns(),
]
