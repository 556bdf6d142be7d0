from typing import Any, cast

from django.urls import path

from django_mcp.transports.http.view import MCPView
from tests.support.http.scripted import ScriptedServer
from tests.support.site.http.tools import brisk, real

patient = ScriptedServer()
hasty = ScriptedServer(body_timeout_s=0.3, keepalive_s=0.1)

urlpatterns = [
    path("view", MCPView(cast("Any", patient))),
    path("real-view", MCPView(real)),
    path("brisk-view", MCPView(brisk)),
    path("hasty-view", MCPView(cast("Any", hasty))),
]
