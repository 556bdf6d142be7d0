"""The list of errors and the page of one: numbers, states, permissions and hostile texts."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.cache import cache
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_mcp.calls import flush_calls
from django_mcp.calls.call import Failed
from django_mcp.models import ErrorGroup
from django_mcp.server.exchange.digests import digest_of
from django_mcp.servers import MCPServer
from tests.support.wire import META, V2026_07_28, WireClient
from tests.unit.admin.test_pages import SCRIPT, client_of, url
from tests.unit.admin.test_reports import record_calls
from tests.unit.calls.test_calls import RECORDING, run

pytestmark = pytest.mark.usefixtures("here", "fresh_cache")


@pytest.fixture
def fresh_cache() -> None:
    cache.clear()


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("failing")

    @server.tool
    def buy(number: int) -> str:
        raise LookupError(f"{SCRIPT}\u202e{number}")

    return server


def fail(server: MCPServer, count: int, error: str, **values: Any) -> str:
    """Record failed calls, and return the key of their error."""
    key = digest_of(f"{error} {values.get('name')}")[:32]
    failed = Failed(kind="fault", error=error, place="shop.buy")
    record_calls(server, count, **{"outcome": "fault", **values}, fingerprint=key, failed=failed)
    return key


def call(server: MCPServer, arguments: dict[str, Any], client: str = "desk") -> ErrorGroup:
    """Have a client make a call that fails, and return its error."""
    info = {META + "clientInfo": {"name": client, "version": "1"}}
    params = {"name": "buy", "arguments": arguments, "_meta": info}
    with override_settings(DJANGO_MCP={**RECORDING, "RECORD_ERRORS": "message"}):
        run(WireClient(server, V2026_07_28).send("tools/call", params))
        flush_calls()
    return ErrorGroup.objects.latest("last_seen_at")


def rows_of(client: Client, **query: str) -> dict[str, Any]:
    page = client.get(url("errorgroup_changelist"), query)
    assert page.status_code == 200
    return {row.pk: row for row in page.context["cl"].result_list}


def page_of(client: Client, key: str) -> Any:
    return client.get(reverse("admin:django_mcp_errorgroup_change", args=[key]))


def resolve(client: Client, key: str, to: str = "resolved") -> Any:
    return client.post(reverse("admin:django_mcp_errorgroup_resolve", args=[key]), {"to": to})


@pytest.mark.parametrize("span", ["hour", "day", "week"])
def test_the_list_counts_calls_users_and_clients(admin: Client, server: MCPServer, span: str):
    key = fail(server, 3, "shop.Gone", name="buy", client_name="desk", principal="a")
    fail(server, 2, "shop.Gone", name="buy", client_name="phone", principal="b")
    fail(server, 1, "shop.Gone", name="buy")
    other = fail(server, 4, "KeyError", name="buy")
    rows = rows_of(admin, span=span)

    assert set(rows) == {key, other}
    assert (rows[key].figures.calls, rows[other].figures.calls) == (6, 4)
    assert sum(rows[key].figures.points) == 6
    assert (rows[key].affected.users, rows[key].affected.clients) == (2, 2)
    page = admin.get(url("errorgroup_changelist"), {"span": span}).content.decode()
    assert "shop.Gone" in page
    assert page.count("<polyline") == 2


@pytest.mark.parametrize("span", ["hour", "day", "week"])
def test_the_charts_and_the_list_of_errors_count_the_same(
    admin: Client, server: MCPServer, span: str
):
    for count, outcome in enumerate(("done", "asked", "cancelled"), start=1):
        record_calls(server, count, outcome=outcome)
    for count, outcome in enumerate(("failed", "refused", "timeout", "fault"), start=4):
        fail(server, count, outcome, outcome=outcome)
    cache.clear()
    counted = admin.get(url("charts_data"), {"span": span}).json()
    rows = rows_of(admin, span=span)

    assert sum(counted["errors"]) == sum(row.figures.calls for row in rows.values()) == 22
    told = "Calls with these outcomes are errors: tool error, refused, timed out, internal error."
    assert told in admin.get(url("errorgroup_changelist")).content.decode()
    assert told in admin.get(url("charts")).content.decode()


def test_the_page_of_an_error_shows_what_is_known_of_it(admin: Client, server: MCPServer):
    error = call(server, {"number": 7}, client=SCRIPT)
    call(server, {"number": 7}, client="desk")
    response = page_of(admin, error.pk)
    page = response.content.decode()

    report = response.context["report"]
    assert {row["name"] for row in report["clients"]} == {SCRIPT, "desk"}
    assert len(report["last"]) == 2
    assert "LookupError" in page
    assert "raise LookupError(f" in page
    assert SCRIPT not in page
    assert "\u202e" not in page
    for address in (report["clients"][0]["url"], report["users"][0]["url"]):
        assert admin.get(address).context["cl"].result_count > 0
    (calls,) = (address for title, address in response.context["links"] if "fingerprint" in address)
    assert admin.get(calls).context["cl"].result_count == 2
    for row in report["last"]:
        of_call = admin.get(row["url"])
        assert reverse("admin:django_mcp_errorgroup_change", args=[error.pk]) in [
            address for _title, address in of_call.context["links"]
        ]


def test_the_page_names_the_arguments_that_were_refused(admin: Client, server: MCPServer):
    error = call(server, {"number": "x"})
    call(server, {"number": 1, SCRIPT: 2})
    response = page_of(admin, error.pk)

    assert error.kind == "arguments"
    places = response.context["report"]["places"]
    assert {row["name"]: row["calls"] for row in places} == {"number": 1, "?": 1}
    assert "wrong arguments" in response.content.decode()
    assert SCRIPT not in response.content.decode()


def test_an_error_is_resolved_seen_again_and_reopened(admin: Client, server: MCPServer):
    error = call(server, {"number": 7})
    done = resolve(admin, error.pk)

    assert done.status_code == 302
    assert done["Location"] == reverse("admin:django_mcp_errorgroup_change", args=[error.pk])
    assert "Open again" in admin.get(done["Location"]).content.decode()
    assert not rows_of(admin)
    assert set(rows_of(admin, state="resolved")) == set(rows_of(admin, state="all")) == {error.pk}
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == (error.pk, "Resolved.")

    call(server, {"number": 7})
    assert set(rows_of(admin)) == set(rows_of(admin, state="again")) == {error.pk}
    assert "seen again" in page_of(admin, error.pk).content.decode()
    resolve(admin, error.pk)
    resolve(admin, error.pk, to="open")
    assert ErrorGroup.objects.get().state == "open"


def test_many_errors_are_resolved_and_reopened_from_the_list(admin: Client, server: MCPServer):
    keys = [fail(server, 1, name) for name in ("A", "B", "C")]

    def act(action: str, *chosen: str, **query: str) -> None:
        address = f"{url('errorgroup_changelist')}?state=all"
        response = admin.post(address, {"action": action, "_selected_action": chosen}, follow=True)
        assert response.redirect_chain

    act("resolve_selected", *keys[:2])
    assert set(rows_of(admin)) == {keys[2]}
    act("reopen_selected", keys[0])
    assert set(rows_of(admin)) == {keys[0], keys[2]}
    assert LogEntry.objects.count() == 3


@pytest.mark.parametrize(
    ("permissions", "seen", "resolved"),
    [
        ((), 403, 302),
        (("view_callrecord",), 403, 302),
        (("resolve_errorgroup",), 403, 302),
        (("view_errorgroup",), 200, 403),
        (("view_errorgroup", "resolve_errorgroup"), 200, 302),
    ],
)
def test_to_see_and_to_resolve_errors_takes_permissions(
    server: MCPServer, permissions: tuple[str, ...], seen: int, resolved: int
):
    key = fail(server, 1, "shop.Gone")
    clerk = client_of("clerk", *permissions)

    assert clerk.get(url("errorgroup_changelist")).status_code == seen
    assert page_of(clerk, key).status_code == seen
    assert resolve(clerk, key).status_code == resolved
    is_resolved = ErrorGroup.objects.get().resolved_at is not None
    assert is_resolved is (len(permissions) == 2)
    assert clerk.get(f"{url('errorgroup_changelist')}{key}/resolve/").status_code == 405


def test_users_and_clients_are_for_who_may_see_calls(server: MCPServer):
    key = fail(server, 1, "shop.Gone", client_name="the-client")
    clerk = client_of("clerk", "view_errorgroup")

    assert rows_of(clerk)[key].affected is None
    assert "the-client" not in page_of(clerk, key).content.decode()
    assert page_of(clerk, key).context["report"] is None
    both = client_of("both", "view_errorgroup", "view_callrecord")
    assert "the-client" in page_of(both, key).content.decode()


def test_to_delete_an_error_takes_its_permission(server: MCPServer):
    key = fail(server, 1, "shop.Gone")
    address = reverse("admin:django_mcp_errorgroup_delete", args=[key])

    assert client_of("viewer", "view_errorgroup").post(address, {"post": "yes"}).status_code == 403
    allowed = client_of("owner", "view_errorgroup", "delete_errorgroup")
    assert allowed.post(address, {"post": "yes"}).status_code == 302
    assert ErrorGroup.objects.count() == 0


@pytest.mark.parametrize(
    "query",
    [
        {"span": "year"},
        {"state": "x"},
        {"span": "\0"},
        {"q": "x" * 5000},
        {"error__regex": "(a+)+"},
        {"server": "x" * 3000},
    ],
)
def test_strange_filters_do_no_harm(admin: Client, server: MCPServer, query: dict[str, str]):
    fail(server, 1, "shop.Gone")

    assert admin.get(url("errorgroup_changelist"), query, follow=True).status_code == 200


def test_an_error_that_does_not_exist_is_said_so(admin: Client):
    assert page_of(admin, "nothing").status_code == 302
    assert resolve(admin, "nothing").status_code == 302


def test_a_page_of_errors_needs_one_query_for_each(admin: Client, server: MCPServer):
    def count() -> int:
        with CaptureQueriesContext(connection) as asked:
            rows_of(admin)
        return len(asked)

    fail(server, 1, "First")
    one = count()
    for at in range(20):
        fail(server, 1, f"Error{at}")

    # That of its users and clients, which reads a part of an index.
    assert count() - one == 20


def test_the_page_is_in_german(admin: Client, server: MCPServer):
    key = fail(server, 1, "shop.Gone")
    with override_settings(LANGUAGE_CODE="de"):
        page = page_of(admin, key).content.decode()
        listed = admin.get(url("errorgroup_changelist")).content.decode()

    assert "Als erledigt markieren" in page
    assert "nicht erledigt" in listed


def test_the_start_page_links_to_the_errors_of_the_hour(admin: Client, server: MCPServer):
    fail(server, 1, "shop.Gone")
    start = reverse("admin:app_list", args=["django_mcp"])

    assert f"{url('errorgroup_changelist')}?span=hour" in admin.get(start).content.decode()
    clerk = client_of("clerk", "view_callrecord")
    assert url("errorgroup_changelist") not in clerk.get(start).content.decode()
