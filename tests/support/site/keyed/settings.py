import os

from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import DJANGO_MCP, sqlite, to_console

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django_mcp",
]
ROOT_URLCONF = "tests.support.site.keyed.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES = sqlite(os.environ.get("AUTH_DATABASE", ":memory:"))
# Log everything, so that tests can look for leaked secrets.
LOGGING = to_console("DEBUG", "")
DJANGO_MCP = {
    **DJANGO_MCP,
    "NAME": "keyed",
    "MODE": "stateless",
    "AUTODISCOVER_MODULE": None,
    "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
}
