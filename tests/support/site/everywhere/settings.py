"""Settings from the environment, as `tests.support.backends` makes it."""

from __future__ import annotations

from django_mcp.contrib.drf import DRFAuthenticator
from django_mcp.contrib.oauth import oauth2_provider_settings
from tests.support.backends import channel_layers, databases
from tests.support.replica import routers, with_replica
from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, to_console

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
    "rest_framework",
    "rest_framework.authtoken",
    "django_mcp",
    "django_mcp.contrib.oauth",
    "tests.support.site.everywhere",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
# Nobody signs in here.
SILENCED_SYSTEM_CHECKS = ["django_mcp.O019"]
ROOT_URLCONF = "tests.support.site.everywhere.urls"
DATABASES = with_replica(databases())
DATABASE_ROUTERS = routers()
CHANNEL_LAYERS = channel_layers()
LOGGING = to_console("INFO")
DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "everywhere",
    # Where tokens are for, whichever process they are used at.
    "PUBLIC_URL": "http://localhost",
    "AUTHENTICATORS": [
        "django_mcp.auth.authenticators.APIKeyAuthenticator",
        "django_mcp.auth.authenticators.SessionAuthenticator",
        "django_mcp.contrib.oauth.OAuthAuthenticator",
        DRFAuthenticator("rest_framework.authentication.TokenAuthentication"),
    ],
}
OAUTH2_PROVIDER = oauth2_provider_settings()
