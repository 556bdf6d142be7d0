"""The example shop with a few hostile tools, a strict Content-Security-Policy, and a database in a file."""

from example_project.settings import *  # noqa: F403  (a settings module is read by its names)
from example_project.settings import INSTALLED_APPS, LANGUAGES, MIDDLEWARE

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "daphne"] + ["tests.support.site.browser"]
MIDDLEWARE = ["tests.support.site.browser.middleware.StrictPolicy", *MIDDLEWARE]
TIME_ZONE = "UTC"
ROOT_URLCONF = "tests.support.site.browser.urls"
ASGI_APPLICATION = "tests.support.site.browser.asgi.application"
WSGI_APPLICATION = "tests.support.site.browser.wsgi.application"
LOGGING = {}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LANGUAGES += [("ar", LANGUAGES[0][1])]
STATIC_URL = "/static/"
DJANGO_MCP = {"NAME": "browser-site", "PUBLIC": True, "RECORD_CALLS": True, "ATOMIC": False}
