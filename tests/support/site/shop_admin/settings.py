"""The settings of the shop with OAuth on, for several processes."""

from tests.support.site.oauth.settings import *  # noqa: F403  (read by its names)
from tests.support.site.oauth.settings import DATABASES, DJANGO_MCP, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.shop_admin"]
ASGI_APPLICATION = "tests.support.site.asgi.application"
DJANGO_MCP = {**DJANGO_MCP, "PUBLIC": True, "SCOPES": ()}
# As many sites have it: what is done by another thread must not wait for the request's transaction.
DATABASES = {
    "default": {
        **DATABASES["default"],
        "ATOMIC_REQUESTS": True,
        "OPTIONS": {"timeout": 5, "transaction_mode": "IMMEDIATE"},
    }
}
