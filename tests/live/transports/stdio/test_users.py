"""The user of a stdio server: options, permissions as over HTTP, and later revocation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from django_mcp.protocol.revisions import Revision
from tests.support.sites import ROOT, environment
from tests.support.stdio.process import SITE, Process
from tests.support.wire import V2025_11_25, V2026_07_28

STAFF = """
from django.contrib.auth.models import Permission, User
ada = User.objects.create_user("ada")
bob = User.objects.create_user("bob")
User.objects.create_superuser("boss")
ada.user_permissions.add(Permission.objects.get(codename="view_user"))
"""

ISSUE = """
from django.contrib.auth.models import User
from django_mcp.models import APIKey
print(APIKey.objects.issue(user=User.objects.get(username="ada"), name="desk")[1])
"""

SHOW_ERRORS = """
from django_mcp.models import ErrorGroup
for error in ErrorGroup.objects.order_by("name"):
    print(f"{error.name}:{error.error}:{error.traceback.count('sys.exit')}")
"""

Django: TypeAlias = Callable[..., str]


@pytest.fixture
def database(tmp_path: Path) -> dict[str, str]:
    return {"STDIO_DATABASE": str(tmp_path / "db.sqlite3")}


@pytest.fixture
def django(database: dict[str, str]) -> Django:
    """Run code in the site, in a process of its own, and return what it prints."""

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env=environment(SITE, database),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    run("migrate", "-v", "0")
    run("shell", "-c", STAFF)
    return run


def read_rest(client: Process) -> list[Any]:
    """Read to the end of the pipe, and return the messages but for notifications of changed lists.

    A user who is deactivated while their permissions are checked may first lose what they could see.
    """
    return [
        each
        for each in client.read_rest()
        if not str(each.get("method", "")).endswith("/list_changed")
    ]


def names(client: Process, revision: object = V2025_11_25) -> set[str]:
    tools = client.ask("tools/list", revision=revision)["result"]["tools"]
    return {each["name"] for each in tools}


def test_permissions_apply_as_over_http(django: Django, database: dict[str, str]) -> None:
    """No token is required, and forbidden entries look like unknown ones."""
    answers: dict[Any, Any] = {}
    for user in ("ada", "bob", None):
        options = () if user is None else ("--user", user)
        with Process(*options, extra=database) as client:
            client.initialize()
            assert client.call("who") == (user or "nobody")
            assert ("staff_only" in names(client)) is (user == "ada")
            assert ("staff_only" in names(client, V2026_07_28)) is (user == "ada")
            answers[user] = client.ask("tools/call", {"name": "staff_only"}, id="s")
            answers["unknown"] = client.ask("tools/call", {"name": "no_such_t"}, id="s")
    assert answers["ada"]["result"]["content"][0]["text"] == "hello staff"
    told = answers["bob"]["error"]["message"].replace("staff_only", "no_such_t")
    assert {**answers["bob"]["error"], "message": told} == answers["unknown"]["error"]
    assert answers["bob"] == answers[None]


def test_resource_updates_require_access(django: Django, database: dict[str, str]) -> None:
    for user in ("ada", "bob"):
        with Process("--user", user, extra=database) as client:
            client.initialize()
            client.ask("resources/subscribe", {"uri": "secret://x"})
            client.ask("resources/subscribe", {"uri": "stock://x"})
            heard: list[str] = []
            client.answer_to(
                client.begin_call("change", uri="secret://x"),
                lambda each, heard=heard: heard.append(each["params"]["uri"]),  # type: ignore[misc]
            )
            client.begin_call("change", uri="stock://x")
            while "stock://x" not in heard:
                found = client.read()
                if "params" in found:
                    heard.append(found["params"]["uri"])
            assert ("secret://x" in heard) is (user == "ada")


def test_a_revoked_permission_applies_soon(django: Django, database: dict[str, str]) -> None:
    with Process("--user", "ada", extra=database) as client:
        client.initialize()
        assert "staff_only" in names(client)
        django(
            "shell", "-c", "from django.contrib.auth.models import User as U;"
            "U.objects.get(username='ada').user_permissions.clear()",
        )  # fmt: skip
        while "staff_only" in names(client):
            pass


def test_a_deactivated_user_is_no_longer_served(django: Django, database: dict[str, str]) -> None:
    with Process("--user", "ada", extra=database) as client:
        client.initialize()
        django(
            "shell", "-c", "from django.contrib.auth.models import User as U;"
            "U.objects.update(is_active=False)",
        )  # fmt: skip
        # Without a message from the client.
        assert read_rest(client) == []
        assert client.wait() == 0
        assert "not active any more" in client.noise


@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
@pytest.mark.parametrize(
    ("tool", "begun", "ended"),
    [
        ("wait_for_ever", "waiting", "no longer waiting"),
        ("look_for_cancellation", "working", "cancelled"),
    ],
)
def test_calls_of_a_deactivated_user_are_cancelled(
    django: Django, database: dict[str, str], tool: str, begun: str, ended: str, revision: Revision
) -> None:
    with Process("--user", "ada", extra=database) as client:
        if not revision.is_stateless:
            client.initialize(revision)
        client.begin("tools/call", {"name": tool, "arguments": {}}, revision=revision)
        client.wait_for_noise(begun)
        django(
            "shell", "-c", "from django.contrib.auth.models import User as U;"
            "U.objects.update(is_active=False)",
        )  # fmt: skip
        client.wait_for_noise(ended)
        assert read_rest(client) == []
        assert client.wait() == 0


def test_a_token_is_looked_up_as_over_http(django: Django, database: dict[str, str]) -> None:
    key = django("shell", "-c", ISSUE).split()[-1]
    with Process(extra={**database, "DJANGO_MCP_TOKEN": key}) as client:
        client.initialize()
        assert client.call("who") == "ada"
        assert "staff_only" in names(client)
    with Process("--token", "wrong", extra=database) as client:
        assert client.read_rest() == []
        assert client.wait() == 1
        assert "The token is not accepted" in client.noise


def test_calls_of_a_revoked_key_are_cancelled(django: Django, database: dict[str, str]) -> None:
    key = django("shell", "-c", ISSUE).split()[-1]
    with Process(extra={**database, "DJANGO_MCP_TOKEN": key}) as client:
        client.begin("tools/call", {"name": "wait_for_ever", "arguments": {}}, revision=V2026_07_28)
        client.wait_for_noise("waiting")
        django(
            "shell", "-c", "from django_mcp.models import APIKey; from django.utils import timezone;"
            "APIKey.objects.update(revoked_at=timezone.now())",
        )  # fmt: skip
        client.wait_for_noise("no longer waiting")
        assert read_rest(client) == []
        assert client.wait() == 0


@pytest.mark.parametrize(
    ("option", "told"), [("--user", "no user ''"), ("--token", "The token is not accepted")]
)
def test_an_empty_username_or_token_is_not_anonymous(
    django: Django, database: dict[str, str], option: str, told: str
) -> None:
    with Process(option, "", extra=database) as client:
        assert client.wait() != 0
        client.wait_for_noise(told)


def test_a_non_public_server_requires_a_user(database: dict[str, str]) -> None:
    with Process(extra={**database, "STDIO_CLOSED": "1"}) as client:
        assert client.wait() == 1
        assert "--user" in client.noise


def test_serving_a_superuser_requires_an_explicit_option(
    django: Django, database: dict[str, str]
) -> None:
    with Process("--user", "boss", extra=database) as client:
        assert client.wait() == 1
        assert "--superuser" in client.noise
    with Process("--user", "boss", "--superuser", extra=database) as client:
        client.initialize()
        assert client.call("who") == "boss"


@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
def test_a_client_sees_only_the_toolsets_that_its_command_names(
    django: Django, database: dict[str, str], revision: Revision
) -> None:
    seen = []
    for options in ((), ("--toolset", "nowhere"), ("--toolset", "stdio"), ("--read-only",)):
        with Process(*options, extra=database) as client:
            client.initialize()
            seen.append(names(client, revision))
            hidden = client.ask(
                "tools/call", {"name": "echo", "arguments": {"text": "a"}}, revision=revision
            )
            assert ("error" in hidden) is (options in (("--toolset", "nowhere"), ("--read-only",)))
    everything, nothing, of_app, reading = seen

    assert nothing == reading == set()
    assert of_app == everything != set()


def test_calls_that_fail_are_recorded_as_errors(django: Django, database: dict[str, str]) -> None:
    with Process(extra={**database, "STDIO_RECORDS": "1"}) as client:
        client.initialize()
        for tool in ("leave", "aleave"):
            client.call(tool)
        client.close_input()
        client.read_rest()
        assert client.wait() == 0
    found = django("shell", "-v", "0", "-c", SHOW_ERRORS).splitlines()

    # Before them is what the site writes to stdout.
    assert found[-2:] == ["aleave:SystemExit:1", "leave:SystemExit:1"]
