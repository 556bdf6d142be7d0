"""Object checks: functions of a site that allow a call by its user and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django_mcp.registry import hints
from django_mcp.registry.injection import Injectables, Provider, find_provider
from django_mcp.registry.problems import RegistrationError, describe_source
from django_mcp.registry.signatures import EMPTY, Signature

__all__ = ["Forbidden", "ObjectCheck", "read_check"]


class Forbidden(Exception):
    """A check denied the call or failed; the client gets the error for something nonexistent."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ObjectCheck:
    """A check, ready to run.

    Attributes:
        function: called with the subject, and arguments by name.
        is_async: whether it has to be awaited.
        provide_subject: returns the subject, usually the user, from the context of a request.
        names: the arguments it takes.
        defaults: of arguments that a call may leave out.
    """

    function: Callable[..., Any]
    is_async: bool
    provide_subject: Provider
    names: tuple[str, ...]
    defaults: Mapping[str, Any]

    def demand(self, ctx: Any, arguments: Mapping[str, Any]) -> None:
        """Run a synchronous check; raises `Forbidden` unless it allows the call."""
        try:
            allowed = self._ask(ctx, arguments)
        except (Exception, SystemExit) as error:  # a failing check denies the call
            raise Forbidden from error
        if inspect.iscoroutine(allowed):
            # A coroutine would count as true.
            allowed.close()
            raise Forbidden from TypeError("it is asynchronous: use async def for the handler")
        if not allowed:
            raise Forbidden

    async def ademand(self, ctx: Any, arguments: Mapping[str, Any]) -> None:
        """Run an asynchronous check; see `demand`."""
        try:
            allowed = await self._ask(ctx, arguments)
        except (Exception, SystemExit) as error:
            raise Forbidden from error
        if not allowed:
            raise Forbidden

    def _ask(self, ctx: Any, arguments: Mapping[str, Any]) -> Any:
        known = {
            **self.defaults,
            **{name: arguments[name] for name in self.names if name in arguments},
        }
        return self.function(self.provide_subject(ctx), **known)


def read_check(
    function: Callable[..., Any],
    signature: Signature,
    *,
    is_async_handler: bool,
    is_async: bool,
    injectables: Injectables,
    provide_user: Provider,
) -> ObjectCheck:
    """Return the check of the handler with this signature.

    Its first parameter is the subject: the value its annotation is injected with, else the context
    if it is called `ctx`, else the user. The others are arguments of the handler; it takes those it
    needs.

    Raises:
        RegistrationError: it cannot be called that way, or is asynchronous and the handler is not.
    """
    source = f"{signature.source}: the check {describe_source(function)}"
    if is_async and not is_async_handler:
        raise RegistrationError(f"{source} is asynchronous, the handler is not. Write it with def.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{source} has no signature ({error}).") from error
    if not parameters or parameters[0].kind is inspect.Parameter.VAR_KEYWORD:
        raise RegistrationError(f"{source} has no parameter. Write check(user, **arguments).")
    first, others = parameters[0], parameters[1:]
    given = {each.name: each for each in signature.parameters}
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in others)
    named = [each for each in others if each.kind is not inspect.Parameter.VAR_KEYWORD]
    unknown = [each.name for each in named if each.name not in given and each.default is EMPTY]
    if unknown:
        raise RegistrationError(
            f"{source} takes {', '.join(unknown)}, but the arguments are "
            f"{', '.join(given) or 'none'}."
        )
    names = tuple(given) if takes_all else tuple(each.name for each in named if each.name in given)
    return ObjectCheck(
        function=function,
        is_async=is_async,
        provide_subject=_find_subject(function, first, source, injectables) or provide_user,
        names=names,
        defaults={name: given[name].default for name in names if given[name].default is not EMPTY},
    )


def _find_subject(
    function: Callable[..., Any],
    first: inspect.Parameter,
    source: str,
    injectables: Injectables,
) -> Provider | None:
    if first.annotation is not EMPTY:
        annotation = hints.resolve_hints(function, source).get(first.name, Any)
        provider = find_provider(annotation, injectables)
        if provider is not None:
            return provider
    return (lambda ctx: ctx) if first.name == "ctx" else None
