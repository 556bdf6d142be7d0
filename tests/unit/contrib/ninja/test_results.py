"""What tools from operations publish about their results, and how they tell errors."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import jsonschema
import pytest
from django.core.checks import run_checks
from django.db import connection
from django.db.models import Q
from django.http import JsonResponse
from ninja import File, Form, ModelSchema, NinjaAPI, Query, Schema, UploadedFile
from ninja.pagination import CursorPagination, paginate
from ninja.renderers import JSONRenderer
from ninja.responses import Status
from pydantic import Field, field_validator

from django_mcp import MCPServer
from django_mcp.contrib.ninja import operation_tools
from tests.support.library.models import Sample

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


class Size(Enum):
    SMALL = "small"


class Part(Schema):
    sku: str = "none"
    amount: int = 1


class Thing(Schema):
    name: str
    price: Decimal = Decimal(1)
    size: Size = Size.SMALL
    lasts: timedelta | None = None
    parts: list[Part] = []


class Note(Schema):
    text: str


class Aliased(Schema):
    full_name: str = Field(alias="fullName")


class SampleIn(ModelSchema):
    class Meta:
        model = Sample
        fields = ["data"]


class SampleOut(ModelSchema):
    class Meta:
        model = Sample
        fields = ["data"]


class Checked(Schema):
    title: str

    @field_validator("title")
    @classmethod
    def check_title(cls, value: str) -> str:
        if value == "bad":
            raise ValueError("no such title")
        return value


THING = {
    "name": "pot",
    "price": Decimal("0E-10"),
    "lasts": timedelta(hours=1),
    "parts": [Part()] * 3,
}


class Envelope(JSONRenderer):
    def render(self, request: Any, data: Any, *, response_status: int) -> Any:
        return super().render(request, {"data": data}, response_status=response_status)


def make_api(namespace: str = "results", **options: Any) -> NinjaAPI:
    api = NinjaAPI(urls_namespace=namespace, **options)

    @api.get("/thing", response={200: Thing, 404: Note})
    def get_thing(request: Any) -> Any:
        return Status(200, THING)

    @api.get("/things", response=list[Thing])
    def list_things(request: Any) -> Any:
        return [THING, THING, THING]

    @api.get("/maybe", response=Note | None)
    def maybe(request: Any, there: bool = False) -> Any:
        return {"text": "yes"} if there else None

    @api.get("/codes", response={200: Thing, 202: Note, 204: None})
    def codes(request: Any, code: int) -> Any:
        return Status(code, {200: THING, 202: {"text": "later"}, 204: None}[code])

    @api.get("/thin", response=Thing, exclude_unset=True)
    def thin(request: Any) -> Any:
        return Thing(name="pot", parts=[Part(sku="a")])

    @api.get("/by_name", response=dict[str, list[Part]])
    def by_name(request: Any) -> Any:
        return {"pot": [Part(), Part(), Part()]}

    @api.post("/place")
    def place(request: Any, thing: Thing) -> Any:
        return thing.name

    return api


def make_server(api: NinjaAPI, **options: Any) -> MCPServer:
    server = MCPServer("results", public=True, output_schemas="full")
    operation_tools(api, server=server, **options)
    return server


def schema(server: MCPServer, name: str, kind: str = "outputSchema") -> Any:
    return next(tool[kind] for tool in server.list_tools() if tool["name"] == name)


def call(server: MCPServer, tool: str, **arguments: Any) -> Any:
    result = server.call_tool(tool, arguments)
    assert not result.is_error, result.raw
    content = result.raw["structuredContent"]
    jsonschema.Draft202012Validator(schema(server, tool)).validate(content)
    return content


def error(server: MCPServer, tool: str, **arguments: Any) -> str:
    result = server.call_tool(tool, arguments)
    assert result.is_error, result.raw
    return result.raw["content"][0]["text"]


def test_the_output_schema_is_that_of_the_response():
    published = schema(make_server(make_api()), "get_thing")

    assert "name" in published["required"]
    assert published["properties"]["name"]["type"] == "string"
    assert published["properties"]["parts"]["items"]["properties"]["amount"]["type"] == "integer"
    assert "text" not in published["properties"]


@pytest.mark.parametrize("most", [2, 100])
def test_each_result_fits_its_output_schema(most: int):
    server = make_server(make_api(), max_results=most)

    thing = call(server, "get_thing")
    assert thing["size"] == "Size.SMALL"  # as Django Ninja writes it
    assert len(thing["parts"]) == min(most, 3)
    assert len(call(server, "list_things")["results"]) == min(most, 3)
    assert call(server, "maybe") == {"result": None}
    assert call(server, "maybe", there=True) == {"text": "yes"}
    assert call(server, "codes", code=202) == {"text": "later"}
    assert call(server, "codes", code=204) == {"result": None}
    assert call(server, "codes", code=200)["name"] == "pot"
    assert call(server, "thin") == {"name": "pot", "parts": [{"sku": "a", "amount": 1}]}
    assert len(call(server, "by_name")["pot"]) == min(most, 3)


def test_a_response_does_not_change_what_an_operation_requires():
    arguments = schema(make_server(make_api()), "place", "inputSchema")

    assert arguments["required"] == ["name"]
    assert "required" not in arguments["properties"]["parts"]["items"]


def test_what_another_renderer_writes_is_not_described():
    server = make_server(make_api("enveloped", renderer=Envelope()))

    assert schema(server, "get_thing") == {"type": "object"}
    assert call(server, "get_thing")["data"]["name"] == "pot"


def answer_otherwise() -> Any:
    return JsonResponse({"other": 1})


def test_an_own_response_that_is_not_declared_is_an_error_and_not_an_internal_one():
    api = NinjaAPI(urls_namespace="own")

    @api.get("/hidden", response=Note)
    def hidden(request: Any) -> Any:
        return answer_otherwise()

    @api.get("/plain", response=Note)
    def plain(request: Any) -> Any:
        return JsonResponse({"other": 1})

    server = make_server(api)

    told = "The operation answers with something else than it declares."
    assert error(server, "hidden") == told
    assert call(server, "plain") == {"other": 1}


def test_errors_name_the_argument_that_was_sent():
    api = NinjaAPI(urls_namespace="errors")

    @api.post("/body")
    def body(request: Any, title: Checked) -> Any:
        return title.title

    @api.post("/two")
    def two(request: Any, first: Checked, second: Checked) -> Any:
        return None

    @api.post("/form")
    def form(request: Any, data: Form[Checked]) -> Any:
        return None

    @api.get("/query")
    def query(request: Any, filters: Query[Checked]) -> Any:
        return None

    @api.post("/list")
    def many(request: Any, things: list[Checked]) -> Any:
        return None

    server = make_server(api, rename={"query.title": "named"})

    told = "Value error, no such title"
    assert error(server, "body", title="bad") == f"title: {told}"
    told_of_second = error(server, "two", first={"title": "x"}, second={"title": "bad"})
    assert told_of_second == f"second.title: {told}"
    assert error(server, "form", title="bad") == f"title: {told}"
    assert error(server, "query", named="bad") == f"named: {told}"
    assert error(server, "many", body=[{"title": "x"}, {"title": "bad"}]) == f"body.1.title: {told}"


def test_a_body_beside_an_optional_file_is_read():
    api = NinjaAPI(urls_namespace="parts")

    @api.post("/mixed")
    def mixed(request: Any, note: Note, number: int, file: File[UploadedFile | None] = None) -> Any:
        return {"text": note.text, "number": number}

    server = make_server(api)

    assert call(server, "mixed", note={"text": "x"}, number=3) == {"text": "x", "number": 3}


def test_the_schemas_of_an_api_with_equal_ids_are_made_in_silence(capsys: Any):
    api = NinjaAPI(urls_namespace="silent")
    for path in ("/a", "/b"):

        @api.get(path)
        def same(request: Any) -> Any:
            return None

    assert len(make_server(api).list_tools()) == 2
    assert capsys.readouterr().out == ""


def test_a_field_of_json_has_any_value():
    api = NinjaAPI(urls_namespace="json")

    @api.post("/json", response=SampleOut)
    def keep(request: Any, data: SampleIn) -> Any:
        return data.dict()

    server = make_server(api)

    for value in ({"a": 1}, [1, {"b": 2}], "text"):
        assert call(server, "keep", data=value) == {"data": value}


def test_what_comes_with_the_status_204_is_ignored():
    api = NinjaAPI(urls_namespace="204")

    @api.delete("/thing", response={204: str})
    def delete(request: Any) -> Any:
        return Status(204, "")

    assert call(make_server(api), "delete") == {"result": None}


def test_an_alias_is_described_as_it_comes():
    api = NinjaAPI(urls_namespace="aliases")

    @api.post("/alias", response=Aliased, by_alias=True)
    def alias(request: Any, data: Aliased) -> Any:
        return {"fullName": data.full_name}

    server = make_server(api)

    assert call(server, "alias", fullName="x") == {"fullName": "x"}
    assert schema(server, "alias")["required"] == ["fullName"]


def test_an_operation_whose_types_have_no_schema_is_reported():
    class Local(Schema):
        name: str

    api = NinjaAPI(urls_namespace="local")

    @api.get("/local")
    def local(request: Any, data: Query[Local]) -> Any:
        return None

    @api.get("/other")
    def other(request: Any) -> Any:
        return None

    server = make_server(api)

    assert [tool["name"] for tool in server.list_tools()] == ["other"]
    (found,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert found.id == "django_mcp.ninja.W001"
    assert "local is no tool: pydantic cannot describe its data" in found.msg


def make_paged_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace="paged")

    @api.get("/samples", response=list[SampleOut])
    @paginate(CursorPagination, ordering=("moment",))
    def list_samples(request: Any) -> Any:
        return Sample.objects.all()

    @api.get("/awaited", response=list[SampleOut])
    @paginate(CursorPagination, ordering=("moment",))
    async def list_awaited_samples(request: Any) -> Any:
        return Sample.objects.all()

    @api.get("/words", response=list[SampleOut])
    def find_words(request: Any, text: str) -> Any:
        return Sample.objects.filter(*[Q(code=word) | ~Q(note=word) for word in text.split()])

    @api.get("/broken", response=list[Thing])
    def broken(request: Any, text: str) -> Any:
        return [{"price": text}]

    return api


@pytest.mark.parametrize("tool", ["list_samples", "list_awaited_samples"])
@pytest.mark.parametrize(
    "cursor", ["r=1&o=-5&p=1", "o=99999999999999999999&p=1", "r=maybe", "p=yesterday", "p=%00&o=1"]
)
def test_a_cursor_that_a_client_made_up_is_no_internal_error(
    tool: str, cursor: str, caplog: pytest.LogCaptureFixture
):
    encoded = b64encode(cursor.encode()).decode()

    assert "Internal error" not in error(make_server(make_paged_api()), tool, cursor=encoded)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_condition_that_a_database_finds_too_large_is_an_error_about_the_arguments():
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite limits the depth of a condition")

    assert error(make_server(make_paged_api()), "find_words", text="a " * 2000).startswith(
        "Invalid arguments"
    )


def test_a_result_that_does_not_fit_its_response_stays_an_internal_error():
    assert "Internal error" in error(make_server(make_paged_api()), "broken", text="a")


def make_undeclared_api(namespace: str, **options: Any) -> NinjaAPI:
    api = NinjaAPI(urls_namespace=namespace, **options)

    @api.get("/rows")
    def list_rows(request: Any, below: int = 250) -> Any:
        return [{"number": number} for number in range(below)]

    @api.get("/box")
    def box(request: Any) -> Any:
        return {"count": 3, "items": [{"number": number} for number in range(3)]}

    @api.get("/rows/{number}")
    def get_row(request: Any, number: int) -> Any:
        return {"number": number, "parts": [{"part": 1}]}

    @api.get("/rows/{number}/parts/{part}")
    def list_kinds(request: Any, number: int, part: int) -> list[dict[str, int]]:
        return [{"kind": part}] * number

    @api.get("/status")
    def find_status(request: Any) -> dict[str, str]:
        return {"status": "well"}

    @api.get("/things", response=list[Thing])
    def list_things(request: Any) -> Any:
        return [THING] * 3

    @api.get("/thing", response=Thing)
    def find_thing(request: Any) -> Any:
        return THING

    return api


def test_a_list_that_is_not_declared_has_a_limit_and_a_cursor():
    server = make_server(make_undeclared_api("undeclared"))

    first = call(server, "list_rows", limit=2, below=5)
    second = call(server, "list_rows", limit=2, below=5, cursor=first["next_cursor"])
    third = call(server, "list_rows", limit=2, below=5, cursor=second["next_cursor"])

    assert [row["number"] for row in first["results"]] == [0, 1]
    assert first["total"] == 5
    assert [row["number"] for row in second["results"]] == [2, 3]
    assert [row["number"] for row in third["results"]] == [4]
    assert "next_cursor" not in third
    whole = call(server, "list_rows")
    assert len(whole["results"]) == 100
    assert whole["next_cursor"]
    assert "cursor" in error(server, "list_rows", limit=2, below=6, cursor=first["next_cursor"])


def test_the_rows_of_an_object_that_is_not_declared_have_a_limit_and_a_cursor():
    server = make_server(make_undeclared_api("boxed"))

    first = call(server, "box", limit=2)
    second = call(server, "box", limit=2, cursor=first["next_cursor"])

    assert [row["number"] for row in first["items"]] == [0, 1]
    assert [row["number"] for row in second["items"]] == [2]
    assert (first["count"], second["count"]) == (3, 3)


def test_what_is_no_list_has_neither_limit_nor_cursor():
    server = make_server(make_undeclared_api("single", renderer=Envelope()))
    names = {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in server.list_tools()}

    assert {name for name, known in names.items() if "cursor" in known} == {
        "list_rows",
        "box",
        "list_kinds",
        "list_things",
    }
    assert len(call(server, "list_things", limit=2)["data"]) == 2


def test_a_result_that_is_not_declared_keeps_whole_rows_within_the_budget():
    api = NinjaAPI(urls_namespace="budget")

    @api.get("/long")
    def list_long(request: Any) -> Any:
        return [{"text": "x" * 4000}] * 60

    first = call(make_server(api, max_results=60), "list_long")

    assert 1 <= len(first["results"]) < 12
    assert first["next_cursor"]
    assert "next_cursor" in first["note"]


def test_an_operation_with_pages_of_its_own_gets_no_second_limit():
    api = NinjaAPI(urls_namespace="own-pages")

    @api.get("/own", response=list[Note])
    def list_own(request: Any, limit: int = 20, offset: int = 0) -> Any:
        return [{"text": f"{number} {'x' * 4000}"} for number in range(60)][offset:][:limit]

    server = make_server(api)

    assert set(schema(server, "list_own", "inputSchema")["properties"]) == {
        "limit",
        "offset",
        "cursor",
    }
    page = call(server, "list_own", limit=3, offset=1)
    assert [row["text"][0] for row in page["results"]] == ["1", "2", "3"]
    assert page.keys() == {"results"}
    first = call(server, "list_own", offset=30)
    second = call(server, "list_own", offset=30, cursor=first["next_cursor"])
    numbers = [int(row["text"].split()[0]) for each in (first, second) for row in each["results"]]
    assert numbers == list(range(30, 30 + len(numbers)))
    # The view does not say how many there are in all.
    assert "total" not in first
