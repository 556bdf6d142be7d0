"""Which handlers run in a transaction, and on which databases: `atomic=` and the setting `ATOMIC`."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core import mail
from django.core.checks import CheckMessage, run_checks
from django.db import connection, connections, transaction
from django.test import override_settings

from django_mcp import MCPServer, ToolResult
from django_mcp.conf import site_aliases
from django_mcp.execution.threads import run_in_pool
from django_mcp.registry.problems import RegistrationError
from tests.support.databases import make_product, products
from tests.support.wire import V2026_07_28, WireClient

ALL = ("first", "second")


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("atomic", atomic="first")


async def call(server: MCPServer, name: str) -> str:
    result = await WireClient(server, V2026_07_28).call(name)
    return "".join(each["text"] for each in result["content"])


def entered() -> str:
    """Return on which databases this thread is inside of a transaction."""
    return " ".join(alias for alias in ALL if connections[alias].in_atomic_block)


# -- which databases


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "first"),
        ({"read_only": False}, "first"),
        ({"read_only": True}, ""),
        ({"atomic": False}, ""),
        ({"atomic": "second"}, "second"),
        ({"atomic": ["first", "second"]}, "first second"),
        ({"atomic": ("second", "second")}, "second"),
        ({"atomic": []}, ""),
        ({"read_only": True, "atomic": "second"}, "second"),
    ],
    ids=str,
)
async def test_a_tool_runs_in_a_transaction_on_the_databases_it_names(
    server: MCPServer, options: dict[str, Any], expected: str
):
    server.register_tool(entered, **options)

    assert await call(server, "entered") == expected


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize(
    ("setting", "expected"),
    [(False, ""), ("second", "second"), (["first", "second"], "first second")],
    ids=str,
)
async def test_the_setting_is_the_default_for_tools(setting: Any, expected: str):
    server = MCPServer("by the setting")
    server.tool(entered)

    with override_settings(DJANGO_MCP={"ATOMIC": setting}):
        assert await call(server, "entered") == expected


@pytest.mark.parametrize(
    ("databases", "expected"), [({"default": {"ENGINE": "x"}}, ("default",)), ({}, ())], ids=str
)
@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_atomic_true_means_the_default_database(
    databases: dict[str, Any], expected: tuple[str, ...]
):
    with override_settings(DJANGO_MCP={}, DATABASES=databases):
        atomic = MCPServer("without a word").engine.options.atomic

        assert atomic is True
        assert site_aliases(atomic) == expected


@pytest.mark.django_db(transaction=True)
async def test_a_tool_with_atomic_true_uses_the_default_database(server: MCPServer):
    @server.tool(atomic=True)
    def look() -> bool:
        return connections["default"].in_atomic_block

    assert await call(server, "look") == "true"


@pytest.mark.usefixtures("databases")
async def test_resources_prompts_and_completions_run_without_a_transaction(server: MCPServer):
    server.resource("state://transaction")(entered)
    server.prompt(entered)
    seen: list[str] = []

    @server.prompt
    def name(prefix: str) -> str:
        return prefix

    @server.completion(name, "prefix")
    def complete(value: str) -> list[str]:
        seen.append(entered())
        return []

    client = WireClient(server, V2026_07_28)
    read = await client.result("resources/read", {"uri": "state://transaction"})
    prompt = await client.result("prompts/get", {"name": "entered"})
    await client.result(
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "name"},
            "argument": {"name": "prefix", "value": ""},
        },
    )

    assert read["contents"][0]["text"] == ""
    assert prompt["messages"][0]["content"]["text"] == ""
    assert seen == [""]


@pytest.mark.usefixtures("databases")
async def test_an_async_tool_runs_without_a_transaction(server: MCPServer):
    @server.tool
    async def look() -> str:
        return await run_in_pool(entered)

    assert await call(server, "look") == ""


# -- cost


@pytest.mark.parametrize("options", [{"read_only": True}, {"atomic": False}], ids=str)
async def test_a_tool_without_a_transaction_opens_no_connection(
    server: MCPServer, databases: str, options: dict[str, Any]
):
    connections["first"].settings_dict.update(
        {"NAME": "/nowhere/at/all.sqlite3"} if databases == "sqlite" else {"PORT": "1"}
    )

    @server.tool(**options)
    def answer() -> bool:
        return connections["first"].connection is None

    assert await call(server, "answer") == "true"


async def test_an_unavailable_database_fails_the_tool_before_it_runs(
    server: MCPServer, databases: str, caplog: pytest.LogCaptureFixture
):
    connections["first"].settings_dict.update(
        {"NAME": "/nowhere/at/all.sqlite3"} if databases == "sqlite" else {"PORT": "1"}
    )
    has_run = []

    @server.tool
    def answer() -> None:
        has_run.append(1)

    @server.tool(atomic=False)
    def write() -> None:
        make_product("a")

    told, when_it_asks = await call(server, "answer"), await call(server, "write")

    assert told.split("(")[0] == when_it_asks.split("(")[0] == "Internal error "
    assert has_run == []
    assert "OperationalError" in caplog.text


# -- commits


@pytest.mark.usefixtures("databases")
async def test_on_commit_callbacks_run_before_the_response(server: MCPServer):
    seen: list[bool] = []

    @server.tool
    def write() -> None:
        make_product("a")
        transaction.on_commit(lambda: seen.append(bool(entered())), using="first")
        assert seen == []

    await call(server, "write")

    assert seen == [False]


@pytest.mark.usefixtures("databases")
async def test_an_error_result_does_not_roll_back(server: MCPServer):
    """Only an exception rolls back: a handler that returns could have raised one."""

    @server.tool
    def write() -> ToolResult:
        make_product("a")
        return ToolResult(content=["half of it"], is_error=True)

    assert await call(server, "write") == "half of it"
    assert await run_in_pool(products) == {"a"}


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize("max_age_s", [0, 60])
async def test_connections_stay_healthy_after_tools_that_succeed_and_fail(
    server: MCPServer, max_age_s: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(mail, "outbox", raising=False)  # tests keep no connection
    connections["first"].settings_dict["CONN_MAX_AGE"] = max_age_s
    numbers = iter(range(2))

    @server.tool
    def write() -> None:
        make_product(f"kept {next(numbers)}")

    @server.tool
    def fail() -> None:
        make_product("lost")
        connections["first"].cursor().execute("SELECT nothing FROM nowhere")

    @server.tool(read_only=True)
    def look() -> str:
        connection = connections["first"]
        is_kept = connection.connection is not None
        state = f"kept: {is_kept}, in a transaction: {not connection.get_autocommit()}"
        found = f"{state}, {sorted(products())}"
        connection.close()
        return found

    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        for name in ("write", "fail", "write"):
            await call(server, name)

        is_kept = max_age_s > 0
        assert (
            await call(server, "look")
            == f"kept: {is_kept}, in a transaction: False, ['kept 0', 'kept 1']"
        )


# -- tools that only read


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize(
    ("is_debug", "options", "is_told"),
    [
        (True, {"read_only": True}, True),
        (True, {"atomic": False}, False),
        (False, {"read_only": True}, False),
    ],
)
async def test_a_read_only_tool_that_writes_is_named_while_debugging(
    server: MCPServer,
    caplog: pytest.LogCaptureFixture,
    is_debug: bool,
    options: dict[str, Any],
    is_told: bool,
):
    def look_and_write() -> str:
        products()
        make_product("a")
        make_product("b")
        return "done"

    server.register_tool(look_and_write, **options)
    with override_settings(DEBUG=is_debug):
        assert await call(server, "look_and_write") == "done"

    told = [each for each in caplog.messages if "is read_only, and writes" in each]
    assert len(told) == is_told
    assert all("The tool look_and_write" in each and "INSERT INTO" in each for each in told)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("is_debug", "options", "is_told"),
    [(True, {"read_only": True}, True), (True, {}, False), (False, {"read_only": True}, False)],
)
async def test_so_is_an_asynchronous_one_that_writes_with_the_orm(
    server: MCPServer,
    caplog: pytest.LogCaptureFixture,
    is_debug: bool,
    options: dict[str, Any],
    is_told: bool,
):
    async def look_and_write() -> str:
        await Group.objects.aexists()
        await Group.objects.acreate(name="a")
        await sync_to_async(Group.objects.create)(name="b")
        return "done"

    server.register_tool(look_and_write, **options)
    with override_settings(DEBUG=is_debug):
        assert await call(server, "look_and_write") == "done"

    told = [each for each in caplog.messages if "is read_only, and writes" in each]
    assert len(told) == is_told
    assert all("The tool look_and_write" in each and "INSERT INTO" in each for each in told)


# -- invalid options


@pytest.mark.parametrize("wrong", [1, 0, "", b"default", [1], [""], {"default": True}, object])
def test_a_wrong_value_is_refused_when_the_tool_is_registered(server: MCPServer, wrong: Any):
    with pytest.raises(RegistrationError, match=r"entered.*atomic= cannot .*list of such aliases"):
        server.register_tool(entered, atomic=wrong)


@pytest.mark.parametrize("value", [True, "default", ["default"]], ids=str)
def test_an_async_tool_cannot_be_atomic(server: MCPServer, value: Any):
    async def tool() -> None: ...

    with pytest.raises(RegistrationError, match="asynchronous function gets no transaction"):
        server.register_tool(tool, atomic=value)
    server.register_tool(tool, atomic=False)


def test_a_misspelt_option_is_rejected_with_a_suggestion(server: MCPServer):
    options: dict[str, Any] = {"atomc": False}

    with pytest.raises(RegistrationError, match="Did you mean 'atomic'"):
        server.register_tool(entered, **options)


def test_an_invalid_server_option_names_the_allowed_values():
    with pytest.raises(ValueError, match=r"atomic=\.\.\..*list of such aliases"):
        MCPServer("wrong", atomic=3)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite has one writer at a time")
@pytest.mark.django_db
def test_a_check_names_tools_whose_transaction_would_block_their_task():
    server = MCPServer("long work")

    @server.tool(task="auto")
    def blocks() -> str:
        return ""

    @server.tool(task="allowed", atomic=False)
    def commits_itself() -> str:
        return ""

    @server.tool(task="allowed", read_only=True)
    def reads() -> str:
        return ""

    @server.tool(task="allowed")
    async def waits() -> str:
        return ""

    @server.tool
    def is_short() -> str:
        return ""

    def find(store: str) -> list[CheckMessage]:
        with override_settings(DJANGO_MCP={"TASK_STORE": store}):
            found = [
                each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W017"
            ]
        # Servers of other tests may still exist.
        return [each for each in found if __name__ in each.msg]

    (found,) = find("model")
    assert ".blocks" in found.msg
    assert "'default'" in found.msg
    assert found.hint is not None
    assert "atomic=False" in found.hint
    assert find("memory") == []


@pytest.mark.django_db
def test_a_check_names_the_databases_when_an_alias_is_unknown():
    server = MCPServer("unknown databases", atomic="legder")
    server.register_tool(entered, atomic=["default", "archive"])

    with override_settings(DJANGO_MCP={"ATOMIC": "defualt"}):
        found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E011"]

    messages = "\n".join(each.msg for each in found)
    assert "DJANGO_MCP['ATOMIC'] names the database 'defualt'" in messages
    assert "server 'unknown databases' names the database 'legder'" in messages
    assert "atomic= names the database 'archive', which is not in DATABASES" in messages
    assert "names the database 'default'" not in messages
    assert {each.hint for each in found} == {
        "Databases are: 'default'. False opens no transaction."
    }
