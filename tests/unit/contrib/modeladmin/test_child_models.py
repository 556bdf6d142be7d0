"""Objects of a model that extends another one and has a key of its own: the admin of the other one decides about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection, models
from django.test.utils import isolate_apps

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db(transaction=True)


class Bases(admin.ModelAdmin):
    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(name__startswith="hidden")


class Papers(admin.ModelAdmin):
    list_display = ["title", "kid", "kid__name"]
    list_filter = ["kid"]


@pytest.fixture
def paper() -> Iterator[Any]:
    with isolate_apps("tests.support.library"):

        class Base(models.Model):
            name = models.CharField(max_length=20)

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return self.name

        class Kid(Base):
            number = models.AutoField(primary_key=True)
            base = models.OneToOneField(Base, models.CASCADE, parent_link=True)

            class Meta:
                app_label = "library"

        class Paper(models.Model):
            title = models.CharField(max_length=20)
            kid = models.ForeignKey(Kid, models.CASCADE)

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return self.title

        made = [Base, Kid, Paper]
        with connection.schema_editor() as editor:
            for model in made:
                editor.create_model(model)
        yield Paper
        with connection.schema_editor() as editor:
            for model in reversed(made):
                editor.delete_model(model)


def test_security_an_object_is_looked_up_by_the_key_of_the_model_that_the_admin_has(paper: Any):
    kid = paper._meta.get_field("kid").related_model
    base = kid._meta.get_field("base").related_model
    base.objects.create(name="seen")
    base.objects.create(name="hidden too")
    # The first kid has the key of a base that is seen, the second one that of a hidden one.
    kids = [kid.objects.create(name=name) for name in ("hidden kid", "seen kid")]
    for each in kids:
        paper.objects.create(title=f"of {each}", kid=each)
    site = admin.AdminSite("papers")
    site.register(base, Bases)
    site.register(paper, Papers)
    server = MCPServer("papers", public=True)
    admin_tools(server=server, site=site, models=[paper])
    client = MCPClient(server, user=User.objects.create_superuser("root"))

    def search(**arguments: Any) -> dict[str, Any]:
        found = client.call("search_papers", **arguments)
        assert not found.is_error, found.text
        return {row["title"]: row for row in found.structured["results"]}

    rows = search()
    assert "hidden" not in str(rows["of hidden kid"]["kid"])
    assert rows["of hidden kid"]["kid__name"] is None
    assert rows["of seen kid"]["kid__name"] == "seen kid"
    assert list(search(kid=kids[1].pk)) == ["of seen kid"]
    assert not search(kid=kids[0].pk)

    moved = paper.objects.get(title="of seen kid")
    assert client.call("update_paper", id=moved.pk, kid=kids[0].pk).is_error
    assert not client.call("update_paper", id=moved.pk, title="New", kid=kids[1].pk).is_error
