import os

from django.core.asgi import get_asgi_application

from django_mcp.asgi import django_mcp_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
application = django_mcp_application(get_asgi_application())
