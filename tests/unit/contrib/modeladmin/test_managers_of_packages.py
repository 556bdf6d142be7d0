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


class _NotOfDjango:
    """A manager without the private parts of those of Django."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._manager, name)


class OwnManagers(ManyToManyDescriptor):
    """Loads its rows itself, and takes no querysets for that."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        manager = super().__get__(instance, owner)
        return manager if instance is None else _NotOfDjango(manager)

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


class LoggedManyToManyField(models.ManyToManyField):
    """A field of the site, with the manager of Django."""


class _BareManager:
    def __init__(self, manager: Any) -> None:
        self.all = manager.all


class BareManagers(ManyToManyDescriptor):
    """Has managers that cannot prefetch."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        manager = super().__get__(instance, owner)
        return manager if instance is None else _BareManager(manager)


class BareField(models.ManyToManyField):
    def contribute_to_class(self, cls: Any, name: str, *args: Any, **kwargs: Any) -> None:
        super().contribute_to_class(cls, name, *args, **kwargs)
        setattr(cls, self.name, BareManagers(self.remote_field))


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
            marks = LoggedManyToManyField(Label, blank=True, related_name="+")
            bare = BareField(Label, blank=True, related_name="+", editable=False)

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


def test_their_rows_are_those_of_a_single_object(article: Any, tags: list[Any]):
    class Articles(ModelTools):
        model = article
        fields = ["id", "tags__name", "marks__name"]
        everyone = True

    server = MCPServer("single", public=True)
    Articles.register(server=server)
    one = article.objects.create(title="t")
    one.tags.set(tags)
    one.marks.set(tags[:1])

    assert MCPClient(server).call("get_article", id=one.pk).structured == {
        "id": one.pk,
        "tags": [{"name": "a"}, {"name": "b"}],
        "marks": [{"name": "a"}],
    }


@pytest.mark.parametrize("generator", ["models", "admin"])
def test_a_field_of_the_site_with_the_manager_of_django_is_cut_in_one_query(
    article: Any, tags: list[Any], generator: str
):
    client = make_client(generator, article, "marks")
    for count in (1, 3):
        for number in range(count):
            article.objects.create(title=f"{count}.{number}").marks.set(tags)
        with captured_queries() as queries:
            rows = client.call("search_articles").structured["results"]
        loads = [query for query in queries if "library_article_marks" in query]

        assert len(loads) == 1
        assert "ROW_NUMBER()" in loads[0]  # of each row, no more than is shown
        assert all(len(row["marks"]) == 2 for row in rows)


@pytest.mark.parametrize("generator", ["models", "admin"])
def test_a_manager_that_cannot_prefetch_is_read_all_the_same(
    article: Any, tags: list[Any], generator: str
):
    client = make_client(generator, article, "bare")
    made = article.objects.create(title="a")
    article.bare.through.objects.create(article=made, label=tags[0])

    found = client.call("search_articles")

    assert not found.is_error, found.text
    assert [len(row["bare"]) for row in found.structured["results"]] == [1]


def make_client(generator: str, article: Any, name: str) -> MCPClient:
    server = MCPServer(f"{generator}-{name}", public=True)
    if generator == "models":

        class Articles(ModelTools):
            model = article
            fields = ["id", "title", name]
            everyone = True

        Articles.register(server=server)
    else:
        site = admin.AdminSite(server.name)
        options = {"list_display": ["title", name]}
        site.register(article, type("Listed", (admin.ModelAdmin,), options))
        admin_tools(server=server, site=site, models=[article])
    return MCPClient(server, user=User.objects.create_superuser("root"))


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
