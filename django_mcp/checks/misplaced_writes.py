"""System checks of functions that write where they should not: before an error without a transaction, or to read.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from django.core import checks
from django.core.checks import CheckMessage, Info

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import FunctionText, read_text
from django_mcp.registry.entries import ToolEntry
from django_mcp.servers import all_servers

_WRITES = frozenset(
    (
        "add", "bulk_create", "bulk_update", "clear", "create", "delete", "get_or_create", "remove", "save", "set",
        "update", "update_or_create",
    )
)  # fmt: skip
"""The methods that write, of querysets and of objects. Those with the prefix `a` are awaited."""

_ENDS = (ast.Raise, ast.Return, ast.Break, ast.Continue)
_OWN_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@check(id="django_mcp.I016")
def check_halfway() -> Iterator[CheckMessage]:
    """I016: a function without a transaction writes, and may raise an error after it, so that the writing stays."""
    for server in all_servers():
        for entry in server.registry.entries():
            text = read_text(entry.handler.origin)
            is_async = text is not None and isinstance(text.node, ast.AsyncFunctionDef)
            # A synchronous tool has a transaction, unless the site said that it needs none.
            if text is None or (isinstance(entry, ToolEntry) and not is_async):
                continue
            finder = _Finder(text)
            finder.walk(text.node.body, None)
            for call, line in finder.found:
                yield Info(
                    f"{entry.source} writes with {call}, and may raise an error after it in line {line}. What it wrote "
                    "stays, since no transaction is open.",
                    hint="Raise the error before you write, or open transaction.atomic() around both: an async def "
                    "function calls one with sync_to_async() that does. If it is to stay, silence this check.",
                )


@check(id="django_mcp.W055")
def check_readers() -> Iterator[CheckMessage]:
    """W055: an entry that says that it only reads writes to the database."""
    for server in all_servers():
        for entry in server.registry.entries():
            only_reads = not isinstance(entry, ToolEntry) or entry.annotations["readOnlyHint"]
            text = read_text(entry.handler.origin) if only_reads else None
            for call, line in () if text is None else _find_writes(text, text.node):
                what = (
                    "has read_only=True" if isinstance(entry, ToolEntry) else "is there to be read"
                )
                yield checks.Warning(
                    f"{entry.source} {what}, and writes with {call} in line {line}. Clients use it without asking "
                    "their user, and keys that only read may use it too.",
                    hint="Leave read_only out of a tool that writes, and write in tools alone. If it keeps no more than "
                    "that something was read, silence this check.",
                )


class _Finder:
    """Finds the errors that a function raises after it has written.

    Attributes:
        found: the text of what writes, and the line of the error.
    """

    def __init__(self, text: FunctionText) -> None:
        self.found: list[tuple[str, int]] = []
        self._text = text

    def walk(self, body: list[ast.stmt], written: str | None) -> str | None:
        """Follow statements after something was written, and return what is written after them."""
        for each in body:
            if isinstance(each, ast.Raise) and written is not None:
                self.found.append((written, each.lineno))
            if isinstance(each, _ENDS):
                return None
            written = self._follow(each, written)
        return written

    def _follow(self, each: ast.stmt, written: str | None) -> str | None:
        if isinstance(each, _OWN_SCOPES):
            return written
        if isinstance(each, ast.If):
            ways = [self.walk(each.body, written), self.walk(each.orelse, written)]
            return next((way for way in ways if way is not None), None)
        if isinstance(each, ast.For | ast.AsyncFor | ast.While):
            return self.walk(each.body, written) or written
        if isinstance(each, ast.Try):
            # A handler may be there for what the writing raises.
            for handler in each.handlers:
                self.walk(handler.body, written)
            after = self.walk([*each.body, *each.orelse], written)
            return self.walk(each.finalbody, after) or after
        if isinstance(each, ast.With | ast.AsyncWith):
            is_atomic = any("atomic" in ast.unparse(item.context_expr) for item in each.items)
            return written if is_atomic else self.walk(each.body, written)
        return self._find_writing(each) or written

    def _find_writing(self, statement: ast.stmt) -> str | None:
        return next((call for call, _line in _find_writes(self._text, statement)), None)


def _find_writes(text: FunctionText, node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the calls by which a part of a function writes to a database, with the line."""
    for each in ast.walk(node):
        if isinstance(each, ast.Await) and isinstance(each.value, ast.Call):
            prefix, call = "a", each.value
        elif isinstance(each, ast.Call):
            prefix, call = "", each
        else:
            continue
        function = call.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr.startswith(prefix)
            and function.attr[len(prefix) :] in _WRITES
            and text.find_model(function.value) is not None
        ):
            yield f"{ast.unparse(function):.80}()", function.lineno
