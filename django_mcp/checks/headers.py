"""System check of code that reads headers and cookies which the request of a call does not have.

Functions are read, and not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Info
from django.http.request import HttpHeaders

from django_mcp.auth.handler_requests import list_visible_names
from django_mcp.checks.code_of_entries import find_functions
from django_mcp.checks.declared import check
from django_mcp.checks.function_text import read_text
from django_mcp.servers import all_servers


@check(id="django_mcp.I025")
def check_headers() -> Iterator[CheckMessage]:
    """I025: code of an entry reads a header that handlers do not see, or a cookie."""
    visible = list_visible_names()
    seen: set[Any] = set()
    for server in all_servers():
        for entry in server.registry.entries():
            for source, function in find_functions(entry):
                text = read_text(function)
                if text is None or text.function in seen:
                    continue
                seen.add(text.function)
                for what, line in _find_read(text.nodes, visible):
                    yield Info(
                        f"{source} reads {what} in line {line}, which the request of a call does not have.",
                        hint="Take it as an argument, or from the user. Name a header in DJANGO_MCP['HANDLER_HEADERS'] if "
                        "people are to set it in their clients. If the code does without it, silence this check.",
                    )


def _find_read(nodes: list[ast.AST], visible: set[str]) -> Iterator[tuple[str, int]]:
    """Yield the headers and cookies that code reads from a request, with the lines."""
    for node in nodes:
        match node:
            case ast.Subscript(
                value=ast.Attribute() as source, slice=ast.Constant(value=str(name))
            ):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute() as source, attr="get"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                pass
            case ast.Compare(
                left=ast.Constant(value=str(name)),
                ops=[ast.In() | ast.NotIn()],
                comparators=[ast.Attribute() as source],
            ):
                pass
            case _:
                continue
        if not ast.unparse(source.value).endswith("request"):
            continue
        if source.attr == "COOKIES":
            yield f"the cookie {name}", node.lineno
        elif source.attr == "headers" and HttpHeaders.to_wsgi_name(name) not in visible:
            yield f"the header {name}", node.lineno
        elif source.attr == "META" and name.startswith("HTTP_") and name not in visible:
            header = HttpHeaders.parse_header_name(name)
            yield f"the header {header}", node.lineno
