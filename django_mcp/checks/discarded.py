"""What functions discard without effect: coroutines that nobody awaits, querysets, and changes that nobody saves.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Literal

from django.db.models import Model
from msgspec import Struct

from django_mcp.checks.function_text import (
    COPYING,
    SCOPES,
    Function,
    FunctionText,
    Instance,
    Known,
    Rows,
    read_text,
)
from django_mcp.registry.signatures import is_async_callable


class Discarded(Struct, frozen=True):
    """A call whose result its function discards, or a change of an object that it does not save.

    Attributes:
        text: of the call, shortened, or of what is changed, such as `order.paid`.
        line: where it is in the file.
        kind: what is discarded.
    """

    text: str
    line: int
    kind: Literal["coroutine", "queryset", "change"]

    @property
    def problem(self) -> str:
        """What is wrong, after the name of the function."""
        if self.kind == "coroutine":
            return f"calls {self.text} in line {self.line} without await, so that it never runs"
        if self.kind == "change":
            return f"sets {self.text} in line {self.line}, and saves it nowhere, so that the change is lost"
        return f"discards the queryset that {self.text} in line {self.line} returns"

    @property
    def hint(self) -> str:
        """What to do."""
        if self.kind == "coroutine":
            return "Write await before it in an async def function, or async_to_sync(...)(...) in another one."
        if self.kind == "change":
            return f"Call {self.text.partition('.')[0]}.save(), or its twin asave() in an async def function."
        return "A method of a queryset changes nothing, but returns a new one: assign it, or return it."


def find_discarded(given: Any, *, returns_rows: bool = False) -> Iterator[Discarded]:
    """Yield what a function discards.

    Args:
        given: a function, a method, or what stands around one.
        returns_rows: it has to return a queryset, so that a variable that it returns is one.
    """
    text = read_text(given)
    if text is None:
        return
    if returns_rows:
        text.returned.update(_find_returned(text))
    yield from _Finder(text).find()


def _find_returned(text: FunctionText) -> Iterator[str]:
    """Yield the variables that a function returns, or makes its result from."""
    for each in text.nodes:
        value = each.value if isinstance(each, ast.Return) else None
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value if value.func.attr in COPYING else None
        if isinstance(value, ast.Name):
            yield value.id


class _Finder:
    """Finds what one function discards."""

    def __init__(self, text: FunctionText) -> None:
        self._text = text

    def find(self) -> Iterator[Discarded]:
        """Yield what the function discards, with the functions inside of it."""
        for each, is_guarded in _find_statements(self._text.node.body):
            is_coroutine = self._returns_coroutine(each)
            if is_coroutine or (self._is_copy(each) and not is_guarded):
                text = ast.unparse(each)
                call = text if len(text) <= _MAX_CALL else f"{ast.unparse(each.func)}(...)"
                kind: Literal["coroutine", "queryset"] = "coroutine" if is_coroutine else "queryset"
                yield Discarded(f"{call:.{_MAX_CALL}}", each.lineno, kind)
        yield from self._find_unsaved()
        for node in self._text.nodes:
            if isinstance(node, Function):
                hidden = {*self._text.parameters, *self._text.assigned}
                names = {
                    name: value for name, value in self._text.names.items() if name not in hidden
                }
                yield from _Finder(FunctionText(node, names, None)).find()

    def _find_unsaved(self) -> Iterator[Discarded]:
        """Yield the changes of objects that the function loads itself, and neither saves nor passes on."""
        loops = {
            each.target.id: each.iter
            for each in self._text.nodes
            if isinstance(each, ast.For | ast.AsyncFor)
            and isinstance(each.target, ast.Name)
            # What a variable holds may be saved by way of it.
            and isinstance(each.iter, ast.Call)
        }
        nodes = list(ast.walk(self._text.node))
        for name in self._text.assigned:
            model = (
                None if name in self._text.parameters else self._find_model(name, loops.get(name))
            )
            if model is None:
                continue
            fields = {
                each
                for field in model._meta.concrete_fields
                for each in (field.name, field.attname)
            }
            uses = [
                each
                for each in nodes
                if isinstance(each, ast.Attribute)
                and isinstance(each.value, ast.Name)
                and each.value.id == name
            ]
            loads = [
                each
                for each in nodes
                if isinstance(each, ast.Name)
                and each.id == name
                and not isinstance(each.ctx, ast.Store)
            ]
            # A method may save it, and a property may be computed from what is set.
            if len(loads) == len(uses) and all(each.attr in fields for each in uses):
                stored = (each for each in uses if isinstance(each.ctx, ast.Store))
                first = min(stored, key=lambda each: each.lineno, default=None)
                if first is not None:
                    yield Discarded(f"{name}.{first.attr}", first.lineno, "change")

    def _find_model(self, name: str, loop: ast.expr | None) -> Any:
        """Return the model whose objects a variable has; None, if it may have something else."""
        if loop is not None and self._text.assigned[name] == [None]:
            rows = self._text.infer(loop)
            return rows.model if isinstance(rows, Rows) else None
        found = self._text.infer_variable(name)
        cls = found.cls if isinstance(found, Instance) else None
        return cls if cls is not None and issubclass(cls, Model) else None

    def _returns_coroutine(self, call: ast.Call) -> bool:
        called = self._text.infer(call.func)
        return isinstance(called, Known) and _is_coroutine_function(called.value)

    def _is_copy(self, call: ast.Call) -> bool:
        function = call.func
        return (
            isinstance(function, ast.Attribute)
            and function.attr in COPYING
            and isinstance(self._text.infer(function.value), Rows)
        )


_MAX_CALL = 80


def _is_coroutine_function(value: Any) -> bool:
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    is_callable = callable(value) and not isinstance(value, type)
    return is_callable and is_async_callable(value)


def _find_statements(
    body: list[Any], *, is_guarded: bool = False
) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls that are statements, with whether they may be there for the errors that they raise."""
    for each in body:
        if isinstance(each, ast.Expr):
            yield from ((call, is_guarded) for call in _find_calls(each.value))
        elif not isinstance(each, SCOPES):
            for name, value in ast.iter_fields(each):
                parts = value if isinstance(value, list) else []
                statements = [part for part in parts if isinstance(part, _BLOCKS)]
                is_watched = name == "body" and (
                    (isinstance(each, ast.Try) and bool(each.handlers))
                    or (isinstance(each, ast.With) and any(map(_suppresses, each.items)))
                )
                yield from _find_statements(statements, is_guarded=is_guarded or is_watched)


_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def _find_calls(value: ast.expr) -> Iterator[ast.Call]:
    if isinstance(value, ast.Call):
        yield value
    elif isinstance(value, ast.IfExp):
        yield from _find_calls(value.body)
        yield from _find_calls(value.orelse)
    elif isinstance(value, ast.BoolOp):
        yield from _find_calls(value.values[-1])


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    return name.rpartition(".")[2] in ("suppress", "raises", "assertRaises")
