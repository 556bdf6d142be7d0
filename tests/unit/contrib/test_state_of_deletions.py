"""A deletion is confirmed for one state of an object, whatever its fields hold."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.test import MCPClient
from tests.support.library.models import Sample

pytestmark = pytest.mark.django_db


class Samples(ModelTools):
    model = Sample
    fields = ["id", "code"]
    everyone = True
    writes = ["delete"]


@pytest.fixture(params=["models", "admin"])
def client(request: pytest.FixtureRequest) -> MCPClient:
    server = MCPServer(f"deletions of {request.param}", public=True)
    if request.param == "models":
        Samples.register(server=server)
    else:
        site = admin.AdminSite("deletions")
        site.register(Sample)
        admin_tools(server=server, site=site, models=[Sample])
    boss = User.objects.create_superuser("boss")
    return MCPClient(server, user=boss, capabilities={})


def delete(client: MCPClient, sample: Sample, **arguments: Any) -> Any:
    return client.call("delete_sample", id=sample.pk, **arguments)


def test_an_object_with_a_null_in_every_field_is_deleted(client: MCPClient):
    sample = Sample.objects.create(code="empty")
    told = delete(client, sample)
    assert not told.is_error, told.text
    done = delete(client, sample, confirmation=told.structured["confirmation"])

    assert done.structured["deleted"] is True
    assert not Sample.objects.exists()


def test_a_confirmation_is_for_the_bytes_that_an_object_had(client: MCPClient):
    sample = Sample.objects.create(code="scanned")
    confirmation = delete(client, sample).structured["confirmation"]
    Sample.objects.update(scan=b"\x00\xff")
    refused = delete(client, sample, confirmation=confirmation)
    assert refused.is_error or refused.structured["deleted"] is False
    assert Sample.objects.exists()

    confirmation = delete(client, sample).structured["confirmation"]
    assert delete(client, sample, confirmation=confirmation).structured["deleted"] is True
