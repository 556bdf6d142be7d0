"""The admin's pages by request and response: permissions and rejections."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin import site as admin_site
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse

from django_mcp import Context
from django_mcp.admin import register
from django_mcp.admin.catalogue import CatalogueAdmin
from django_mcp.admin.lists import LISTED_AT_MOST
from django_mcp.admin.texts import escape_invisible
from django_mcp.endpoints.disabled_entries import refresh
from django_mcp.models import APIKey, CallRecord, DisabledEntry
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.servers import MCPServer

other_site = AdminSite(name="other")
register(other_site)
keyless_site = AdminSite(name="keyless")
keyless_site.register(DisabledEntry, CatalogueAdmin)
urlpatterns = [
    path("keyless/", keyless_site.urls),
    path("admin/", admin_site.urls),
    path("other/", other_site.urls),
]

HERE = override_settings(ROOT_URLCONF=__name__, DJANGO_MCP={"SYNC_THREADS": 0, "PUBLIC": True})
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _here(db: None) -> Iterator[None]:
    cache.clear()
    with HERE:
        yield
    DisabledEntry.objects.all().delete()
    refresh()


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tried")

    @server.tool
    def greet(name: str) -> str:
        return f"Hello, {name}"

    @server.tool(permission="shop.view_order")
    def secret() -> str:
        return ""

    @server.tool
    def which(ctx: Context) -> dict[str, str]:
        return {"revision": ctx.revision}

    return server


def client_of(name: str, *permissions: str, is_superuser: bool = False) -> Client:
    users: Any = get_user_model().objects
    user = users.create_user(name, is_staff=True, is_superuser=is_superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def url(name: str, site: str = "admin") -> str:
    return reverse(f"{site}:django_mcp_{name}")


def switch(client: Client, to: str, key: str = "greet", **changed: str) -> int:
    data = {"server": "tried", "kind": "tools", "key": key, "to": to, "confirmed": "1", **changed}
    return client.post(url("switch"), data).status_code


def try_it(client: Client, **given: Any) -> Any:
    params = {"name": given.pop("key", "greet"), "arguments": given.pop("arguments", {})}
    body = {"server": "tried", "method": "tools/call", "params": params, **given}
    return client.post(url("try"), encode(body), content_type="application/json")


def lines(response: Any) -> list[Any]:
    return [decode(line) for line in b"".join(response.streaming_content).splitlines()]


@pytest.mark.parametrize("site", ["admin", "other"])
@pytest.mark.parametrize(
    "name", ["disabledentry_changelist", "callrecord_changelist", "charts", "charts_data"]
)
def test_the_pages_work_in_any_admin_site(admin: Client, name: str, site: str):
    assert admin.get(url(name, site)).status_code == 200


def test_the_connect_page_omits_keys_without_api_key_authentication(admin: Client):
    APIKey.objects.issue(user=get_user_model().objects.get(), name="laptop")

    assert "laptop" in admin.get(url("connect")).content.decode()
    page = admin.get(url("connect", "keyless"))
    assert page.status_code == 200
    assert "laptop" not in page.content.decode()


@pytest.mark.parametrize("name", ["disabledentry_changelist", "charts", "charts_data", "entry"])
def test_staff_without_permission_cannot_open_the_pages(name: str, server: MCPServer):
    response = client_of("clerk").get(
        url(name), {"server": "tried", "kind": "tools", "key": "greet"}
    )

    assert response.status_code == 403


def test_anonymous_users_are_redirected_to_login():
    assert Client().get(url("charts")).status_code == 302


def test_an_entry_is_disabled_and_enabled(
    admin: Client, server: MCPServer, django_capture_on_commit_callbacks: Any
):
    with django_capture_on_commit_callbacks(execute=True):
        assert switch(admin, "off") == 302
    assert list(server.registry.tools) == ["secret", "which"]
    with django_capture_on_commit_callbacks(execute=True):
        assert switch(admin, "off") == 302
        assert switch(admin, "on") == 302
        assert switch(admin, "on") == 302
    assert list(server.registry.tools) == ["greet", "secret", "which"]
    assert [each.change_message for each in LogEntry.objects.order_by("pk")] == [
        "Disabled.",
        "Enabled.",
    ]


def test_disabling_asks_and_names_the_entry(admin: Client, server: MCPServer):
    data = {"server": "tried", "kind": "tools", "key": "greet", "to": "off"}
    page = admin.post(url("switch"), data).content.decode()

    assert "<bdi>Tool: greet</bdi>" in page
    assert 'class="button mcp-danger">Disable<' in page
    assert not DisabledEntry.objects.exists()


def test_the_message_writes_the_name_as_it_is(admin: Client, server: MCPServer):
    data = {"server": "tried", "kind": "tools", "key": "greet", "to": "off", "confirmed": "1"}

    assert (
        "The entry “greet” is disabled."
        in admin.post(url("switch"), data, follow=True).content.decode()
    )


def test_toggling_an_entry_keeps_the_selected_user_and_revision(admin: Client, server: MCPServer):
    get_user_model().objects.create_user("guest")
    looked = {"server": "tried", "user": "guest", "revision": REVISIONS[0].name}
    data = {"server": "tried", "kind": "tools", "key": "greet"}
    for page in ("disabledentry_changelist", "entry"):
        shown = admin.get(url(page), {**looked, **data})
        asked = admin.post(shown.context["switch_url"], data)
        after = admin.post(asked.context["switch_url"], {**data, "confirmed": "1"}, follow=True)
        assert shown.context["switch_url"].startswith(url("switch"))
        viewer = after.context["viewer"]
        assert (viewer.username, viewer.revision) == ("guest", REVISIONS[0].name)


@pytest.mark.parametrize(
    ("changed", "status"),
    [({"key": "nothing"}, 404), ({"server": "nothing"}, 404), ({"kind": "__class__"}, 404)],
)
def test_a_missing_entry_cannot_be_disabled(
    admin: Client, server: MCPServer, changed: dict[str, str], status: int
):
    assert switch(admin, "off", **changed) == status
    assert not DisabledEntry.objects.exists()


def test_disabling_requires_permission_post_and_csrf_token(server: MCPServer):
    viewer = client_of("viewer", "view_disabledentry")
    assert switch(viewer, "off") == 403
    boss = client_of("boss2", is_superuser=True)
    assert boss.get(url("switch")).status_code == 405
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(get_user_model().objects.get(username="boss2"))
    assert switch(careful, "off") == 403
    assert not DisabledEntry.objects.exists()


def test_the_catalogue_can_be_viewed_as_another_user(admin: Client, server: MCPServer):
    client_of("clerk", "view_order")
    users: Any = get_user_model().objects
    users.create_user("guest")

    seen = {}
    for username in ("clerk", "guest", ""):
        page = admin.get(url("disabledentry_changelist"), {"server": "tried", "user": username})
        seen[username] = {row["name"]: row["is_visible"] for row in page.context["tables"][0].rows}
    assert seen == {
        "clerk": {"greet": True, "secret": True, "which": True},
        "guest": {"greet": True, "secret": False, "which": True},
        "": {"greet": True, "secret": False, "which": True},
    }


def test_viewing_as_another_user_requires_the_view_user_permission(server: MCPServer):
    get_user_model().objects.create_user("guest")
    page = client_of("viewer", "view_disabledentry").get(
        url("disabledentry_changelist"), {"server": "tried", "user": "guest"}
    )

    assert page.context["viewer"].username == "viewer"


def test_a_disabled_entry_that_no_longer_exists_can_be_removed(admin: Client, server: MCPServer):
    DisabledEntry.objects.create(server="tried", kind="tools", key=SCRIPT)
    page = admin.get(url("disabledentry_changelist"), {"server": "tried"})
    assert SCRIPT not in page.content.decode()
    assert page.context["tables"][0].rows[-1]["is_gone"]

    assert switch(admin, "on", key=SCRIPT) == 302
    assert not DisabledEntry.objects.exists()


def test_trying_an_entry_shows_the_messages_sent_and_received(admin: Client, server: MCPServer):
    sent, answer = lines(try_it(admin, arguments={"name": "Ann"}))

    assert (sent["at"], answer["at"]) == ("sent", "answer")
    request = decode(sent["text"])
    assert request["params"]["arguments"] == {"name": "Ann"}
    result = decode(answer["text"])["result"]
    assert result["content"] == [{"type": "text", "text": "Hello, Ann"}]
    assert LogEntry.objects.get().object_repr == "greet"


def test_the_page_cannot_set_task_or_meta_of_a_request(admin: Client, server: MCPServer):
    params = {"name": "greet", "arguments": {"name": "Ann"}, "task": {}, "_meta": {"mine": 1}}
    sent, _answer = lines(try_it(admin, params=params))
    request = decode(sent["text"])

    assert set(request["params"]) == {"name", "arguments", "_meta"}
    assert "mine" not in request["params"]["_meta"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_trying_uses_the_selected_revision(admin: Client, server: MCPServer, revision: Revision):
    _sent, answer = lines(try_it(admin, key="which", revision=revision.name))
    result = decode(answer["text"])["result"]
    assert decode(result["content"][0]["text"]) == {"revision": revision.name}
    query = {"server": "tried", "kind": "tools", "key": "which", "revision": revision.name}
    page = admin.get(url("entry"), query)
    assert page.context["form"]["revision"] == revision.name


def test_an_unknown_revision_falls_back_to_the_newest(admin: Client, server: MCPServer):
    sent, _answer = lines(try_it(admin, revision="1999-01-01"))

    assert REVISIONS[-1].name in sent["text"]


def test_trying_uses_the_permissions_of_the_current_user(server: MCPServer):
    clerk = client_of("clerk", "view_disabledentry", "try_entry")

    [_, answer] = lines(try_it(clerk, key="secret"))
    assert decode(answer["text"])["error"]["message"] == "Unknown tool: secret"


@pytest.mark.parametrize("permissions", [(), ("view_disabledentry",), ("try_entry",)])
def test_trying_requires_both_permissions(permissions: tuple[str, ...], server: MCPServer):
    assert try_it(client_of("clerk", *permissions)).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"server": "tried", "method": "x"}', 400),
     (b'{"server": "tried", "method": ["tools/call"], "params": {"name": "x"}}', 400),
     (b'{"server": "tried", "method": "tools/list", "params": {"name": "x"}}', 400),
     (b'{"server": "tried", "method": "tools/call", "params": {"name": 1}}', 400),
     (b'{"server": "tried", "method": "tools/call", "params": []}', 400),
     (b'{"server": "tried", "method": "resources/subscribe", "params": {"": "x", "uri": "y://1"}}', 400),
     (b'{"server": "nothing", "method": "tools/call", "params": {"name": "x"}}', 404)],
)  # fmt: skip
def test_an_invalid_call_is_rejected(admin: Client, server: MCPServer, body: bytes, status: int):
    response = admin.post(url("try"), body, content_type="application/json")

    assert response.status_code == status


# -- calls


def make_calls(count: int, **values: Any) -> None:
    now = datetime.now(UTC)
    given = {
        "server": "tried",
        "method": "tools/call",
        "name": "greet",
        "outcome": "done",
        "revision": "r",
        "duration_ms": 1,
        "step": 27,
        **values,
    }
    CallRecord.objects.bulk_create(
        CallRecord(
            started_at=now - timedelta(seconds=at),
            minute=int((now.timestamp() - at) // 60),
            **given,
        )
        for at in range(count)
    )


def test_the_list_of_calls_needs_few_queries(admin: Client, django_assert_max_num_queries: Any):
    user = get_user_model().objects.get()
    make_calls(200, user=user)
    with django_assert_max_num_queries(14):
        page = admin.get(url("callrecord_changelist"))
    assert page.context["cl"].result_count == 200
    assert len(page.context["cl"].result_list) == 50


def test_the_list_of_calls_never_counts_the_whole_table(admin: Client):
    make_calls(3)
    with CaptureQueriesContext(connection) as asked:
        admin.get(url("callrecord_changelist"))
        admin.get(url("callrecord_changelist"), {"outcome": "done", "server": "tried"})
    cuts = [each["sql"] for each in asked if each["sql"].endswith(f"OFFSET {LISTED_AT_MOST}")]
    counts = [
        each["sql"] for each in asked if "COUNT(" in each["sql"] and "callrecord" in each["sql"]
    ]
    assert len(cuts) == len(counts) == 2


@pytest.mark.slow
def test_the_list_reads_the_newest_calls_selected_by_an_index(admin: Client):
    old = datetime.now(UTC) - timedelta(days=40)
    make_calls(1, name="old", client_name="desk", reference="0123456789ab", session="5" * 32)
    CallRecord.objects.update(started_at=old)
    make_calls(LISTED_AT_MOST + 5)

    def look(**query: str) -> tuple[bool, int, bool]:
        page = admin.get(url("callrecord_changelist"), query)
        found = page.context["cl"]
        assert ("Only the newest" in page.content.decode()) == found.is_cut
        return (
            found.is_cut,
            found.result_count,
            f"started_at__month={old.month}" in str(page.content),
        )

    # Each offers the month of the oldest call.
    assert look(p="1") == (True, LISTED_AT_MOST + 1, True)
    assert look(client="desk") == (True, 0, True)
    assert look(q="desk") == (True, 0, True)
    # The export contains everything.
    exported: Any = admin.get(url("calls_export"), {"client": "desk"})
    assert b"0123456789ab" in b"".join(exported.streaming_content)
    for query in ({"name": "old"}, {"q": "0123456789ab"}, {"q": "5" * 32}, {"session": "5" * 32}):
        assert look(**query)[:2] == (False, 1)
    day = {"year": old.year, "month": old.month, "day": old.day}
    hierarchy = {f"started_at__{name}": str(value) for name, value in day.items()}
    assert look(**hierarchy, client="desk")[:2] == (False, 1)
    assert look(started_at__lt=(old + timedelta(hours=1)).isoformat(), q="desk")[:2] == (False, 1)


@pytest.mark.parametrize(
    "query",
    [
        {"q": "gre"},
        {"name": "greet"},
        {"server": "tried"},
        {"revision": "2025-11-25"},
        {"outcome": "fault"},
        {"method": "tools/call"},
        {"started_at__year": str(datetime.now(UTC).year)},
    ],
)
def test_the_call_list_accepts_every_search(admin: Client, query: dict[str, str]):
    make_calls(2)

    assert admin.get(url("callrecord_changelist"), query).status_code == 200


def test_calls_are_read_only(admin: Client):
    make_calls(1, name=SCRIPT, client_name=SCRIPT, arguments=SCRIPT)
    record = CallRecord.objects.get()
    page = url("callrecord_changelist")

    assert admin.get(f"{page}add/").status_code == 403
    detail = admin.get(f"{page}{record.pk}/change/")
    assert detail.status_code == 200
    assert SCRIPT not in detail.content.decode()
    assert admin.post(f"{page}{record.pk}/change/", {"name": "x"}).status_code == 403
    assert SCRIPT not in admin.get(page).content.decode()


def test_the_page_says_when_recording_is_off(admin: Client):
    assert b"RECORD_CALLS" in admin.get(url("charts")).content
    assert b"RECORD_CALLS" in admin.get(url("callrecord_changelist")).content


def test_texts_are_escaped():
    assert escape_invisible("a\u202eb\x00\n") == "a\\u202eb\\u0000\n"
    assert escape_invisible("x" * 30, 10) == "x" * 10 + "… (+20)"
