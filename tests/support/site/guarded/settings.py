SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.support.site.guarded",
]
AUTHENTICATION_BACKENDS = ["tests.support.site.guarded.people.Backend"]
ROOT_URLCONF = "tests.support.site.guarded.urls"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DJANGO_MCP = {"SESSION_STORE": "memory"}
