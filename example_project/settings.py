"""A small shop on SQLite and the in-memory channel layer, for a developer's own machine."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_lazy as _

BASE_DIR = Path(__file__).resolve().parent

SECRET_KEY = "the-example-shop-has-no-secrets"
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "daphne",  # first: it makes runserver serve ASGI
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_mcp",
    "example_project.shop",
    "example_project.backoffice",
    "example_project.storefront",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
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
ROOT_URLCONF = "example_project.urls"
ASGI_APPLICATION = "example_project.asgi.application"
WSGI_APPLICATION = "example_project.wsgi.application"

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", BASE_DIR / "db.sqlite3"),
        # Tools write from several threads: wait for the lock, and take it when the transaction begins.
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
# The demo runs in one process, which counts its throttles in memory.
SILENCED_SYSTEM_CHECKS = ["django_mcp.W042"]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("de", _("German"))]
USE_TZ = True
LOGIN_URL = "/login/"
TIME_ZONE = "UTC"
STATIC_URL = "static/"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django_mcp": {"handlers": ["console"], "level": "INFO"}},
}

DJANGO_MCP: dict[str, Any] = {
    "NAME": "example-shop",
    "TITLE": _("The example shop"),
    "INSTRUCTIONS": (
        "Look products up with find_products before ordering: orders are placed by SKU. Tell guests "
        "the number of their order, by which alone they find it again. Prices are in euros."
    ),
    # Everybody who can reach this machine may call, as befits a demonstration.
    "PUBLIC": True,
    # Where the pages are that users are sent to; over stdio no request tells.
    "PUBLIC_URL": os.environ.get("SHOP_URL", "http://127.0.0.1:8000") or None,
    "RECORD_CALLS": True,  # for the charts in the admin
}

# SHOP_OAUTH=1: whoever calls has to be allowed to, by a customer, at a consent page.
OAUTH = os.environ.get("SHOP_OAUTH") == "1"
if OAUTH:
    if find_spec("oauth2_provider") is None:
        sys.exit("SHOP_OAUTH=1 needs django-oauth-toolkit: pip install -e '.[oauth]'")

    from django_mcp.contrib.oauth import oauth2_provider_settings

    INSTALLED_APPS += ["oauth2_provider", "django_mcp.contrib.oauth"]
    OAUTH2_PROVIDER = oauth2_provider_settings(
        {
            "shop": _("Look at products and at your orders"),
            "orders:write": _("Place and cancel orders in your name"),
        }
    )
    DJANGO_MCP["PUBLIC"] = False
    DJANGO_MCP["AUTHENTICATORS"] = ["django_mcp.contrib.oauth.OAuthAuthenticator"]
    DJANGO_MCP["OAUTH_BASE_SCOPES"] = ["shop"]
    DJANGO_MCP["SCOPES"] = ["shop"]  # of the tools that name none
