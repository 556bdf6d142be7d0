from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.site.sessions.settings")
django_application = get_asgi_application()

from django_mcp.asgi import django_mcp_application  # noqa: E402

application = django_mcp_application(django_application)
