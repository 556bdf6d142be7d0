import tempfile
from pathlib import Path

folder = tempfile.TemporaryDirectory(prefix="django_mcp_site_")  # gone with the process

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "mcp.example"]
INSTALLED_APPS: list[str] = []
# Without CommonMiddleware, which answers a foreign host itself before any view is asked.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
ROOT_URLCONF = "tests.support.site.http.urls"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "ATOMIC_REQUESTS": True,
    },
    # One that all threads of a process see.
    "shared": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(folder.name) / "shared.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    },
}
DJANGO_MCP = {
    # Most tools here touch no database; the others say so, or write with one statement.
    "ATOMIC": False,
    "ALLOWED_ORIGINS": ["https://pages.example"],
    "MODE": "stateless",
    "PUSH_BUS": "local",
    "SESSION_STORE": "memory",
}
