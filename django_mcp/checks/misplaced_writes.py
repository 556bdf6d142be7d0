"""System checks of functions that write where they should not: before an error that keeps it, or to read.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeGuard

from django.core import checks
from django.core.checks import CheckMessage, Info

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import FunctionText, read_text
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.handlers.result_mistakes import FAILED_STATUSES, FAILED_TEXT
from django_mcp.servers import all_servers

_WRITES = frozenset(
    (
        "add", "bulk_create", "bulk_update", "clear", "create", "delete", "get_or_create", "remove", "save", "set",
        "update", "update_or_create",
    )
)  # fmt: skip
"""The methods that write, of querysets and of objects. Those with the prefix `a` are awaited."""

_ENDS = (ast.Raise, ast.Return, ast.Break, ast.Continue)
_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith)
_OWN_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@check(id="django_mcp.I016")
def check_halfway() -> Iterator[CheckMessage]:
    """I016: a function without a transaction writes, and may raise an error or write again after it, so that the writing stays."""
    for server in all_servers():
        for entry in server.registry.entries():
            text = read_text(entry.handler.origin)
            is_async = text is not None and isinstance(text.node, ast.AsyncFunctionDef)
            # A synchronous tool has a transaction, unless the site said that it needs none.
            if text is None or (isinstance(entry, ToolEntry) and not is_async):
                continue
            way = _Way(text, is_atomic_open=False)
            for call, line in way.find(_raises):
                yield Info(
                    f"{entry.source} writes with {call}, and may raise an error after it in line {line}. What it wrote "
                    "stays, since no transaction is open.",
                    hint="Raise the error before you write, or open transaction.atomic() around both: an async def "
                    "function calls one with sync_to_async() that does. If it is to stay, silence this check.",
                )
            for call, line in way.find(way.find_writing)[:1]:
                yield Info(
                    f"{entry.source} writes with {call}, and again in line {line}. If the second writing fails, the first "
                    "stays, since no transaction is open.",
                    hint="Open transaction.atomic() around both: an async def function calls one with sync_to_async() "
                    "that does. If the first is to stay, silence this check.",
                )


@check(id="django_mcp.I020")
def check_returned_errors() -> Iterator[CheckMessage]:
    """I020: a function writes, and may return an error as its result after it, so that the writing stays."""
    for server in all_servers():
        for entry in server.registry.entries():
            text = read_text(entry.handler.origin)
            for call, line in () if text is None else _Way(text).find(_returns_error):
                yield Info(
                    f"{entry.source} writes with {call}, and may return an error as its result after it in line {line}. "
                    "Clients take that for a success, and what it wrote stays.",
                    hint='Raise ToolError("...") instead: the client gets the text as an error, and the transaction of a '
                    "synchronous tool is rolled back. If it is to stay, silence this check.",
                )


@check(id="django_mcp.W055")
def check_readers() -> Iterator[CheckMessage]:
    """W055: an entry that says that it only reads writes to the database."""
    for server in all_servers():
        for entry in server.registry.entries():
            only_reads = not isinstance(entry, ToolEntry) or entry.annotations["readOnlyHint"]
            text = read_text(entry.handler.origin) if only_reads else None
            for call, line in () if text is None else find_writes(text, text.node):
                what = (
                    "has read_only=True" if isinstance(entry, ToolEntry) else "is there to be read"
                )
                yield checks.Warning(
                    f"{entry.source} {what}, and writes with {call} in line {line}. Clients use it without asking "
                    "their user, and keys that only read may use it too.",
                    hint="Leave read_only out of a tool that writes, and write in tools alone. If it keeps no more than "
                    "that something was read, silence this check.",
                )


class _Way:
    """Follows the statements of a function, and finds some that come after it has written.

    Args:
        text: of the function.
        is_atomic_open: whether it looks into blocks of `transaction.atomic()`, which undo what they wrote at an error.
    """

    def __init__(self, text: FunctionText, *, is_atomic_open: bool = True) -> None:
        self._text = text
        self._is_atomic_open = is_atomic_open
        self._found: dict[int, str] = {}
        self._is_wanted: Callable[[ast.stmt], object] = bool

    def find(self, is_wanted: Callable[[ast.stmt], object]) -> list[tuple[str, int]]:
        """Return what writes, and the line of a wanted statement after it, for each of these."""
        self._found, self._is_wanted = {}, is_wanted
        self._walk(self._text.node.body, None)
        return [(call, line) for line, call in self._found.items()]

    def find_writing(self, statement: ast.stmt) -> str | None:
        """Return the text of the first call of a statement that writes."""
        return next((call for call, _line in find_writes(self._text, statement)), None)

    def _walk(self, body: list[ast.stmt], written: str | None) -> str | None:
        """Follow statements after something was written, and return what is written after them."""
        for each in body:
            if written is not None and not isinstance(each, _COMPOUND) and self._is_wanted(each):
                self._found.setdefault(each.lineno, written)
            if isinstance(each, _ENDS):
                return None
            written = self._follow(each, written)
        return written

    def _follow(self, each: ast.stmt, written: str | None) -> str | None:
        if isinstance(each, _OWN_SCOPES):
            return written
        if isinstance(each, ast.If):
            ways = [self._walk(each.body, written), self._walk(each.orelse, written)]
            return next((way for way in ways if way is not None), None)
        if isinstance(each, ast.For | ast.AsyncFor | ast.While):
            after = self._walk(each.body, written) or written
            # What one round has written stays if the next one fails.
            return self._walk(each.body, after) or after
        if isinstance(each, ast.Try):
            # A handler may be there for what the writing raises.
            for handler in each.handlers:
                self._walk(handler.body, written)
            after = self._walk([*each.body, *each.orelse], written)
            return self._walk(each.finalbody, after) or after
        if isinstance(each, ast.With | ast.AsyncWith):
            is_atomic = any("atomic" in ast.unparse(item.context_expr) for item in each.items)
            is_skipped = is_atomic and not self._is_atomic_open
            return written if is_skipped else self._walk(each.body, written)
        return self.find_writing(each) or written


def _raises(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Raise)


def _returns_error(statement: ast.stmt) -> bool:
    """Return whether a statement returns what a view would answer with the status of an error."""
    match statement:
        case ast.Return(value=ast.Dict() as given):
            is_alone = len(given.keys) == 1
            values = zip(given.keys, given.values, strict=True)
            return any(
                _is_error(key.value, each, is_alone=is_alone)
                for key, each in values
                if _is_constant(key)
            )
        case ast.Return(value=ast.Tuple(elts=[_, ast.Constant(value=int(status))])):
            return 400 <= status < 600
        case ast.Return(value=ast.Constant(value=str(text))):
            return FAILED_TEXT.match(text) is not None
        case ast.Return(value=ast.JoinedStr(values=[ast.Constant(value=str(text)), *_])):
            return FAILED_TEXT.match(text) is not None
    return False


def _is_constant(node: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant)


def _is_error(key: object, value: ast.expr, *, is_alone: bool) -> bool:
    """Return whether a member of a dict says that something has failed; a variable beside others may say that nothing has."""
    given = value.value if isinstance(value, ast.Constant) else ...
    if key in ("error", "errors"):
        return bool(given) and (is_alone or not isinstance(value, ast.Name | ast.List | ast.Dict))
    if key in ("success", "ok"):
        return given is False
    return key == "status" and isinstance(given, str) and given.lower() in FAILED_STATUSES


def find_writes(text: FunctionText, node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the calls by which a part of a function writes to a database, with the line of each."""
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
