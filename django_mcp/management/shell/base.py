"""The base class of commands that use a server in process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.conf import settings
from django_mcp.inprocess.errors import MCPError, MissingCapability, Unanswered
from django_mcp.known_servers import find_in_site
from django_mcp.management.shell.asking import Interrupted, Terminal
from django_mcp.management.shell.progress import ProgressBar
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode_pretty
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.servers import MCPServer, all_servers

__all__ = [
    "WRONG_USE",
    "ServerCommand",
    "find_pipe_user",
    "find_server",
    "find_user",
    "printable",
    "where_to_register",
]

T = TypeVar("T")

WRONG_USE = 2
"""Exit status for wrong use, as of a wrong option; a failed call has 1."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""

_FROM_VERBOSITY = {0: None, 1: "info"}
"""The lowest level of log messages that are shown."""


class ServerCommand(BaseCommand):
    """A command that uses one server as a user."""

    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it
    stealth_options = ("stdin",)
    things = ""
    """The kind of entry that the command uses, such as `tools`."""

    def add_server(self, parser: CommandParser) -> None:
        """Add options for the server, the user, and the output."""
        parser.add_argument("--server", metavar="NAME", help="its name; else the default server")
        parser.add_argument("--user", metavar="USERNAME", help="on whose behalf; else nobody's")
        parser.add_argument("--json", action="store_true", help="print JSON for a program to read")

    def add_asking(self, parser: CommandParser) -> None:
        """Add options for the answers to questions."""
        parser.add_argument(
            "--answers", metavar="JSON", help="answers by the key of their question, or a list"
        )
        parser.add_argument(
            "--no-input", action="store_true", help="ask nothing; what has to ask fails"
        )

    def how(self, options: dict[str, Any]) -> Any:
        """Return the keyword arguments of a call in process for the options."""
        level = _FROM_VERBOSITY.get(options["verbosity"], "debug")
        return {
            "user": find_user(options["user"]),
            "answers": self._answers(options),
            "on_log": self._show_log if level in LOG_LEVELS else None,
            **({"log_level": level} if level is not None else {}),
        }

    def _answers(self, options: dict[str, Any]) -> Any:
        if options["answers"] is not None:
            found = parse_json(options["answers"], "--answers")
            if not isinstance(found, dict | list):
                raise CommandError("--answers must be an object or a list.", returncode=WRONG_USE)
            return found
        if options["no_input"]:
            return None
        return Terminal(options.get("stdin") or sys.stdin, self.stderr._out)

    def _show_log(self, level: str, data: Any, logger: str | None) -> None:
        text = data if isinstance(data, str) else encode_pretty(data)
        self.stderr.write(f"[{level}] {printable(text)}", lambda line: line)

    def attempt(self, call: Callable[..., T], *args: Any, options: dict[str, Any], **how: Any) -> T:
        """Return the result of a call, with its progress shown.

        Raises:
            CommandError: the server rejected it.
        """
        with ProgressBar(self.stderr._out) as bar:
            try:
                return call(*args, on_progress=bar.show if bar.is_shown else None, **how)
            except (Interrupted, KeyboardInterrupt) as error:
                raise CommandError("Stopped.", returncode=INTERRUPTED) from error
            except MissingCapability as error:
                raise CommandError(
                    f"{error.message}. It asks questions: leave out --no-input, or give --answers."
                ) from error
            except Unanswered as error:
                raise CommandError(f"{error.message} Give it in --answers.") from error
            except LookupError as error:
                text = self.explain(error, str(args[0]), options, how.get("user"))
                raise CommandError(text, returncode=WRONG_USE) from error
            except MCPError as error:
                raise CommandError(f"{printable(error.message)} (error {error.code})") from error
            except TypeError as error:
                # An answer that JSON cannot represent, or of the wrong form.
                raise CommandError(str(error), returncode=WRONG_USE) from error

    def explain(self, error: LookupError, name: str, options: dict[str, Any], user: Any) -> str:
        """Return which entry is missing, with the nearest name, or the names that exist."""
        server = find_server(options["server"])
        known = self.known_names(server, user)
        close = get_close_matches(name, known, n=3)
        if close:
            return f"{error}. Did you mean {' or '.join(close)}?"
        if known:
            return f"{error}. There is {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}."
        if self.has_any(server):
            return f"{error}."
        return f"The server {server.public_name!r} has no {self.things}. {where_to_register()}"

    def has_any(self, server: MCPServer) -> bool:
        """Return whether the server has such entries at all, visible or not."""
        return True

    def known_names(self, server: MCPServer, user: Any) -> list[str]:
        """Return the names that the user sees."""
        return []

    def print_json(self, value: JSONObject) -> None:
        """Print a value as JSON."""
        self.stdout.write(encode_pretty(value))


def find_server(name: str | None) -> MCPServer:
    """Return the server called `name`, or the default one.

    Raises:
        CommandError: there is no such server; the text lists those that exist.
    """
    found = all_servers()[0] if name is None else find_in_site(name)
    if not isinstance(found, MCPServer):
        names = sorted({server.public_name for server in all_servers()})
        raise CommandError(
            f"No MCP server is called {name!r}. Servers: {', '.join(names)}.", returncode=WRONG_USE
        )
    return found


def find_user(username: str | None) -> Any:
    """Return the user of a name; None without one.

    Raises:
        CommandError: there is none, or they are not active.
    """
    if username is None:
        return None
    from django.contrib.auth import get_user_model
    from django.db import DatabaseError

    try:
        model = get_user_model()
    except ImproperlyConfigured as error:
        raise CommandError(f"--user needs django.contrib.auth: {error}") from error
    try:
        user = model._default_manager.get_by_natural_key(username)
    except model.DoesNotExist:
        raise CommandError(f"There is no user {username!r}.", returncode=WRONG_USE) from None
    except DatabaseError as error:
        raise CommandError(f"The user cannot be looked up: {error}") from error
    if not user.is_active:
        raise CommandError(f"The user {username!r} is not active.", returncode=WRONG_USE)
    return user


def find_pipe_user(username: str, *, may_be_superuser: bool) -> Any:
    """Return the user that a client over stdio may act for.

    Raises:
        CommandError: there is none, or it is a superuser without `may_be_superuser`.
    """
    user = find_user(username)
    if getattr(user, "is_superuser", False) and not may_be_superuser:
        raise CommandError(
            f"The user {username!r} is a superuser, so nothing would hold the client back: name "
            "another, or add --superuser."
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
    """Return the JSON value of an argument.

    Raises:
        CommandError: it is not JSON.
    """
    try:
        return decode(text)
    except (JSONDecodeError, UnicodeError) as error:
        raise CommandError(f"{what} is not JSON: {error}", returncode=WRONG_USE) from None


def printable(text: str) -> str:
    """Return a text without control characters that could affect a terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)
