import os
from typing import Any, cast

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.site.http.settings")
django_application = get_asgi_application()

from django_mcp.transports.http.consumer import MCPConsumer  # noqa: E402
from tests.support.site.http.tools import brisk, flood, real  # noqa: E402
from tests.support.site.http.urls import hasty, patient  # noqa: E402

routes: Any = [
    path("mcp", cast("Any", MCPConsumer.as_asgi(server=patient))),
    path("real", cast("Any", MCPConsumer.as_asgi(server=real))),
    path("flood", cast("Any", MCPConsumer.as_asgi(server=flood))),
    path("brisk", cast("Any", MCPConsumer.as_asgi(server=brisk))),
    path("hasty", cast("Any", MCPConsumer.as_asgi(server=hasty))),
    re_path("", cast("Any", django_application)),
]
application = ProtocolTypeRouter({"http": URLRouter(routes)})
