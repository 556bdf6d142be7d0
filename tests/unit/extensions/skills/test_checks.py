"""What `manage.py check` says of skills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from django_mcp import MCPServer
from django_mcp.extensions.skills import skill
from django_mcp.inprocess import MCPError
from django_mcp.test import MCPClient
from tests.unit.extensions.skills.conftest import write_skill

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

MakeServer = Callable[..., MCPServer]


def find_messages() -> dict[str, str]:
    return {
        str(message.id).removeprefix("django_mcp.skills."): message.msg
        for message in run_checks(tags=["django_mcp"])
        if str(message.id).startswith("django_mcp.skills.")
    }


def test_skills_in_order_are_not_reported(root: Path, make_server: MakeServer):
    write_skill(root, "acme")
    write_skill(root, "acme/refunds", files={"notes.csv": "a\r\n"})
    server = make_server(skills_permissions={"acme": "auth.view_user", "acme/refunds": ()})
    skill("reports/daily", description="Report", server=server)(lambda: "a")

    assert find_messages() == {}


@pytest.mark.parametrize(
    ("content", "id"),
    [
        ("# Refunds\n", "E001"),
        ("---\nname: refunds\n---\n", "E001"),
        ("---\nname: other\ndescription: a\n---\n", "E002"),
        ("\ufeff---\nname: refunds\ndescription: a\n---\n", "E004"),
        ("---\r\nname: refunds\r\ndescription: a\r\n---\r\n", "E004"),
    ],
)
def test_a_skill_file_with_a_problem(root: Path, make_server: MakeServer, content: str, id: str):
    (write_skill(root, "refunds") / "SKILL.md").write_bytes(content.encode())
    make_server()

    messages = find_messages()

    assert messages.keys() == {id}
    assert str(root / "refunds" / "SKILL.md") in messages[id]


def test_a_link_that_leaves_the_folder(root: Path, make_server: MakeServer):
    (write_skill(root, "refunds") / "passwd").symlink_to("/etc/passwd")
    make_server()

    assert find_messages().keys() == {"E003"}


def test_too_many_files(root: Path, make_server: MakeServer):
    write_skill(root, "refunds", files={f"{number}.md": "a" for number in range(512)})
    make_server()

    assert find_messages().keys() == {"E005"}


def test_too_many_bytes(root: Path, make_server: MakeServer):
    with (write_skill(root, "refunds") / "large").open("wb") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    make_server()

    assert find_messages().keys() == {"E005"}


def test_a_file_beside_the_folders_that_is_written_as_a_skill(root: Path, make_server: MakeServer):
    write_skill(root, "refunds", files={"more.md": "---\nname: a\ndescription: b\n---\n"})
    (root / "README.md").write_text("# Our skills\n")
    (root / "notes.md").write_text("---\n\nA line.\n")
    make_server()
    assert find_messages() == {}

    (root / "returns.md").write_text("---\nname: returns\ndescription: a\n---\n\nDo it.\n")

    messages = find_messages()
    assert messages.keys() == {"E002"}
    assert "move the file to returns/SKILL.md" in messages["E002"]


def test_a_folder_with_instructions_and_no_skill_file(root: Path, make_server: MakeServer):
    write_skill(root, "billing/refunds", files={"more/notes.md": "a"})
    (root / "billing" / "README.md").write_text("# Billing\n")
    (root / "billing" / "notes.md").write_text("# Billing\n")
    (root / "scripts").mkdir()
    (root / "scripts" / "build.py").write_text("")
    make_server()
    assert find_messages() == {}

    (root / "returns").mkdir()
    (root / "returns" / "returns.md").write_text("# Returns\n")

    messages = find_messages()
    assert messages.keys() == {"W007"}
    assert f"{root / 'returns'} has Markdown files" in messages["W007"]


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("---\nname: daily\ndescription: Report\n---\n\nDo it.", True),
        ("---\n\nDo it.\n\n---\n", False),
        ("Do it.", False),
    ],
)
def test_a_generated_skill_with_front_matter_of_its_own_is_refused(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture, text: str, is_refused: bool
):
    server = make_server()
    skill("daily", description="Report", server=server)(lambda: text)

    read = MCPClient(server).read
    if is_refused:
        with pytest.raises(MCPError, match="Internal error"):
            read("skill://daily/SKILL.md")
        assert "front matter of its own: return the instructions alone" in caplog.text
    else:
        assert read("skill://daily/SKILL.md").text.count("description: Report") == 1


@pytest.mark.parametrize("is_generated", [False, True])
def test_two_skills_at_the_same_path(
    root: Path, tmp_path: Path, make_server: MakeServer, is_generated: bool
):
    write_skill(root, "refunds", body="First.")
    other = write_skill(tmp_path / "other", "refunds")
    server = make_server(skills_dirs=[root, other.parent])
    if is_generated:
        server = make_server("generating")
        skill("refunds", description="a", server=server)(lambda: "First.")

    (message,) = [text for id, text in find_messages().items() if id == "E006"]

    assert "skill://refunds/SKILL.md" in message
    # The first one is served.
    assert "First." in MCPClient(server).read("skill://refunds/SKILL.md").text


def test_a_folder_that_is_not_there(tmp_path: Path, make_server: MakeServer):
    make_server(skills_dirs=[tmp_path / "no"])

    assert find_messages().keys() == {"E007"}


def test_a_permission_for_no_skill(root: Path, make_server: MakeServer):
    write_skill(root, "refunds")
    make_server(skills_permissions={"refund": "auth.view_user"})

    assert find_messages().keys() == {"E008"}


def test_two_skills_with_the_same_name(root: Path, make_server: MakeServer):
    write_skill(root, "billing/refunds")
    write_skill(root, "support/refunds")
    make_server()

    assert find_messages().keys() == {"W001"}


def test_a_file_that_no_result_has_room_for(root: Path, make_server: MakeServer):
    write_skill(root, "refunds", files={"large.txt": "a" * 3000})
    make_server(max_result_bytes=2048)

    assert find_messages().keys() == {"W002"}


def test_a_generated_skill_inside_of_a_folder(root: Path, make_server: MakeServer):
    write_skill(root, "reports")
    skill("reports/daily", description="a", server=make_server())(lambda: "a")

    assert find_messages().keys() == {"W003"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SKILLS_DIRS", ["skills"]),
        ("SKILLS_DIRS", "/skills"),
        ("SKILLS_PERMISSIONS", ["reports"]),
        ("SKILLS_PERMISSIONS", {"reports": 7}),
        ("SKILLS_PERMISSIONS", {7: "auth.view_user"}),
    ],
)
def test_a_wrong_setting(settings: Any, name: str, value: Any):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, name: value}

    assert [
        message.msg
        for message in run_checks(tags=["django_mcp"])
        if message.id == "django_mcp.E001" and name in message.msg
    ]


def find_orders(query: str = "", state: str = "") -> list[str]:
    """Find orders."""
    return []


def read_terms() -> str:
    """Read the terms."""
    return "a"


WRONG = [
    "Find it with `find_ordrs`.",
    "Find it with `find_order(query)`.",
    "Call `mcp__shop__find_ordes` first.",
    "Read `shop://term`.",
    "Read `references/retruns.md` then.",
    "Read [the terms](references/retruns.md#when).",
    "Read [the terms](other.md).",
    "```\npython scripts/refund.py\n```",
    "Read ./references/old/terms.md.",
    "Read `retruns.md`.",
]
RIGHT = [
    "Find it with `find_orders`, by its `query` or `state`, and `find_orders(query)`, never `delete_user`.",
    "Read `references/returns.md`, [it](references/returns.md#when) and [all](references/).",
    "Read [the terms](https://a.example/references/terms.md), `shop://terms` and `../shop/mcp.py`.",
    "Look into `shop/models.py`, other/references/terms.md and `references/<number>.md`.",
    "```\nfind_ordrs()\n```",
    "The `orders` are in `references/YEAR.md`, or `SKILL.md`.",
    "[Above](#above), [mail](mailto:a@b.example), [inside](inside/SKILL.md).",
]


@pytest.fixture
def names(root: Path, make_server: MakeServer) -> Callable[[str], MCPServer]:
    """Make a server with a skill of a text."""

    def make(body: str) -> MCPServer:
        write_skill(root, "refunds", body, files={"references/returns.md": "Within `30` days."})
        write_skill(root, "refunds/inside")
        server = make_server()
        server.register_tool(find_orders, read_only=True)
        server.resource("shop://terms")(read_terms)
        return server

    return make


@pytest.mark.parametrize("body", WRONG)
def test_a_skill_that_names_what_is_not_there(names: Callable[[str], MCPServer], body: str):
    server = names(body)

    messages = find_messages()

    assert messages.keys() == {"W005"}
    assert "skill://refunds/SKILL.md of <MCPServer skilled>: SKILL.md names" in messages["W005"]
    with pytest.raises(AssertionError, match="which is not there"):
        MCPClient(server=server).assert_skill_verifies("skill://refunds/SKILL.md")
    server.remove_tool("find_orders")


@pytest.mark.parametrize("body", RIGHT)
def test_a_skill_that_names_what_is_there_or_something_else(
    names: Callable[[str], MCPServer], body: str
):
    server = names(body)

    assert find_messages() == {}
    MCPClient(server=server).assert_skill_verifies("skill://refunds/SKILL.md")
    server.remove_tool("find_orders")


def test_a_reference_that_names_what_is_not_there(root: Path, make_server: MakeServer):
    text = "Go on with [this](returns.md) or [that](next.md)."
    write_skill(root, "refunds", files={"references/returns.md": text})
    make_server()

    told = find_messages()["W005"]

    assert "references/returns.md names the file 'next.md', which is not there" in told


def test_tools_that_are_allowed(root: Path, make_server: MakeServer):
    folder = write_skill(root, "refunds")
    text = (folder / "SKILL.md").read_text()
    (folder / "SKILL.md").write_text(
        text.replace("---\n\n", 'allowed-tools: "Bash find_ordrs"\n---\n\n', 1)
    )
    server = make_server()
    server.register_tool(find_orders, read_only=True)

    assert "'find_ordrs', which is no tool" in find_messages()["W005"]
    server.remove_tool("find_orders")


@pytest.mark.parametrize("name", ["skills", "skill"])
def test_skills_beside_the_apps(tmp_path: Path, settings: Any, name: str):
    write_skill(tmp_path / name, "refunds")
    settings.BASE_DIR = tmp_path

    assert find_messages() == {"W006": f"{tmp_path / name} has skills that no server serves."}


def test_skills_beside_the_apps_that_a_server_has(
    root: Path, make_server: MakeServer, settings: Any
):
    write_skill(root, "refunds")
    make_server()
    settings.BASE_DIR = root.parent

    assert find_messages() == {}
