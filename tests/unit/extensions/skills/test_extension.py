"""What clients get of skills: lists, entries, files and folders."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User

from django_mcp import Context, MCPServer, signed_in
from django_mcp.extensions.skills import skill
from django_mcp.inprocess import MCPError, UnknownResource
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import MCPClient
from tests.unit.extensions.skills.conftest import write_skill

MakeServer = Callable[..., MCPServer]
OLDER = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
REFUNDS = "skill://refunds/SKILL.md"
ID = "io.modelcontextprotocol/skills"


def list_uris(client: MCPClient) -> list[str]:
    return [entry["uri"] for entry in client.skills()]


def get(client: MCPClient, uri: str) -> Any:
    return client.send("skills/get", {"uri": uri})["skill"]


def list_folder(client: MCPClient, uri: str) -> dict[str, str]:
    """Return the types of what is in a folder, by URI."""
    children = client.send("resources/directory/read", {"uri": uri})["resources"]
    return {child["uri"]: child["mimeType"] for child in children}


def assert_unknown(client: MCPClient, method: str, uri: str) -> None:
    with pytest.raises(MCPError) as caught:
        client.send(method, {"uri": uri})
    assert caught.value.code == -32602


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ada")


# Lists and entries


def test_a_server_without_skills_says_nothing_of_them(make_server: MakeServer):
    client = MCPClient(make_server())

    assert ID not in client.discover()["capabilities"].get("extensions", {})
    with pytest.raises(MCPError) as caught:
        client.skills()
    assert caught.value.code == -32601


def test_a_server_says_that_it_has_skills(root: Path, make_server: MakeServer):
    write_skill(root, "refunds")
    capabilities = MCPClient(make_server()).discover()["capabilities"]

    assert capabilities["extensions"] == {ID: {"directoryRead": True}}
    assert "resources" in capabilities


def test_skills_are_listed_with_digests_of_the_bytes_that_are_read(
    root: Path, make_server: MakeServer
):
    logo = b"\x89PNG\xff\x00"
    write_skill(root, "refunds", files={"a b.csv": "n\r\n1\r\n", "logo.png": logo})
    client = MCPClient(make_server())

    (entry,) = client.skills()

    assert entry["frontmatter"] == {"name": "refunds", "description": "Do a thing"}
    assert entry["uri"] == REFUNDS
    files = {file["uri"]: (file["digest"], file["size"]) for file in entry["resources"]}
    assert len(files) == 3
    for uri, name in ((REFUNDS, "SKILL.md"), ("skill://refunds/a%20b.csv", "a b.csv")):
        text = client.read(uri).text.encode()
        assert text == (root / "refunds" / name).read_bytes()
        assert files[uri] == (f"sha256:{hashlib.sha256(text).hexdigest()}", len(text))
    raw = client.read("skill://refunds/logo.png").raw["contents"][0]
    assert base64.b64decode(raw["blob"]) == logo
    client.assert_skill_verifies(REFUNDS)
    assert get(client, REFUNDS) == entry
    client.assert_conforms()


def test_results_have_what_the_specification_demands(root: Path, make_server: MakeServer):
    write_skill(root, "refunds")
    client = MCPClient(make_server())

    listed = client.send("skills/list")
    gotten = client.send("skills/get", {"uri": REFUNDS})
    folder = client.send("resources/directory/read", {"uri": "skill://refunds"})

    for result in (listed, gotten):
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    assert {listed["resultType"], gotten["resultType"], folder["resultType"]} == {"complete"}
    (resource,) = folder["resources"]
    assert resource["mimeType"] == "text/markdown"
    assert (resource["name"], resource["description"]) == ("refunds", "Do a thing")


def test_messages_are_checked_in_strict_mode(root: Path, make_server: MakeServer):
    write_skill(root, "acme/refunds", files={"notes.md": "a"})
    server = make_server(strict=True)
    skill("daily", description="Report", server=server)(lambda: "a")
    client = MCPClient(server)

    assert len(client.skills()) == 2
    client.assert_skill_verifies("skill://acme/refunds/SKILL.md")
    list_folder(client, "skill://acme")
    for method, params in (
        ("skills/list", {"cursor": 7}),
        ("skills/get", {}),
        ("resources/directory/read", {"uri": 7}),
    ):
        with pytest.raises(MCPError) as caught:
            client.send(method, params)
        assert caught.value.code == -32602


def test_clients_may_cache_entries_as_long_as_lists(
    root: Path, make_server: MakeServer, settings: Any
):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "LIST_TTL_MS": 5000}
    write_skill(root, "refunds")

    assert MCPClient(make_server()).send("skills/list")["ttlMs"] == 5000


def test_a_list_has_pages(root: Path, make_server: MakeServer):
    for number in range(5):
        write_skill(root, f"skill-{number}")
    client = MCPClient(make_server(page_size=2))

    first = client.send("skills/list")

    assert len(first["skills"]) == 2
    assert len(list_uris(client)) == len(set(list_uris(client))) == 5


def test_a_page_ends_before_it_is_too_large(root: Path, make_server: MakeServer):
    for name in ("orders", "refunds", "stock"):
        write_skill(root, name, files={f"{'a' * 200}{number}": "a" for number in range(400)})
    client = MCPClient(make_server())

    assert [len(entry["resources"]) for entry in client.skills()] == [401] * 3
    assert len(client.send("skills/list")["skills"]) == 2


@pytest.mark.parametrize("cursor", ["no", 5, {}, "a" * 5000])
def test_a_made_up_cursor_is_refused(root: Path, make_server: MakeServer, cursor: Any):
    write_skill(root, "refunds")
    client = MCPClient(make_server())

    for method, params in (
        ("skills/list", {}),
        ("resources/directory/read", {"uri": "skill://refunds"}),
    ):
        with pytest.raises(MCPError) as caught:
            client.send(method, {**params, "cursor": cursor})
        assert caught.value.code == -32602


@pytest.mark.parametrize(
    "uri",
    [
        "skill://no/SKILL.md",
        "skill://refunds",
        "skill://refunds/",
        "skill://refunds/notes.md",
        "skill://refunds/../refunds/SKILL.md",
        "skill://refunds/%2e%2e/refunds/SKILL.md",
        "skill://REFUNDS/SKILL.md",
        "skill:refunds/SKILL.md",
        "file:///etc/passwd",
        "",
        "a" * 100_000,
        7,
        None,
        ["a"],
    ],
)
def test_an_unknown_skill(root: Path, make_server: MakeServer, uri: Any):
    write_skill(root, "refunds", files={"notes.md": "a"})

    assert_unknown(MCPClient(make_server()), "skills/get", uri)


@pytest.mark.parametrize(
    "uri",
    [
        "skill://refunds/no.md",
        "skill://refunds/../../etc/passwd",
        "skill://refunds/..%2F..%2Fetc/passwd",
        "skill://refunds//notes.md",
        "skill://refunds",
    ],
)
def test_a_file_that_no_skill_has(root: Path, make_server: MakeServer, uri: str):
    write_skill(root, "refunds", files={"notes.md": "a"})

    with pytest.raises(UnknownResource):
        MCPClient(make_server()).read(uri)


# Folders


def test_each_folder_is_listed(root: Path, make_server: MakeServer):
    write_skill(root, "acme/refunds", files={"texts/a.md": "a", "texts/eu/b.txt": "b"})
    client = MCPClient(make_server())

    assert list_folder(client, "skill://acme") == {"skill://acme/refunds": "inode/directory"}
    assert list_folder(client, "skill://acme/refunds") == {
        "skill://acme/refunds/SKILL.md": "text/markdown",
        "skill://acme/refunds/texts": "inode/directory",
    }
    assert list_folder(client, "skill://acme/refunds/texts") == {
        "skill://acme/refunds/texts/a.md": "text/markdown",
        "skill://acme/refunds/texts/eu": "inode/directory",
    }


def test_a_folder_has_pages(root: Path, make_server: MakeServer):
    write_skill(root, "refunds", files={f"{number}.md": "a" for number in range(4)})
    client = MCPClient(make_server(page_size=2))
    params: dict[str, Any] = {"uri": "skill://refunds"}

    found: list[str] = []
    for _ in range(3):
        page = client.send("resources/directory/read", params)
        found += [child["name"] for child in page["resources"]]
        params["cursor"] = page.get("nextCursor")

    assert found == ["0.md", "1.md", "2.md", "3.md", "refunds"]
    assert params["cursor"] is None


@pytest.mark.parametrize(
    "uri", ["skill://no", REFUNDS, "skill://refunds/", "skill://", "skill://refunds/..", 7, None]
)
def test_what_is_no_folder(root: Path, make_server: MakeServer, uri: Any):
    write_skill(root, "refunds")

    assert_unknown(MCPClient(make_server()), "resources/directory/read", uri)


# Permissions


@pytest.mark.django_db
def test_a_skill_is_hidden_from_users_without_its_permission(
    root: Path, make_server: MakeServer, user: User
):
    write_skill(root, "refunds")
    write_skill(root, "reports/daily", files={"notes.md": "SECRET"})
    server = make_server(skills_permissions={"reports": "auth.view_user"})
    daily, notes = "skill://reports/daily/SKILL.md", "skill://reports/daily/notes.md"
    client = MCPClient(server, user=user)

    assert list_uris(client) == [REFUNDS]
    assert_unknown(client, "skills/get", daily)
    for folder in ("skill://reports", "skill://reports/daily"):
        assert_unknown(client, "resources/directory/read", folder)
    for uri in (daily, notes):
        with pytest.raises(UnknownResource):
            client.read(uri)
    client.assert_hidden(daily)

    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    client = MCPClient(server, user=User.objects.get())

    assert list_uris(client) == [REFUNDS, daily]
    assert client.read(notes).text == "SECRET"
    client.assert_skill_verifies(daily)


def test_the_error_of_a_hidden_skill_is_that_of_an_unknown_one(root: Path, make_server: MakeServer):
    write_skill(root, "daily")
    server = make_server(skills_permissions={"daily": "auth.view_user"})
    client = MCPClient(server, user=AnonymousUser())

    errors = []
    for name in ("daily", "other"):
        with pytest.raises(MCPError) as caught:
            client.send("skills/get", {"uri": f"skill://{name}/SKILL.md"})
        errors.append((caught.value.code, caught.value.message.replace(name, "")))

    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("permissions", "seen"),
    [
        ({"acme": "auth.view_user", "acme/refunds": ()}, ["skill://acme/refunds/SKILL.md"]),
        ({"acme/refunds": "auth.view_user"}, ["skill://acme/SKILL.md"]),
        ({"ac": "auth.view_user"}, ["skill://acme/SKILL.md", "skill://acme/refunds/SKILL.md"]),
        ({"acme": lambda user: False}, []),
    ],
)
def test_the_longest_path_decides(
    root: Path, make_server: MakeServer, permissions: Any, seen: list[str]
):
    write_skill(root, "acme")
    write_skill(root, "acme/refunds")
    client = MCPClient(make_server(skills_permissions=permissions), user=AnonymousUser())

    assert list_uris(client) == seen if seen else client.send("skills/list")["skills"] == []


def test_the_permission_of_the_server_is_for_the_others(root: Path, make_server: MakeServer):
    write_skill(root, "refunds")
    client = MCPClient(make_server(permission="auth.view_user"), user=AnonymousUser())

    assert client.skills() == []


def test_a_hidden_skill_inside_of_another_is_as_if_it_were_not_there(
    root: Path, make_server: MakeServer
):
    write_skill(root, "acme", files={"notes.md": "a"})
    write_skill(root, "acme/refunds", files={"secret.md": "SECRET"})
    open_server = make_server("open")
    server = make_server(skills_permissions={"acme/refunds": lambda user: False})
    client = MCPClient(server, user=AnonymousUser())

    (entry,) = client.skills()

    assert [file["uri"] for file in entry["resources"]] == [
        "skill://acme/SKILL.md",
        "skill://acme/notes.md",
    ]
    assert "skill://acme/refunds" not in list_folder(client, "skill://acme")
    with pytest.raises(UnknownResource):
        client.read("skill://acme/refunds/secret.md")
    client.assert_skill_verifies("skill://acme/SKILL.md")
    # For those who see it, its files are files of the outer one.
    everything = get(MCPClient(open_server), "skill://acme/SKILL.md")["resources"]
    assert len(everything) == 4


@pytest.mark.django_db
def test_answers_are_not_those_of_others(root: Path, make_server: MakeServer, user: User):
    write_skill(root, "acme")
    write_skill(root, "acme/refunds")
    server = make_server(skills_permissions={"acme/refunds": signed_in})
    uri = "skill://acme/SKILL.md"

    for _ in range(2):
        found = [
            (len(client.skills()), len(get(client, uri)["resources"]))
            for client in (MCPClient(server, user=user), MCPClient(server, user=AnonymousUser()))
        ]
        assert found == [(2, 2), (1, 1)]


# Older revisions


@pytest.mark.parametrize("revision", OLDER)
def test_clients_of_older_revisions_see_resources_and_are_told(
    root: Path, make_server: MakeServer, revision: str
):
    write_skill(root, "refunds", files={"notes.md": "a"})
    client = MCPClient(make_server(instructions="Be kind."), revision=revision)

    instructions = client.discover()["instructions"]

    assert instructions.startswith("Be kind.\n\nThis server has skills")
    assert f"- {REFUNDS}: Do a thing" in instructions
    assert [resource["uri"] for resource in client.list_resources()] == [REFUNDS]
    assert client.read(REFUNDS).text.startswith("---\nname: refunds")
    assert client.read("skill://refunds/notes.md").text == "a"
    assert ID not in client.discover()["capabilities"].get("extensions", {})
    with pytest.raises(MCPError) as caught:
        client.send("skills/list")
    assert caught.value.code == -32601


def test_the_newest_revision_is_not_told(root: Path, make_server: MakeServer):
    write_skill(root, "refunds")

    assert "instructions" not in MCPClient(make_server()).discover()


def test_instructions_name_no_hidden_skill(root: Path, make_server: MakeServer):
    write_skill(root, "refunds")
    server = make_server(skills_permissions={"refunds": lambda user: False})
    client = MCPClient(server, user=AnonymousUser(), revision="2025-11-25")

    assert "instructions" not in client.discover()


def test_instructions_are_bounded(root: Path, make_server: MakeServer):
    for number in range(50):
        write_skill(root, f"skill-{number}", description="a" * 1000)
    client = MCPClient(make_server(), revision="2025-11-25")

    instructions = client.discover()["instructions"]

    assert "- 30 more are among the resources." in instructions
    assert len(instructions) < 6000


# Generated skills


def test_a_generated_skill(make_server: MakeServer):
    server = make_server()

    @skill("reports/daily", server=server, metadata={"version": "1.10"}, allowed_tools=["find"])
    def daily(ctx: Context) -> str:
        """Make the daily report: with the numbers of today."""
        return f"# For {ctx.user}"

    uri, client = "skill://reports/daily/SKILL.md", MCPClient(server)

    (entry,) = client.skills()
    assert entry["resources"] == "dynamic"
    assert entry["frontmatter"] == {
        "name": "daily",
        "description": "Make the daily report: with the numbers of today.",
        "metadata": {"version": "1.10"},
        "allowed-tools": ["find"],
    }
    assert client.read(uri).text.endswith("---\n\n# For AnonymousUser\n")
    client.assert_skill_verifies(uri)
    assert list_folder(client, "skill://reports/daily") == {uri: "text/markdown"}


async def test_a_generated_skill_may_be_asynchronous(make_server: MakeServer):
    server = make_server()

    @skill("daily", description="Report", server=server)
    async def daily() -> str:
        return "# Today"

    answer = await server.handle(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "resources/read",
            "params": {
                "uri": "skill://daily/SKILL.md",
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
    )

    assert answer is not None
    assert "# Today" in answer["result"]["contents"][0]["text"]


@pytest.mark.django_db
def test_a_generated_skill_may_need_a_permission(make_server: MakeServer, user: User):
    server = make_server()
    skill("daily", description="Report", permission="auth.view_user", server=server)(lambda: "a")

    assert MCPClient(server, user=user).skills() == []


@pytest.mark.parametrize(
    ("path", "options", "told"),
    [
        ("Daily", {}, "lower-case"),
        ("", {}, "has to be a text"),
        ("daily", {"description": ""}, "no description"),
        ("daily", {"metadata": {"a": 1.5}}, "cannot be written|1.5"),
        ("daily", {"metadata": {"io.modelcontextprotocol/a": "b"}}, "reserved"),
    ],
)
def test_a_generated_skill_that_no_host_would_load(
    make_server: MakeServer, path: str, options: Any, told: str
):
    register = skill(path, **{"description": "Report", "server": make_server(), **options})

    with pytest.raises(RegistrationError, match=told):
        register(lambda: "a")


def test_a_generated_skill_inside_of_a_folder_makes_it_dynamic(root: Path, make_server: MakeServer):
    write_skill(root, "reports", files={"notes.md": "a"})
    server = make_server()
    skill("reports/daily", description="Report", server=server)(lambda: "a")

    entries = {entry["uri"]: entry["resources"] for entry in MCPClient(server).skills()}

    assert entries == {
        "skill://reports/SKILL.md": "dynamic",
        "skill://reports/daily/SKILL.md": "dynamic",
    }


# Snapshots


def test_a_process_serves_what_it_has_read(root: Path, make_server: MakeServer):
    folder = write_skill(root, "refunds", files={"notes.md": "old"})
    client = MCPClient(make_server())
    before = client.skills()

    (folder / "notes.md").write_text("new")
    (folder / "more.md").write_text("new")

    assert client.skills() == before
    assert client.read("skill://refunds/notes.md").text == "old"
    client.assert_skill_verifies(REFUNDS)


def test_hosts_recover_while_two_releases_are_served(root: Path, make_server: MakeServer):
    """A host lists at one release and reads at the other, as during a rolling deployment."""
    folder = write_skill(root, "refunds", body="Old.", files={"notes.md": "old"})
    old = MCPClient(make_server("old"))
    held = {file["uri"]: file for file in get(old, REFUNDS)["resources"]}
    write_skill(root, "refunds", body="New.")
    (folder / "more.md").write_text("new")
    (folder / "notes.md").unlink()
    new = MCPClient(make_server("new"))

    def verifies(client: MCPClient, uri: str, entry: dict[str, Any]) -> bool:
        content = client.read(uri).text.encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return (digest, len(content)) == (entry["digest"], entry["size"])

    assert verifies(old, REFUNDS, held[REFUNDS])
    assert not verifies(new, REFUNDS, held[REFUNDS])
    # A file of the old release alone is unknown at the new one.
    with pytest.raises(UnknownResource):
        new.read("skill://refunds/notes.md")

    current = {file["uri"]: file for file in get(new, REFUNDS)["resources"]}

    assert all(verifies(new, uri, entry) for uri, entry in current.items())
    assert current.keys() == {REFUNDS, "skill://refunds/more.md"}
    assert verifies(old, REFUNDS, get(old, REFUNDS)["resources"][0])


def test_skills_follow_the_settings(root: Path, tmp_path: Path, settings: Any):
    from django_mcp import default_server

    write_skill(root, "refunds")
    write_skill(tmp_path / "other", "orders")
    for folder, uri in ((root, REFUNDS), (tmp_path / "other", "skill://orders/SKILL.md")):
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SKILLS_DIRS": [folder]}

        assert uri in default_server.registry.resources
    assert REFUNDS not in default_server.registry.resources

    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SKILLS_DIRS": []}

    assert "skill://orders/SKILL.md" not in default_server.registry.resources


def test_a_skill_with_a_problem_is_left_out_and_logged(
    root: Path, make_server: MakeServer, caplog: pytest.LogCaptureFixture
):
    (write_skill(root, "orders") / "SKILL.md").write_text("# Orders\n")
    write_skill(root, "refunds")

    assert list_uris(MCPClient(make_server())) == [REFUNDS]
    assert "orders/SKILL.md: line 1: it does not begin" in caplog.text


def test_a_disabled_skill_is_unknown_with_its_files(root: Path, make_server: MakeServer):
    write_skill(root, "orders")
    write_skill(root, "refunds", files={"notes.md": "a"})
    server = make_server()
    client = MCPClient(server)
    assert len(client.skills()) == 2

    server.registry.set_disabled(frozenset({("resources", REFUNDS)}))

    assert list_uris(client) == ["skill://orders/SKILL.md"]
    assert_unknown(client, "skills/get", REFUNDS)
    with pytest.raises(UnknownResource):
        client.read("skill://refunds/notes.md")


@pytest.mark.django_db
def test_the_catalogue_of_the_admin_marks_skills(root: Path, make_server: MakeServer, client: Any):
    write_skill(root, "refunds")
    server = make_server()
    skill("daily", description="Report", server=server)(lambda: "a")
    client.force_login(User.objects.create_superuser("root"))

    page = client.get("/admin/django_mcp/disabledentry/", {"server": "skilled"}).content.decode()

    assert "skill://refunds/SKILL.md" in page
    assert page.count(">skill<") == 2
    assert page.count(">generated<") == 1
