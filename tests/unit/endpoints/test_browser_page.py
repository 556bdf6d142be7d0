"""The page for a person who opens an endpoint in a browser, and everybody who must not get it."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from django.test import AsyncClient, Client
from django.urls import include, path

from django_mcp import MCPServer
from django_mcp.asgi import django_mcp_application
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.contrib.oauth import OAuthAuthenticator
from django_mcp.endpoints import mounts
from django_mcp.endpoints.client_config import entry_name
from django_mcp.endpoints.urlconf import site_of
from django_mcp.execution.outages import Warner
from django_mcp.transports.http.replies import not_found
from tests.support.http.harness import http_scope, talk

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
TITLE = "<b>Orders</b>"

opened = MCPServer("opened", public=True, title=TITLE, description="Finds orders & more")
keyed = MCPServer(
    "keyed-page",
    title="Payroll",
    description="Who earns what",
    authenticators=[APIKeyAuthenticator()],
)
pageless = MCPServer("pageless", public=True, browser_page=False)

urlpatterns = [
    path("", include("django_mcp.urls")),
    path("opened/", opened.urls),
    path("keyed/", keyed.urls),
    path("pageless/", pageless.urls),
    path("of/<str:tenant>/", include((opened.urls[0], "captured"))),
]


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__


def get(path: str, accept: str | None = BROWSER, **headers: str) -> Any:
    sent = {"host": "localhost", **({} if accept is None else {"accept": accept}), **headers}
    return Client().get(path, headers=sent)


def same_but_body(response: Any) -> dict[str, str]:
    return {
        name: value
        for name, value in response.items()
        if name not in ("Content-Type", "Content-Length")
    }


def test_a_browser_reads_what_the_address_is_and_how_clients_use_it():
    page, refusal = get("/opened/mcp"), get("/opened/mcp", "text/event-stream")
    html = page.content.decode()

    assert (page.status_code, page["content-type"]) == (405, "text/html; charset=utf-8")
    assert refusal["content-type"] == "application/json"
    assert refusal.status_code == page.status_code
    assert same_but_body(page) == same_but_body(refusal)
    assert int(page["content-length"]) == len(page.content)
    assert "&lt;b&gt;Orders&lt;/b&gt;" in html
    assert TITLE not in html
    assert "Finds orders &amp; more" in html
    assert "claude mcp add --transport http localhost-opened http://localhost/opened/mcp" in html
    assert "mcpServers" in html


def test_the_page_runs_no_script_and_no_inline_style():
    html = get("/opened/mcp").content.decode()

    assert "<script" not in html
    assert " style=" not in html
    assert "<style" not in html
    assert not re.search(r" on[a-z]+=", html)
    assert 'http-equiv="Content-Security-Policy"' in html


def test_the_anonymous_learn_nothing_of_a_server_that_is_not_public():
    page, refusal = get("/keyed/mcp"), get("/keyed/mcp", "application/json")
    html = page.content.decode()

    assert (page.status_code, page["content-type"]) == (401, "text/html; charset=utf-8")
    assert same_but_body(page) == same_but_body(refusal)
    assert page["www-authenticate"]
    for secret in ("Payroll", "Who earns what", "keyed-page"):
        assert secret not in html
    assert "Bearer &lt;your key&gt;" in html
    assert "/admin/login/" not in html  # this URLconf has no login page


def test_a_site_with_a_login_page_leads_to_it(settings: Any):
    settings.LOGIN_URL = "https://login.example.com/?a=1&b=2"

    assert 'href="/mcp/connect/"' in get("/keyed/mcp").content.decode()
    assert "/mcp/connect/" not in get("/opened/mcp").content.decode()

    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CONNECT_PAGE": False}
    assert 'href="https://login.example.com/?a=1&amp;b=2"' in get("/keyed/mcp").content.decode()


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "*/*",
        "application/json",
        "text/event-stream",
        "application/json, text/event-stream",
        "text/html, text/event-stream",
        "text/*",
    ],
)
def test_clients_get_json(accept: str | None):
    for endpoint in ("/opened/mcp", "/keyed/mcp"):
        assert json.loads(get(endpoint, accept).content)["error"]


@pytest.mark.parametrize(
    "name", ["Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID", "Authorization"]
)
def test_a_header_of_clients_asks_for_json(name: str):
    assert json.loads(get("/keyed/mcp", **{name: "2025-06-18"}).content)["error"]


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_only_get_is_answered_with_a_page(method: str):
    headers = {"host": "localhost", "accept": BROWSER}
    response = getattr(Client(), method)("/keyed/mcp", headers=headers)

    assert "html" not in response["content-type"]


def test_a_setting_turns_it_off():
    response = get("/pageless/mcp")

    assert response.status_code == 405
    assert json.loads(response.content)["error"]["message"].startswith("Use POST")


async def test_a_forged_host_gets_no_page():
    headers = [("host", "evil.example.com"), ("accept", BROWSER)]
    app = django_mcp_application(not_found)
    got = await talk(app, http_scope("GET", headers, path="/opened/mcp", raw_path=b"/opened/mcp"))

    assert (got.status, got.headers["content-type"]) == (403, "application/json")


def test_a_path_with_markup_is_escaped():
    html = get("/of/%22%3E%3Cscript%3E/mcp").content.decode()

    assert "<script" not in html
    assert "http://localhost/of/%22%3E%3Cscript%3E" in html


def test_it_speaks_the_language_of_the_browser():
    page = get("/opened/mcp", **{"accept-language": "de"})

    assert '<html lang="de"' in page.content.decode()
    assert "In einen Client eintragen" in page.content.decode()


@pytest.mark.parametrize(
    "tenant", ["a&calc&", "it's", "a;b", "$(id)", "a|b", "x" * 4000, "'" * 60_000]
)
def test_a_link_puts_nothing_into_commands_and_cannot_be_long(tenant: str):
    response = get(f"/of/{quote(tenant)}/mcp")

    assert response.status_code == 405
    assert len(response.content) < 50_000
    if response["content-type"] != "application/json":
        assert tenant not in unescape(response.content.decode())


def test_the_address_for_some_toolsets_has_a_page_with_it():
    page = unescape(get("/opened/mcp/x/orders,reports").content.decode())

    # PowerShell would take what is after the comma for another argument.
    url = "http://localhost/opened/mcp/x/orders,reports"
    assert f'claude mcp add --transport http localhost-opened-mcp-x-orders-reports "{url}"' in page
    assert f'"url": "{url}"' in page


def test_a_tenant_has_a_page():
    assert b"http://localhost/of/acme-1/mcp" in get("/of/acme-1/mcp").content


def test_long_paths_are_not_kept():
    path = f"/of/{'x' * 5000}/mcp"

    assert mounts.find_match(path) is not None
    assert path not in mounts._known


def break_template(settings: Any, tmp_path: Any) -> None:
    (tmp_path / "django_mcp").mkdir()
    (tmp_path / "django_mcp" / "endpoint.html").write_text("{% broken %}")
    settings.TEMPLATES = [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": [tmp_path],
            "APP_DIRS": True,
        }
    ]


def test_a_template_that_fails_leaves_the_refusal(settings: Any, tmp_path: Any):
    break_template(settings, tmp_path)

    response = get("/opened/mcp")

    assert response.status_code == 405
    assert json.loads(response.content)["error"]


def test_failures_of_the_page_do_not_fill_the_log(
    settings: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_mcp.transports.http.browsers._trouble", Warner())
    break_template(settings, tmp_path)

    for _ in range(5):
        assert get("/opened/mcp").status_code == 405

    assert len([each for each in caplog.records if "page for browsers" in each.message]) == 1


@pytest.mark.parametrize("issues", [True, False])
async def test_a_server_alone_leads_to_no_page_that_it_does_not_serve(settings: Any, issues: bool):
    # `site_of` sets the URLconf of the process.
    settings.ROOT_URLCONF = "tests.urls"
    authenticator = OAuthAuthenticator() if issues else APIKeyAuthenticator()
    server = MCPServer(f"alone-{issues}", authenticators=[authenticator])
    app = httpx.ASGITransport(app=django_mcp_application(site_of(server)))

    async with httpx.AsyncClient(transport=app, base_url="http://localhost") as client:
        page = await client.get("/mcp", headers={"accept": BROWSER})
        links = re.findall(r'<a [^>]*href="(/[^"]*)"', page.text)
        answers = [(await client.get(link)).status_code for link in links]

    assert page.headers["content-type"].startswith("text/html")
    assert answers == ([302] if issues else [])


async def test_asynchronous_servers_show_it_too():
    page = await AsyncClient().get("/keyed/mcp", headers={"accept": BROWSER})

    assert (page.status_code, page["content-type"]) == (401, "text/html; charset=utf-8")


async def test_the_asgi_application_shows_it():
    headers = [("host", "localhost"), ("accept", BROWSER)]
    app = django_mcp_application(not_found)
    got = await talk(app, http_scope("GET", headers, path="/keyed/mcp", raw_path=b"/keyed/mcp"))

    assert (got.status, got.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b"http://localhost/keyed/mcp" in got.body


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://shop.example.com/mcp", "shop-example-com"),
        ("https://shop.example.com/staff/mcp", "shop-example-com-staff"),
        ("http://127.0.0.1:8000/mcp", "127-0-0-1-8000"),
        ("http://[::1]:8000/mcp/", "1-8000"),
    ],
)
def test_clients_know_a_server_by_its_host(url: str, name: str):
    assert entry_name(url) == name
