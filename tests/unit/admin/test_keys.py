"""The admin's page of API keys."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone, translation

from django_mcp import MCPServer
from django_mcp.auth import APIKeyAuthenticator
from django_mcp.models.keys import APIKey
from tests.support.auth.asking import admit, bearer, refuse

pytestmark = pytest.mark.django_db

LIST = "admin:django_mcp_apikey_changelist"
ADD = "admin:django_mcp_apikey_add"
CHANGE = "admin:django_mcp_apikey_change"
KEY = re.compile(r"mcp_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


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
    return client.post(reverse(ADD), {"name": "a laptop", "scopes": "", "tools": "", **fields})


def key_on(page: Any) -> str:
    (key,) = KEY.findall(page.content.decode())
    return str(key)


def server() -> MCPServer:
    return MCPServer("keyed", authenticators=[APIKeyAuthenticator(cache_s=0)])


def test_a_key_is_shown_once_and_works(root: Any, clerk: Any):
    client = signed_in(root)
    page = add(client, user=clerk.pk, scopes="a b", is_restricted="on", tools="look find")

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
        ({"tools": "whoami"}, "is_restricted"),
        ({"tools": "look, find", "is_restricted": "on"}, "tools"),
        ({"scopes": "a,b"}, "scopes"),
        ({"expires_at_0": "2020-01-01", "expires_at_1": "00:00"}, "expires_at"),
    ],
)
def test_a_key_for_something_else_than_was_written_is_not_made(
    root: Any, fields: dict[str, str], where: str
):
    page = add(signed_in(root), user=root.pk, **fields)

    assert list(page.context["adminform"].errors) == [where]
    assert not APIKey.objects.exists()


def test_an_expired_key_can_be_renamed(root: Any):
    key, _ = APIKey.objects.issue(user=root, name="x", expires_at=timezone.now())
    fields = {"name": "y", "scopes": "", "tools": "", "expires_at_0": "2020-01-01"}

    signed_in(root).post(reverse(CHANGE, args=[key.pk]), {**fields, "expires_at_1": "00:00"})

    key.refresh_from_db()
    assert key.name == "y"


def test_names_that_mean_nothing_now_are_told(root: Any, clerk: Any):
    """A tool that the key's user may not use is one that is not there."""
    here = MCPServer("named", public=True)
    here.register_tool(lambda: "", name="plain", scopes=["plain:use"])
    here.register_tool(lambda: "", name="hidden", permission="auth.view_user")
    given = {"tools": "plain hidden absent", "is_restricted": "on", "scopes": "plain:use typo"}

    told = []
    for user in (clerk, root):
        page = add(signed_in(root), user=user.pk, **given)
        told.append([str(each) for each in page.context["messages"]])

    assert [texts[0].partition(": ")[2] for texts in told] == ["absent, hidden", "absent"]
    assert [texts[1].partition(": ")[2] for texts in told] == ["typo", "typo"]


def key_on_or_none(page: Any) -> str | None:
    found = KEY.search(page.content.decode())
    return found and found[0]


def test_the_secret_is_in_no_message_cookie_or_log_entry(root: Any):
    client = signed_in(root)
    secret = key_on(add(client, user=root.pk)).split("_", 2)[2]

    assert secret not in str(client.cookies)
    assert secret not in str(dict(client.session))
    assert secret not in client.get(reverse("admin:index")).content.decode()


def test_staff_make_keys_for_themselves_only(root: Any, clerk: Any):
    """A key acts with all rights of its user."""
    page = add(signed_in(clerk), user=root.pk)

    assert APIKey.objects.get().user == clerk
    assert admit(server(), bearer(key_on(page))).user == clerk


def test_staff_see_their_own_keys_only(root: Any, clerk: Any):
    key, _ = APIKey.objects.issue(user=root, name="the root's")
    client = signed_in(clerk)

    assert "the root&#x27;s" not in client.get(reverse(LIST)).content.decode()
    assert client.get(reverse(CHANGE, args=[key.pk])).status_code == 302
    chosen = {"action": "revoke", "_selected_action": [key.pk]}
    client.post(reverse(LIST), chosen)
    assert APIKey.objects.get().revoked_at is None


def test_a_key_is_not_handed_on(root: Any, clerk: Any):
    key, _ = APIKey.objects.issue(user=root, name="x")
    fields = {"name": "renamed", "user": clerk.pk, "scopes": "", "tools": ""}

    signed_in(root).post(reverse(CHANGE, args=[key.pk]), fields)

    key.refresh_from_db()
    assert (key.name, key.user) == ("renamed", root)


def test_changing_a_key_leaves_its_secret(root: Any):
    key, text = APIKey.objects.issue(user=root, name="x")

    signed_in(root).post(reverse(CHANGE, args=[key.pk]), {"name": "y", "scopes": "c", "tools": ""})

    assert admit(server(), bearer(text)).auth.scopes == {"c"}


def test_keys_are_revoked_together(root: Any):
    keys = [APIKey.objects.issue(user=root, name="x") for _ in range(3)]
    chosen = {"action": "revoke", "_selected_action": [key.pk for key, _ in keys[:2]]}

    page = signed_in(root).post(reverse(LIST), chosen, follow=True)

    assert "2 keys were revoked." in page.content.decode()
    noted = LogEntry.objects.filter(change_message="Revoked.").values_list("object_id", flat=True)
    assert set(noted) == {str(key.pk) for key, _ in keys[:2]}
    assert [refuse(server(), bearer(text)).status for _, text in keys[:2]] == [401, 401]
    assert admit(server(), bearer(keys[2][1]))


def test_the_connect_page_lists_ones_own_keys_that_work(root: Any, clerk: Any):
    for user, name in ((root, "mine"), (root, "gone"), (clerk, "theirs")):
        APIKey.objects.issue(user=user, name=f"{name}<b>")
    APIKey.objects.filter(name="gone<b>").update(revoked_at=timezone.now())

    page = signed_in(root).get(reverse("admin:django_mcp_connect")).content.decode()

    assert "mine&lt;b&gt;" in page
    assert "gone" not in page
    assert "theirs" not in page


@override_settings(ROOT_URLCONF="tests.urls")
def test_the_connect_page_has_a_place_for_a_key(clerk: Any, settings: Any):
    settings.DJANGO_MCP = {
        "SYNC_THREADS": 0,
        "AUTHENTICATORS": ["django_mcp.auth.APIKeyAuthenticator"],
    }
    page = signed_in(clerk).get(reverse("admin:django_mcp_connect"))

    texts = {client: text for client, text, _where in page.context["endpoints"][0].clients}
    assert all("Bearer <your key>" in text for text in texts.values())


def test_a_name_is_not_taken_for_markup(root: Any):
    page = add(signed_in(root), user=root.pk, name="<script>alert(1)</script>")

    assert b"<script>alert" not in page.content
    assert b"<script>alert" not in signed_in(root).get(reverse(LIST)).content


def test_it_speaks_german(root: Any):
    client = signed_in(root)
    with translation.override("de"):
        page = client.post(
            reverse(ADD),
            {"name": "x", "user": root.pk, "scopes": "", "tools": ""},
            headers={"accept-language": "de"},
        )

    assert "Kopieren Sie den Schlüssel jetzt" in page.content.decode()
