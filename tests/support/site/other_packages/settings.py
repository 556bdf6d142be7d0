import os

SECRET_KEY = "only-for-tests-of-other-packages"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.sites",
    "rest_framework",
    "helpdesk",
    "push_notifications",
    "django_mcp",
    "tests.support.site.other_packages",
]
SITE_ID = 1
ROOT_URLCONF = "tests.support.site.other_packages.urls"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("TEST_DATABASE_FILE", ":memory:"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
SILENCED_SYSTEM_CHECKS = ["django_mcp.drf.I001"]  # attachments of tickets
# helpdesk
HELPDESK_ACTIVATE_API_ENDPOINT = True
HELPDESK_ENABLE_PER_QUEUE_STAFF_PERMISSION = True
HELPDESK_TEAMS_MODE_ENABLED = False
# push_notifications
PUSH_NOTIFICATIONS_SETTINGS: dict[str, object] = {}

DJANGO_MCP = {
    "NAME": "other packages",
    "STRICT": True,
    "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
}
