"""Settings of the site that the environment names."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.circle.sites import SITES

_apps, _more = SITES[os.environ["CIRCLE_SITE"]]

SECRET_KEY = "only-for-tests-of-the-circle"
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
LANGUAGE_CODE = "en"
SITE_ID = 1
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.flatpages",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.sites",
    "django.contrib.staticfiles",
    *_apps,
    "django_mcp",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "tests.circle.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
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
MEDIA_URL = "media/"
MEDIA_ROOT = os.environ.get("CIRCLE_MEDIA", "")
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DJANGO_MCP = {"NAME": "circle", "RECORD_CALLS": False, "SESSION_STORE": "memory"}
LOGGING_CONFIG = None


class _NoMigrations:
    """Has the tables made from the models, which takes a tenth of the time."""

    def __contains__(self, app: str) -> bool:
        return True

    def __getitem__(self, app: str) -> None:
        return None


MIGRATION_MODULES: Any = _NoMigrations()

if os.environ["CIRCLE_SITE"] == "oscar":
    _defaults = import_module("oscar.defaults")
    globals().update({name: value for name, value in vars(_defaults).items() if name.isupper()})
globals().update(_more)
if "sekizai" in INSTALLED_APPS:
    _processors: Any = TEMPLATES[0]["OPTIONS"]
    _processors["context_processors"].append("sekizai.context_processors.sekizai")
if "allauth.account" in INSTALLED_APPS:
    MIDDLEWARE.append("allauth.account.middleware.AccountMiddleware")
