import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.fuzz.site.settings")

from django.core.asgi import get_asgi_application

from django_mcp.asgi import django_mcp_application
from tests.fuzz.meter import meter_server

application = django_mcp_application(get_asgi_application())
meter_server()
