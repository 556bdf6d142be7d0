"""The forms of the pages: what a browser sends of them without their scripts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

import django_mcp
from django_mcp.servers import MCPServer
from tests.unit.admin.test_pages import HERE

SOURCES = Path(django_mcp.__file__).parent
TEMPLATES = sorted(SOURCES.rglob("templates/**/*.html"))
SCRIPTS = sorted(path for path in SOURCES.rglob("static/**/*.js") if "vendor" not in path.parts)

FILTERS = ("mcp-filters", "mcp-text-filter")
"""Classes of the forms that only choose what a list shows."""


def _forms() -> list[Any]:
    return [
        pytest.param(form, id=f"{path.name}-{number}")
        for path in TEMPLATES
        for number, form in enumerate(re.findall(r"<form\b.*?</form>", path.read_text(), re.DOTALL))
    ]


@pytest.mark.parametrize("form", _forms())
def test_only_filters_are_sent_in_urls_and_every_post_has_a_csrf_token(form: str):
    start = form[: form.index(">")]
    method = re.search(r'method="(\w+)"', start)
    has_token = "{% csrf_token %}" in form

    assert method is not None, "The default method puts everything into the URL"
    if method[1] == "get":
        assert any(f'class="{each}"' in start for each in FILTERS)
    assert has_token is (method[1] == "post")


def test_the_forms_of_scripts_are_not_sent_in_urls():
    made = [form for path in SCRIPTS for form in re.findall(r'\("form", .*', path.read_text())]

    assert made
    assert all('method: "post"' in form for form in made)


@HERE
@pytest.mark.django_db
def test_the_form_to_try_an_entry_calls_nothing_without_its_script():
    server = MCPServer("filed")
    calls: list[str] = []

    @server.tool
    def store(password: str) -> None:
        calls.append(password)

    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.create_superuser("ada"))
    query = {"server": "filed", "kind": "tools", "key": "store"}
    address = reverse("admin:django_mcp_entry", query=query)
    page = client.get(address)
    token = page.cookies["csrftoken"].value
    form = {"password": "hunter2"}

    assert re.search(rb'<form method="post" id="mcp-try"', page.content)
    assert client.post(address, form).status_code == 403
    again = client.post(address, {**form, "csrfmiddlewaretoken": token})

    assert again.status_code == 200
    assert b"hunter2" not in again.content
    assert calls == []
