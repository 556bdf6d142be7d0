"""A Django project in a folder of its own, as `startproject` and the README leave it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.commands import ROOT

FILES = {
    "manage.py": """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
""",
    "mysite/__init__.py": "",
    "mysite/settings.py": """
from pathlib import Path
SECRET_KEY = "for a test"
DEBUG = True
INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django_mcp",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
ROOT_URLCONF = "mysite.urls"
ASGI_APPLICATION = "mysite.asgi.application"
WSGI_APPLICATION = "mysite.wsgi.application"
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parents[1] / "db.sqlite3",
}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
STATIC_URL = "static/"
DJANGO_MCP = {"PUBLIC": True}
""",
    "mysite/urls.py": """
from django.contrib import admin
from django.urls import include, path
urlpatterns = [path("", include("django_mcp.urls")), path("admin/", admin.site.urls)]
""",
    "mysite/asgi.py": """
import os
from django.core.asgi import get_asgi_application
from django_mcp.asgi import django_mcp_application
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
application = django_mcp_application(get_asgi_application())
""",
    "mysite/wsgi.py": """
import os
from django.core.wsgi import get_wsgi_application
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
application = get_wsgi_application()
""",
    "shop/__init__.py": "",
    "shop/mcp.py": '''
from django_mcp import tool

@tool(read_only=True)
def total(price: int, quantity: int = 1) -> int:
    """Return what a number of articles costs."""
    return price * quantity
''',
}

POST = """
import sys, django
django.setup()
from django.test import Client
response = Client().post(
    "/mcp", sys.argv[1], content_type="application/json",
    headers={
        "accept": "application/json, text/event-stream",
        "host": "localhost",
        "authorization": "Bearer mcp_" + 12 * "0" + "_" + 43 * "x",
    },
)
print(response.status_code)
print(response.content.decode())
"""

ASK = """
import django, time
django.setup()
from django.test import Client
from tests.support.wire import V2026_07_28, headers_for, message
EXTENSION = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
def ask(method, params):
    meta = {"io.modelcontextprotocol/clientCapabilities": EXTENSION}
    request = message(method, {**params, "_meta": meta}, revision=V2026_07_28)
    headers = {**headers_for(request, V2026_07_28), "host": "localhost"}
    kind = headers.pop("content-type")
    found = Client().post("/mcp", request, content_type=kind, headers=headers).json()
    return found.get("result", found)
"""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}


class Project:
    """A project with one app and one tool, whose database is not migrated.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        """Write a file, or replace it."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def set(self, **settings: Any) -> None:
        """Add lines to the settings; each value is its source."""
        with (self.folder / "mysite/settings.py").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `manage.py` with the standard error in the standard output, as at a terminal."""
        return self.python("manage.py", *arguments)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the project's folder."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(self.folder)]),
                "DJANGO_SETTINGS_MODULE": "mysite.settings",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def check(self) -> str:
        """Return what `manage.py check` prints."""
        return self.manage("check").stdout

    def in_wsgi(self, script: str) -> str:
        """Run a script that asks the site as a client of the stateless revision; return what it prints.

        Its function `ask(method, params)` returns the result of a request to the site under WSGI.
        """
        return self.python("-c", ASK + script).stdout

    def post(self, body: Any = INITIALIZE) -> str:
        """Return the status and body of a response at /mcp, and the site's log."""
        return self.python("-c", POST, json.dumps(body)).stdout
