from typing import Any, cast

from django.urls import path

from django_mcp.transports.http.view import make_view
from tests.support.http.scripted import ScriptedServer
from tests.support.site.http.tools import brisk, real

patient = ScriptedServer()
hasty = ScriptedServer(body_timeout_s=0.3, keepalive_s=0.1)

urlpatterns = [
    path("view", make_view(cast(Any, patient))),
    path("real-view", make_view(real)),
    path("brisk-view", make_view(brisk)),
    path("hasty-view", make_view(cast(Any, hasty))),
]
