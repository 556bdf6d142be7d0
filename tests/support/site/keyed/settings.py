import os

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django_mcp",
]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "tests.support.site.keyed.urls"
USE_TZ = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("AUTH_DATABASE", ":memory:"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Log everything, so that tests can look for leaked secrets.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "DEBUG"},
}
DJANGO_MCP = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "NAME": "keyed",
    "MODE": "stateless",
    "AUTODISCOVER_MODULE": None,
    "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
}
