"""The admin's page of API keys."""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.html import escape

from django_mcp import MCPServer
from django_mcp.admin.shown_once import NAME
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.models.keys import APIKey
from django_mcp.protocol.json import decode
from tests.support.auth.asking import admit, bearer, refuse

pytestmark = pytest.mark.django_db

LIST = "admin:django_mcp_apikey_changelist"
ADD = "admin:django_mcp_apikey_add"
CHANGE = "admin:django_mcp_apikey_change"
KEY = re.compile(r"mcp_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


@pytest.fixture(autouse=True)
def offering() -> MCPServer:
    """Return a server with the tools and scopes that the keys of these tests have."""
    here = MCPServer("offering", public=True)
    here.register_tool(lambda: "", name="look", scopes=["a", "b"])
    here.register_tool(lambda: "", name="find", scopes=["c"])
    here.register_tool(lambda: "", name="hidden", permission="auth.view_user")
    return here


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


@pytest.fixture
def root() -> Any:
    return get_user_model().objects.create_superuser("root", password="x")


@pytest.fixture
def clerk() -> Any:
    user = get_user_model().objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__endswith="_apikey"))
    return user


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def add(client: Client, **fields: Any) -> Any:
    return client.post(reverse(ADD), {"name": "a laptop", **fields}, follow=True)


def key_on(page: Any) -> str:
    (key,) = set(KEY.findall(page.content.decode()))
    return str(key)


def server() -> MCPServer:
    return MCPServer("keyed", authenticators=[APIKeyAuthenticator(cache_s=0)])


def test_a_key_is_shown_once_and_works(root: Any, clerk: Any):
    client = signed_in(root)
    page = add(client, user="clerk", scopes=["a", "b"], is_restricted="on", tools=["look", "find"])

    principal = admit(server(), bearer(key_on(page)))

    assert "no-store" in page["Cache-Control"]
    assert principal.user == clerk
    assert principal.auth.scopes == {"a", "b"}
    assert principal.auth.allowed_tools == {"look", "find"}
    for url in (reverse(LIST), reverse(CHANGE, args=[APIKey.objects.get().pk])):
        again = client.get(url)
        assert again.status_code == 200
        assert key_on_or_none(again) is None


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"tools": "look"}, "is_restricted"),
        ({"tools": "look find", "is_restricted": "on"}, "tools"),
        ({"scopes": "typo"}, "scopes"),
        ({"user": "nobody"}, "user"),
        ({"expires_at_0": "2020-01-01", "expires_at_1": "00:00"}, "expires_at"),
    ],
)
def test_a_key_with_invalid_fields_is_not_created(root: Any, fields: dict[str, str], where: str):
    page = add(signed_in(root), **{"user": "root", **fields})

    assert list(page.context["adminform"].errors) == [where]
    assert not APIKey.objects.exists()


def test_a_key_can_be_for_toolsets_and_for_reading(root: Any):
    here = MCPServer("sets", public=True)
    here.register_tool(lambda: "", name="report", toolset="reports", read_only=True)
    client = signed_in(root)
    page = client.get(reverse(ADD))
    assert "reports" in options_of(page, "toolsets")

    page = add(client, user="root", is_restricted="on", toolsets=["reports"], read_only="on")

    auth = admit(server(), bearer(key_on(page))).auth
    assert (auth.allowed_toolsets, auth.read_only) == ({"reports"}, True)
    assert auth.allowed_tools == frozenset()
    page = add(client, user="root", toolsets=["reports"])
    assert list(page.context["adminform"].errors) == ["is_restricted"]


def test_an_expired_key_can_be_renamed(root: Any):
    key, _ = APIKey.objects.issue(user=root, name="x", expires_at=timezone.now())
    fields = {"name": "y", "expires_at_0": "2020-01-01"}

    signed_in(root).post(reverse(CHANGE, args=[key.pk]), {**fields, "expires_at_1": "00:00"})

    key.refresh_from_db()
    assert key.name == "y"


def options_of(page: Any, name: str) -> set[str]:
    form = page.context["adminform"].form
    return {value for value, _ in form.fields[name].choices}


def test_scopes_and_tools_are_limited_to_those_the_user_may_use(root: Any, clerk: Any):
    for user, is_offered in ((root, True), (clerk, False)):
        page = signed_in(user).get(reverse(ADD))
        assert {"look", "find"} <= options_of(page, "tools")
        assert ("hidden" in options_of(page, "tools")) is is_offered
        assert {"a", "b", "c"} <= options_of(page, "scopes")


def test_names_no_longer_offered_are_kept(root: Any):
    key, _ = APIKey.objects.issue(user=root, name="x", tools=[], scopes=["old"])
    APIKey.objects.update(tools="gone")
    client, where = signed_in(root), reverse(CHANGE, args=[key.pk])

    form = client.get(where).context["adminform"].form
    assert (form.initial["tools"], form.initial["scopes"]) == (["gone"], ["old"])
    fields = {"tools": ["gone", "look"], "scopes": ["old"], "is_restricted": "on"}
    client.post(where, {"name": "y", **fields})
    key.refresh_from_db()
    assert (key.name, key.tools, key.scopes) == ("y", "gone look", "old")


def test_tools_forbidden_to_the_user_of_a_key_are_reported(root: Any, clerk: Any):
    fields = {"tools": ["look", "hidden"], "scopes": ["a", "b"]}
    page = add(signed_in(root), user="clerk", **fields, is_restricted="on")

    [text] = [str(each) for each in page.context["messages"]]
    assert text == (
        "The user of this key may not use these entries now, or they do not exist: hidden"
    )


def test_tools_whose_scopes_a_key_lacks_are_reported(root: Any):
    fields = {"tools": ["look", "find"], "scopes": ["a", "c"]}
    page = add(signed_in(root), user="root", **fields, is_restricted="on")

    [text] = [str(each) for each in page.context["messages"]]
    assert text == "The key lacks scopes that these entries need: look"


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({"scopes": ["a"]}, True),
        ({"scopes": ["a"], "read_only": "on"}, False),
        ({"scopes": ["a", "b"], "is_restricted": "on", "tools": ["look"]}, False),
        ({}, False),
    ],
)
def test_tools_that_write_without_a_scope_are_reported_for_a_key_of_scopes(
    root: Any, fields: dict[str, Any], is_told: bool
):
    here = server()
    here.register_tool(lambda: "", name="close_orders")
    here.register_tool(lambda: "", name="read_orders", read_only=True)
    page = add(signed_in(root), user="root", **fields)

    # Other servers of this process have such tools too.
    texts = [str(each) for each in page.context["messages"]]
    assert len(texts) == is_told
    for text in texts:
        assert text.startswith("The key may also use these tools, which write and need no scope:")
        assert "close_orders" in text
        assert "read_orders" not in text


@pytest.mark.parametrize(("lifetime", "days"), [("30", 30), ("365", 365), ("never", None)])
def test_a_lifetime_is_chosen_from_a_list(root: Any, lifetime: str, days: int | None):
    client = signed_in(root)
    assert client.get(reverse(ADD)).context["adminform"].form["lifetime"].initial == "90"
    at = {"expires_at_0": "2099-01-01", "expires_at_1": "00:00"}
    add(client, user="root", lifetime=lifetime, **at)
    add(client, user="root", lifetime="", name="dated", **at)

    key = APIKey.objects.get(name="a laptop")
    if days is None:
        assert key.expires_at is None
    else:
        assert key.expires_at is not None
        assert abs(key.expires_at - timezone.now() - timedelta(days=days)) < timedelta(minutes=5)
    dated = APIKey.objects.get(name="dated").expires_at
    assert dated is not None
    assert dated.year in (2098, 2099)


def key_on_or_none(page: Any) -> str | None:
    found = KEY.search(page.content.decode())
    return found and found[0]


def test_reloading_the_page_of_a_new_key_makes_no_second_one(root: Any):
    client = signed_in(root)
    page = add(client, user="root")
    [(shown, status)] = page.redirect_chain

    assert status == 302
    assert key_on(page) not in shown
    again = client.get(shown, follow=True)
    assert [url for url, _status in again.redirect_chain] == [reverse(LIST)]
    assert key_on_or_none(again) is None
    assert "A key is shown only once." in again.content.decode()
    assert APIKey.objects.count() == 1


def test_a_new_key_waits_masked_and_is_shown_to_its_browser_alone(root: Any):
    client = signed_in(root)
    shown = client.post(reverse(ADD), {"name": "x", "user": "root"}).headers["Location"]
    prefix = APIKey.objects.get().prefix
    waiting, cookie = dict(client.session), client.cookies[NAME]
    assert f"mcp_{prefix}_".encode().hex() not in f"{waiting}{cookie.value}"
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", shown)
    thief = Client()
    thief.cookies[settings.SESSION_COOKIE_NAME] = client.cookies[settings.SESSION_COOKIE_NAME].value

    assert key_on_or_none(thief.get(shown, follow=True)) is None


def test_the_secret_is_in_no_message_cookie_or_log_entry(root: Any):
    client = signed_in(root)
    secret = key_on(add(client, user="root")).split("_", 2)[2]

    assert secret not in str(client.cookies)
    assert secret not in str(dict(client.session))
    assert secret not in client.get(reverse("admin:index")).content.decode()


def test_staff_create_keys_only_for_themselves(root: Any, clerk: Any):
    """A key acts with all rights of its user."""
    page = add(signed_in(clerk), user="root")

    assert APIKey.objects.get().user == clerk
    assert admit(server(), bearer(key_on(page))).user == clerk


def test_staff_see_only_their_own_keys(root: Any, clerk: Any):
    key, _ = APIKey.objects.issue(user=root, name="the root's")
    client = signed_in(clerk)

    assert "the root&#x27;s" not in client.get(reverse(LIST)).content.decode()
    assert client.get(reverse(CHANGE, args=[key.pk])).status_code == 302
    chosen = {"action": "revoke", "_selected_action": [key.pk], "confirmed": "1"}
    client.post(reverse(LIST), chosen)
    assert APIKey.objects.get().revoked_at is None


def test_a_key_cannot_be_reassigned(root: Any, clerk: Any):
    key, _ = APIKey.objects.issue(user=root, name="x")
    fields = {"name": "renamed", "user": "clerk"}

    signed_in(root).post(reverse(CHANGE, args=[key.pk]), fields)

    key.refresh_from_db()
    assert (key.name, key.user) == ("renamed", root)


def test_changing_a_key_keeps_its_secret(root: Any):
    key, text = APIKey.objects.issue(user=root, name="x")

    signed_in(root).post(reverse(CHANGE, args=[key.pk]), {"name": "y", "scopes": ["c"]})

    assert admit(server(), bearer(text)).auth.scopes == {"c"}


def test_keys_are_revoked_together(root: Any):
    keys = [APIKey.objects.issue(user=root, name="x") for _ in range(3)]
    chosen = {
        "action": "revoke",
        "_selected_action": [key.pk for key, _ in keys[:2]],
        "confirmed": "1",
    }

    page = signed_in(root).post(reverse(LIST), chosen, follow=True)

    assert "2 keys were revoked." in page.content.decode()
    noted = LogEntry.objects.filter(change_message="Revoked.").values_list("object_id", flat=True)
    assert set(noted) == {str(key.pk) for key, _ in keys[:2]}
    assert [refuse(server(), bearer(text)).status for _, text in keys[:2]] == [401, 401]
    assert admit(server(), bearer(keys[2][1]))


def test_the_connect_page_lists_the_users_valid_keys(root: Any, clerk: Any):
    for user, name in ((root, "mine"), (root, "gone"), (clerk, "theirs")):
        APIKey.objects.issue(user=user, name=f"{name}<b>")
    APIKey.objects.filter(name="gone<b>").update(revoked_at=timezone.now())

    page = signed_in(root).get(reverse("admin:django_mcp_connect")).content.decode()

    assert "mine&lt;b&gt;" in page
    assert "gone" not in page
    assert "theirs" not in page


@override_settings(ROOT_URLCONF="tests.urls")
def test_the_connect_page_has_a_placeholder_for_a_key(clerk: Any, settings: Any):
    settings.DJANGO_MCP = {
        "SYNC_THREADS": 0,
        "AUTHENTICATORS": ["django_mcp.auth.authenticators.APIKeyAuthenticator"],
    }
    page = signed_in(clerk).get(reverse("admin:django_mcp_connect"))

    clients = page.context["endpoints"][0]["clients"]
    assert all("Bearer <your key>" in text for _client, text, *_ in clients)
    assert {client for client, *_, link in clients if link} == {"cursor", "vscode"}


def test_a_link_installs_the_configuration_in_a_client(root: Any, settings: Any):
    settings.ROOT_URLCONF = "tests.urls"
    page = add(signed_in(root), user="root")

    links = {client: link for client, *_, link in page.context["endpoints"][0]["clients"]}
    key = page.context["text"]
    scheme, _, query = links["cursor"].partition("?")
    given = parse_qs(query)
    assert scheme == "cursor://anysphere.cursor-deeplink/mcp/install"
    assert given["name"] == ["testserver"]
    entry = {"url": "http://testserver/mcp", "headers": {"Authorization": f"Bearer {key}"}}
    assert decode(b64decode(given["config"][0])) == entry
    scheme, _, text = links["vscode"].partition("?")
    assert scheme == "vscode:mcp/install"
    assert decode(unquote(text).encode()) == {"name": "testserver", "type": "http", **entry}
    assert f'href="{escape(links["vscode"])}"' in page.content.decode()


def test_a_key_name_is_escaped(root: Any):
    page = add(signed_in(root), user="root", name="<script>alert(1)</script>")

    assert b"<script>alert" not in page.content
    assert b"<script>alert" not in signed_in(root).get(reverse(LIST)).content


def test_view_permission_shows_escaped_characters(clerk: Any):
    clerk.user_permissions.set(Permission.objects.filter(codename="view_apikey"))
    key, _text = APIKey.objects.issue(user=clerk, name="a\u202eb", scopes=["c\u202ed"], tools=[])
    APIKey.objects.update(tools="e\u202ef")
    shown = signed_in(clerk).get(reverse(CHANGE, args=[key.pk])).content.decode()

    assert all(each in shown for each in ("a\\u202eb", "c\\u202ed", "e\\u202ef"))
    assert "\u202e" not in shown


def test_the_page_is_translated_into_german(root: Any):
    client = signed_in(root)
    with translation.override("de"):
        page = client.post(
            reverse(ADD),
            {"name": "x", "user": "root"},
            headers={"accept-language": "de"},
            follow=True,
        )

    assert "Kopieren Sie den Schlüssel jetzt" in page.content.decode()


def test_the_fields_of_the_expiry_have_labels_of_their_own(root: Any):
    client = signed_in(root)
    key, _text = APIKey.objects.issue(user=root, name="x")

    def labels(address: str) -> list[str]:
        fields = client.get(address).context["adminform"].form.fields
        return [str(fields[name].label) for name in ("lifetime", "expires_at") if name in fields]

    assert labels(reverse(ADD)) == ["Expires", "Expires at"]
    assert labels(reverse(CHANGE, args=[key.pk])) == ["Expires at"]
