"""The fixtures site's URLs: the endpoint alone."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("", include("django_mcp.urls"))]
