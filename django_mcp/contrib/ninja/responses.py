"""The result of a tool for the response of an operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse

from django_mcp.contrib.http_calls import (
    REDIRECTS,
    describe_status,
    find_errors,
    is_redirect,
    join_errors,
    to_object,
)
from django_mcp.protocol.content import File
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONDecodeError, decode
from django_mcp.protocol.results import ToolResult

_JSON = "application/json"


def read_response(response: Any, max_results: int) -> Any:
    """Return the result for a response.

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
        data = decode(response.content) if response.content else None
    except JSONDecodeError:
        raise ToolError(describe_status(status)) from None
    if status >= HTTPStatus.BAD_REQUEST:
        raise ToolError(join_errors(_errors(data), status))
    return to_object(data, max_results)


def _errors(data: Any) -> Iterator[str]:
    """Yield the errors of a response, each with the path of its field."""
    details = data.get("detail") if isinstance(data, Mapping) else None
    if not (isinstance(details, list) and all(isinstance(detail, dict) for detail in details)):
        yield from find_errors(data)
        return
    for fault in details:
        # It begins with the place, such as "body", and the name of the function's parameter.
        place, *path = map(str, fault.get("loc", ("",)))
        field = ".".join(path[1:] if place in ("body", "form") and len(path) > 1 else path)
        text = fault.get("msg", "")
        yield f"{field}: {text}" if field else text
