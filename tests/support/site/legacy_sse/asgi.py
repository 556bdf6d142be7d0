import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.site.legacy_sse.settings")

from django_mcp.asgi import django_mcp_application

application = django_mcp_application(get_asgi_application())
