"""The preview of a page as another user, by request and response."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.http import HttpRequest
from django.test import Client, override_settings

from django_mcp import Context, MCPServer
from django_mcp.calls.recorder import flush_calls
from django_mcp.extensions.apps.admin.as_user import make_principal
from django_mcp.inprocess.results import MCPError
from django_mcp.middleware import TenantMiddleware
from django_mcp.models import CallRecord
from django_mcp.protocol.json import decode, encode
from django_mcp.server.exchange.exchange import Exchange
from tests.unit.admin.test_pages import HERE, client_of, url

FIELD = 'name="as_user"'
written: list[str] = []


class ByUser(TenantMiddleware):
    """The tenant of a user is named after them."""

    def enter(self, exchange: Exchange) -> Any:
        return nullcontext()

    def name_tenant(self, exchange: Exchange) -> str:
        return f"tenant of {exchange.caller.principal.user.get_username()}"


OPTIONS = {
    **HERE.options["DJANGO_MCP"],
    "MIDDLEWARE": [f"{__name__}.ByUser"],
    "RECORD_CALLS": True,
    "HANDLER_HEADERS": ["X-Probe"],
}


@pytest.fixture(autouse=True)
def here(db: None) -> Any:
    written.clear()
    with HERE, override_settings(DJANGO_MCP=OPTIONS):
        yield


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("previewed", public=True)
    page: Any = {"app": "shop/sales.html"}
    server.register_tool(tell, read_only=True, **page)
    server.register_tool(
        tell, name="closed", read_only=True, permission="auth.view_user", app="shop/rows.html"
    )
    server.register_tool(write, **page)
    server.register_tool(write, name="remove", destructive=True)
    server.register_tool(look, read_only=True)
    server.register_tool(ask, read_only=True)
    return server


def tell(ctx: Context) -> dict[str, Any]:
    """Tell who calls."""
    return {"user": ctx.user.get_username(), "tenant": ctx.tenant}


def write() -> dict[str, Any]:
    """Write something."""
    written.append("something")
    return {}


def look(request: HttpRequest) -> dict[str, Any]:
    """Look at the request."""
    return {
        "user": request.user.get_username(),
        "host": request.get_host(),
        "cookies": request.COOKIES,
        "has_session": hasattr(request, "session"),
        "path": request.path,
        "headers": dict(request.headers),
    }


async def ask(ctx: Context) -> dict[str, Any]:
    """Ask."""
    await ctx.aelicit("Sure?", {"type": "object", "properties": {}})
    return {}


@pytest.fixture
def admin() -> Client:
    return client_of("boss", is_superuser=True)


@pytest.fixture
def ada() -> Any:
    return get_user_model().objects.create_user("ada")


def show_entry(client: Client, tool: str = "tell", **query: Any) -> Any:
    return client.get(url("entry"), {"server": "previewed", "kind": "tools", "key": tool, **query})


def show_page(client: Client, user: Any, tool: str = "tell") -> Any:
    return client.get(url("preview"), {"server": "previewed", "tool": tool, "as_user": user})


def post(client: Client, name: str, **given: Any) -> Any:
    body = {"server": "previewed", "method": "tools/call", **given}
    return client.post(
        url(name), encode(body), content_type="application/json", headers={"X-Probe": "operator"}
    )


def call(client: Client, user: Any, tool: str = "tell", **given: Any) -> Any:
    """Call a tool for the page of another as a user, and return the message that answers."""
    params = {"name": tool, "arguments": {}}
    response = post(
        client, "preview_call", **{"app": "tell", "as_user": user, "params": params, **given}
    )
    assert response.status_code == 200, response.content
    return decode(decode(response.getvalue().splitlines()[-1])["text"])


def test_a_superuser_chooses_the_user_by_key(admin: Client, server: MCPServer, ada: Any):
    text = show_entry(admin).content.decode()
    chosen = show_entry(admin, as_user=ada.pk)

    assert FIELD in text
    # However many users there are.
    assert "ada" not in text
    assert "run as ada and with their permissions" in chosen.content.decode()
    assert chosen.context["form"]["sent"] == {"app": "tell", "as_user": str(ada.pk)}
    assert chosen.context["try_url"] == url("preview_call")


def test_others_have_no_such_parameter(server: MCPServer, ada: Any):
    clerk = client_of("clerk", "view_disabledentry", "try_entry", "view_user")
    call_as_ada = {"as_user": ada.pk, "params": {"name": "tell", "arguments": {}}}

    assert FIELD not in show_entry(clerk).content.decode()
    assert show_entry(clerk, as_user=ada.pk).status_code == 404
    assert show_page(clerk, ada.pk).status_code == 404
    assert post(clerk, "preview_call", app="tell", **call_as_ada).status_code == 404
    assert post(clerk, "try", **call_as_ada).status_code == 400
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("given", ["", "0", "x", "1\0", 10**30, "1" * 200, None, [1], True])
def test_an_unknown_user_is_not_found(admin: Client, server: MCPServer, given: Any):
    body = {"app": "tell", "as_user": given, "params": {"name": "tell", "arguments": {}}}

    assert post(admin, "preview_call", **body).status_code == 404
    assert show_page(admin, given if isinstance(given, str) else repr(given)).status_code == 404


def test_a_user_who_is_not_active_is_not_found(admin: Client, server: MCPServer):
    gone = get_user_model().objects.create_user("gone", is_active=False)
    entry = show_entry(admin, as_user=gone.pk)

    assert show_page(admin, gone.pk).status_code == 404
    assert "This page cannot be previewed as that user." in entry.content.decode()
    assert entry.context["form"]["sent"] == {}


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_calls_run_as_the_user_at_their_tenant(
    admin: Client, server: MCPServer, ada: Any, revision: str
):
    answer = call(admin, ada.pk, revision=revision)

    assert answer["result"]["structuredContent"] == {"user": "ada", "tenant": "tenant of ada"}


def test_the_permissions_are_those_of_the_user(admin: Client, server: MCPServer, ada: Any):
    assert "closed" in call(admin, ada.pk, "closed")["error"]["message"]
    assert show_page(admin, ada.pk, "closed").status_code == 404

    ada.user_permissions.set(Permission.objects.filter(codename="view_user"))
    assert call(admin, ada.pk, "closed")["result"]["structuredContent"]["user"] == "ada"
    assert show_page(admin, ada.pk, "closed").status_code == 200


@pytest.mark.parametrize("tool", ["write", "remove"])
def test_what_writes_is_refused(admin: Client, server: MCPServer, ada: Any, tool: str):
    refused = call(admin, ada.pk, tool)

    assert refused["error"]["message"] == (
        f"As another user, only tools that read can be called, and “{tool}” may write."
    )
    with pytest.raises(MCPError):
        server.call_tool(
            tool, user=make_principal(ada, get_user_model().objects.get(username="boss"))
        )
    assert written == []


def test_the_page_of_what_writes_is_for_the_operator_alone(
    admin: Client, server: MCPServer, ada: Any
):
    refused = call(admin, ada.pk, "tell", app="write")

    assert FIELD not in show_entry(admin, "write").content.decode()
    assert show_entry(admin, "write", as_user=ada.pk).context["form"]["sent"] == {}
    assert show_page(admin, ada.pk, "write").status_code == 404
    assert "Only the page of a tool that reads" in refused["error"]["message"]


@pytest.mark.parametrize("app", ["look", "none", None, ["tell"]])
def test_only_pages_make_such_calls(admin: Client, server: MCPServer, ada: Any, app: Any):
    params = {"name": "tell", "arguments": {}}

    assert post(admin, "preview_call", app=app, as_user=ada.pk, params=params).status_code == 404


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "ui://x"}),
        ("prompts/get", {"name": "x"}),
        ("completion/complete", {"ref": {}}),
        ("tools/call", {"name": ["tell"]}),
        (None, {}),
    ],
)
def test_nothing_but_tools_is_called(
    admin: Client, server: MCPServer, ada: Any, method: Any, params: Any
):
    refused = call(admin, ada.pk, method=method, params=params)

    assert refused["error"]["message"] == "As another user, only tools can be called."


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_nothing_is_answered_in_the_name_of_the_user(
    admin: Client, server: MCPServer, ada: Any, revision: str
):
    answer = call(admin, ada.pk, "ask", revision=revision)

    assert "error" in answer or answer["result"]["isError"]


def test_handlers_get_nothing_of_the_request_of_the_operator(
    admin: Client, server: MCPServer, ada: Any
):
    admin.cookies["probe"] = "operator"
    seen = call(admin, ada.pk, "look")["result"]["structuredContent"]

    assert seen == {
        "user": "ada",
        "host": "testserver",
        "cookies": {},
        "has_session": False,
        "path": "/",
        "headers": {"Host": "testserver"},
    }


def test_the_history_and_the_records_name_both(admin: Client, server: MCPServer, ada: Any):
    boss = get_user_model().objects.get(username="boss")
    show_page(admin, ada.pk)
    call(admin, ada.pk)
    call(admin, ada.pk, "remove")
    flush_calls()

    notes = LogEntry.objects.order_by("pk").values_list("user", "object_repr", "change_message")
    assert list(notes) == [
        (boss.pk, "tell", f"Previewed as ada ({ada.pk})."),
        (boss.pk, "tell", f"Called as ada ({ada.pk}) from the catalogue."),
    ]
    records = CallRecord.objects.order_by("pk").values_list("method", "user", "principal")
    key = f"admin-preview:{ada.pk}:{boss.pk}"
    assert list(records) == [("resources/read", ada.pk, key), ("tools/call", ada.pk, key)]


def test_the_form_is_translated(admin: Client, server: MCPServer, ada: Any):
    with override_settings(LANGUAGE_CODE="de"):
        text = show_entry(admin, as_user=ada.pk).content.decode()

    assert "Als dieser Benutzer (Primärschlüssel)" in text
    assert "im Namen und mit den Rechten von ada" in text
