"""Objects and columns of a site that fail for some rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test.utils import isolate_apps

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.test import MCPClient
from tests.support.library.models import Tag

pytestmark = pytest.mark.django_db


with isolate_apps("tests.support.library"):

    class Nameless(Tag):
        class Meta:
            proxy = True
            app_label = "library"

        def __str__(self) -> str:
            if self.name == "bad":
                raise RuntimeError("no text")
            return self.name


class NamelessAdmin(admin.ModelAdmin):
    list_display = ["__str__", "length"]

    def length(self, tag: Tag) -> int:
        if tag.name == "bad":
            raise RuntimeError("no length")
        return len(tag.name)


@pytest.fixture
def root() -> Iterator[User]:
    yield User.objects.create_superuser("root")
    # That of the proxy is undone with the test.
    ContentType.objects.clear_cache()


def test_the_admin_shows_and_writes_them_and_all_others(root: User):
    site = admin.AdminSite("failing")
    site.register(Nameless, NamelessAdmin)
    server = MCPServer("failing", public=True)
    names = {name: name for name in ("search", "create", "update")}
    admin_tools(server=server, site=site, models=[Nameless], names=names)
    client = MCPClient(server, user=root)
    Nameless.objects.create(name="good")

    made = client.call("create", name="bad").structured
    changed = client.call("update", id=made["id"], name="bad")
    rows = client.call("search").structured["results"]

    assert not changed.is_error
    assert {row["text"]: row.get("length") for row in rows} == {"good": 4, None: None}
    assert LogEntry.objects.filter(object_repr=f"nameless {made['id']}").count() == 2


def test_the_admin_deletes_them(root: User):
    # The page of Django shows the texts of what falls.
    class QuietAdmin(NamelessAdmin):
        def get_deleted_objects(self, objs: Any, request: Any) -> Any:
            return [], {"namelesss": len(objs)}, set(), []

    site = admin.AdminSite("failing-deletions")
    site.register(Nameless, QuietAdmin)
    server = MCPServer("failing-deletions", public=True)
    admin_tools(server=server, site=site, models=[Nameless], names={"delete": "delete"})
    client = MCPClient(server, user=root)
    bad = Nameless.objects.create(name="bad")
    client.answer({"delete": True})

    done = client.call("delete", id=str(bad.pk))

    assert not done.is_error, done.text
    assert not Nameless.objects.exists()
    assert LogEntry.objects.get().object_repr == f"nameless {bad.pk}"


def test_tools_of_models_write_them_with_a_history(root: User):
    class Tags(ModelTools):
        model = Nameless
        fields = ["id", "name"]
        everyone = True
        writes = ["create", "delete"]

    server = MCPServer("failing-models", public=True)
    Tags.register(server=server)
    client = MCPClient(server, user=root)

    made: Any = client.call(
        "create_nameless", id="00000000-0000-0000-0000-000000000001", name="bad"
    )

    assert not made.is_error, made.text
    assert LogEntry.objects.get().object_repr == f"nameless {made.structured['id']}"

    client.answer({"delete": True})
    gone = client.call("delete_nameless", id=made.structured["id"])

    assert not gone.is_error, gone.text
    assert not Nameless.objects.exists()
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize("is_one", [True, False])
def test_the_admin_of_django_deletes_them(root: User, is_one: bool):
    site = admin.AdminSite("failing")
    site.register(Nameless, NamelessAdmin)
    server = MCPServer("failing-deletions", public=True)
    names = {name: name for name in ("search", "delete")}
    admin_tools(server=server, site=site, models=[Nameless], names=names)
    client = MCPClient(server, user=root, capabilities={})
    tags = [Nameless.objects.create(name=name) for name in ("bad", "good")]
    keys = [str(tag.pk) for tag in tags]
    chosen: Any = {"id": keys[0] if is_one else keys}

    told = client.call("delete", **chosen).structured
    done = client.call("delete", **chosen, confirmation=told["confirmation"]).structured

    assert done["deleted"]
    left = Nameless.objects.values_list("name", flat=True)
    assert list(left) == (["good"] if is_one else [])
    assert LogEntry.objects.count() == (1 if is_one else 2)
