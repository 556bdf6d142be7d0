"""The README's settings for SQLite, with API keys; SITE_OPTIONS is more of `DJANGO_MCP`, as JSON."""

import json
import os

from tests.support.backends import channel_layers, databases
from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import to_console

DATABASES = databases()
DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("SITE_CONN_MAX_AGE", "0"))
CHANNEL_LAYERS = channel_layers()
ROOT_URLCONF = "tests.support.site.locked.urls"
LOGGING = to_console("WARNING")
DJANGO_MCP = {
    "NAME": "locked",
    "AUTODISCOVER_MODULE": None,
    "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
    **json.loads(os.environ.get("SITE_OPTIONS", "{}")),
}
