import os

from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, sqlite

ROOT_URLCONF = "tests.support.site.legacy_sse.urls"
# Processes that name the same file are one site.
DATABASES = sqlite(os.environ["LEGACY_SSE_DATABASE"])
DJANGO_MCP = {
    **DJANGO_MCP,
    "PUBLIC": True,
    "LEGACY_SSE": True,
    "AUTODISCOVER_MODULE": None,
    "PUSH_BUS": os.environ.get("LEGACY_SSE_BUS", "auto"),
}
