"""Any of the sites as an ASGI application: DJANGO_SETTINGS_MODULE says which."""

from django.core.asgi import get_asgi_application

from django_mcp.asgi import django_mcp_application

application = django_mcp_application(get_asgi_application())
