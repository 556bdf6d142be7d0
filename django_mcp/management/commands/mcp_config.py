"""`manage.py mcp_config`: print the configuration of a client for this site."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    no_translations,
)

from django_mcp.endpoints.client_config import WHERE, needs_key, over_http
from django_mcp.management.shell.base import WRONG_USE, find_pipe_user, find_server
from django_mcp.protocol.json import JSONObject, encode_pretty


class Command(BaseCommand):
    """Print the configuration that a client needs to use a server of this site."""

    help = "Prints configuration for a client: the server over stdio, or at a URL over HTTP."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def add_arguments(self, parser: CommandParser) -> None:
        """Add options for the client, and how it reaches the server."""
        parser.add_argument("--client", required=True, choices=list(WHERE), help="which client")
        parser.add_argument("--http", metavar="URL", help="reach the endpoint there; else by stdio")
        parser.add_argument("--server", metavar="NAME", help="its name; else the default server")
        parser.add_argument("--user", metavar="USERNAME", help="by stdio: on whose behalf")
        parser.add_argument(
            "--superuser",
            action="store_true",
            help="let the user be a superuser, for whom no permission holds a client back",
        )

    # English like all output of commands, whatever the language of the site.
    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        """Print the configuration, and instructions on standard error."""
        server = find_server(options["server"])
        if options["http"] is not None:
            if options["user"] is not None or options["superuser"]:
                raise CommandError(
                    "--user and --superuser are for stdio; over HTTP a client authenticates.",
                    returncode=WRONG_USE,
                )
            entry = over_http(
                options["client"], check_url(options["http"]), needs_key=needs_key(server)
            )
        else:
            entry = over_stdio(options["client"], _pipe_options(options))
        key = "servers" if options["client"] == "vscode" else "mcpServers"
        self.stdout.write(encode_pretty({key: {server.public_name: entry}}))
        self.stderr.write(str(WHERE[options["client"]]), lambda line: line)


def _pipe_options(options: dict[str, Any]) -> list[str]:
    """Return the options of `mcp_stdio`, after the checks that it would make.

    Raises:
        CommandError: it would not serve that user.
    """
    found = [] if options["server"] is None else ["--server", options["server"]]
    if options["user"] is not None:
        user = find_pipe_user(options["user"], may_be_superuser=options["superuser"])
        found += ["--user", options["user"]]
        if getattr(user, "is_superuser", False):
            found.append("--superuser")
    return found


def over_stdio(client: str, options: list[str]) -> JSONObject:
    """Return the entry for a client to start `manage.py mcp_stdio`, from any folder."""
    manage, env = find_manage()
    arguments = [*manage, "mcp_stdio", *options]
    entry: JSONObject = {"command": sys.executable, "args": arguments, "env": env}
    return entry if client in ("claude-desktop", "cursor") else {"type": "stdio", **entry}


def find_manage() -> tuple[list[str], dict[str, str]]:
    """Return how Python runs this project's commands from any folder, and the environment for it."""
    env = {"DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE or ""}
    script = Path(sys.argv[0])
    if script.suffix == ".py" and script.name != "__main__.py" and script.is_file():
        return [str(script.resolve())], env
    # Started by django-admin or python -m django, which find the project by the path.
    path = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    return ["-m", "django"], {**env, "PYTHONPATH": path}


def check_url(url: str) -> str:
    """Return the URL of an endpoint.

    Raises:
        CommandError: it is not one, or holds credentials.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CommandError(
            f"{url!r} is not a URL of an endpoint: write it as https://example.com/mcp.",
            returncode=WRONG_USE,
        )
    if "@" in parts.netloc:
        raise CommandError("The URL holds credentials, which do not belong there.", returncode=2)
    return url
