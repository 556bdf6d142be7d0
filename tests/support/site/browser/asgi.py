import os

from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from django_mcp.asgi import django_mcp_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.site.browser.settings")
application = django_mcp_application(ASGIStaticFilesHandler(get_asgi_application()))
