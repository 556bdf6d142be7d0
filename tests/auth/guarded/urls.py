from django.urls import path

from tests.auth.guarded.mcp import server

urlpatterns = [path("", server.urls)]
