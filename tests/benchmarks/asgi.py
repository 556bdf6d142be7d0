"""The benchmark site under ASGI; BENCH_ROAD says who takes the endpoint: `consumer` or `view`."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from django_mcp.asgi import ASGIApp, django_mcp_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.benchmarks.settings")
application: ASGIApp = get_asgi_application()
if os.environ.get("BENCH_ROAD", "consumer") == "consumer":
    application = django_mcp_application(application)
