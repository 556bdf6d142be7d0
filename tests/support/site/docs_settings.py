"""Settings for the snippets of README and docs: a default server on which nothing stands yet."""

from tests.settings import *  # noqa: F403  (a settings module is read by its names)

DJANGO_MCP = {"NAME": "docs", "AUTODISCOVER_MODULE": None, "PUBLIC": True}
