"""The base classes of the commands, their options, and the server, user and token that these name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit

from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.urls import get_script_prefix

from django_mcp.auth.users import is_active, is_superuser
from django_mcp.conf import settings
from django_mcp.endpoints.well_known import server_at_path
from django_mcp.execution.outages import Unmigrated, is_unmigrated
from django_mcp.inprocess.results import MCPError, MissingCapability, Unanswered
from django_mcp.known_servers import find_server
from django_mcp.management.terminal import Interrupted, ProgressBar, Terminal, printable
from django_mcp.protocol.errors import INVALID_REQUEST
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode_pretty
from django_mcp.registry.entries import TEMPLATES, Kind, TemplateEntry
from django_mcp.registry.problems import find_near
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.visibility import Narrowing
from django_mcp.servers import MCPServer, all_servers

TOKEN_VARIABLE = "DJANGO_MCP_TOKEN"  # noqa: S105 - the name of a variable

BY_FIELD = "by the value of USERNAME_FIELD"
"""How the options that name users do it, for their help."""

T = TypeVar("T")

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""


def take_token(option: str | None) -> str | None:
    """Return the token that the option or the environment holds, and None if neither does.

    It is removed from the environment, which processes that the command starts inherit.
    """
    in_environment = os.environ.pop(TOKEN_VARIABLE, None)
    # An empty option is a wrong token, and not the lack of one.
    return (in_environment or None) if option is None else option


def wrong_use(text: str) -> CommandError:
    """Return the error of a command that was used wrongly. Its exit status is 2; a failed call has 1.

    It has no class of its own, whose name Django would print before the text.
    """
    return CommandError(text, returncode=2)


class SiteCommand(BaseCommand):
    """A command that runs no system checks, and whose errors name the remedy for missing tables."""

    requires_system_checks: tuple[str, ...] | Literal["__all__"] = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except Exception as error:
            if not is_unmigrated(error):
                raise
            raise CommandError(f"{Unmigrated.message} ({error})") from error

    def print_json(self, value: JSONObject) -> None:
        self.stdout.write(encode_pretty(value))


class ServerCommand(SiteCommand):
    """A command that uses one server as a user."""

    stealth_options = ("stdin",)
    kinds: tuple[Kind, ...] = ()
    """The kinds of entries that the command uses."""

    def add_options(self, parser: CommandParser) -> None:
        # Options may stand between the arguments.
        vars(parser)["parse_args"] = parser.parse_intermixed_args
        add_server(parser)
        parser.add_argument(
            "--user",
            metavar="USERNAME",
            help=f"the user who calls, {BY_FIELD}; by default nobody",
        )
        parser.add_argument("--json", action="store_true", help="print JSON for a program to read")

    def add_options_of_call(self, parser: CommandParser) -> None:
        self.add_options(parser)
        parser.add_argument(
            "--answers", metavar="JSON", help="answers to questions, by key or in a list"
        )
        parser.add_argument("--no-input", action="store_true", help="fail instead of asking")

    def _answers(self, options: dict[str, Any]) -> Any:
        if options["answers"] is not None:
            json = parse_json(options["answers"], "--answers")
            if not isinstance(json, dict | list):
                raise wrong_use("--answers must be an object or a list.")
            return json
        if options["no_input"]:
            return None
        return Terminal(options.get("stdin") or sys.stdin, self.stderr._out)

    def _show_log(self, level: str, data: Any, logger: str | None) -> None:
        text = data if isinstance(data, str) else encode_pretty(data)
        self.stderr.write(f"[{level}] {printable(text)}", lambda line: line)

    def attempt(self, call: Callable[..., T], options: dict[str, Any], *args: Any) -> T:
        """Return the result of a method of the command's server, with its progress shown."""
        server, user = get_server(options["server"]), find_user(options["user"])
        with ProgressBar(self.stderr._out) as bar:
            keywords: Any = {
                "user": user,
                "answers": self._answers(options),
                "on_progress": bar.show if bar.is_shown else None,
                "on_log": self._show_log if options["verbosity"] else None,
                "log_level": "info" if options["verbosity"] == 1 else "debug",
            }
            try:
                return call(server, *args, **keywords)
            except (Interrupted, KeyboardInterrupt) as error:
                raise CommandError("Stopped.", returncode=INTERRUPTED) from error
            except MissingCapability as error:
                raise CommandError(
                    "The call asks questions: leave out --no-input, or give --answers. "
                    f"({error.message})"
                ) from error
            except Unanswered as error:
                raise CommandError(f"{error.message} Give answers with --answers.") from error
            except LookupError as error:
                raise wrong_use(self._explain(error, str(args[0]), server, user)) from error
            except MCPError as error:
                hint = ""
                if user is None and error.code == INVALID_REQUEST:
                    hint = ". Name a user with --user, whom scopes do not restrict"
                raise CommandError(
                    f"{printable(error.message)} (error {error.code}){hint}"
                ) from error
            except TypeError as error:
                # An answer that JSON cannot represent, or of the wrong form.
                raise wrong_use(str(error)) from error

    def _explain(self, error: LookupError, name: str, server: MCPServer, user: Any) -> str:
        """Return which entry is missing, with the nearest name, or the names that exist."""
        missing = str(error).partition(". Did you mean ")[0]
        known = [
            entry[kind.identity]
            for kind in self.kinds
            for entry in getattr(server, kind.method)(user=user)
        ]
        things = self.kinds[0].key
        registry = server.registry
        of_kind = [getattr(registry, kind.mapping) for kind in self.kinds]
        if user is None and any(name in entries for entries in of_kind):
            return f"{missing}. Anonymous users cannot use it: name a user with --user."
        templates = registry.templates if TEMPLATES in self.kinds else {}
        for template, entry in templates.items():
            if entry.template.match(name) is not None:
                text = f"{missing}. The template {template} has no such object for this user."
                if user is None:
                    text += " Anonymous users may not read it: name a user with --user."
                return text
        if self._is_disabled(registry, name):
            return f"{missing}. {name!r} is disabled in the admin."
        close = [candidate for candidate in find_near(name, known, most=4) if candidate != name][:3]
        if close:
            return f"{missing}. Did you mean {' or '.join(close)}?"
        if known:
            shown = f"{', '.join(known[:20])}{', ...' if len(known) > 20 else ''}"
            return f"{missing}. {things.capitalize()}: {shown}."
        if any(of_kind):
            hint = " Name a user with --user." if user is None else ""
            return f"{missing}. This user sees no {things}.{hint}"
        return f"The server {server.name!r} has no {things}. {where_to_register()}"

    def _is_disabled(self, registry: Registry, name: str) -> bool:
        """Return whether an entry that is disabled has this name or URI, or is a template of it."""
        return any(
            key == name
            or (isinstance(entry, TemplateEntry) and entry.template.match(name) is not None)
            for kind in self.kinds
            for key, entry in registry.registered[kind.mapping].items()
            if (kind.mapping, key) in registry.disabled
        )


def add_server(parser: CommandParser) -> None:
    """Add the option that names the server."""
    parser.add_argument("--server", metavar="NAME", help="the server; by default the default one")


def add_narrowing(parser: CommandParser, effect: str) -> None:
    """Add the options by which a client sees only a part of a server, with what they do for their help."""
    parser.add_argument(
        "--toolset", metavar="NAME", action="append", help=f"{effect} this toolset; may be repeated"
    )
    parser.add_argument(
        "--read-only", action="store_true", help=f"{effect} tools that do not write, of all tools"
    )


def read_narrowing(options: dict[str, Any]) -> Narrowing | None:
    """Return what the options of `add_narrowing` say; None: everything."""
    names = None if options["toolset"] is None else frozenset(options["toolset"])
    is_narrowed = names is not None or options["read_only"]
    return Narrowing(names, options["read_only"]) if is_narrowed else None


def get_server(name: str | None) -> MCPServer:
    """Return the server called `name`, or the default one; raise CommandError if there is none."""
    chosen_server = all_servers()[0] if name is None else find_server(name, imports_urlconf=True)
    if not isinstance(chosen_server, MCPServer):
        names = sorted({server.name for server in all_servers()})
        raise wrong_use(f"No MCP server is called {name!r}. Servers: {', '.join(names)}.")
    return chosen_server


def server_at(url: str) -> MCPServer | None:
    """Return the server that this site has at the path of a URL; None if there is no single one."""
    try:
        path = unquote(urlsplit(url).path)
    except ValueError:
        return None
    return server_at_path("/" + path.removeprefix(get_script_prefix()).removeprefix("/"))


def find_user(username: str | None) -> Any:
    """Return the active user by the value of `USERNAME_FIELD`, and None without one; raise CommandError if there is none."""
    if username is None:
        return None
    try:
        user: Any = get_user_model()._default_manager.get_by_natural_key(username)
    except ImproperlyConfigured as error:
        raise CommandError(f"--user needs django.contrib.auth: {error}") from error
    except ObjectDoesNotExist:
        field = get_user_model().USERNAME_FIELD
        raise wrong_use(f"There is no user {username!r}: no user has this {field}.") from None
    except DatabaseError as error:
        if is_unmigrated(error):
            raise
        raise CommandError(f"The user cannot be looked up: {error}") from error
    if not is_active(user):
        raise wrong_use(f"The user {username!r} is not active.")
    return user


def add_pipe_user(parser: CommandParser) -> None:
    """Add the options that name the user of a client over stdio."""
    parser.add_argument(
        "--user", metavar="USERNAME", help=f"over stdio: user of the client, {BY_FIELD}"
    )
    parser.add_argument(
        "--superuser",
        action="store_true",
        help="allow a superuser, whose client no permission restricts",
    )


def find_pipe_user(username: str, *, may_be_superuser: bool) -> Any:
    """Return the user that a client over stdio may act for, or raise CommandError."""
    user = find_user(username)
    if is_superuser(user) and not may_be_superuser:
        raise CommandError(
            f"The user {username!r} is a superuser, so no permission would restrict the client: "
            "name another user, or add --superuser."
        )
    return user


def where_to_register() -> str:
    """Return how to register something on an empty server."""
    module = settings.AUTODISCOVER_MODULE or "mcp"
    return (
        f"Register some in {module}.py of an app that is installed; manage.py startmcp APP writes "
        "a first one."
    )


def parse_json(text: str, what: str) -> Any:
    """Return the JSON value of an argument, or raise CommandError."""
    try:
        return decode(text)
    except (JSONDecodeError, UnicodeError) as error:
        raise wrong_use(f"{what} is not JSON: {error}") from None
