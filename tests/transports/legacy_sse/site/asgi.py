import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.transports.legacy_sse.site.settings")

from django_mcp.asgi import django_mcp_application

application = django_mcp_application(get_asgi_application())
