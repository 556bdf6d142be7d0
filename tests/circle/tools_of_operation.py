"""The tools of a site's operations, and the requests over HTTP that answer the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from ninja_jwt.authentication import JWTAuth
from ninja_jwt.tokens import AccessToken

from django_mcp import MCPServer
from django_mcp.contrib.ninja import operation_tools
from tests.circle.operations.controllers import api
from tests.circle.operations.models import Author, Volume
from tests.circle.operations.plain import first, second
from tests.circle.tools_of_model import count_history, find_others_in_history, undone

_NEW = {"title": "New", "price": "2.50", "kind": "essay", "published": "2026-03-01"}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation, as its documentation tells it.

    Attributes:
        tool: the name that its tool has to have.
        method: of HTTP.
        url: with the names of its variables in braces.
        query: the names of arguments that go into the query.
        body: the kind of its body: `json`, `form`, `parts`, or `list`, which is one that is no object.
        calls: arguments for it.
    """

    tool: str
    method: str
    url: str
    query: Sequence[str] = ()
    body: str = "json"
    calls: Sequence[Mapping[str, Any]] = field(default_factory=lambda: [{}])


def find_operations() -> list[Operation]:
    """Return all operations that become tools, with calls that succeed and calls that fail."""
    author, volume = (model._base_manager.order_by("pk")[0].pk for model in (Author, Volume))
    both = [{"volume_id": volume}, {"volume_id": 999_999}]
    new = {**_NEW, "author_id": author}
    item = {**new, "changed_at": "2026-03-01T12:00:00Z", "number": f"{0xFD:032x}"}
    return [
        Operation(tool="list_volumes", method="get", url="v1/volumes/", query=["title", "price", "kind", "order",
                  "limit", "offset"], calls=[{}, {"title": "title-1"}, {"price": "1", "order": "-title"},
                  {"kind": ["novel", "essay"]}, {"limit": 1, "offset": 1}]),
        Operation(tool="get_volume", method="get", url="v1/volumes/{volume_id}", calls=both),
        Operation(tool="create_volume", method="post", url="v1/volumes/", calls=[new, {**new, "author_id": 999_999},
                  {**new, "price": "x"}]),
        Operation(tool="update_volume", method="patch", url="v1/volumes/{volume_id}", calls=[
                  {"volume_id": volume, "title": "Changed"}, {"volume_id": volume, "price": "3.10"}, both[1]]),
        Operation(tool="delete_volume", method="delete", url="v1/volumes/{volume_id}", calls=both),
        Operation(tool="short", method="get", url="v1/volumes/short/all"),
        Operation(tool="volumes_reviews_list_all", method="get", url="v1/volumes/{volume_id}/reviews/", calls=both),
        Operation(tool="review", method="post", url="v1/volumes/{volume_id}/reviews/", body="form", calls=[
                  {"volume_id": 1, "stars": 5, "text": "good"}, {"volume_id": 1, "stars": 5, "text": "bad"}]),
        Operation(tool="add_with_picture", method="post", url="v1/volumes/{volume_id}/reviews/with-picture",
                  body="parts", calls=[{"volume_id": 1, "data": {"stars": 1}},
                                       {"volume_id": 1, "data": {"stars": 1, "text": "bad"}}]),
        Operation(tool="authors_list_all", method="get", url="v1/authors/", query=["page", "page_size"],
                  calls=[{}, {"page": 2}, {"page": 1, "page_size": 1}]),
        Operation(tool="whoami", method="get", url="v1/authors/open"),
        Operation(tool="for_staff", method="get", url="v1/authors/staff"),
        Operation(tool="get_author", method="get", url="v1/authors/{author_id}", calls=[{"author_id": author},
                  {"author_id": 999_999}]),
        Operation(tool="on_day", method="get", url="v1/authors/days/{year}/{month}", calls=[{"year": 2026, "month": 2},
                  {"year": 2026, "month": 13}]),
        Operation(tool="rename", method="put", url="v1/authors/{author_id}/names", body="list",
                  calls=[{"author_id": author, "body": ["a", "b"]}]),
        Operation(tool="rename_post", method="post", url="v1/authors/{author_id}/names", body="list",
                  calls=[{"author_id": author, "body": ["a", "b"]}]),
        Operation(tool="export", method="get", url="v1/authors/export/csv"),
        Operation(tool="v2_count", method="get", url="v2/count"),
        Operation(tool="people_list_people", method="get", url="controllers/people/", query=["page", "page_size",
                  "search", "ordering"], calls=[{}, {"ordering": "-name"}, {"search": "name-1"}, {"page_size": 1}]),
        # It searches by the client's regular expression, which its tool leaves out.
        Operation(tool="people_match_people", method="get", url="controllers/people/match", calls=[{}]),
        Operation(tool="people_get_person", method="get", url="controllers/people/{pk}", calls=[{"pk": author},
                  {"pk": author + 1}, {"pk": 999_999}]),
        Operation(tool="people_create", method="post", url="controllers/people/", calls=[{"name": "New", "email": ""}]),
        Operation(tool="people_everybody", method="get", url="controllers/people/all"),
        Operation(tool="people_me", method="get", url="controllers/people/me"),
        Operation(tool="find_missing", method="get", url="controllers/people/missing"),
        Operation(tool="team_list_members", method="get", url="controllers/teams/{team_id}/members",
                  calls=[{"team_id": 3}]),
        Operation(tool="team_remove", method="delete", url="controllers/teams/{team_id}/members/{pk}",
                  calls=[{"team_id": 3, "pk": 4}]),
        Operation(tool="volumemodel_list_items", method="get", url="controllers/volumes/", query=["page", "page_size"],
                  calls=[{}, {"page_size": 1}]),
        Operation(tool="volumemodel_get_item", method="get", url="controllers/volumes/{id}", calls=[{"id": volume},
                  {"id": 999_999}]),
        Operation(tool="volumemodel_create_item", method="post", url="controllers/volumes/", calls=[item]),
        Operation(tool="volumemodel_update_item", method="put", url="controllers/volumes/{id}",
                  calls=[{**item, "id": volume}]),
        Operation(tool="volumemodel_patch_item", method="patch", url="controllers/volumes/{id}",
                  calls=[{"id": volume, "title": "Changed"}]),
        Operation(tool="volumemodel_delete_item", method="delete", url="controllers/volumes/{id}",
                  calls=[{"id": volume}, {"id": 999_999}]),
    ]  # fmt: skip


def make_operations() -> MCPServer:
    """Return a server with the tools of all APIs."""
    server = MCPServer("circle-ninja", public=True, output_schemas="full", max_result_tokens=None)
    operation_tools(first, server=server)
    operation_tools(second, server=server, prefix="v2")
    who = lambda request: request.user.is_authenticated and request.user  # noqa: E731
    operation_tools(api, server=server, auth={JWTAuth: who})
    return server


class OfOperation:
    """The walk through one operation, by one user.

    Args:
        walk: gets the faults.
        client: of the user, over MCP.
        who: the name of the user.
        user: who calls; None: nobody.
        operation: what is called.
        tool: of it, as the user sees it; None: they do not.
    """

    def __init__(
        self, walk: Any, client: Any, who: str, user: Any, operation: Operation, tool: Any
    ) -> None:
        self._walk, self._client, self._who = walk, client, who
        self._user, self._operation, self._tool = user, operation, tool

    def run(self) -> None:
        names = self._tool["inputSchema"]["properties"] if self._tool else ()
        if "search" in names and "search" not in self._operation.query:
            self._note("arguments", "it takes a regular expression")
        for arguments in self._operation.calls:
            with undone(), CaptureQueriesContext(connection) as over_http:
                status, answer = self._request(arguments)
            is_refused = status in (401, 403)
            if self._tool is None:
                if not is_refused:
                    self._note("visible", f"the API answers with {status}")
                continue
            with undone():
                entries = count_history()
                with CaptureQueriesContext(connection) as by_tool:
                    result = self._walk.call(self._client, self._who, self._tool, arguments)
                if others := find_others_in_history(entries, self._who):
                    self._note("history", f"made by {others}")
            self._compare(arguments, status, answer, result)
            asked, needed = _count(by_tool), _count(over_http)
            if asked > needed:
                self._note("queries", f"{asked}, over HTTP {needed}: {arguments}")

    def _compare(self, arguments: Any, status: int, answer: Any, result: Any) -> None:
        is_error = isinstance(result, str)
        if is_error != (status >= 400):
            self._note(
                "answer", f"{result}, the API answers with {status}: {answer} <- {arguments}"
            )
        elif not is_error and result != answer:
            self._note("answer", f"{result} instead of {answer} <- {arguments}")

    def _request(self, arguments: Mapping[str, Any]) -> tuple[int, Any]:
        """Return the status and the data of the API itself."""
        operation, left = self._operation, dict(arguments)
        client = Client(raise_request_exception=False)
        headers = {}
        if self._user is not None:
            client.force_login(self._user)
            if operation.url.startswith("controllers/volumes"):
                headers = {"authorization": f"Bearer {AccessToken.for_user(self._user)}"}
        url = operation.url
        for name in list(left):
            if f"{{{name}}}" in url:
                url = url.replace(f"{{{name}}}", str(left.pop(name)))
        query = {name: left.pop(name) for name in operation.query if name in left}
        options: dict[str, Any] = {"headers": headers}
        if operation.body == "form":
            options["data"] = left
        elif operation.body == "parts":
            options["data"] = {name: json.dumps(value) for name, value in left.items()}
        elif operation.method != "get":
            body = left["body"] if operation.body == "list" else left
            options |= {"data": json.dumps(body), "content_type": "application/json"}
        path = f"/apis/{url}?{urlencode(query, doseq=True)}"
        response = getattr(client, operation.method)(path, **options)
        return response.status_code, _to_result(response)

    def _note(self, kind: str, text: str) -> None:
        self._walk.note(self._who, self._operation.tool, kind, text)


def _count(queries: CaptureQueriesContext) -> int:
    """Return the number of queries without those of transactions."""
    return sum("SAVEPOINT" not in query["sql"] for query in queries.captured_queries)


def _to_result(response: Any) -> Any:
    """Return what a tool has to answer for a response."""
    if not response.headers.get("Content-Type", "").startswith("application/json"):
        return {"result": None} if not response.content else {"status": response.status_code}
    data = json.loads(response.content) if response.content else None
    if isinstance(data, dict):
        return data
    return {"results": data} if isinstance(data, list) else {"result": data}
