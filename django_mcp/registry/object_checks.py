"""Object checks: functions of a site that allow a call by its user and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from django_mcp.registry import hints
from django_mcp.registry.callables import is_async_callable
from django_mcp.registry.injection import Injectables, Provider, find_provider
from django_mcp.registry.problems import RegistrationError, describe_source
from django_mcp.registry.signatures import EMPTY, Signature


class Forbidden(Exception):
    """A check denied the call or failed; the client gets the error for something nonexistent."""


class ObjectCheck(Struct, frozen=True, kw_only=True, eq=False):
    """A check, ready to run.

    Attributes:
        function: called with the subject, and arguments by name.
        is_async: whether it has to be awaited.
        provide_subject: returns the subject, usually the user, from the context of a request.
        names: the arguments it takes.
        whole: the handler's parameter for all arguments as one dict, which holds them then.
        defaults: of arguments that a call may leave out.
    """

    function: Callable[..., Any]
    is_async: bool
    provide_subject: Provider
    names: tuple[str, ...]
    defaults: Mapping[str, Any]
    whole: str | None = None

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
        if self.whole is not None:
            arguments = {**arguments[self.whole], **arguments}
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
    injectables: Injectables,
    provide_user: Provider,
    properties: Sequence[str] = (),
) -> ObjectCheck:
    """Return the check of the handler with this signature.

    Its first parameter is the subject: the value its annotation is injected with, else the context
    if it is called `ctx`, else the user. The others are arguments of the handler; it takes those it
    needs. Where the handler takes all arguments as one dict, `properties` are their names.
    """
    source = f"{signature.source}: the check {describe_source(function)}"
    is_async = is_async_callable(function)
    if is_async and not is_async_handler:
        raise RegistrationError(f"{source} is asynchronous, the handler is not. Write it with def.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{source} has no signature ({error}).") from error
    if not parameters or parameters[0].kind is inspect.Parameter.VAR_KEYWORD:
        raise RegistrationError(f"{source} has no parameter. Write check(user, **arguments).")
    first, others = parameters[0], {each.name: each for each in parameters[1:]}
    given = {each.name: each for each in signature.parameters}
    all_names = tuple(properties or given)
    names = tuple(name for name in others if name in given or name in properties)
    for name, each in others.items():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            names = all_names
        elif name not in names and each.default is EMPTY:
            raise RegistrationError(
                f"{source} takes {name}, but the arguments are {', '.join(all_names) or 'none'}."
            )
    return ObjectCheck(
        function=function,
        is_async=is_async,
        provide_subject=_find_subject(function, first, source, injectables) or provide_user,
        names=names,
        defaults={
            name: given[name].default
            for name in names
            if name in given and given[name].default is not EMPTY
        },
        whole=next(iter(given)) if properties and given else None,
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
