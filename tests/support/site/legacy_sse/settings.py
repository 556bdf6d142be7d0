import os

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_mcp"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "tests.support.site.legacy_sse.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Processes that name the same file are one site.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["LEGACY_SSE_DATABASE"],
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
DJANGO_MCP = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "PUBLIC": True,
    "LEGACY_SSE": True,
    "AUTODISCOVER_MODULE": None,
    "PUSH_BUS": os.environ.get("LEGACY_SSE_BUS", "auto"),
}
