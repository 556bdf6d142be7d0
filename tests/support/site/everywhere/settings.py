"""Settings from the environment, as `tests.support.backends` makes it."""

from __future__ import annotations

from django_mcp.contrib.drf import DRFAuthenticator
from django_mcp.contrib.oauth import oauth2_provider_settings
from tests.support.backends import channel_layers, databases

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
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
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = databases()
CHANNEL_LAYERS = channel_layers()
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django_mcp": {"handlers": ["console"], "level": "INFO"}},
}
DJANGO_MCP = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
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
