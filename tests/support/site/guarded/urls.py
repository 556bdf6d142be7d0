from django.urls import path

from tests.support.site.guarded.mcp import server

urlpatterns = [path("", server.urls)]
