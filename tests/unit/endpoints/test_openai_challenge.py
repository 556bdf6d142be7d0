"""The token by which OpenAI sees whose a domain is."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from django.core.checks import run_checks
from django.test import Client, override_settings

from django_mcp import MCPServer
from django_mcp.endpoints.urlconf import site_of

PATH = "/.well-known/openai-apps-challenge"
TOKEN = "rCDy7mB-4nJ_2uQ.x="


def test_the_token_alone_is_the_body():
    with override_settings(DJANGO_MCP={"OPENAI_APPS_CHALLENGE": TOKEN}):
        response = Client().get(PATH)

    assert response.status_code == 200
    assert response.content == TOKEN.encode()
    assert response["Content-Type"] == "text/plain"


def test_without_a_token_there_is_no_page():
    assert Client().get(PATH).status_code == 404


def test_the_page_is_only_read():
    with override_settings(DJANGO_MCP={"OPENAI_APPS_CHALLENGE": TOKEN}):
        assert Client().head(PATH).status_code == 200
        assert Client().post(PATH).status_code == 405


@pytest.mark.parametrize("wrong", ["", "two words", "line\n", 7])
def test_what_cannot_be_a_token_is_an_error(wrong: Any):
    with override_settings(DJANGO_MCP={"OPENAI_APPS_CHALLENGE": wrong}):
        found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E001"]

    assert ["OPENAI_APPS_CHALLENGE" in each.msg for each in found] == [True]


@pytest.mark.parametrize(("token", "status"), [(TOKEN, 200), (None, 404)])
async def test_a_server_alone_serves_it_as_well(settings: Any, token: str | None, status: int):
    # `site_of` sets the URLconf of the process.
    settings.ROOT_URLCONF = settings.ROOT_URLCONF
    settings.DJANGO_MCP = {"OPENAI_APPS_CHALLENGE": token}
    transport = httpx.ASGITransport(app=site_of(MCPServer("challenged", public=True)))

    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        response = await client.get(PATH)

    assert response.status_code == status
