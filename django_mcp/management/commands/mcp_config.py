"""`manage.py mcp_config`: print the configuration of a client for this site."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandParser, no_translations

from django_mcp.auth.users import is_superuser
from django_mcp.endpoints.client_config import CLIENTS, KEY_PLACE, needs_key
from django_mcp.endpoints.mounts import find_mounts, resolve
from django_mcp.management.base import (
    SiteCommand,
    add_narrowing,
    add_pipe_user,
    add_server,
    find_pipe_user,
    get_server,
    wrong_use,
)
from django_mcp.protocol.names import SEGMENT
from django_mcp.servers import MCPServer


class Command(SiteCommand):
    """Print the configuration that a client needs to use a server of this site."""

    help = "Prints configuration for a client: the server over stdio, or at a URL over HTTP."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--client", required=True, choices=list(CLIENTS), help="which client")
        parser.add_argument("--http", metavar="URL", help="URL of the endpoint; by default stdio")
        add_server(parser)
        add_pipe_user(parser)
        add_narrowing(parser, "the client sees only")

    # English like all output of commands, whatever the language of the site.
    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        server, client = get_server(options["server"]), CLIENTS[options["client"]]
        _check_toolsets(server, options["toolset"] or ())
        if options["http"] is not None:
            if options["user"] is not None or options["superuser"]:
                raise wrong_use(
                    "--user and --superuser are for stdio; over HTTP a client authenticates."
                )
            url = check_url(options["http"])
            url = self._complete(server, url)
            self._check_path(server, url)
            url = _narrow_url(url, options)
            config = client.over_http(server.name, url, KEY_PLACE if needs_key(server) else None)
        else:
            command, env = find_manage()
            command.append("mcp_stdio")
            if options["server"] is not None:
                command += ["--server", options["server"]]
            # The checks that mcp_stdio would make.
            if options["user"] is not None:
                user = find_pipe_user(options["user"], may_be_superuser=options["superuser"])
                command += ["--user", options["user"]]
                if is_superuser(user):
                    command.append("--superuser")
            elif not server.engine.is_public:
                raise wrong_use(
                    f"The server {server.name!r} is not public, so mcp_stdio would not start: name "
                    "the user with --user."
                )
            command += _narrowing_arguments(options)
            config = client.over_stdio(server.name, command, env)
        self.print_json(config)
        self.stderr.write(str(client.where), lambda line: line)

    def _complete(self, server: MCPServer, url: str) -> str:
        """Return a URL with the path of the server's only endpoint, if it is that of the site's root."""
        parts = urlsplit(url)
        mounts = [mount for mount in find_mounts() if mount.server is server]
        # Each is in the URLconf with and without a slash at its end.
        paths = {mount.path.rstrip("/") for mount in mounts}
        if parts.path not in ("", "/") or len(paths) != 1 or not mounts[0].is_fixed:
            return url
        path = paths.pop() or "/"
        if path != "/":
            self.stderr.write(
                f"The URL has no path; the site has the server {server.name!r} at {path}."
            )
        return parts._replace(path=path).geturl()

    def _check_path(self, server: MCPServer, url: str) -> None:
        """Say that the site has the server at no such path, which only a proxy in front of it may have."""
        path = urlsplit(url).path or "/"
        paths = [mount.path for mount in find_mounts() if mount.server is server]
        match = resolve(path)
        is_served = match is not None and getattr(match.func, "server", None) is server
        # A proxy may put a prefix in front.
        if not is_served and not any(path.endswith(each) for each in paths):
            where = f"at {', '.join(paths)}" if paths else "at no path"
            self.stderr.write(
                f"The site has the server {server.name!r} {where}, not at {path}: is the URL right? "
                "A proxy in front of the site may have another path."
            )


def _check_toolsets(server: MCPServer, names: Collection[str]) -> None:
    """Raise CommandError for a toolset that the server does not have, which a client would not be told."""
    known = server.engine.derived.requirements.all_toolsets
    for name in names:
        if name not in known:
            raise wrong_use(
                f"The server {server.name!r} has no toolset {name!r}. It has {', '.join(sorted(known)) or 'none'}."
            )


def _narrow_url(url: str, options: dict[str, Any]) -> str:
    if options["read_only"]:
        raise wrong_use(
            "--read-only is for stdio; over HTTP the client sends the header X-MCP-Readonly: true."
        )
    names = options["toolset"]
    return f"{url.rstrip('/')}{SEGMENT}{','.join(names)}" if names else url


def _narrowing_arguments(options: dict[str, Any]) -> list[str]:
    named = [text for name in options["toolset"] or () for text in ("--toolset", name)]
    return [*named, "--read-only"] if options["read_only"] else named


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
