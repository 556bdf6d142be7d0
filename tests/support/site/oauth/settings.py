"""The example shop's settings under SHOP_OAUTH=1, with what tests need changed.

The variables TESTS_DJANGO_MCP and TESTS_OAUTH2_PROVIDER may hold further settings as JSON, and TESTS_SCRIPT_NAME the
prefix of the site.
"""

import json
import os

os.environ["SHOP_OAUTH"] = "1"
os.environ["SHOP_URL"] = os.environ.get("TESTS_SHOP_URL", "")

from example_project.settings import *  # noqa: F403  (read by its names)
from example_project.settings import DATABASES, DJANGO_MCP, INSTALLED_APPS, OAUTH2_PROVIDER
from tests.support.replica import routers, with_replica

DATABASES = with_replica(DATABASES)
DATABASE_ROUTERS = routers()
if DATABASE_ROUTERS:
    # Nobody could sign in by sessions that are read from a replica.
    SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
FORCE_SCRIPT_NAME = os.environ.get("TESTS_SCRIPT_NAME") or None
SECRET_KEY = "only-for-tests"
DEBUG = False
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "daphne"]
ROOT_URLCONF = "example_project.urls"
LOGGING = {}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DJANGO_MCP = {**DJANGO_MCP, **json.loads(os.environ.get("TESTS_DJANGO_MCP", "{}"))}
OAUTH2_PROVIDER = {
    **OAUTH2_PROVIDER,
    "CIMD_METADATA_FETCHER": "tests.support.oauth.local_documents.LocalFetcher",
    **json.loads(os.environ.get("TESTS_OAUTH2_PROVIDER", "{}")),
}
