"""`manage.py mcp_config`: print the configuration of a client for this site."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandParser, no_translations

from django_mcp.endpoints.client_config import CLIENTS, KEY_PLACE, needs_key
from django_mcp.management.base import (
    SiteCommand,
    add_pipe_user,
    add_server,
    find_pipe_user,
    find_server,
    wrong_use,
)
from django_mcp.protocol.json import encode_pretty
from django_mcp.servers import MCPServer


class Command(SiteCommand):
    """Print the configuration that a client needs to use a server of this site."""

    help = "Prints configuration for a client: the server over stdio, or at a URL over HTTP."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--client", required=True, choices=list(CLIENTS), help="which client")
        parser.add_argument(
            "--http", metavar="URL", help="URL of the endpoint; without it over stdio"
        )
        add_server(parser)
        add_pipe_user(parser)

    # English like all output of commands, whatever the language of the site.
    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        server, client = find_server(options["server"]), CLIENTS[options["client"]]
        if options["http"] is not None:
            if options["user"] is not None or options["superuser"]:
                raise wrong_use(
                    "--user and --superuser are for stdio; over HTTP a client authenticates."
                )
            url = check_url(options["http"])
            found = client.over_http(server.name, url, KEY_PLACE if needs_key(server) else None)
        else:
            command, env = find_manage()
            command += ["mcp_stdio", *_pipe_options(server, options)]
            found = client.over_stdio(server.name, command, env)
        self.stdout.write(encode_pretty(found))
        self.stderr.write(str(client.where), lambda line: line)


def _pipe_options(server: MCPServer, options: dict[str, Any]) -> list[str]:
    """Return the options of `mcp_stdio`, after the checks that it would make."""
    found = [] if options["server"] is None else ["--server", options["server"]]
    if options["user"] is not None:
        user = find_pipe_user(options["user"], may_be_superuser=options["superuser"])
        found += ["--user", options["user"]]
        if getattr(user, "is_superuser", False):
            found.append("--superuser")
    elif not server.is_public:
        raise wrong_use(
            f"The server {server.name!r} is not public, so mcp_stdio would not start: name "
            "the user with --user."
        )
    return found


def find_manage() -> tuple[list[str], dict[str, str]]:
    """Return the command that runs this project's commands from any folder, and its environment."""
    env = {"DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE or ""}
    script = Path(sys.argv[0])
    if script.suffix == ".py" and script.name != "__main__.py" and script.is_file():
        return [sys.executable, str(script.resolve())], env
    # Started by django-admin or python -m django, which find the project by the path.
    path = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    return [sys.executable, "-m", "django"], {**env, "PYTHONPATH": path}


def check_url(url: str) -> str:
    """Return the URL of an endpoint; raise CommandError if it is not one, or holds credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise wrong_use(
            f"{url!r} is not a URL of an endpoint: write it as https://example.com/mcp."
        )
    if "@" in parts.netloc:
        raise wrong_use("The URL holds credentials, which do not belong there.")
    return url
