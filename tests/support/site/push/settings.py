import os

from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, INSTALLED_APPS, sqlite

SECRET_KEY = os.environ.get("TEST_SECRET_KEY", "only-for-tests-of-push")
INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.push"]
ROOT_URLCONF = "tests.support.site.push.urls"
ASGI_APPLICATION = "tests.support.site.asgi.application"
DATABASES = sqlite(os.environ.get("TEST_DATABASE_FILE", ":memory:"))
DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "push",
    "PUBLIC": True,
    # Without credentials, clients are anonymous.
    "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
    "MAX_STREAMS_PER_PRINCIPAL": 5000,
}
if "TEST_SESSION_STORE" in os.environ:
    DJANGO_MCP["SESSION_STORE"] = os.environ["TEST_SESSION_STORE"]
if "TEST_PING_S" in os.environ:
    DJANGO_MCP["PING_INTERVAL_S"] = float(os.environ["TEST_PING_S"])
if "TEST_REDIS_URL" in os.environ:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": os.environ["TEST_LAYER"],
            "CONFIG": {"hosts": [os.environ["TEST_REDIS_URL"]], "prefix": "django-mcp-tests"},
        }
    }
