import os

SECRET_KEY = os.environ.get("TEST_SECRET_KEY", "only-for-tests-of-push")
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.support.site.push",
]
ROOT_URLCONF = "tests.support.site.push.urls"
ASGI_APPLICATION = "tests.support.site.asgi.application"
MIDDLEWARE: list[str] = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("TEST_DATABASE_FILE", ":memory:"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
DJANGO_MCP = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "NAME": "push",
    "PUBLIC": True,
    # Without credentials, clients are anonymous.
    "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
    "MAX_STREAMS_PER_PRINCIPAL": 5000,
}
if "TEST_SESSION_STORE" in os.environ:
    DJANGO_MCP["SESSION_STORE"] = os.environ["TEST_SESSION_STORE"]
if "TEST_PING_S" in os.environ:
    DJANGO_MCP["PING_INTERVAL_S"] = float(os.environ["TEST_PING_S"])
if "TEST_REDIS_URL" in os.environ:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": os.environ["TEST_LAYER"],
            "CONFIG": {"hosts": [os.environ["TEST_REDIS_URL"]], "prefix": "django-mcp-tests"},
        }
    }
