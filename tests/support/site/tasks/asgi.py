from django.core.asgi import get_asgi_application

from django_mcp.asgi import django_mcp_application

# As sites with Celery have it: what is queued here goes to this application's broker.
from tests.support.site.tasks import celery_app  # noqa: F401
from tests.support.site.tasks.spans import set_provider

set_provider()

application = django_mcp_application(get_asgi_application())
