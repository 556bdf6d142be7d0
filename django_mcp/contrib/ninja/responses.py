"""The result of a tool for the response of an operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse

from django_mcp.contrib.http_calls import (
    BODY,
    PATH,
    QUERY,
    REDIRECTS,
    Arguments,
    describe_status,
    find_errors,
    is_redirect,
    join_errors,
)
from django_mcp.contrib.lists import Window
from django_mcp.protocol.content import File
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONDecodeError, decode
from django_mcp.protocol.results import ToolResult

WHOLE = "body"
"""The argument that holds a body which is no object."""

_JSON = "application/json"


def read_response(
    response: Any,
    window: Window,
    arguments: Arguments,
    *,
    has_unnamed_body: bool,
) -> Any:
    """Return the result for a response.

    Args:
        response: of the operation.
        window: the rows of a list that the call gets.
        arguments: of the tool, by which errors are told.
        has_unnamed_body: whether the body is the value of one parameter, whose name nobody sends.

    Raises:
        ToolError: it is an error.
    """
    status = response.status_code
    if not isinstance(response, HttpResponse):
        raise ToolError("The operation answers with a stream, which a tool cannot return.")
    if is_redirect(status):
        raise ToolError(REDIRECTS)
    media_type = response.headers.get("Content-Type", "").partition(";")[0]
    if media_type != _JSON and response.content and status < HTTPStatus.BAD_REQUEST:
        file = File(response.content, mime_type=media_type or "application/octet-stream")
        return ToolResult(content=[file], structured={"status": status})
    try:
        # What comes with the status 204 is never sent over HTTP.
        has_content = response.content and status != HTTPStatus.NO_CONTENT
        data = decode(response.content) if has_content else None
    except JSONDecodeError:
        raise ToolError(describe_status(status)) from None
    if status >= HTTPStatus.BAD_REQUEST:
        raise ToolError(
            join_errors(_errors(data, arguments, has_unnamed_body=has_unnamed_body), status)
        )
    return window.show_any(data)


def _errors(data: Any, arguments: Arguments, *, has_unnamed_body: bool) -> Iterator[str]:
    """Yield the errors of a response, each with the path of its argument."""
    details = data.get("detail") if isinstance(data, Mapping) else None
    if not (isinstance(details, list) and all(isinstance(detail, dict) for detail in details)):
        yield from find_errors(data)
        return
    for fault in details:
        loc = fault.get("loc") or ()
        field = ".".join(_find_argument(loc, arguments, has_unnamed_body=has_unnamed_body))
        text = fault.get("msg", "")
        yield f"{field}: {text}" if field else text


def _find_argument(
    loc: Sequence[Any], arguments: Arguments, *, has_unnamed_body: bool
) -> list[str]:
    """Return the path of the argument at a place that pydantic tells.

    That begins with the part of the request, such as "body". The name of the function's parameter may
    follow, and then that of a field.
    """
    part, *path = map(str, loc or ("",))
    place = part if part in (PATH, QUERY) else BODY
    if part == "body" and has_unnamed_body:
        path = path[1:]
        if arguments.find(BODY, WHOLE) is not None:
            return [WHOLE, *path]
    for start in (0, 1):
        argument = arguments.find(place, path[start]) if len(path) > start else None
        if argument is not None:
            return [argument, *path[start + 1 :]]
    return path
