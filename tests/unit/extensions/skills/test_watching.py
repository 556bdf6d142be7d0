"""The development server watches the files of skills, and the shop has a skill that works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils.autoreload import StatReloader, autoreload_started

from django_mcp import MCPServer
from django_mcp.extensions.skills.core.folders import read_skills
from django_mcp.extensions.skills.site.watching import watch
from django_mcp.test import MCPClient
from tests.unit.extensions.skills.conftest import write_skill

EXAMPLE = Path(__file__).parents[4] / "example_project"


def test_the_development_server_watches_each_file(
    root: Path, make_server: Callable[..., MCPServer]
):
    write_skill(root, "acme/refunds", files={"references/notes.md": "a"})
    make_server()
    reloader = StatReloader()

    watch()
    autoreload_started.send(sender=reloader)

    watched = set(reloader.watched_files(include_globs=True))
    assert root / "acme/refunds/references/notes.md" in watched
    assert root / "acme/refunds/SKILL.md" in watched


def test_a_wrong_setting_does_not_end_the_development_server(settings: Any):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SKILLS_DIRS": 7}

    watch()
    autoreload_started.send(sender=StatReloader())


@pytest.mark.django_db
def test_the_skill_of_the_shop_names_what_the_shop_has():
    found = read_skills(EXAMPLE / "shop" / "skills")
    assert found.problems == []
    (skill,) = found.skills
    text = "\n".join(file.content.decode() for file in skill.files or ())
    client = MCPClient()

    client.assert_skill_verifies(skill.uri)
    tools = {tool["name"] for tool in client.list_tools()}
    assert {"find_orders", "cancel_order", "convert_price"} <= tools
    for name in ("find_orders", "cancel_order", "convert_price", "shop://terms", "apology"):
        assert f"`{name}`" in text
    assert client.read("shop://terms").text
    assert "apology" in {prompt["name"] for prompt in client.list_prompts()}
