"""Settings for the snippets of README and docs: an empty default server."""

from tests.settings import *  # noqa: F403  (a settings module is read by its names)

DJANGO_MCP = {"NAME": "docs", "AUTODISCOVER_MODULE": None, "PUBLIC": True}
