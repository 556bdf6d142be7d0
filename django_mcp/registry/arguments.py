"""Bind the arguments of a call to a function: read, convert and inject them.

The arguments of a tool are JSON that its schema has already validated; those of a prompt and of
a URI template are strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.access import OPEN, Access, ObjectCheck
from django_mcp.registry.plain_types import LazyAdapter
from django_mcp.registry.problems import (
    MAX_PROBLEMS,
    ArgumentErrors,
    Problem,
    conversion_error,
    describe_conversion,
    in_order,
)
from django_mcp.registry.signatures import EMPTY, Provider

E = TypeVar("E", bound=BaseException)

Reader: TypeAlias = Callable[[JSONObject], dict[str, Any]]
"""Takes the arguments of a call and returns new keyword arguments, or raises `ArgumentErrors`."""


class Handler(Struct, frozen=True, kw_only=True, eq=False):
    """A function of the site, ready to be called.

    Attributes:
        function: called with the arguments that `read` and `inject` make; returns an awaitable if `is_async`.
        is_async: whether it runs on the event loop.
        injections: how the server fills its other parameters, by name.
        read: turns the arguments of a call into keyword arguments.
        convert: turns the return value into a `ToolResult`, `ReadResult`, `PromptResult` or
            `Completion`. It may evaluate lazy objects, so for a synchronous function it runs in the
            same thread.
        origin: the function as it was registered.
        source: where it is defined, for messages.
        access: its access rules.
        check: checks a call by its arguments.
        returns: the declared type of its result; `EMPTY` if there is none.
        aliases: databases on which it runs in a transaction; None: those of the server.
        declines_atomic: it was registered with `atomic=False`.
    """

    function: Callable[..., Any]
    is_async: bool
    injections: Mapping[str, Provider]
    read: Reader
    convert: Callable[..., Any]
    origin: Callable[..., Any]
    source: str
    access: Access = OPEN
    check: ObjectCheck | None = None
    returns: Any = EMPTY
    aliases: tuple[str, ...] | None = ()
    declines_atomic: bool = False

    def inject(self, bound: dict[str, Any], ctx: Any) -> None:
        """Add what the server provides to arguments that `read` returned."""
        for parameter, provide in self.injections.items():
            bound[parameter] = provide(ctx)

    def explain(self, error: E, arguments: JSONObject) -> E | Exception:
        """Return what the function says in place of an error, by its method `explain`, if it has one.

        It covers errors that occur after the function itself, such as those of a commit.
        """
        explain = getattr(self.origin, "explain", None)
        if explain is None or not isinstance(error, Exception):
            return error
        explained: Exception = explain(error, arguments)
        return explained


def read_nothing(arguments: JSONObject) -> dict[str, Any]:
    """Return no arguments, for a function without parameters."""
    if arguments:
        raise ArgumentErrors(
            first_problems(Problem(to_pointer([str(name)]), "is unknown") for name in arguments)
        )
    return {}


def read_typed(conversion: LazyAdapter) -> Reader:
    """Return a reader that converts the arguments of a tool to the types of its parameters."""

    def read(arguments: JSONObject) -> dict[str, Any]:
        try:
            bound: dict[str, Any] = conversion.validate(arguments)
        except conversion_error() as error:
            raise ArgumentErrors(describe_conversion(error, arguments)) from None
        return bound

    return read


def first_problems(problems: Iterator[Problem]) -> list[Problem]:
    """Return the first problems in order, since the client determines how many there are."""
    first_ones = list(islice(problems, MAX_PROBLEMS + 1))
    return in_order(first_ones[:MAX_PROBLEMS], has_more=len(first_ones) > MAX_PROBLEMS)
