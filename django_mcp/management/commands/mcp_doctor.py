"""`manage.py mcp_doctor`: test the running site as a client, and report problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from django.apps import apps
from django.core import checks
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import get_script_prefix

from django_mcp.endpoints.mounts import find_mounts
from django_mcp.endpoints.well_known import find_server as find_mounted
from django_mcp.management.doctor.examination import examine
from django_mcp.management.doctor.finding import Finding, OAuthExaminer, bad, good
from django_mcp.management.doctor.http import Unreachable
from django_mcp.management.doctor.person import signed_in
from django_mcp.management.doctor.threads import examine_threads
from django_mcp.management.shell.base import WRONG_USE, find_server, find_user, printable
from django_mcp.protocol.json import encode_pretty
from django_mcp.servers import MCPServer
from django_mcp.transports.http.view import MCPView


class Command(BaseCommand):
    """Test an endpoint as a client would; each problem is reported with its fix."""

    help = "Plays a client against the running site, and says what stands in its way."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def add_arguments(self, parser: CommandParser) -> None:
        """Add options for the endpoint."""
        parser.add_argument(
            "--server", metavar="NAME", help="its name; else the one at --url, or the default"
        )
        parser.add_argument(
            "--url", help="of the endpoint; else where the URLconf has it, at 127.0.0.1:8000"
        )
        parser.add_argument("--token", default="", help="credentials, where some are asked for")
        parser.add_argument("--oauth", action="store_true", help="play the OAuth flow as well")
        parser.add_argument(
            "--user", metavar="USERNAME", help="with --oauth: who allows the client its access"
        )
        parser.add_argument("--json", action="store_true", help="print JSON for a program to read")

    def handle(self, *args: Any, **options: Any) -> None:
        """Test the endpoint; exits with 1 if there are problems."""
        url = options["url"]
        if url and not options["server"]:
            server = _server_at(url)
        else:
            server = find_server(options["server"])
            url = url or f"http://127.0.0.1:8000{_path_of(server)}"
        findings: list[Finding] = []
        try:
            for finding in self._examine(server, url, options):
                findings.append(finding)
                if not options["json"]:
                    self._show(finding)
        except Unreachable as error:
            raise CommandError(
                f"{error}. Start the site, or name its endpoint with --url."
            ) from None
        if options["json"]:
            found = [{"ok": each.ok, "text": each.text, "fix": each.fix} for each in findings]
            self.stdout.write(encode_pretty({"url": url, "findings": found}))
        faults = sum(not each.ok for each in findings)
        if faults:
            raise CommandError(f"{faults} of {len(findings)} things stand in a client's way.")

    def _examine(
        self, server: MCPServer | None, url: str, options: dict[str, Any]
    ) -> Iterator[Finding]:
        yield from _site()
        yield from examine_threads()
        publish = getattr(server, "notify_tools_list_changed", None)
        token = options["token"]
        is_examined = False

        def look(token: str) -> Iterator[Finding]:
            nonlocal is_examined
            is_examined = True
            yield from examine(url, publish, token)

        if token or not options["oauth"]:
            yield from look(token)
        if options["oauth"]:
            # With the token from the flow, unless there is one already or the flow gives none.
            yield from _oauth(url, options["user"], None if is_examined else look)
        if not is_examined:
            yield from look("")
        if server is None:
            yield good(
                "Changes in another process were not tried, since the URLconf has no server at this "
                "path: name it with --server"
            )

    def _show(self, finding: Finding) -> None:
        text = printable(finding.text)
        if finding.ok:
            self.stdout.write(self.style.SUCCESS("ok    ") + text)
        else:
            self.stdout.write(self.style.ERROR("fault ") + text)
            self.stdout.write(f"      {printable(finding.fix)}")


def _path_of(server: MCPServer) -> str:
    for mount in find_mounts():
        if mount.is_fixed and isinstance(mount.view, MCPView) and mount.view.server is server:
            return mount.path
    raise CommandError(
        f"The server {server.public_name!r} is not in the URLconf. Include django_mcp.urls, or "
        f"name its endpoint with --url.",
        returncode=WRONG_USE,
    )


def _server_at(url: str) -> MCPServer | None:
    """Return the server that this site has at the path of a URL; None if there is no single one."""
    try:
        path = unquote(urlsplit(url).path)
    except ValueError:
        return None
    return find_mounted("/" + path.removeprefix(get_script_prefix()).removeprefix("/"))


def _site() -> Iterator[Finding]:
    """Yield the findings of this package's system checks."""
    found = checks.run_checks(app_configs=[apps.get_app_config("django_mcp")])
    for message in found:
        if message.level >= checks.WARNING and str(message.id).startswith("django_mcp"):
            yield bad(f"{message.id}: {message.msg}", message.hint or "")


def _oauth(
    url: str, username: str | None, look: Callable[[str], Iterator[Finding]] | None
) -> Iterable[Finding]:
    configs = apps.get_app_configs()
    examiner = next((each for each in configs if isinstance(each, OAuthExaminer)), None)
    if examiner is None:
        return [
            bad(
                "OAuth is not set up",
                "Add django_mcp.contrib.oauth to INSTALLED_APPS: docs/howto/oauth.md",
            )
        ]
    if username is None:
        return examiner.examine_oauth(url, None, None)
    with signed_in(find_user(username)) as person:
        return examiner.examine_oauth(url, person, look)
