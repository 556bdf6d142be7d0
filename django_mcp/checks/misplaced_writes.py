"""System checks of functions that write against what is said of them, or before an error that keeps it.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from typing import TypeGuard

from django.core import checks
from django.core.checks import CheckMessage, Info

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import Function, FunctionText, read_text
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


@check(id="django_mcp.W058")
def check_hints() -> Iterator[CheckMessage]:
    """W058: a tool with `destructive=False` deletes, or one with `idempotent=True` adds something with each call."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            text = read_text(tool.handler.origin) if tool.stated_hints else None
            if text is None or tool.annotations["readOnlyHint"]:
                continue
            if "destructive" in tool.stated_hints and not tool.annotations["destructiveHint"]:
                for call in _find_calls(text, text.node, _DELETES, {text.node}):
                    yield checks.Warning(
                        f"{tool.source} has destructive=False, and deletes with {_describe(call)} in line {call.lineno}. "
                        "Clients may use it without asking their user.",
                        hint="Leave destructive out of a tool that deletes or overwrites.",
                    )
            if "idempotent" in tool.stated_hints and tool.annotations["idempotentHint"]:
                for call in _find_repeated(text, text.node.body):
                    yield checks.Warning(
                        f"{tool.source} has idempotent=True, and {_describe(call)} in line {call.lineno} adds something "
                        "with each call. Clients may repeat a call, and so does the server if the database or a worker "
                        "fails.",
                        hint="Leave idempotent out, or look first for what the call has made, as with get_or_create(). "
                        "If the database refuses the second object, silence this check.",
                    )


_DELETES = frozenset(("delete",))
_ADDS = frozenset(("bulk_create", "create"))


def _find_repeated(text: FunctionText, body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls that add something whenever the function is called: under no condition."""
    for each in body:
        if isinstance(each, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor):
            yield from _find_repeated(text, each.body)
        elif isinstance(each, _COMPOUND):
            # What comes after it may depend on it.
            return
        elif not isinstance(each, _OWN_SCOPES):
            for call in _find_calls(text, each, _ADDS, {text.node}):
                # A function that is called may look first.
                if (
                    isinstance(call.func, ast.Attribute)
                    and call.func.attr.removeprefix("a") in _ADDS
                ):
                    yield call
            yield from (call for call in _find_updates(text, each) if _counts_up(call))


def _find_updates(text: FunctionText, node: ast.AST) -> Iterator[ast.Call]:
    return _find_calls(text, node, ("update",), {text.node})


def _counts_up(call: ast.Call) -> bool:
    """Return whether `update()` makes a value from the same field, as with `stock=F("stock") - 1`."""
    return any(
        isinstance(part, ast.BinOp)
        and any(
            isinstance(each, ast.Call)
            and ast.unparse(each.func).rpartition(".")[2] == "F"
            and [ast.unparse(argument) for argument in each.args] == [repr(keyword.arg)]
            for each in ast.walk(part)
        )
        for keyword in call.keywords
        for part in ast.walk(keyword.value)
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
    for call in _find_calls(text, node, _WRITES, {text.node}):
        yield _describe(call), call.lineno


def _describe(call: ast.Call) -> str:
    return f"{ast.unparse(call.func):.80}()"


def _find_calls(
    text: FunctionText, node: ast.AST, names: Collection[str], seen: set[Function]
) -> Iterator[ast.Call]:
    """Yield the calls of methods of models and querysets, and those of functions of the site that call them.

    Args:
        names: of the methods.
        seen: the functions that are being read.
    """
    nodes = list(ast.walk(node))
    awaited = {id(each.value) for each in nodes if isinstance(each, ast.Await)}
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        prefix, function = "a" if id(call) in awaited else "", call.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr.startswith(prefix)
            and function.attr[len(prefix) :] in names
            and text.find_model(function.value) is not None
        ):
            yield call
        elif len(seen) < _MAX_DEPTH:
            inner = text.find_inner(call)
            if inner is None or inner.node in seen:
                continue
            if any(_find_calls(inner, inner.node, names, {*seen, inner.node})):
                yield call


_MAX_DEPTH = 3
"""Functions that call one another, and are read for one call."""
