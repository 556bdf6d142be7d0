"""System check of code that reads what the request of a call does not have: headers, cookies, and the session of a browser.

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
    """I025: code of an entry reads a header that handlers do not see, a cookie, or the session of a browser."""
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
    """Yield what code reads from a request that a call does not have, with the lines."""
    for node in nodes:
        found = _find_of_browser(node) or _find_named(node, visible)
        if found is not None:
            yield found, node.lineno  # type: ignore[attr-defined]


def _find_of_browser(node: ast.AST) -> str | None:
    """Return what of a browser an expression looks for, by the name of an attribute."""
    match node:
        case ast.Attribute(value=source, attr=name):
            pass
        case ast.Call(
            func=ast.Name(id="getattr" | "hasattr"),
            args=[source, ast.Constant(value=str(name)), *_],
        ):
            pass
        case _:
            return None
    # Attributes of cookies are read with a name, below.
    is_plain = isinstance(node, ast.Attribute) and name == "COOKIES"
    return None if is_plain or not _is_request(source) else _OF_BROWSER.get(name)


def _find_named(node: ast.AST, visible: set[str]) -> str | None:
    """Return the header or the cookie that an expression looks for, by its name."""
    match node:
        case ast.Subscript(value=ast.Attribute() as source, slice=ast.Constant(value=str(name))):
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
            return None
    if not _is_request(source.value):
        return None
    if source.attr == "COOKIES":
        return f"the cookie {name}"
    if source.attr == "headers" and HttpHeaders.to_wsgi_name(name) not in visible:
        return f"the header {name}"
    if source.attr == "META" and name.startswith("HTTP_") and name not in visible:
        return f"the header {HttpHeaders.parse_header_name(name)}"
    return None


_OF_BROWSER = {
    "COOKIES": "cookies",
    "get_signed_cookie": "a cookie",
    "session": "the session of a browser",
}


def _is_request(node: ast.expr) -> bool:
    return ast.unparse(node).endswith("request")
