"""Two customers use the generated tools at once: neither sees the other's data."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.support.sessions.official import LIMIT_S
from tests.support.sites import ROOT, Running, environment, running

SEED = """
import json
from django.contrib.auth.models import Permission, User
from django_mcp.models import APIKey
from example_project.shop.models import Order
placed_at = Order.objects.earliest("pk").placed_at
Order.objects.all().delete()
keys = {}
for name in ("ada", "grace"):
    user = User.objects.get(username=name)
    for number in range(5):
        Order.objects.create(
            number=f"{name}-{number}", customer=user, note=f"secret of {name}", placed_at=placed_at
        )
    keys[name] = APIKey.objects.issue(user=user, name="tests")[1]
print(json.dumps(keys))
"""
ROUNDS = 3
OTHER = {"ada": "grace", "grace": "ada"}


@pytest.fixture(scope="module")
def extra(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("sources")
    return {
        "SHOP_DATABASE": str(folder / "shop.sqlite3"),
        "DJANGO_SETTINGS_MODULE": "tests.support.site.shop_sources.settings",
    }


@pytest.fixture(scope="module")
def keys(extra: dict[str, str]) -> dict[str, str]:
    def manage(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment("example_project", extra),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    manage("demo", "--prepare")
    found: dict[str, str] = json.loads(manage("shell", "-v", "0", "-c", SEED))
    return found


@pytest.fixture(scope="module")
def shop(extra: dict[str, str], keys: dict[str, str], tmp_path_factory: Any) -> Iterator[Running]:
    log: Path = tmp_path_factory.mktemp("log") / "shop.log"
    with running("example_project", "uvicorn", log=log, extra=extra) as server:
        yield server
        assert "Traceback" not in log.read_text()


async def use_everything(client: Client, name: str) -> list[str]:
    """Call each tool about own and foreign orders, and return the texts of all results."""
    seen = []
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_orders", {"count": True}),
        ("search_orders", {"search": OTHER[name]}),
        ("rest_orders_list", {}),
        ("admin_search_orders", {}),
        ("ninja_list_products", {}),
    ]
    for owner in (name, OTHER[name]):
        for number in range(5):
            order = f"{owner}-{number}"
            calls += [
                ("get_order", {"number": order}),
                ("rest_orders_retrieve", {"number": order}),
                ("ninja_get_order", {"number": order}),
                ("admin_get_order", {"id": number}),
                ("update_order", {"number": order, "note": f"secret of {name}"}),
                ("rest_orders_partial_update", {"number": order, "note": f"secret of {name}"}),
                ("ninja_set_note", {"number": order, "note": f"secret of {name}"}),
            ]
    for tool, arguments in calls:
        try:
            result: Any = await client.call_tool(tool, arguments)
        except MCPError as error:
            # The tools of the admin are unknown to customers.
            seen.append(error.message)
            continue
        texts = " ".join(part.text for part in result.content)
        seen.append(f"{texts} {json.dumps(result.structured_content)}")
    return seen


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_customers_never_see_each_others_data(
    shop: Running, keys: dict[str, str], mode: Any
) -> None:
    async def work(name: str) -> list[str]:
        url = shop.url.replace("/mcp", "/sources/mcp")
        headers = {"Authorization": f"Bearer {keys[name]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=LIMIT_S) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            return [text for _ in range(ROUNDS) for text in await use_everything(client, name)]

    of_ada, of_grace = await asyncio.gather(work("ada"), work("grace"))

    assert any("secret of ada" in text for text in of_ada)
    assert any("secret of grace" in text for text in of_grace)
    assert not [text for text in of_ada if "secret of grace" in text]
    assert not [text for text in of_grace if "secret of ada" in text]
