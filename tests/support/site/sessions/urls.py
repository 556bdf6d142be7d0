"""The endpoint, and a view that changes something outside of any call."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from django_mcp import default_server
from tests.support.site.sessions import changing, holding, questions, working

__all__ = ["changing", "holding", "questions", "urlpatterns", "working"]


def touch(request: HttpRequest, name: str) -> HttpResponse:
    reached = default_server.notify_resource_updated(f"counter://{name}")
    return HttpResponse(str(reached))


urlpatterns = [path("", include("django_mcp.urls")), path("touch/<name>", touch)]
