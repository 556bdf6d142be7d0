"""To-many relations inside results: they have a limit, and a result says what it leaves out."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db.models.signals import post_init
from ninja import NinjaAPI, Schema

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from tests.support.library.models import Part, Sample, Tag
from tests.support.library.tools import make_server
from tests.support.queries import captured_queries

MAX_RELATED, MAX_KEYS = 100, 1000

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server() -> MCPServer:
    return make_server("nested")


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def samples() -> list[Sample]:
    """One with more parts and tags than are shown, one with as many as are shown."""
    made = [Sample.objects.create(code=code) for code in ("full", "many")]
    tags = Tag.objects.bulk_create(
        Tag(id=UUID(int=number), name=str(number)) for number in range(MAX_KEYS + 1)
    )
    for each, more in zip(made, (0, 1), strict=True):
        Part.objects.bulk_create(
            Part(sample=each, name=f"{each.code} {number}") for number in range(MAX_RELATED + more)
        )
        each.tags.set(tags[: MAX_KEYS + more])
    return made


@pytest.mark.parametrize("tool", ["search_samples", "get_sample"])
def test_related_rows_of_a_model_are_cut_with_a_note(
    server: MCPServer, root: User, samples: list[Sample], tool: str
):
    if tool == "search_samples":
        full, many = server.call_tool(tool, {}, user=root).structured["results"]
    else:
        full, many = (
            server.call_tool(tool, {"code": each.code}, user=root).structured for each in samples
        )

    assert [len(each["parts"]) for each in (full, many)] == [MAX_RELATED, MAX_RELATED]
    assert [len(each["tags"]) for each in (full, many)] == [MAX_KEYS, MAX_KEYS]
    assert many["truncated"] == ["tags", "parts"]
    assert "truncated" not in full
    assert {each["name"].split()[0] for each in many["parts"]} == {"many"}


def test_related_rows_are_cut_in_the_query(server: MCPServer, root: User, samples: list[Sample]):
    with captured_queries() as queries:
        server.call_tool("search_samples", {}, user=root)

    assert [each for each in queries if "library_part" in each and "ROW_NUMBER" in each.upper()]
    assert len([each for each in queries if "library_" in each]) == 3


def test_related_rows_of_one_object_are_cut_by_a_limit(
    server: MCPServer, root: User, samples: list[Sample]
):
    with captured_queries() as queries:
        server.call_tool("get_sample", {"code": "many"}, user=root)

    rows = [sql for sql in queries if "library_part" in sql or "library_tag" in sql]
    assert len(rows) == 2
    assert [sql for sql in rows if "ROW_NUMBER" in sql.upper() or "LIMIT 10" not in sql] == []


def test_a_page_has_fewer_objects_if_each_has_lists_inside_of_lists(root: User):
    class Owners(ModelTools):
        model = User
        fields = ("username", "sample__code", "sample__parts__name", "sample__tags")
        everyone = True

    server = MCPServer("multiplied", public=True)
    Owners.register(server=server)
    limit = server.registry.tools["search_users"].form_schema["properties"]["limit"]
    refused = server.call_tool("search_users", {"limit": 2}, user=root)

    # A user may have 100 samples, each of them with 100 parts and 1,000 tags.
    assert (limit["maximum"], limit["default"], refused.is_error) == (1, 1, True)
    assert not server.call_tool("search_users", {"limit": 1}, user=root).is_error


def test_properties_see_all_related_rows(root: User, samples: list[Sample]):
    class Counted(ModelTools):
        model = Sample
        fields = ("code", "count_parts", "parts__name")
        prefetch_related = ("parts",)
        everyone = True

        def count_parts(self, sample: Sample) -> int:
            return len(sample.parts.all())

    server = MCPServer("counted", public=True)
    Counted.register(server=server)
    found = server.call_tool("get_sample", {"code": "many"}, user=root).structured

    assert (found["count_parts"], len(found["parts"])) == (MAX_RELATED + 1, MAX_RELATED)
    assert found["truncated"] == ["parts"]


def test_related_objects_of_the_admin_are_cut_with_a_note(
    server: MCPServer, root: User, samples: list[Sample]
):
    full, many = (
        server.call_tool("admin_get_sample", {"id": each.pk}, user=root).structured
        for each in samples
    )

    assert [len(each["tags"]) for each in (full, many)] == [MAX_KEYS, MAX_KEYS]
    assert (many["truncated"], "truncated" in full) == (["tags"], False)


def test_related_objects_of_the_admin_are_cut_in_the_query(
    server: MCPServer, root: User, samples: list[Sample]
):
    many = samples[1]
    many.tags.set(Tag.objects.bulk_create(Tag(id=UUID(int=10**6 + n)) for n in range(2 * MAX_KEYS)))
    loaded = []

    def count(instance: Tag, **_: Any) -> None:
        loaded.append(instance)

    post_init.connect(count, sender=Tag)
    try:
        found = server.call_tool("admin_get_sample", {"id": many.pk}, user=root).structured
    finally:
        post_init.disconnect(count, sender=Tag)

    assert len(found["tags"]) == MAX_KEYS
    assert len(loaded) == MAX_KEYS + 1


@pytest.mark.parametrize("tool", ["rest_list", "rest_retrieve"])
def test_lists_inside_the_response_of_a_view_are_cut_with_a_note(
    server: MCPServer, root: User, samples: list[Sample], tool: str
):
    many: Any = samples[1]
    if tool == "rest_list":
        found = server.call_tool(tool, {"limit": 2}, user=root).structured["results"][1]
    else:
        found = server.call_tool(tool, {"pk": many.pk}, user=root).structured

    assert (len(found["parts"]), found["truncated"]) == (100, ["parts"])


def test_lists_inside_the_response_of_an_operation_are_cut_with_a_note(root: User):
    class Row(Schema):
        rows: list[dict[str, int]]
        numbers: list[int]

    api = NinjaAPI(urls_namespace="nested")

    def get_rows(request: Any) -> Any:
        return {"rows": [{"n": number} for number in range(11)], "numbers": list(range(11))}

    api.get("/rows", response=Row)(get_rows)
    server = MCPServer("rows", public=True)
    operation_tools(api, server=server, max_results=10)
    found = server.call_tool("get_rows", {}, user=root).structured

    assert (len(found["rows"]), found["truncated"]) == (10, ["rows"])
    assert len(found["numbers"]) == 11
