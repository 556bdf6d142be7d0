from tests.support.site.defaults import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.defaults import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.guarded"]
AUTHENTICATION_BACKENDS = ["tests.support.site.guarded.people.Backend"]
ROOT_URLCONF = "tests.support.site.guarded.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DJANGO_MCP = {"SESSION_STORE": "memory"}
