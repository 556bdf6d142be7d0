"""Relations whose managers are not Django's own, as those of tags are, and actions that only their page can run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import connection, models
from django.db.models.fields.related_descriptors import ManyToManyDescriptor
from django.test.utils import isolate_apps

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.test import MCPClient
from tests.support.queries import captured_queries

pytestmark = pytest.mark.django_db(transaction=True)


class OwnManagers(ManyToManyDescriptor):
    """Loads its rows itself, and takes no querysets for that."""

    @cached_property
    def related_manager_cls(self) -> Any:
        class Manager(ManyToManyDescriptor.related_manager_cls.func(self)):  # type: ignore[misc]
            def get_prefetch_querysets(self, instances: Any, querysets: Any = None) -> Any:
                if querysets:
                    raise ValueError("Custom querysets can't be used for this lookup.")
                return super().get_prefetch_querysets(instances)

        return Manager


class TagsField(models.ManyToManyField):
    def contribute_to_class(self, cls: Any, name: str, *args: Any, **kwargs: Any) -> None:
        super().contribute_to_class(cls, name, *args, **kwargs)
        setattr(cls, self.name, OwnManagers(self.remote_field))


class ArticleAdmin(admin.ModelAdmin):
    list_display = ["title"]
    actions = ["move", "publish"]

    @admin.action
    def move(self, request: Any, files: Any, folders: Any) -> None:
        pass

    @admin.action
    def publish(self, request: Any, queryset: Any) -> None:
        pass


@pytest.fixture
def article() -> Iterator[Any]:
    with isolate_apps("tests.support.library"):

        class Label(models.Model):
            name = models.CharField(max_length=20)

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return self.name

        class Article(models.Model):
            title = models.CharField(max_length=20)
            tags = TagsField(Label, blank=True)

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return self.title

        with connection.schema_editor() as editor:
            editor.create_model(Label)
            editor.create_model(Article)
        yield Article
        with connection.schema_editor() as editor:
            editor.delete_model(Article)
            editor.delete_model(Label)


@pytest.fixture
def tags(article: Any) -> list[Any]:
    labels = article._meta.get_field("tags").related_model._default_manager
    return [labels.create(name=name) for name in "ab"]


def test_their_rows_are_loaded_in_one_query(article: Any, tags: list[Any]):
    class Articles(ModelTools):
        model = article
        fields = ["title", "tags__name"]
        everyone = True

    server = MCPServer("managers", public=True)
    Articles.register(server=server)
    client = MCPClient(server)
    counts, rows = [], []
    for count in (1, 3):
        for number in range(count):
            article.objects.create(title=f"{count}.{number}").tags.set(tags)
        with captured_queries() as queries:
            rows = client.call("search_articles").structured["results"]
        counts.append(len(queries))

    assert counts[0] == counts[1] == 2
    assert rows[-1] == {"title": "3.2", "tags": [{"name": "a"}, {"name": "b"}]}


def test_the_admin_shows_and_keeps_them(article: Any, tags: list[Any]):
    site = admin.AdminSite("managers")
    site.register(article, ArticleAdmin)
    server = MCPServer("managers-admin", public=True)
    admin_tools(server=server, site=site, models=[article])
    client = MCPClient(server, user=User.objects.create_superuser("root"))
    made = article.objects.create(title="a")
    made.tags.set(tags)

    shown = client.call("get_article", id=made.pk).structured
    client.call("update_article", id=made.pk, title="b")

    assert [each["text"] for each in shown["tags"]] == ["a", "b"]
    assert (article.objects.get().title, made.tags.count()) == ("b", 2)


def test_an_action_that_takes_other_arguments_is_left_out(article: Any):
    site = admin.AdminSite("actions")
    site.register(article, ArticleAdmin)
    server = MCPServer("actions-admin", public=True)

    names = [entry.name for entry in admin_tools(server=server, site=site, models=[article])]

    assert "publish_articles" in names
    assert "move_articles" not in names
    told = [each.msg for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert any("'move'" in message and "other arguments" in message for message in told)
