"""`mcp_list --skills`, `mcp_surface` and `mcp_skill`."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pydantic import Field

from django_mcp import MCPServer, signed_in
from django_mcp.extensions.skills import skill
from django_mcp.extensions.skills.core.folders import read_skills
from tests.unit.extensions.skills.conftest import write_skill

pytestmark = pytest.mark.django_db

MakeServer = Callable[..., MCPServer]


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def find_orders(query: Annotated[str, Field(description="part of a number")] = "") -> str:
    """Find orders.

    The newest first.
    """
    return query


def cancel_order(number: str) -> str:
    """Cancel an order."""
    return number


# mcp_list


def test_skills_are_listed(root: Path, make_server: MakeServer):
    write_skill(root, "refunds", files={"notes.md": "a"})
    server = make_server()
    skill("daily", description="Report", server=server)(lambda: "a")

    lines = run("mcp_list", "--skills", "--server", "skilled").splitlines()

    size = sum(path.stat().st_size for path in (root / "refunds").iterdir())
    assert lines == [
        "skill://daily/SKILL.md  (generated)",
        "  Report",
        f"skill://refunds/SKILL.md  (2 files, {size} bytes)",
        "  Do a thing",
    ]


def test_skills_are_listed_as_a_user_sees_them(root: Path, make_server: MakeServer):
    write_skill(root, "acme")
    write_skill(root, "acme/refunds")
    make_server(skills_permissions={"acme/refunds": signed_in})
    User.objects.create_user("ada")

    found = [
        json.loads(run("mcp_list", "--skills", "--json", "--server", "skilled", *user))["skills"]
        for user in ((), ("--user", "ada"))
    ]

    assert [{uri: len(about["files"]) for uri, about in skills.items()} for skills in found] == [
        {"skill://acme/SKILL.md": 1},
        {"skill://acme/SKILL.md": 2, "skill://acme/refunds/SKILL.md": 1},
    ]


def test_a_server_without_skills(make_server: MakeServer):
    make_server()

    assert "no skills" in run("mcp_list", "--skills", "--server", "skilled")


# mcp_surface


def test_a_snapshot_changes_with_each_file(root: Path, make_server: MakeServer):
    folder = write_skill(root, "refunds", files={"notes.md": "a"})

    def surface(name: str) -> Any:
        make_server(name)
        return json.loads(run("mcp_surface", "--server", name))["resources"]

    before = surface("before")
    (folder / "notes.md").write_text("b")
    after = surface("after")

    uri = "skill://refunds/SKILL.md"
    assert before[uri]["skill"]["digest"] != after[uri]["skill"]["digest"]
    assert before[uri]["skill"]["files"][uri] == after[uri]["skill"]["files"][uri]
    assert surface("again") == after


# mcp_skill


@pytest.fixture
def server(make_server: MakeServer) -> MCPServer:
    server = make_server(skills_dirs=())
    server.register_tool(cancel_order, destructive=True)
    server.register_tool(find_orders, read_only=True)
    return server


def test_a_draft_has_the_tools_with_those_that_read_first(server: MCPServer):
    text = run("mcp_skill", "refund-order", "--server", server.name)

    assert text.startswith("---\nname: refund-order\ndescription:")
    steps = text[text.index("1. ") :]
    assert steps == (
        "1. Call `find_orders`: Find orders.\n"
        "   - `query` (optional): part of a number\n"
        "2. Ask the user for a clear yes. Then call `cancel_order`: Cancel an order.\n"
        "   - `number`\n"
    )


def test_a_draft_is_a_skill_and_reported_until_it_is_edited(
    root: Path, server: MCPServer, make_server: MakeServer
):
    from tests.unit.extensions.skills.test_checks import find_messages

    write = ("--server", server.name, "--tool", "find_orders", "--write", str(root))
    run("mcp_skill", "orders/refund-order", *write)

    found = read_skills(root)
    assert [skill.path for skill in found.skills] == ["orders/refund-order"]
    assert "cancel_order" not in (root / "orders/refund-order/SKILL.md").read_text()
    make_server("drafted")
    assert find_messages().keys() == {"W004"}
    with pytest.raises(CommandError, match="already"):
        run("mcp_skill", "orders/refund-order", *write)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("Refund",), "lower-case"),
        (("../refund",), "letters, digits"),
        (("/etc/refund",), "letters, digits"),
        (("refund", "--tool", "find_order"), "find_orders"),
    ],
)
def test_a_wrong_use(server: MCPServer, arguments: tuple[str, ...], told: str):
    with pytest.raises(CommandError, match=told) as caught:
        run("mcp_skill", *arguments, "--server", server.name)

    assert caught.value.returncode == 2
