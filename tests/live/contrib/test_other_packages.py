"""Published packages with models, an admin and an API, used through their tools by the official client.

`django-helpdesk` and `django-push-notifications` know nothing of this package. The site registers them in
a few lines: see `tests.support.site.other_packages.mcp`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.support.sessions.official import LIMIT_S
from tests.support.sites import ROOT, Running, environment, running

SITE = "tests.support.site.other_packages"


@dataclass(frozen=True)
class Site:
    """The running site, and the API keys of its users."""

    running: Running
    keys: dict[str, str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("other_packages")
    extra = {"TEST_DATABASE_FILE": str(folder / "site.sqlite3")}

    def python(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env=environment(SITE, extra),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    # The database does not exist yet: the checks that run first must let the migrations through.
    python("django", "migrate", "-v0")
    assert "no issues" in python("django", "check", "--fail-level", "WARNING")
    keys = json.loads(python(f"{SITE}.seed"))
    with running(SITE, "uvicorn", log=folder / "site.log", extra=extra) as server:
        yield Site(server, keys)


class User:
    """A user of the site with a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tools(self) -> set[str]:
        names, cursor = set[str](), None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            names |= {tool.name for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                return names

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Return the structured result of a call."""
        result: Any = await self._client.call_tool(name, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def refusal(self, name: str, /, **arguments: Any) -> str:
        """Return the text of the error that a call ends with."""
        try:
            result: Any = await self._client.call_tool(name, arguments)
        except MCPError as error:
            return error.message
        assert result.is_error, result
        return str(result.content[0].text)


@pytest.fixture(params=["legacy", "2026-07-28"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


@asynccontextmanager
async def signed_in(site: Site, name: str, mode: Any) -> AsyncIterator[User]:
    headers = {"Authorization": f"Bearer {site.keys[name]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LIMIT_S) as http,
        Client(streamable_http_client(site.running.url, http_client=http), mode=mode) as client,
    ):
        yield User(client)


async def test_the_api_tools_available_to_a_user_are_listed(site: Site, mode: Any) -> None:
    async with signed_in(site, "ada", mode) as ada, signed_in(site, "eve", mode) as eve:
        of_ada, of_eve = await ada.tools(), await eve.tools()

    assert {"tickets_list", "tickets_create", "devices_list"} <= of_ada
    # The API of helpdesk is for staff, that of push notifications for everybody with an account.
    assert {name for name in of_eve if name.startswith("tickets_")} == set()
    assert "devices_create" in of_eve


async def test_an_api_shows_each_user_their_own_rows(site: Site, mode: Any) -> None:
    async with signed_in(site, "ada", mode) as ada, signed_in(site, "bob", mode) as bob:
        of_ada = await ada.call("tickets_list")
        of_bob = await bob.call("tickets_list", page_size=1)
        device = await bob.call("devices_retrieve", registration_id="bob-phone")
        foreign = await bob.refusal("devices_retrieve", registration_id="ada-phone")
        unknown = await bob.refusal("devices_retrieve", registration_id="no-phone")

    assert all(row["title"].startswith("hardware") for row in of_ada["results"])
    assert [row["title"] for row in of_bob["results"]] == ["payroll first"]
    assert of_bob["count"] == 2
    assert device["registration_id"] == "bob-phone"
    assert foreign == unknown


async def test_an_api_accepts_writes_and_rejects_invalid_ones(site: Site, mode: Any) -> None:
    async with signed_in(site, "ada", mode) as ada, signed_in(site, "bob", mode) as bob:
        queue = (await ada.call("tickets_list"))["results"][0]["queue"]
        made = await ada.call(
            "tickets_create",
            queue=queue,
            title="hardware keyboard",
            description="It sticks.",
            priority=2,
        )
        changed = await ada.call("tickets_partial_update", pk=made["id"], priority=1)
        foreign_queue = await bob.refusal("tickets_create", queue=queue, title="not mine")
        foreign_ticket = await bob.refusal("tickets_destroy", pk=made["id"])
        await ada.call("tickets_destroy", pk=made["id"])
        gone = await ada.refusal("tickets_retrieve", pk=made["id"])

    assert (made["title"], made["priority"], changed["priority"]) == ("hardware keyboard", 2, 1)
    assert "queue" in foreign_queue
    assert "does not exist" in foreign_queue
    assert foreign_ticket == gone


async def test_model_tools_follow_the_rules_of_their_package(site: Site, mode: Any) -> None:
    async with signed_in(site, "ada", mode) as ada, signed_in(site, "bob", mode) as bob:
        of_bob = await bob.call("search_tickets", queue__slug="payroll", count=True)
        nothing = await bob.call("search_tickets", queue__slug="hardware")
        one = (await ada.call("search_tickets", search="hardware first"))["results"][0]
        changed = await ada.call("update_ticket", id=one["id"], priority=1)
        invalid = await ada.refusal("update_ticket", id=one["id"], title="")
        foreign = await bob.refusal("update_ticket", id=one["id"], priority=5)
        unknown = await bob.refusal("update_ticket", id=999, priority=5)

    assert (of_bob["count"], nothing["results"]) == (2, [])
    assert (one["queue"], changed["priority"]) == ({"slug": "hardware"}, 1)
    assert "title" in invalid
    assert foreign.replace(str(one["id"]), "999") == unknown


async def test_users_change_their_own_devices(site: Site, mode: Any) -> None:
    async with signed_in(site, "ada", mode) as ada, signed_in(site, "eve", mode) as eve:
        device = (await ada.call("search_fcm_devices"))["results"][0]
        changed = await ada.call("update_fcm_device", id=device["id"], name="desk")
        foreign = await eve.refusal("update_fcm_device", id=device["id"], name="mine")
        of_eve = await eve.call("search_fcm_devices")

    assert changed["name"] == "desk"
    assert "desk" not in foreign
    assert of_eve["results"] == []


async def test_the_admin_tools_follow_admin_permissions(site: Site, mode: Any) -> None:
    async with (
        signed_in(site, "ada", mode) as ada,
        signed_in(site, "bob", mode) as bob,
        signed_in(site, "eve", mode) as eve,
    ):
        of_ada, of_bob, of_eve = [
            {name for name in await user.tools() if name.startswith("admin_")}
            for user in (ada, bob, eve)
        ]
        found = await ada.call("admin_search_tickets", search="payroll", status=1)
        ticket = found["results"][0]["id"]
        changed = await ada.call("admin_update_ticket", id=ticket, title="payroll, by the admin")
        refused = await bob.refusal("admin_update_ticket", id=ticket, title="mine")
        unknown = await bob.refusal("admin_no_such_tool")
        device = (await ada.call("admin_search_fcm_devices"))["results"][0]
        read_only = await ada.refusal("admin_update_fcm_device", id=device["id"], name="x")
        await ada.call("admin_update_ticket", id=ticket, title="payroll first")

    assert {"admin_search_tickets", "admin_create_ticket", "admin_update_ticket"} <= of_ada
    assert "admin_delete_ticket" not in of_ada
    assert of_bob == {"admin_search_tickets", "admin_get_ticket"}
    assert of_eve == set()
    assert changed["title"] == "payroll, by the admin"
    told = refused.partition(". Did you mean")[0]  # a tool that he sees and whose name is near
    assert told.replace("admin_update_ticket", "admin_no_such_tool") == unknown
    assert "admin_update_fcm_device" in read_only
