"""What operations answer fits what their tools publish, also where a site changes what is declared."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import wraps
from typing import Any

import jsonschema
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI, Schema
from ninja.decorators import decorate_view
from ninja.responses import Status
from pydantic import create_model

from django_mcp import MCPServer
from django_mcp.contrib.ninja import operation_tools
from django_mcp.protocol.json import encode

pytestmark = pytest.mark.django_db


class Thing(Schema):
    name: str


class Times(Schema):
    at: datetime.datetime
    opens: datetime.time
    lasts: datetime.timedelta


class Enveloped(NinjaAPI):
    def create_response(self, request: HttpRequest, data: Any, **options: Any) -> HttpResponse:
        return super().create_response(request, {"name": [data]}, **options)


def rename(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def changed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        function(request, *args, **kwargs)
        return HttpResponse('{"name": 1}', content_type="application/json")

    return changed


def make_server(api: NinjaAPI) -> MCPServer:
    server = MCPServer("declared", public=True)
    operation_tools(api, server=server)
    return server


def fitting(server: MCPServer, name: str, **arguments: Any) -> Any:
    """Return the result of a call, which its output schema describes."""
    result = server.call_tool(name, arguments)
    assert not result.is_error, result.raw
    (schema,) = [each["outputSchema"] for each in server.list_tools() if each["name"] == name]
    jsonschema.validate(result.raw["structuredContent"], schema)
    return result.raw["structuredContent"]


def test_an_api_that_changes_all_answers_declares_nothing():
    api = Enveloped(urls_namespace="enveloped")

    @api.get("/thing", response=Thing)
    def thing(request: Any) -> Any:
        return {"name": "lamp"}

    assert fitting(make_server(api), "thing") == {"name": [{"name": "lamp"}]}


def test_an_operation_with_a_decorator_that_changes_the_answer_declares_nothing():
    api = NinjaAPI(urls_namespace="decorated")

    @api.get("/thing", response=Thing)
    @decorate_view(rename)
    def thing(request: Any) -> Any:
        return {"name": "lamp"}

    api.add_decorator(rename, mode="view")

    @api.get("/other", response=Thing)
    def other(request: Any) -> Any:
        return {"name": "lamp"}

    server = make_server(api)
    assert fitting(server, "thing") == fitting(server, "other") == {"name": 1}


def test_texts_of_times_have_no_format_that_they_do_not_keep():
    api = NinjaAPI(urls_namespace="times")

    @api.get("/times", response=Times)
    def times(request: Any) -> Any:
        half = datetime.timedelta(seconds=1, microseconds=500_000)
        return Times(at=datetime.datetime(2026, 1, 1), opens=datetime.time(9), lasts=half)  # noqa: DTZ001 - a site without offsets

    server = make_server(api)
    found = fitting(server, "times")
    # One without an offset is no date-time of JSON Schema.
    assert found == {
        "at": "2026-01-01T00:00:00",
        "opens": "09:00:00",
        "lasts": "P0DT00H00M01.500000S",
    }
    assert b"date-time" not in encode(server.list_tools()[0]["outputSchema"])


def test_schemas_of_one_name_are_not_taken_for_one_another():
    def make(kind: Any) -> Any:
        inner = create_model("Inner", __base__=Schema, value=(kind, ...))
        return create_model("Outer", __base__=Schema, inner=(inner, ...))

    api = NinjaAPI(urls_namespace="same-names")

    @api.post("/both", response={200: make(int), 201: make(str)})
    def both(request: Any, is_new: bool) -> Any:
        return Status(201, {"inner": {"value": "a"}}) if is_new else {"inner": {"value": 1}}

    server = make_server(api)
    assert fitting(server, "both", is_new=False) == {"inner": {"value": 1}}
    assert fitting(server, "both", is_new=True) == {"inner": {"value": "a"}}


async def is_known(request: HttpRequest) -> Any:
    return request.user.is_authenticated and request.user


@pytest.mark.django_db(transaction=True)
async def test_an_asynchronous_operation_takes_an_asynchronous_function_as_authentication():
    api = NinjaAPI(urls_namespace="asynchronous", auth=is_known)

    @api.get("/who", response=Thing)
    async def who(request: Any) -> Any:
        return {"name": request.auth.username}

    user = await sync_to_async(User.objects.create_user)("ada")
    server = make_server(api)
    result = await server.acall_tool("who", {}, user=user)
    assert result.raw["structuredContent"] == {"name": "ada"}
