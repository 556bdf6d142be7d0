"""Check the installed package in an environment that has nothing but its runtime dependencies.

    python tests/support/installed.py SOURCE

SOURCE is the package's folder in the repository: every file in it has to be installed as well. Run
from a folder without the source, so that the installed package is the one that is found.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import django
from django.conf import settings

import django_mcp

EXTRAS = {
    "celery",
    "django_filters",
    "django_tasks",
    "drf_spectacular",
    "jwcrypto",
    "ninja",
    "oauth2_provider",
    "oauthlib",
    "opentelemetry",
    "pydantic",
    "rest_framework",
}

IMPORTABLE_WITHOUT_EXTRA = {"django_mcp.contrib.drf", "django_mcp.contrib.ninja"}
"""Settings and `mcp.py` files import these, and learn about the missing extra from a message."""

source, installed = Path(sys.argv[1]), Path(django_mcp.__file__).parent
if source.resolve() == installed.resolve():
    sys.exit("this is the source, not the installed package")
files = {file.relative_to(source) for file in source.rglob("*") if file.is_file()}
missing = [file for file in files if not (installed / file).exists() and file.suffix != ".pyc"]
if missing:
    sys.exit(f"not installed: {sorted(map(str, missing))}")

NEEDS_AN_EXTRA = {"django_mcp.pytest_plugin"}

settings.configure(
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "django_mcp",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    ROOT_URLCONF="django_mcp.urls",
)
django.setup()
for module in pkgutil.walk_packages(django_mcp.__path__, "django_mcp."):
    if module.name in NEEDS_AN_EXTRA:
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        extra = (error.name or "").split(".")[0] in EXTRAS
        if not extra or module.name in IMPORTABLE_WITHOUT_EXTRA:
            raise
print(f"{len(files)} files installed; every module imports without the extras")
