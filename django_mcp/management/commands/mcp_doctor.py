"""`manage.py mcp_doctor`: test the running site as a client, and report problems."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.management.base import CommandError, CommandParser
from django.db import Error
from django.utils import timezone

from django_mcp.auth.authenticators import (
    APIKeyAuthenticator,
    Authenticator,
    BearerAuthenticator,
    SessionAuthenticator,
)
from django_mcp.conf import settings
from django_mcp.directories.addresses import client_address
from django_mcp.endpoints.mounts import find_path
from django_mcp.endpoints.well_known import authenticators_of
from django_mcp.execution.migrated import find_missing
from django_mcp.management.base import (
    BY_FIELD,
    TOKEN_VARIABLE,
    SiteCommand,
    find_user,
    get_server,
    server_at,
    take_token,
    wrong_use,
)
from django_mcp.management.doctor.examination import (
    Finding,
    OAuthExaminer,
    bad,
    examine,
    judge,
    note,
)
from django_mcp.management.doctor.http import Unreachable
from django_mcp.management.doctor.listing import examine_listing
from django_mcp.management.doctor.results import examine_results
from django_mcp.management.doctor.services import examine_databases, examine_layer
from django_mcp.management.terminal import printable
from django_mcp.models import Worker
from django_mcp.server.options import DIRECTORIES
from django_mcp.servers import MCPServer


class Command(SiteCommand):
    """Test an endpoint as a client would; each problem is reported with its fix."""

    help = "Tests the running site as a client would, and reports problems."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--server", metavar="NAME", help="name of the server; by default the one at --url"
        )
        parser.add_argument("--url", help="the endpoint; by default its path at 127.0.0.1:8000")
        parser.add_argument("--token", help=f"credentials, if needed; better in {TOKEN_VARIABLE}")
        parser.add_argument("--oauth", action="store_true", help="test the OAuth flow as well")
        parser.add_argument(
            "--user", metavar="USERNAME", help=f"with --oauth: the user who consents, {BY_FIELD}"
        )
        parser.add_argument(
            "--client",
            metavar="NAME",
            action="append",
            default=[],
            help="with --oauth: a client that is played, such as Claude; by default all known ones",
        )
        parser.add_argument(
            "--directory",
            choices=DIRECTORIES,
            action="append",
            dest="directories",
            default=[],
            help="tell what this directory would object to as well; may occur several times",
        )
        parser.add_argument(
            "--call-tools",
            action="store_true",
            help="call the tools that only read and need no arguments, and tell which results are too large",
        )
        parser.add_argument("--json", action="store_true", help="print JSON for a program to read")

    def handle(self, *args: Any, **options: Any) -> None:
        options["token"] = take_token(options["token"]) or ""
        server, url = _find_endpoint(options)
        if options["directories"] and server is None:
            raise wrong_use("--directory looks at a server of this site: name it with --server.")
        findings: list[Finding] = []
        try:
            for finding in self._examine(server, url, options):
                findings.append(finding)
                if not options["json"]:
                    self._show(finding)
        except Unreachable as error:
            fix = "Start the site, or name its endpoint with --url."
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                fix = "Name the file of its certificate authority in the variable SSL_CERT_FILE."
            raise CommandError(f"{error}. {fix}") from None
        if options["json"]:
            self.print_json({"url": url, "findings": findings})
        faults = sum(not finding.ok for finding in findings)
        if faults:
            are = "finding is a problem" if faults == 1 else "findings are problems"
            raise CommandError(f"{faults} {are} for a client.")

    def _examine(
        self, server: MCPServer | None, url: str, options: dict[str, Any]
    ) -> Iterator[Finding]:
        for message in checks.run_checks(app_configs=[apps.get_app_config("django_mcp")]):
            # What the directories demand is told with the rest of what they find.
            is_told = message.id == LISTING_ID and bool(options["directories"])
            if (
                message.level >= checks.WARNING
                and not message.is_silenced()
                and str(message.id).startswith("django_mcp")
                and not is_told
            ):
                # A warning need not hinder a client. What does is found at the endpoint besides.
                judged = bad if message.level >= checks.ERROR else note
                yield judged(f"{message.id}: {message.msg}", message.hint or "")
        yield from examine_databases()
        yield from find_missing_tables()
        yield from examine_layer()
        yield from find_busy_threads()
        address = None if server is None else client_address(server, url)
        publish = None if server is None else partial(server.notify_list_changed, "tools")
        token = options["token"]
        is_examined = False

        def look(token: str) -> Iterator[Finding]:
            nonlocal is_examined
            is_examined = True
            yield from examine(url, publish, token, credentials=advise(server), address=address)
            if options["call_tools"]:
                yield from examine_results(url, token)

        if token or not options["oauth"]:
            yield from look(token)
        if options["oauth"]:
            # With the token from the flow, unless there is one already or the flow gives none.
            yield from _oauth(url, options, None if is_examined else look)
        if not is_examined:
            yield from look("")
        if server is not None:
            for directory in dict.fromkeys(options["directories"]):
                yield from examine_listing(server, url, directory)
                yield from _play_client_of(server, url, directory, options)

    def _show(self, finding: Finding) -> None:
        text = printable(finding.text)
        if not finding.ok:
            word = self.style.ERROR("fault ")
        elif finding.fix:
            word = self.style.WARNING("note  ")
        else:
            word = self.style.SUCCESS("ok    ")
        self.stdout.write(word + text)
        if finding.fix:
            self.stdout.write(f"      {printable(finding.fix)}")


def _find_endpoint(options: dict[str, Any]) -> tuple[MCPServer | None, str]:
    """Return the server that the options name, or the one at their URL, and the URL."""
    url = options["url"]
    if url and not options["server"]:
        return server_at(url), url
    server = get_server(options["server"])
    if not url:
        path = find_path(server)
        if path is None:
            raise wrong_use(
                f"The server {server.name!r} is not in the URLconf. Include django_mcp.urls, or name "
                "its endpoint with --url."
            )
        url = f"http://127.0.0.1:8000{path}"
    return server, url


def _oauth(
    url: str, options: dict[str, Any], look: Callable[[str], Iterator[Finding]] | None
) -> Iterable[Finding]:
    configs = apps.get_app_configs()
    examiner = next((config for config in configs if isinstance(config, OAuthExaminer)), None)
    if examiner is None:
        fix = "Add django_mcp.contrib.oauth to INSTALLED_APPS: docs/howto/oauth.md"
        return [bad("OAuth is not set up", fix)]
    try:
        return examiner.examine_oauth(url, find_user(options["user"]), look, options["client"])
    except LookupError as error:
        raise wrong_use(str(error)) from error


def _play_client_of(
    server: MCPServer, url: str, directory: str, options: dict[str, Any]
) -> Iterable[Finding]:
    """Return what the client of a directory finds at this site's authorization server, with its callback address."""
    client = _CLIENTS.get(directory)
    # With --oauth all clients were played, or those that were named.
    if client is None or options["oauth"]:
        return ()
    if not any(each.is_of_this_site for each in authenticators_of(server)):
        return ()
    return _oauth(url, {**options, "client": [client]}, None)


def find_missing_tables() -> Iterator[Finding]:
    """Yield which tables and columns of the package are missing."""
    try:
        missing = find_missing()
    except Error:
        # `examine_databases` reports it.
        return
    if missing:
        yield bad(
            f"The database lacks tables or columns: {', '.join(missing)}",
            "Run manage.py migrate. If it has nothing to do, an earlier state of the migrations made "
            "these tables: remove them with manage.py migrate django_mcp zero, and migrate again.",
        )


def find_busy_threads() -> Iterator[Finding]:
    """Yield how many threads are busy in each worker that currently serves requests."""
    if settings.SESSION_STORE != "model":
        return
    serving = Worker.objects.filter(lease_until__gt=timezone.now())
    try:
        workers = list(serving.order_by("host", "pid"))
    except Error:
        # The endpoint's responses show what is wrong with the database.
        return
    for worker in workers:
        state = worker.in_flight or {}
        busy, limit, waiting = state.get("threads") or (0, 0, 0)
        if not busy:
            continue
        held = "; ".join(
            f"{what} for {time.time() - since:.0f} s" for what, since in state.get("held", ())
        )
        if held:
            held = f". The longest are {held}"
        yield judge(
            not waiting,
            f"Threads are free at worker {worker}: {busy} of {limit} are busy{held}",
            f"Calls wait for a thread at worker {worker}: {busy} of {limit} threads are busy, and "
            f"{waiting} calls wait{held}",
            "Give what holds the threads a timeout of its own towards what it waits for, or raise "
            'DJANGO_MCP["SYNC_THREADS"].',
        )


LISTING_ID = "django_mcp.W019"

_CLIENTS = {"claude": "Claude", "chatgpt": "ChatGPT"}
"""The known client that belongs to a directory."""

_PLACE = f"the environment variable {TOKEN_VARIABLE}"
_FLOW = "Have the OAuth flow bring a token with --oauth --user NAME."


def advise(server: MCPServer | None) -> str:
    """Return how to give the command credentials that a server accepts, if the server is known."""
    if server is None or server.engine.authentication is None:
        return f"Put a token into {_PLACE}. {_FLOW}"
    ways = dict.fromkeys(_find_ways(server.engine.authentication.authenticators))
    if not ways:
        return (
            "No authenticator of the server takes a token, and this command can send nothing else: "
            "try the endpoint with a client that has such credentials."
        )
    return " Or: ".join(ways)


def _find_ways(authenticators: Sequence[Authenticator]) -> Iterator[str]:
    for authenticator in authenticators:
        if isinstance(authenticator, APIKeyAuthenticator):
            yield f"Create an API key in the admin, under API keys, and put it into {_PLACE}."
        elif authenticator.is_of_this_site:
            yield _FLOW
        elif isinstance(authenticator, BearerAuthenticator):
            issuers = ", ".join(authenticator.authorization_servers) or "its authorization server"
            yield f"Put an access token of {issuers} into {_PLACE}."
        elif not isinstance(authenticator, SessionAuthenticator):
            yield f"If {type(authenticator).__name__} accepts bearer tokens, put one into {_PLACE}."
