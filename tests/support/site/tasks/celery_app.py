"""The Celery application of the site: `python -m celery -A tests.support.site.tasks.celery_app worker`."""

import os

from celery import Celery
from celery.signals import worker_process_init

from tests.support.site.tasks.spans import set_provider

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.site.tasks.settings")

app = Celery("tests.support.site.tasks", broker=os.environ.get("TASKS_BROKER", "memory://"))
# Others use the same Redis.
app.conf.task_default_queue = os.environ.get("TASKS_QUEUE", "django-mcp-tests")
app.conf.imports = ["django_mcp.extensions.tasks.celery"]
app.conf.broker_connection_retry_on_startup = True
worker_process_init.connect(set_provider)
