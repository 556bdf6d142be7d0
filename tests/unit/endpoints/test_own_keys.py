"""The API keys that users make on the page Connect."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any, ClassVar

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.urls import clear_url_caches, include, path
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.contrib.oauth.authenticator import OAuthAuthenticator
from django_mcp.endpoints.own_keys import MAX_KEYS_A_DAY, MAX_WRONG_PASSWORDS
from django_mcp.models import APIKey, UsedState
from django_mcp.test import MCPClient

PAGE = "/mcp/connect/"
NEW = {"key-name": "Report", "key-days": "30", "key-tools": "look", "key-password": "pw"}

desk = MCPServer("keyed-desk", authenticators=[APIKeyAuthenticator()])


@desk.tool
def look() -> str:
    """Look."""
    return ""


@desk.tool(permission="auth.view_permission")
def unlock() -> str:
    """Unlock."""
    return ""


@desk.tool(scopes=["desk:sign"])
def sign() -> str:
    """Sign."""
    return "signed"


@desk.tool(permission="auth.view_permission", scopes=["desk:unlock"])
def unlock_all() -> str:
    """Unlock all."""
    return ""


both = MCPServer("keyed-and-oauth", authenticators=[APIKeyAuthenticator(), OAuthAuthenticator()])
both.register_tool(lambda: "", name="look_too")

urlpatterns = [
    path("", include("django_mcp.urls")),
    path("desk/", desk.urls),
    path("both/", both.urls),
]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    settings.LOGIN_URL = "/login/"
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CONNECT_KEY_DAYS": 60}
    cache.clear()


@pytest.fixture
def ada(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("ada", password="pw")


@pytest.fixture
def browser(ada: Any) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def text_of(response: Any) -> str:
    return unescape(response.content.decode())


def shown_key(response: Any) -> str | None:
    found = re.search(r"mcp_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", response.content.decode())
    return found and found[0]


def test_a_key_is_shown_once_and_sees_only_its_tools(browser: Client, ada: Any):
    response = browser.post(PAGE, NEW)

    assert "no-store" in response["cache-control"]
    assert shown_key(response)
    assert shown_key(browser.get(PAGE)) is None
    (key,) = APIKey.objects.all()
    assert (key.user, key.name, key.tools, key.is_restricted) == (ada, "Report", "look", True)
    assert key.expires_at is not None
    assert timedelta(days=29) < key.expires_at - timezone.now() <= timedelta(days=30)
    assert "Report" in text_of(browser.get(PAGE))


def test_a_key_for_everything_is_asked_for(browser: Client):
    everything = {**NEW, "key-everything": "on"}
    assert shown_key(browser.post(PAGE, everything)) is None
    del everything["key-tools"]

    assert shown_key(browser.post(PAGE, everything))
    assert not APIKey.objects.get().is_restricted


def test_a_key_can_be_for_toolsets_and_for_reading(browser: Client):
    server = MCPServer("keyed-sets", authenticators=[APIKeyAuthenticator(cache_s=0)])
    server.register_tool(lambda: "", name="find", toolset="orders", read_only=True)
    server.register_tool(lambda: "", name="cancel", toolset="orders")
    server.register_tool(lambda: "", name="report", toolset="reports", read_only=True)
    urlpatterns.append(path("sets/", server.urls))
    clear_url_caches()
    try:
        new = {**NEW, "key-toolsets": "orders", "key-read_only": "on"}
        del new["key-tools"]
        page = browser.post(PAGE, new)
        key = shown_key(page)
        client = MCPClient(server, headers={"X-API-Key": str(key)})

        assert [each["name"] for each in client.list_tools()] == ["find"]
        told = " ".join(text_of(browser.get(PAGE)).split())
        assert "only the toolsets orders, only reading" in told
        assert "/sets/mcp/x/orders" in told
        secret = {**new, "key-toolsets": "plans"}
        assert "errorlist" in text_of(browser.post(PAGE, secret))
    finally:
        urlpatterns.pop()
        clear_url_caches()


@pytest.mark.parametrize(
    "wrong",
    [
        {"key-password": "guess"},
        {"key-password": ""},
        {"key-days": "61"},
        {"key-days": "0"},
        {"key-days": "9" * 400},
        {"key-tools": "unlock"},  # which the user may not use
        {"key-tools": ""},
        {"key-name": "\u200b"},
        {"key-name": "a\x00b"},
        {"key-name": "n" * 101},
    ],
)
def test_a_wrong_form_makes_no_key(browser: Client, wrong: dict[str, str]):
    response = browser.post(PAGE, {**NEW, **wrong})

    assert response.status_code == 200
    assert "errorlist" in text_of(response)
    assert not APIKey.objects.exists()


def test_passwords_cannot_be_guessed_without_end(
    browser: Client, ada: Any, caplog: pytest.LogCaptureFixture
):
    for _ in range(MAX_WRONG_PASSWORDS):
        browser.post(PAGE, {**NEW, "key-password": "guess"})

    assert not caplog.text
    assert "Too many wrong passwords" in text_of(browser.post(PAGE, NEW))
    assert not APIKey.objects.exists()
    assert f"Too many wrong passwords of user {ada.pk}" in caplog.text


@pytest.mark.parametrize("backend", ["dummy.DummyCache", "locmem.LocMemCache"])
def test_passwords_are_counted_whatever_the_cache_keeps(
    browser: Client, settings: Any, backend: str
):
    settings.CACHES = {"default": {"BACKEND": f"django.core.cache.backends.{backend}"}}
    for _ in range(MAX_WRONG_PASSWORDS):
        browser.post(PAGE, {**NEW, "key-password": "guess"})
        cache.clear()

    assert "Too many wrong passwords" in text_of(browser.post(PAGE, NEW))
    assert not APIKey.objects.exists()


class LookingHasher(MD5PasswordHasher):
    """Says whether other requests can see by now that a password is compared."""

    algorithm = "looking"
    in_transaction: ClassVar[list[bool]] = []

    def verify(self, password: str, encoded: str) -> bool:
        self.in_transaction.append(connection.in_atomic_block)
        return super().verify(password, encoded)


@pytest.mark.django_db(transaction=True)
def test_a_guess_is_stored_before_it_is_compared_with_atomic_requests(
    browser: Client, ada: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    settings.PASSWORD_HASHERS = [f"{__name__}.LookingHasher"]
    ada.set_password("pw")
    ada.save()
    browser.force_login(ada)
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    LookingHasher.in_transaction.clear()

    browser.post(PAGE, {**NEW, "key-password": "guess"})

    assert LookingHasher.in_transaction == [False]


def test_passwords_are_compared_again_after_a_while(browser: Client):
    others = list(UsedState.objects.values_list("pk", flat=True))
    for _ in range(MAX_WRONG_PASSWORDS):
        browser.post(PAGE, {**NEW, "key-password": "guess"})
    guesses = UsedState.objects.exclude(pk__in=others)
    assert guesses.count() == MAX_WRONG_PASSWORDS
    guesses.update(expires_at=timezone.now())

    assert shown_key(browser.post(PAGE, NEW))
    assert not guesses.exists()


def test_a_user_cannot_fill_the_table(browser: Client):
    for _ in range(MAX_KEYS_A_DAY):
        assert shown_key(browser.post(PAGE, NEW))
        browser.post(PAGE, {"revoke": APIKey.objects.get(revoked_at=None).prefix})

    assert "too many keys" in text_of(browser.post(PAGE, NEW))
    assert APIKey.objects.count() == MAX_KEYS_A_DAY


def test_a_new_key_replaces_those_that_ended_long_ago(browser: Client, ada: Any):
    old, _ = APIKey.objects.issue(user=ada, name="old")
    recent, _ = APIKey.objects.issue(user=ada, name="recent")
    recent.revoke()
    APIKey.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(days=91))

    assert shown_key(browser.post(PAGE, NEW))

    assert set(APIKey.objects.values_list("name", flat=True)) == {"recent", "Report"}


def test_own_keys_are_revoked_and_those_of_others_unknown(
    browser: Client, ada: Any, django_user_model: Any
):
    bob = django_user_model.objects.create_user("bob")
    own, _ = APIKey.objects.issue(user=ada, name="mine")
    other, _ = APIKey.objects.issue(user=bob, name="secret name")

    assert "secret name" not in text_of(browser.get(PAGE))
    for unknown in (other.prefix, "0" * 12, "", "\x00", own.prefix + "0"):
        assert browser.post(PAGE, {"revoke": unknown}).status_code == 404
    assert browser.post(PAGE, {"revoke": own.prefix}).status_code == 302

    revoked = APIKey.objects.filter(revoked_at__isnull=False)
    assert list(revoked.values_list("name", flat=True)) == ["mine"]


@pytest.mark.parametrize("chosen", [{"key-tools": ["look", "sign"]}, {"key-everything": "on"}])
def test_a_key_has_the_scopes_of_what_it_is_for(browser: Client, chosen: dict[str, Any]):
    fields = {name: value for name, value in NEW.items() if name != "key-tools"}
    key = shown_key(browser.post(PAGE, {**fields, **chosen}))
    client = MCPClient(desk, headers={"Authorization": f"Bearer {key}"})

    assert client.call("sign").text == "signed"
    assert APIKey.objects.get().scopes == "desk:sign"  # and not that of hidden tools
    page = text_of(browser.get(PAGE))
    assert "scopes desk:sign" in page
    assert "sign (desk:sign)" in page
    assert "desk:unlock" not in page


def test_a_key_has_no_scopes_of_tools_that_were_not_chosen(browser: Client):
    browser.post(PAGE, NEW)

    assert APIKey.objects.get().scopes == ""


@pytest.mark.parametrize(
    ("chosen", "where"),
    [({"key-everything": "on"}, [True, True]), ({"key-tools": ["look"]}, [True, False])],
)
def test_a_new_key_is_in_the_configurations_of_servers_where_it_may_do_something(
    browser: Client, chosen: dict[str, Any], where: list[bool]
):
    fields = {name: value for name, value in NEW.items() if name != "key-tools"}
    response = browser.post(PAGE, {**fields, **chosen})
    key = shown_key(response)
    later = text_of(browser.get(PAGE))

    sections = text_of(response).split("<section")
    readers = [each for each in sections if "/desk/mcp" in each or "/both/mcp" in each]
    others = [each for each in sections if each not in readers and "Your API keys" not in each]
    assert [f"Bearer {key}" in each for each in readers] == where
    # Without the key, the second server's clients sign in.
    # Programs cannot.
    clients = [each.partition("<summary>curl")[0] for each in readers]
    assert not any("your key" in each for each in clients)
    assert not any(str(key) in each for each in others)
    assert str(key) not in later
    assert "Bearer <your key>" in later


class WithoutServers:
    """A URLconf with no server that reads keys."""

    urlpatterns = urlpatterns[:1]


def test_a_user_who_may_use_no_server_any_more_can_revoke_keys(
    browser: Client, ada: Any, settings: Any
):
    own, _ = APIKey.objects.issue(user=ada, name="mine")
    settings.ROOT_URLCONF = WithoutServers

    page = text_of(browser.get(PAGE))
    assert "mine" in page
    assert "Make the key" not in page
    assert shown_key(browser.post(PAGE, NEW)) is None
    assert browser.post(PAGE, {"revoke": own.prefix}).status_code == 302

    assert "Your API keys" not in text_of(browser.get(PAGE))
    assert not APIKey.objects.filter(revoked_at=None).exists()


def test_a_key_names_a_tool_once(browser: Client):
    browser.post(PAGE, {**NEW, "key-tools": ["look", "look"]})

    assert APIKey.objects.get().tools == "look"


def test_other_sites_can_make_no_key(ada: Any, settings: Any):
    """Also where the site has no middleware against forged requests."""
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "Csrf" not in each]
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    own, _ = APIKey.objects.issue(user=ada, name="mine")

    assert browser.post(PAGE, NEW).status_code == 403
    assert browser.post(PAGE, {"revoke": own.prefix}).status_code == 403
    assert APIKey.objects.filter(revoked_at=None).count() == 1


def test_users_without_a_password_are_told_so(browser: Client, ada: Any):
    ada.set_unusable_password()
    ada.save()
    browser.force_login(ada)

    assert "You have no password here" in text_of(browser.get(PAGE))
    assert shown_key(browser.post(PAGE, NEW)) is None


def test_no_keys_are_made_unless_the_site_allows_it(browser: Client, settings: Any):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CONNECT_KEY_DAYS": None}

    assert "Your API keys" not in text_of(browser.get(PAGE))
    browser.post(PAGE, NEW)
    assert not APIKey.objects.exists()
